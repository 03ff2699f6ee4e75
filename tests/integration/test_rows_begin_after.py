"""Rows that begin after a date of their parent, of which nobody said anything: found by charged counts, and kept."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import dp_synth_pipeline as dps
from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.synthesis.store import Store

CUSTOMERS = 2_500
RELATIONS = {
    "customers": {"key": "customer_id"},
    "orders": {"parent": {"customer_id": "customers"}, "order": "ordered", "max_rows": 5},
}
FACT = "rows of orders begin after customers.joined"


def shop(*, unknown=0.0, calls=False):
    """Customers who joined on any day, of whom two in five order at once and the rest some weeks later, never on Sundays."""
    rng = np.random.default_rng(8)
    joined = pd.Series(pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 700, CUSTOMERS), unit="D"))
    joined += pd.to_timedelta((joined.dt.day_of_week == 6).astype(int), unit="D")
    who = np.repeat(np.arange(CUSTOMERS), rng.integers(0, 4, CUSTOMERS))
    first = np.append(True, who[1:] != who[:-1])
    days = np.where(first & (rng.random(len(who)) < 0.4), 0, rng.geometric(1 / 25, len(who)))
    ordered = joined.to_numpy()[who] + pd.to_timedelta(pd.Series(days).groupby(who).cumsum(), unit="D").to_numpy()
    ordered = pd.Series(ordered) + pd.to_timedelta((pd.Series(ordered).dt.day_of_week == 6).astype(int), unit="D")
    known = joined.dt.date.where(rng.random(CUSTOMERS) >= unknown)
    born = (pd.Timestamp("1950-01-01") + pd.to_timedelta(rng.integers(0, 15_000, CUSTOMERS), unit="D")).date
    customers = pd.DataFrame({"customer_id": range(CUSTOMERS), "born": born, "joined": known})
    orders = pd.DataFrame(
        {"customer_id": who, "ordered": ordered.dt.date, "product": rng.choice(list("abc"), len(who))}
    )
    found = {"customers": customers, "orders": orders}
    if calls:  # on the day of the first order, or some days later
        called = ordered[first] + pd.to_timedelta(rng.choice([0, 0, 0, 9], first.sum()), unit="D")
        found["calls"] = pd.DataFrame({"customer_id": who[first], "called": called.dt.date, "why": "late"})
        found["calls"]["why"] = rng.choice(["late", "lost"], len(called))
    return found


def fitted(tmp_path, data, relations=RELATIONS, epsilon=6.0, **how):
    ledger = dps.Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.open_account("shop", epsilon=30, delta=1e-5, unit="customer_id")
    how = {"training": {"max_epochs": 2}, "show": False, "store": Store(tmp_path / "store"), **how}
    return ledger, dps.Synthesizer("shop", epsilon, ledger, **how).fit(data, relations=relations)


def days_until(drawn, table="orders", column="ordered"):
    """Return how long after a customer joined each row is, in days, and which rows are a customer's first."""
    joined = drawn["customers"].set_index("customer_id")["joined"].reindex(drawn[table]["customer_id"])
    days = (pd.to_datetime(drawn[table][column]).to_numpy() - pd.to_datetime(joined).to_numpy()) / pd.Timedelta(days=1)
    return pd.Series(days), ~drawn[table]["customer_id"].duplicated().to_numpy()


def test_no_order_is_before_its_customer_joined_and_as_many_order_at_once(tmp_path):
    ledger, model = fitted(tmp_path, shop())
    assert "ordered dates of customers" in [e.mechanism for e in ledger.entries("shop")]
    (said,) = [limit for limit in model.card().facts.limits if FACT in limit]
    assert "tables.orders.columns: {ordered: {after: false}}" in said
    model.save(tmp_path / "shop.dps")
    for drawn in (model.sample(), dps.load(tmp_path / "shop.dps").sample(2_000)):
        days, first = days_until(drawn)
        assert days.min() >= 0
        assert 0.3 < (days[first] == 0).mean() < 0.5  # 0.4 of the real ones
        assert 10 < days[first][days[first] > 0].median() < 25  # 17
        assert (pd.to_datetime(drawn["orders"]["ordered"]).dt.day_of_week != 6).all()
        assert 0.7 < drawn["orders"]["customer_id"].nunique() / len(drawn["customers"]) < 0.8
    few = model.sample(300, where="born < '1970-01-01'")
    assert days_until(few)[0].min() >= 0
    ledger.verify()


def test_rows_begin_at_any_time_if_a_person_says_so(tmp_path):
    apart, calls = (
        {"columns": {"ordered": {"after": False}}},
        {"parent": {"customer_id": "customers"}, "order": "called"},
    )
    relations = {
        **RELATIONS,
        "orders": {**RELATIONS["orders"], **apart},
        "calls": calls,
    }  # which begin beside the orders
    _, model = fitted(tmp_path, shop(calls=True), relations)
    assert not any(FACT in limit for limit in model.card().facts.limits)
    assert days_until(model.sample())[0].min() < 0, "or this file shows nothing"


def test_customers_of_whom_nobody_knows_when_they_joined_have_orders_too(tmp_path):
    _, model = fitted(tmp_path, shop(unknown=0.03))
    assert any(FACT in limit for limit in model.card().facts.limits)
    drawn = model.sample(10_000)
    unknown = drawn["customers"].loc[drawn["customers"]["joined"].isna(), "customer_id"]
    assert len(unknown) > 100
    assert 0.5 < unknown.isin(drawn["orders"]["customer_id"]).mean() < 0.95
    assert days_until(drawn)[0].min() >= 0


@pytest.mark.parametrize("zone", [None, "Europe/Paris"])
def test_moments_begin_after_moments(tmp_path, zone):
    data = shop()
    for table, column in (("customers", "joined"), ("orders", "ordered")):
        rows, rng = data[table], np.random.default_rng(1)
        minutes = 600 if column == "joined" else rng.integers(600, 1_080, len(rows))
        rows[column] = (pd.to_datetime(rows[column]) + pd.to_timedelta(minutes, unit="min")).dt.tz_localize(zone)
    _, model = fitted(tmp_path, data)
    assert any(FACT in limit for limit in model.card().facts.limits)
    days, first = days_until(model.sample())
    assert days.min() >= 0
    assert 0.25 < (days[first] < 0.5).mean() < 0.55


def test_another_table_begins_at_its_distance_from_the_first_row_of_these(tmp_path):
    calls = {"parent": {"customer_id": "customers"}, "order": "called", "max_rows": 1}
    _, model = fitted(tmp_path, shop(calls=True), {**RELATIONS, "calls": calls})
    assert any(FACT in said and "rows of calls" not in said for said in model.card().facts.limits)
    drawn = model.sample()
    days, first = days_until(drawn)
    assert days[first].min() >= 0
    begun = drawn["orders"][first].set_index("customer_id")["ordered"].reindex(drawn["calls"]["customer_id"])
    between = (pd.to_datetime(drawn["calls"]["called"]).to_numpy() - pd.to_datetime(begun).to_numpy()) / pd.Timedelta(
        days=1
    )
    assert (between[~np.isnan(between)] == 0).mean() > 0.5  # 0.75 of the real ones


def stays():
    """Patients, of whom some have died, their stays, and samples that are taken during a stay, as evenly as it lasts."""
    rng = np.random.default_rng(6)
    who = np.repeat(np.arange(1_500), rng.integers(1, 4, 1_500))
    admitted = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, 1_500)[who], unit="D")
    days = pd.Series(rng.integers(20, 60, len(who))).groupby(who).cumsum()
    admitted = pd.Series(admitted) + pd.to_timedelta(days, unit="D")
    length = rng.integers(1, 20, len(who))
    of_stay = np.repeat(np.arange(len(who)), 1 + length // 3)
    taken = admitted[of_stay].reset_index(drop=True) + pd.to_timedelta(
        (rng.random(len(of_stay)) * length[of_stay]).astype(int), unit="D"
    )
    died = (admitted + pd.to_timedelta(length + 30, unit="D")).groupby(who).max().where(rng.random(1_500) < 0.4)
    known = {"admitted": admitted.dt.date, "discharged": (admitted + pd.to_timedelta(length, unit="D")).dt.date}
    return {
        "patients": pd.DataFrame({"patient_id": range(1_500), "died": died.dt.date}),
        "stays": pd.DataFrame({"stay_id": range(len(who)), "patient_id": who, **known}),
        "samples": pd.DataFrame(
            {"stay_id": of_stay, "taken": taken.dt.date, "value": rng.integers(0, 9, len(of_stay))}
        ),
    }


STAYS = {
    "patients": {"key": "patient_id"},
    "stays": {"key": "stay_id", "parent": {"patient_id": "patients"}, "order": "admitted", "max_rows": 3},
    "samples": {"parent": {"stay_id": "stays"}, "order": "taken", "max_rows": 7},
}
LATER = {"found": None, "declared": {"before": "discharged"}, "apart": {"before": False}}


@pytest.mark.parametrize("said", LATER)
def test_no_sample_is_taken_after_its_stay_and_nobody_is_admitted_after_having_died(tmp_path, said):
    columns = {} if LATER[said] is None else {"columns": {"taken": LATER[said]}}
    ledger = dps.Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.open_account("stays", epsilon=30, delta=1e-5, unit="patient_id")
    how = {"training": {"max_epochs": 2}, "show": False, "store": Store(tmp_path / "store"), "table": "stays"}
    fitter = dps.Synthesizer("stays", 8.0, ledger, refresh={"remember": True, "epsilon": 1.0}, **how)
    relations = {**STAYS, "samples": {**STAYS["samples"], **columns}}
    for _ in range(2 if said == "found" else 1):  # a refresh that remembers goes on with what was found
        model = fitter.fit(stays(), relations=relations)
        drawn = model.sample()
        rows, above = drawn["samples"], drawn["stays"].set_index("stay_id")
        discharged = pd.to_datetime(above["discharged"]).reindex(rows["stay_id"]).to_numpy()
        late = (pd.to_datetime(rows["taken"]).to_numpy() > discharged).mean()
        assert late > 0.02 if said == "apart" else late == 0
        died = pd.to_datetime(drawn["patients"].set_index("patient_id")["died"]).reindex(drawn["stays"]["patient_id"])
        assert not (pd.to_datetime(drawn["stays"]["admitted"]).to_numpy() > died.to_numpy()).any()
    if said == "found":  # in a release that another profile was measured in, and that paid for it
        description = tmp_path / "store" / "releasable" / "stays" / "database.json"
        facts = json.loads(description.read_text())
        description.write_text(json.dumps({**facts, "profiles": dict.fromkeys(facts["profiles"], "another")}))
        again = fitter.fit(stays(), relations=relations)
        assert [table.before for table in again.relations] == [(), (), ()]
        assert again.card().facts.reused, "the profiles are, and nothing else is"
    assert [table.before for table in model.relations] == [(), ("died",), () if said == "apart" else ("discharged",)]
    assert "none after patients.died" in str(model.card().facts)


def test_rows_of_nothing_but_a_date_of_which_noise_hides_what_they_share_are_released(tmp_path):
    data = {"patients": stays()["patients"], "stays": stays()["stays"][["patient_id", "admitted"]]}
    data = {name: frame[frame["patient_id"] < 100] for name, frame in data.items()}
    ledger = dps.Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.open_account("stays", epsilon=30, delta=1e-5, unit="patient_id")
    fitter = dps.Synthesizer(
        "stays", 2.0, ledger, show=False, training={"max_epochs": 1}, store=Store(tmp_path / "store")
    )
    relations = {"patients": STAYS["patients"], "stays": {k: v for k, v in STAYS["stays"].items() if k != "key"}}
    drawn = fitter.fit(data, relations=relations).sample(50)
    assert list(drawn["stays"].columns) == ["patient_id", "admitted"]


@pytest.mark.parametrize(
    ("table", "columns", "message"),
    [
        ("samples", {"taken": {"before": "left"}}, "'left' is no date of stays .*it has: admitted, discharged"),
        ("samples", {"value": {"before": "discharged"}}, "rows are not ordered by it"),
        ("samples", {"taken": {"before": 7}}, "expected a date of its parent"),
        ("stays", {"admitted": {"before": "patient_id"}}, "is no date of patients"),
    ],
)
def test_a_date_that_bounds_no_rows_is_refused(tmp_path, table, columns, message):
    relations = {**STAYS, table: {**STAYS[table], "columns": columns}}
    ledger = dps.Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.open_account("stays", epsilon=30, delta=1e-5, unit="patient_id")
    with pytest.raises(InvalidInput, match=message):
        dps.Synthesizer("stays", 8.0, ledger, show=False, store=Store(tmp_path / "store")).fit(
            stays(), relations=relations
        )


def test_a_refresh_that_remembers_goes_on_with_what_was_found(tmp_path):
    remember = {"refresh": {"remember": True, "epsilon": 1.0}, "table": "shop"}
    ledger = dps.Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.open_account("shop", epsilon=30, delta=1e-5, unit="customer_id")
    how = {"training": {"max_epochs": 2}, "show": False, "store": Store(tmp_path / "store"), **remember}
    for _ in range(2):
        model = dps.Synthesizer("shop", 6.0, ledger, **how).fit(shop(), relations=RELATIONS)
        assert any(FACT in limit for limit in model.card().facts.limits)
        assert days_until(model.sample())[0].min() >= 0
    paid = [e.mechanism for e in ledger.entries(release_id=model.card().facts.release)]
    assert not any("dates" in mechanism for mechanism in paid)


def test_of_csv_files_the_parents_date_is_typed_first(tmp_path):
    data = {}
    for name, frame in shop().items():
        data[name] = str(tmp_path / f"{name}.csv")
        frame.to_csv(data[name], index=False)
    relations = {**RELATIONS, "orders": {**RELATIONS["orders"], "columns": {"ordered": {"kind": "date"}}}}
    _, model = fitted(tmp_path, data, relations, epsilon=20.0)
    assert any(FACT in limit for limit in model.card().facts.limits)
    assert days_until(model.sample())[0].min() >= 0
