"""Related tables under one budget: one release, new keys, no orphans, rows in order, constants that stay so."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import dp_synth_pipeline as dps
from dp_synth_pipeline.errors import BudgetExceeded, InvalidInput, ReadingFailed, ReleaseStateError, UnexpectedFailure
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.budget import ADD_REMOVE
from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.relations import relating, static_columns
from dp_synth_pipeline.relations.static_columns import Found
from dp_synth_pipeline.synthesis import conditional, generator_files
from dp_synth_pipeline.synthesis.database import learning, stages
from dp_synth_pipeline.synthesis.sampling import Drawer
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.synthetic_tables import load_tables
from dp_synth_pipeline.tabular.condition import Condition
from dp_synth_pipeline.tabular.profiling import formulas
from tests.integration.clinic import clinic

RELATIONS = {
    "patients": {"key": "patient_id"},
    "visits": {
        "key": "visit_id",
        "parent": {"patient_id": "patients"},
        "order": "visited",
        "max_rows": 6,
        "columns": {"ward": {"static": False}},  # drawn row by row, so that what histories keep is seen
    },
    "drugs": {"parent": {"visit_id": "visits"}, "max_rows": 3},
}
QUICK = {"max_epochs": 4, "hidden": 8}
ONCE = {"max_epochs": 1, "hidden": 8}
"""For fits of which it is no matter how well they learn."""


def synthesizer(folder, **changes):
    ledger = dps.Ledger.open(f"sqlite:///{folder}/ledger.db")
    if not [a for a in ledger.accounts() if a.name == "patients"]:
        ledger.open_account("patients", epsilon=6, delta=1e-5, unit="patient_id", why="test")
    facts = {"account": "patients", "epsilon": 4.0, "table": "clinic", "training": ONCE, "show": False, **changes}
    return dps.Synthesizer(ledger=ledger, store=Store(folder / "store"), **facts), ledger


@pytest.fixture(scope="module")
def levelled():
    """How far the codes of drawn rows were from the released shares before and after levelling, by child table."""
    return []


@pytest.fixture(scope="module")
def together():
    """Columns given to each network that learnt, and whether codes in an order learnt with their neighbours then."""
    return []


@pytest.fixture(scope="module")
def fitted(tmp_path_factory, levelled, together):
    folder = tmp_path_factory.mktemp("database")
    fitter, ledger = synthesizer(folder, training=QUICK)
    settle = AutoregressiveNetwork.settle
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning, "level", recorded(learning.level, levelled))
        patch.setattr(
            AutoregressiveNetwork,
            "settle",
            lambda n: together.append((n.given, any(b.mixed is not None for b in n.blocks))) or settle(n),
        )
        model = fitter.fit(clinic(1500), relations=RELATIONS)
    return model, ledger, folder


def recorded(level, levelled):
    def told(model, draw, shares, noise, *rest):
        before = distance(*draw(), shares)
        level(model, draw, shares, noise, *rest)
        levelled.append((before, distance(*draw(), shares), noise))

    return told


def distance(drawn, codes, weights, shares):
    """Return the mean total variation between the shares of drawn codes and the released ones."""
    found = [np.bincount(c, weights, minlength=len(s)) / weights.sum() for c, s in zip(codes.T, shares, strict=True)]
    return np.mean([np.abs(f - s).sum() / 2 for f, s in zip(found, shares, strict=True)])


@pytest.fixture(scope="module")
def drawn(fitted):
    return fitted[0].sample(800)


def test_one_release_pays_for_all_tables_and_costs_no_more_than_was_asked(fitted):
    model, ledger, _ = fitted
    (release,) = ledger.releases("patients")
    assert release.state == "settled"
    entries = ledger.entries(release_id=release.id)
    tables = {e.mechanism.rpartition(" of ")[2] for e in entries}
    assert tables == set(RELATIONS)
    events = [event for e in entries for event in e.events]
    assert accountant.epsilon(events, model.delta, ADD_REMOVE) <= 4.0 + 1e-9
    assert 3.9 < model.epsilon <= 4.0
    ledger.verify()


def test_what_is_measured_of_a_table_has_the_sensitivity_of_one_row_whatever_its_bound(fitted):
    """Thirty rows a person would otherwise cost thirty times the noise: the profile reads one row of each person."""
    _, ledger, _ = fitted
    noise = {e.mechanism: e.events[0].noise_multiplier for e in ledger.entries("patients") if "profile" in e.mechanism}
    assert noise["profile of drugs"] < 3 * noise["profile of patients"]
    members = [r.max_rows for r in ledger.accounts() if r.name == "patients"]
    assert members == [1]


def test_drawn_rows_of_each_child_come_nearer_to_the_noisy_counts_of_all_rows(fitted, levelled):
    assert len(levelled) == 2
    for before, after, noise in levelled:
        assert noise > 0
        assert after < max(before, 4 * noise), "a table that was as near as noise lets one know stays so near"
    assert sum(after for _, after, _ in levelled) < 0.8 * sum(before for before, _, _ in levelled)


def test_all_rows_of_each_child_are_counted_at_once_and_charged_as_one_gaussian_release(fitted, levelled):
    _, ledger, _ = fitted
    events = {e.mechanism: e.events for e in ledger.entries("patients")}
    for child, (_, _, noise) in zip(("visits", "drugs"), levelled, strict=True):
        (event,) = events[f"history counts of {child}"]
        assert isinstance(event, Gaussian)
        # A person's counts are as long as some rows in some columns are, and shares are of thousands of rows.
        assert event.noise_multiplier / 10_000 < noise < event.noise_multiplier / 100
    assert "history counts of patients" not in events


def test_without_counts_of_rows_drawn_ones_are_levelled_to_the_profile_at_its_own_noise(tmp_path, monkeypatch):
    levelled = []
    monkeypatch.setattr(learning, "level", recorded(learning.level, levelled))
    fitter, ledger = synthesizer(tmp_path, training={**ONCE, "method": "autoregressive"})
    model = fitter.fit(clinic(400), relations=RELATIONS)
    events = {e.mechanism: e.events for e in ledger.entries("patients")}
    assert "static columns of visits" in events
    assert "history counts of visits" not in events
    first, folder = events["profile of visits"][0], model.folder / "visits"
    population = Drawer(folder, folder / "profile.json", []).profile.population
    noise = first.combined_noise_multiplier * first.size**0.5 / population
    assert levelled[0][2] == pytest.approx(noise, rel=1e-3)


def many_or_one(persons):
    """Return persons of one visit, of kind `rare` in four of five, and as many of nine visits, of which one in ten is."""
    rng = np.random.default_rng(3)
    counts = np.where(np.arange(persons) % 2, 9, 1)
    number = np.repeat(np.arange(persons), counts)
    rare = rng.random(len(number)) < np.where(np.repeat(counts, counts) > 1, 0.1, 0.8)
    visits = pd.DataFrame(
        {"patient_id": number, "kind": np.where(rare, "rare", "often"), "age": rng.integers(20, 80, len(number))}
    )
    return {
        "patients": pd.DataFrame({"patient_id": np.arange(persons), "born": rng.integers(1930, 2000, persons)}),
        "visits": visits,
    }


def test_rows_of_those_who_have_many_count_as_rows_and_not_as_persons(tmp_path):
    """Of all rows, 17 % are of the kind that 45 % of one row of each person are."""
    tables = many_or_one(1600)
    relations = {"patients": {"key": "patient_id"}, "visits": {"parent": {"patient_id": "patients"}, "max_rows": 9}}
    one_step = {**ONCE, "batch_share": 1.0}  # it learns nothing of who has which kind
    fitter, _ = synthesizer(tmp_path, training=one_step)
    drawn = fitter.fit(tables, relations=relations).sample(1600)["visits"]
    assert (drawn["kind"] == "rare").mean() == pytest.approx((tables["visits"]["kind"] == "rare").mean(), abs=0.05)


def test_numbers_and_dates_learn_with_their_neighbours_in_the_root_and_in_histories(fitted, together):
    assert {given > 0 for given, mixed in together if mixed} == {False, True}
    assert not together[-1][1], "a drug has a name alone, so nothing in an order"


def test_the_tables_have_the_sources_columns_and_types(drawn):
    real = clinic(10)
    for name, table in real.items():
        assert list(drawn[name].columns) == list(table.columns)
    assert isinstance(drawn["visits"]["visited"].iloc[0], type(real["visits"]["visited"].iloc[0]))


def test_every_row_has_a_parent_and_keys_are_new_and_unique(drawn):
    assert set(drawn["visits"]["patient_id"]) <= set(drawn["patients"]["patient_id"])
    assert set(drawn["drugs"]["visit_id"]) <= set(drawn["visits"]["visit_id"])
    assert drawn["patients"]["patient_id"].is_unique
    assert drawn["visits"]["visit_id"].is_unique
    assert len(drawn["patients"]) == 800


def test_persons_have_as_many_rows_as_real_ones_and_never_more_than_the_bound(drawn):
    def shares(tables):
        rows = tables["visits"].groupby("patient_id").size().reindex(tables["patients"]["patient_id"], fill_value=0)
        return rows.value_counts(normalize=True).reindex(range(7), fill_value=0)

    assert drawn["visits"].groupby("patient_id").size().max() <= 6
    assert drawn["drugs"].groupby("visit_id").size().max() <= 3
    assert 0.5 * (shares(drawn) - shares(clinic(1500))).abs().sum() < 0.2


def test_rows_of_a_person_are_in_order(drawn):
    visits = drawn["visits"]
    assert visits.groupby("patient_id")["visited"].apply(lambda s: s.is_monotonic_increasing).all()


def test_what_never_varies_within_a_person_hardly_varies_in_a_synthetic_one(drawn):
    """Rows drawn one by one would have a second ward in most persons of several visits: 3 wards, 3.5 visits."""
    several = drawn["visits"].groupby("patient_id").filter(lambda rows: len(rows) > 1)
    assert (several.groupby("patient_id")["ward"].nunique() == 1).mean() > 0.6


VISITS_ALONE = {
    "patients": {"key": "patient_id"},
    "visits": {"key": "visit_id", "parent": {"patient_id": "patients"}, "order": "visited", "max_rows": 6},
}


def visits_alone(patients):
    """Return one table of visits that says of each patient's visits what the patient is, with an address to write to."""
    tables = clinic(patients)
    visits = tables["visits"].merge(tables["patients"], on="patient_id")
    return visits.assign(email=[f"patient{p}@clinic.org" for p in visits["patient_id"]])


def fit_alone(folder, visits, columns):
    fitter, ledger = synthesizer(folder, epsilon=5.0)
    relations = {**VISITS_ALONE, "visits": {**VISITS_ALONE["visits"], "columns": columns}}
    return fitter.fit({"visits": visits}, relations=relations), ledger


@pytest.fixture(scope="module")
def found_static(tmp_path_factory):
    return fit_alone(tmp_path_factory.mktemp("static"), visits_alone(3000), {"email": {"static": True}})


def varying(tables):
    return tables["visits"].groupby("patient_id").nunique(dropna=False).max().drop("visit_id").to_dict()


def test_columns_that_counts_tell_to_be_static_are_the_same_in_all_rows_of_a_person(found_static):
    model, ledger = found_static
    tables = model.sample(600)
    found = varying(tables)
    assert {n for n, most in found.items() if most == 1} == {"ward", "sex", "born", "email"}
    assert found["score"] > 1
    assert list(tables["visits"].columns) == list(visits_alone(5).columns)
    assert list(tables["patients"].columns) == ["patient_id"]
    several = tables["visits"].drop_duplicates("patient_id")
    assert several["born"].nunique() > 300, "each has a birthday of their own"
    assert (several["sex"] == "F").mean() == pytest.approx(0.5, abs=0.12)
    mechanisms = [e.mechanism for e in ledger.entries("patients")]
    assert mechanisms[0] == "static columns of patients"
    assert [m for m in mechanisms if "static" in m] == mechanisms[:1]


def test_persons_can_be_drawn_by_what_is_static_in_their_rows_as_by_their_own_columns(found_static):
    model, _ = found_static
    assert set(model.sample(60, where="visits.sex = 'F'")["visits"]["sex"]) == {"F"}
    assert set(model.sample(60, where={"visits.ward": "north"})["visits"]["ward"]) == {"north"}
    with pytest.raises(InvalidInput, match=r"'visits\.score' is a column of visits"):
        model.sample(60, where="visits.score > 50")


def test_a_saved_model_draws_static_columns_as_the_one_it_was_saved_from(found_static, tmp_path):
    model, _ = found_static
    model.save(tmp_path / "clinic.dps")
    assert varying(dps.load(tmp_path / "clinic.dps").sample(100)) == pytest.approx(varying(model.sample(100)), abs=2)
    described = model.folder / generator_files.DATABASE
    earlier = json.loads(described.read_text())
    for table in earlier["tables"]:
        del table["static"]  # as a version wrote it that had none
    described.with_suffix(".earlier").write_text(json.dumps(earlier))
    kept = described.rename(described.with_suffix(".kept"))
    described.with_suffix(".earlier").rename(described)
    assert [t.static for t in model.relations] == [(), ()]
    kept.rename(described)


def test_what_was_declared_of_every_column_is_free_and_types_of_a_csv_move_with_it(tmp_path):
    path = tmp_path / "visits.csv"
    visits_alone(800).drop(columns="ward").to_csv(path, index=False)
    day = {"kind": "date", "format": "%Y-%m-%d"}
    declared = {
        "visited": day,
        "score": {"static": False},
        "sex": {"static": True, "categories": ["F", "M", "X"]},
        "born": {"static": True},
    }
    model, ledger = fit_alone(tmp_path, str(path), declared)
    assert not [e for e in ledger.entries("patients") if "static" in e.mechanism]
    visits = model.sample(200)["visits"]
    assert visits.groupby("patient_id")[["sex", "born"]].nunique().max().tolist() == [1, 1]
    assert set(visits["sex"]) <= {"F", "M", "X"}
    years = pd.Series([day.year for day in visits["born"].dropna()])  # dates, as they were measured, and no texts
    assert years.between(1940, 2015).mean() > 0.95


def test_a_carried_column_is_recognised_by_its_own_name_and_keeps_nulls_whatever_the_parent_does_with_its_own(tmp_path):
    visits = clinic(800)["visits"]
    person = visits["patient_id"]
    grade = np.where(person % 2, None, person.mod(3).astype(str))
    visits = visits.assign(name=[f"Ann{n * 7919 % 100_003} Doe{n}" for n in person], grade=grade, phone=person % 2 + 7)
    visits.drop(columns="ward").to_csv(tmp_path / "visits.csv", index=False)
    fitter, _ = synthesizer(tmp_path, epsilon=5.0)
    day = {"visited": {"kind": "date", "format": "%Y-%m-%d"}, "score": {"static": False}}
    static = {"name": {"static": True}, "grade": {"static": True}, "phone": {"static": True, "kind": "category"}}
    relations = {
        "patients": {"key": "patient_id", "nulls": "mode"},
        "visits": {**VISITS_ALONE["visits"], "columns": {**day, **static}},
    }
    sources = {"patients": clinic(800)["patients"], "visits": tmp_path / "visits.csv"}
    drawn = fitter.fit(sources, relations=relations).sample(200)["visits"]
    assert drawn["grade"].isna().mean() == pytest.approx(0.5, abs=0.2)
    assert set(drawn["phone"].dropna()) == {"7", "8"}, "declared as a category, and not made anew"
    assert drawn["name"].notna().all()
    assert not set(drawn["name"]) & set(visits["name"])
    assert drawn.groupby("patient_id")["name"].nunique().max() == 1


def test_a_table_of_which_counts_tell_that_nothing_varies_keeps_its_columns(tmp_path, monkeypatch):
    monkeypatch.setattr(
        static_columns,
        "measure",
        lambda rows, plan, *_: {name: Found(looked_at.columns) for name, looked_at in plan.candidates.items()},
    )
    fitter, _ = synthesizer(tmp_path, epsilon=5.0)
    visits = clinic(300)["visits"][["visit_id", "patient_id", "ward"]]
    relations = {**VISITS_ALONE, "visits": {"key": "visit_id", "parent": {"patient_id": "patients"}, "max_rows": 6}}
    model = fitter.fit({"visits": visits}, relations=relations)
    assert [table.static for table in model.relations] == [(), ()]
    assert list(model.sample(20)["visits"].columns) == list(visits.columns)


def test_a_static_column_without_nulls_has_none_though_patients_without_visits_carry_some(tmp_path):
    visits = visits_alone(400).drop(columns=["ward", "email"])
    patients = visits[["patient_id"]].drop_duplicates().assign(city="Rome")
    nobody = pd.DataFrame({"patient_id": range(9000, 9400), "city": "Oslo"})
    fitter, _ = synthesizer(tmp_path)
    columns = {name: {"static": True, "nulls": "drop"} for name in ("sex", "born")}
    model = fitter.fit(
        {"patients": pd.concat([patients, nobody]), "visits": visits},
        relations={"patients": {"key": "patient_id"}, "visits": {**VISITS_ALONE["visits"], "columns": columns}},
    )
    drawn = model.sample(400)["visits"]
    assert drawn[["sex", "born"]].notna().all().all()
    assert drawn.groupby("patient_id")[["sex", "born"]].nunique().max().tolist() == [1, 1]


def test_suppressed_categories_are_levelled_to_how_often_they_are_and_never_drawn(tmp_path, monkeypatch):
    rng, rows, seen, level = np.random.default_rng(3), 3600, [], learning.level
    rare = rng.random(rows) < 0.3
    wards = np.where(rare, [f"ward {row}" for row in range(rows)], rng.choice(["a", "b"], rows))
    visits = pd.DataFrame({"patient_id": np.arange(rows) // 3, "ward": wards, "dose": np.where(rare, 9, 1)})

    def told(model, draw, shares, noise, *rest):
        level(model, draw, shares, noise, *rest)
        seen.append((draw(), shares))

    monkeypatch.setattr(learning, "level", told)
    relations = {"patients": {"key": "patient_id"}, "visits": {"parent": {"patient_id": "patients"}, "max_rows": 3}}
    drawn = synthesizer(tmp_path)[0].fit({"visits": visits}, relations=relations).sample(1200)["visits"]
    (((_, codes, weights), shares),) = seen
    assert len(shares[0]) == 3, "both common wards, and what stands for the rare ones"
    found = np.bincount(codes[:, 0], weights, minlength=3) / weights.sum()
    assert found == pytest.approx(shares[0], abs=0.06)
    assert shares[0][2] == pytest.approx(0.3, abs=0.05)
    assert set(drawn["ward"]) == {"a", "b"}
    assert (drawn["dose"] == 9).mean() == pytest.approx(0.3, abs=0.08)


def test_formulas_of_related_tables_are_found_kept_and_said_and_charge_nothing_where_nobody_wants_them(
    tmp_path, monkeypatch
):
    rng, rows, read, measure = np.random.default_rng(3), 12_000, [], formulas.measure

    def counted(path, *how):
        read.append(pq.read_metadata(path).num_rows)
        return measure(path, *how)

    monkeypatch.setattr(formulas, "measure", counted)
    orders = pd.DataFrame(
        {
            "patient_id": np.arange(rows) // 3,
            "price": rng.gamma(2, 8, rows).round(2) + 1,
            "quantity": rng.integers(1, 6, rows),
        }
    )
    orders["total"] = (orders["price"] * orders["quantity"]).round(2)
    relations = {"patients": {"key": "patient_id"}, "orders": {"parent": {"patient_id": "patients"}, "max_rows": 3}}

    def fit(folder, **changes):
        folder.mkdir()
        fitter, ledger = synthesizer(folder, epsilon=5.0, **changes)
        model = fitter.fit({"orders": orders}, relations=relations)
        return model, [e.mechanism for e in ledger.entries(release_id=model.release)]

    def kept(drawn):
        return ((drawn["price"] * drawn["quantity"] - drawn["total"]).abs() < 0.006).mean()

    model, charged = fit(tmp_path / "found")
    assert "formulas of orders" in charged
    assert read == [rows // 3], "one row of each person, so that a person moves each histogram by one"
    assert kept(model.sample(1000)["orders"]) == 1
    model.save(tmp_path / "orders.dps")
    assert kept(dps.load(tmp_path / "orders.dps").sample(1000)["orders"]) == 1
    (said,) = (sentence for sentence in model.card().limits if "total = price * quantity" in sentence)
    assert said.startswith("orders: ")
    model, charged = fit(tmp_path / "unwanted", find_formulas=False)
    assert "formulas of orders" not in charged
    assert kept(model.sample(1000)["orders"]) < 0.5
    model, _ = fit(tmp_path / "declared", rules=["orders.price = orders.total / orders.quantity"])
    assert not [sentence for sentence in model.card().limits if "total = price * quantity" in sentence]


def test_rules_across_tables_and_shares_are_settings_of_related_tables_alone(tmp_path):
    shares, rule = {"patients": 3, "visits": 3, "drugs": 1}, "visits.visited >= patients.born"
    fitter, ledger = synthesizer(tmp_path, shares=shares, rules=[rule])
    tables = clinic(1000)
    drawn = fitter.fit(tables, relations=RELATIONS).sample(300)
    visits = drawn["visits"].merge(drawn["patients"].dropna(subset="born"), on="patient_id")
    assert len(visits) > 100
    assert (pd.to_datetime(visits["visited"]) >= pd.to_datetime(visits["born"])).all()
    with pytest.raises(InvalidInput, match=r"shares: only related tables have this setting"):
        fitter.fit(tables["patients"])
    with pytest.raises(InvalidInput, match=r"shares: expected a part above 0 for each of patients, visits, drugs"):
        synthesizer(tmp_path, shares={"visits": 1})[0].fit(tables, relations=RELATIONS)
    assert len(ledger.releases("patients")) == 1, "neither mistake reserved anything"


def test_a_mistake_about_static_columns_is_told_before_anything_is_spent(tmp_path):
    with pytest.raises(InvalidInput, match=r"tables\.visits\.columns\.visited: static: rows are ordered by it"):
        fit_alone(tmp_path, visits_alone(20), {"visited": {"static": True}})
    with pytest.raises(InvalidInput, match=r"sex: static: expected true or false, got 'often'"):
        fit_alone(tmp_path, visits_alone(20), {"sex": {"static": "often"}})
    assert {r.state for r in synthesizer(tmp_path)[1].releases("patients")} == {"voided"}


def labs_of(visits, *, moment):
    """Return what was taken on each visit, none to two days after it began."""
    rng = np.random.default_rng(7)
    at = np.repeat(np.arange(len(visits)), rng.integers(0, 3, len(visits)))
    taken = pd.to_datetime(visits["visited"]).to_numpy()[at] + rng.integers(0, 3 * 24, len(at)).astype("timedelta64[h]")
    taken = pd.Series(taken.astype("datetime64[us]"))
    return pd.DataFrame(
        {"visit_id": visits["visit_id"].to_numpy()[at], "taken": taken if moment else taken.dt.date, "value": at % 7}
    )


def fit_labs(folder, *, moment):
    tables = clinic(1500)
    tables = {
        "patients": tables["patients"],
        "visits": tables["visits"],
        "labs": labs_of(tables["visits"], moment=moment),
    }
    labs = {"parent": {"visit_id": "visits"}, "order": "taken", "max_rows": 2}
    return synthesizer(folder)[0].fit(
        tables, relations={**{n: RELATIONS[n] for n in ("patients", "visits")}, "labs": labs}
    )


def days_after_the_visit(drawn):
    both = drawn["labs"].merge(drawn["visits"][["visit_id", "visited"]], on="visit_id")
    assert len(both) > 100
    return (pd.to_datetime(both["taken"]) - pd.to_datetime(both["visited"])) / pd.Timedelta(days=1)


@pytest.mark.parametrize("moment", [False, True])
def test_rows_below_a_visit_lie_as_near_to_its_time_as_real_ones(tmp_path, moment):
    """Drawn by their dates alone, 1 in 20 of them lay within three days of their visit."""
    days = days_after_the_visit(fit_labs(tmp_path, moment=moment).sample(400))
    assert days.between(-1, 4).mean() > 0.8
    assert days.median() == pytest.approx(1.0, abs=0.8)


def test_tables_of_an_earlier_version_draw_rows_below_a_visit_by_their_dates(tmp_path, monkeypatch):
    monkeypatch.setattr(relating, "_bases", at_times)
    model = fit_labs(tmp_path, moment=False)
    monkeypatch.undo()
    assert days_after_the_visit(model.sample(300)).abs().max() < 5000


def at_times(relations, parent, sources):
    """Return of no table that its rows begin at a distance, as an earlier version had it."""
    return {child.name: None for child in relations.children(parent.name) if child.order is not None}


def calls_of(tables, *, moment):
    """Return when patients called: first on the day before their first visit, or, without one, on any day of 2023."""
    rng, patients = np.random.default_rng(8), tables["patients"]["patient_id"]
    seen = pd.to_datetime(tables["visits"]["visited"]).groupby(tables["visits"]["patient_id"]).min().reindex(patients)
    some = pd.Series(pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 365, len(patients)), unit="D"))
    first = (seen - pd.Timedelta(days=1)).fillna(pd.Series(some.to_numpy(), seen.index))[
        rng.random(len(patients)) < 0.8
    ]
    at = first.repeat(rng.integers(1, 4, len(first)))
    at += pd.to_timedelta(at.groupby(level=0).cumcount() * 9, unit="D") + pd.Timedelta(hours=8)
    called = at if moment else at.dt.date
    return pd.DataFrame({"patient_id": at.index, "called": called.to_numpy(), "minutes": range(len(at))})


def fit_calls(folder, *, moment):
    """Learn a clinic a quarter of whose patients have no visit."""
    tables = {name: table for name, table in clinic(1500).items() if name != "drugs"}
    tables["visits"] = tables["visits"][tables["visits"]["patient_id"] % 4 > 0]
    tables["calls"] = calls_of(tables, moment=moment)
    calls = {"parent": {"patient_id": "patients"}, "order": "called", "max_rows": 3}
    relations = {**{n: RELATIONS[n] for n in ("patients", "visits")}, "calls": calls}
    return synthesizer(folder)[0].fit(tables, relations=relations)


def firsts(drawn):
    """Return the first visit and the first call of each patient; neither of one who has none."""
    times = [
        pd.to_datetime(drawn[t].groupby("patient_id")[at].min())
        for t, at in (("visits", "visited"), ("calls", "called"))
    ]
    return pd.concat(times, axis=1).reindex(drawn["patients"]["patient_id"])


@pytest.mark.parametrize("moment", [False, True])
def test_tables_beside_each_other_begin_together_as_in_real_persons(tmp_path, moment):
    """Drawn by their dates alone, 1 in 100 of these patients called as near to their first visit."""
    model = fit_calls(tmp_path, moment=moment)
    found = firsts(model.sample(800))
    both = found.dropna()
    assert len(both) > 300
    assert ((both["called"] - both["visited"]) / pd.Timedelta(days=1)).between(-2, 1).mean() > 0.8
    alone = found["called"][found["visited"].isna()].dropna()
    assert len(alone) > 60, "who has no visit may call"
    # Noise makes up a few dates some years away: 2 of 20,000 in sixteen fits. A wrong base would put nearly all there.
    assert alone.dt.year.between(2021, 2025).mean() > 0.95
    chosen = firsts(model.sample(60, where="\"visits, else calls: first visited\" >= DATE '2022-10-01'"))
    assert chosen["visited"].dropna().min() >= pd.Timestamp("2022-10-01")


def test_tables_of_an_earlier_version_draw_each_table_by_its_own_dates(tmp_path, monkeypatch):
    monkeypatch.setattr(relating, "_bases", at_times)
    model = fit_calls(tmp_path, moment=False)
    monkeypatch.undo()
    found = firsts(model.sample(400))
    assert found["visited"].dropna().dt.year.between(2021, 2025).all()
    assert found["called"].dropna().dt.year.between(2021, 2025).all()
    assert len(found.dropna()) > 100


def samples_of(visits):
    """Return one or two blood tests on the day of each visit, taken on the ward of that visit."""
    taken = visits.loc[visits.index.repeat(np.random.default_rng(9).integers(1, 3, len(visits)))]
    return pd.DataFrame(
        {
            "patient_id": taken["patient_id"].to_numpy(),
            "taken": taken["visited"].to_numpy(),
            "ward": taken["ward"].to_numpy(),
            "value": np.random.default_rng(10).normal(5, 1, len(taken)).round(1),
        }
    )


def share_beside(tables):
    """Return the shares of blood tests on the day of some visit, and of those on the ward of one of that day."""
    visits, tests = tables["visits"], tables["tests"]
    days = visits.groupby(["patient_id", "visited"])["ward"].agg(set).rename("wards")
    wards = tests.join(days, on=["patient_id", "taken"])["wards"]
    there = wards.notna()
    return there.mean(), np.mean([w in found for w, found in zip(tests["ward"][there], wards[there], strict=True)])


def test_rows_of_tables_beside_each_other_lie_on_the_same_days_and_agree(tmp_path):
    """Drawn by themselves, tests would lie on another day but for the first, and on another ward in half of them."""
    rng = np.random.default_rng(11)
    visits = clinic(1500)["visits"]
    visits = visits.assign(ward=rng.choice(["north", "south", "west"], len(visits)))  # another one in each visit
    tables = {"patients": clinic(1500)["patients"], "visits": visits, "tests": samples_of(visits)}
    assert share_beside(tables) == (1, 1)
    tests = {"parent": {"patient_id": "patients"}, "order": "taken", "max_rows": 12}
    relations = {**{n: RELATIONS[n] for n in ("patients", "visits")}, "tests": tests}
    fitter, _ = synthesizer(tmp_path, epsilon=5.0, training={"max_epochs": 12, "hidden": 8})
    model = fitter.fit(tables, relations=relations)
    day, ward = share_beside(model.sample(1500))
    assert day > 0.9
    assert ward > 0.9
    known = {f: set(visits["ward"]) for f in ("visits", "tests")}
    assert all(set(model.sample(50, seed=2)[name]["ward"]) <= wards for name, wards in known.items())
    again = [model.sample(40, seed=3)["tests"] for _ in range(2)]
    assert again[0].equals(again[1])


@pytest.mark.parametrize("moment", [False, True], ids=["date", "datetime"])
def test_histories_stay_on_the_days_and_hours_on_which_rows_were_counted(tmp_path, moment):
    """A clinic opens on Mondays to Fridays from 8 to 18; its patients come back whenever it is open."""
    rng, persons, visits = np.random.default_rng(), np.arange(1500), []
    day = 19_002 + 7 * rng.integers(0, 100, len(persons)) + rng.integers(0, 5, len(persons))
    for _ in range(3):
        hour = 8 + rng.integers(0, 60, len(persons)) / 6 if moment else 0
        seen = pd.to_datetime(day * 86_400 + hour * 3_600, unit="s")
        visits.append(pd.DataFrame({"patient_id": persons, "seen": seen, "score": rng.integers(0, 5, len(persons))}))
        day = day + rng.integers(1, 40, len(persons))
        day = np.where((day + 3) % 7 > 4, day + 7 - (day + 3) % 7, day)
    rows = pd.concat(visits)
    rows["seen"] = rows["seen"] if moment else rows["seen"].dt.date
    tables = {
        "patients": pd.DataFrame({"patient_id": persons, "sex": rng.choice(["f", "m"], len(persons))}),
        "visits": rows,
    }
    ledger = dps.Ledger.open(f"sqlite:///{tmp_path}/ledger.db")
    ledger.open_account("clinic", epsilon=20, delta=1e-5, unit="patient_id", why="test")
    fitter, _ = synthesizer(tmp_path, account="clinic", epsilon=12.0)
    relations = {"visits": {"parent": {"patient_id": "patients"}, "order": "seen", "max_rows": 3}}
    model = fitter.fit(tables, relations={"patients": {"key": "patient_id"}, **relations})
    seen = pd.to_datetime(model.sample(1500)["visits"]["seen"])
    assert (seen.dt.day_of_week > 4).mean() < 0.02
    assert not moment or (~seen.dt.hour.between(8, 17)).mean() < 0.1
    (profile,) = [e for e in ledger.entries() if e.mechanism == "profile of visits"]
    assert Gaussian(profile.events[-2].noise, 4) in profile.events, "steps of the score, days of gaps; or hours"


@pytest.mark.parametrize("moment", [False, True], ids=["date", "datetime"])
def test_rows_that_begin_at_a_distance_begin_on_days_on_which_rows_were_counted(tmp_path, moment):
    """What is ordered on any day arrives months later, from Monday to Friday; an order has one delivery."""
    rng, persons = np.random.default_rng(), np.arange(1500)
    day = 19_002 + rng.integers(0, 700, len(persons))
    arrived = day + rng.integers(1, 300, len(persons))
    arrived = np.where((arrived + 3) % 7 > 4, arrived + 7 - (arrived + 3) % 7, arrived)
    hours = 8 + rng.integers(0, 60, len(persons)) / 6 if moment else 0  # in which what arrives does
    dates = [pd.to_datetime(days * 86_400 + at * 3_600, unit="s") for days, at in ((day, 0), (arrived, hours))]
    dates = dates if moment else [each.date for each in dates]
    tables = {
        "people": pd.DataFrame({"patient_id": persons, "sex": rng.choice(["f", "m"], len(persons))}),
        "orders": pd.DataFrame({"order_id": persons, "patient_id": persons, "ordered": dates[0]}),
        "deliveries": pd.DataFrame({"order_id": persons, "arrived": dates[1]}),
    }
    ledger = dps.Ledger.open(f"sqlite:///{tmp_path}/ledger.db")
    ledger.open_account("shop", epsilon=20, delta=1e-5, unit="patient_id", why="test")
    fitter, _ = synthesizer(tmp_path, account="shop", epsilon=12.0)
    relations = {
        "people": {"key": "patient_id"},
        "orders": {"key": "order_id", "parent": {"patient_id": "people"}, "order": "ordered", "max_rows": 1},
        "deliveries": {"parent": {"order_id": "orders"}, "order": "arrived", "max_rows": 1},
    }
    drawn = fitter.fit(tables, relations=relations).sample(1500)
    both = drawn["deliveries"].merge(drawn["orders"], on="order_id")
    ordered, arrived = (pd.to_datetime(both[name]) for name in ("ordered", "arrived"))
    assert (arrived.dt.day_of_week > 4).mean() < 0.12, (
        "two in seven, but for cells of a day or two, which have no other day"
    )
    assert (ordered.dt.day_of_week > 4).mean() > 0.2
    assert not moment or (~arrived.dt.hour.between(8, 17)).mean() < 0.1
    assert (arrived - ordered).dt.days.between(0, 310).mean() > 0.97


def test_the_same_seed_draws_the_same_tables(fitted):
    model = fitted[0]
    first, again, other = (model.sample(50, seed=seed) for seed in (3, 3, 4))
    assert all(first[name].equals(again[name]) for name in first)
    assert not first["visits"].equals(other["visits"])


def test_persons_are_drawn_on_a_condition_on_the_root_and_their_rows_follow(fitted):
    model = fitted[0]
    found = model.sample(200, where="patients.sex = 'F' AND born >= DATE '1970-01-01'", seed=5)
    patients = found["patients"]
    assert len(patients) == 200
    assert set(patients["sex"]) == {"F"}
    assert min(patients["born"]) >= pd.Timestamp("1970-01-01").date()
    assert set(found["visits"]["patient_id"]) <= set(patients["patient_id"])
    assert set(found["drugs"]["visit_id"]) <= set(found["visits"]["visit_id"])
    assert found["visits"].groupby("patient_id")["visited"].apply(lambda s: s.is_monotonic_increasing).all()
    assert 100 <= patients.attrs["effective_sample_size"] <= 200
    again = model.sample(200, where="patients.sex = 'F' AND born >= DATE '1970-01-01'", seed=5)
    assert all(found[name].equals(again[name]) for name in found)
    assert set(model.sample(20, where={"patients.sex": "M"})["patients"]["sex"]) == {"M"}


def test_children_follow_the_persons_that_were_chosen_and_not_others(fitted):
    """How many visits a person has is a column of that person: who is chosen by it has so many."""
    found = fitted[0].sample(100, where='"visits: rows" = 3')
    counts = found["visits"].groupby("patient_id").size().reindex(found["patients"]["patient_id"])
    assert not found["visits"].empty
    assert set(counts.fillna(0)) <= {0, 3}  # one that was drawn without a first day has none


def test_rows_that_are_chosen_come_with_their_own_codes_which_their_children_hang_on(fitted, monkeypatch):
    folder = fitted[0].folder / "patients"
    drawer = Drawer(folder, folder / "profile.json", [])
    where, rng = Condition("born >= DATE '1960-01-01'", drawer.codec), np.random.default_rng(1)
    monkeypatch.setattr(conditional, "MOST", 1)  # so that rows are repeated, too
    pool = conditional.Pool(drawer.model, drawer.codec, where, 0, rng)
    at = [c.name for c in drawer.codec.schema.learned].index("sex")
    for rows in (70, 5000):
        found = pool.draw(rows)
        pairs = set(zip(found.rows["sex"].to_pylist(), found.codes[:, at].tolist(), strict=True))
        assert len(found.codes) == found.rows.num_rows == rows
        assert len(pairs) == len({code for _, code in pairs}) == len({sex for sex, _ in pairs}) == 2


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("visits.ward = 'north'", "'visits.ward' is a column of visits"),
        ("ward = 'north'", "'ward' is a column of visits"),
        ({"drugs.drug": "a"}, "'drugs.drug' is a column of drugs"),
        ("sex = 'F' AND drug = 'a'", "'drug' is a column of drugs"),
        ("colour = 'red'", "no column 'colour'"),
        ("sex = 'X'", "nothing fits"),
        ("", "it is empty"),
    ],
)
def test_a_condition_that_persons_cannot_be_drawn_on_is_refused_in_one_sentence(fitted, where, words):
    with pytest.raises(InvalidInput, match=words):
        fitted[0].sample(5, where=where)


def test_a_saved_database_draws_without_the_source_or_the_ledger(fitted, tmp_path):
    path = fitted[0].save(tmp_path / "clinic.dps")
    loaded = load_tables(path)
    assert loaded.epsilon == fitted[0].epsilon
    assert set(loaded.sample(20)) == set(RELATIONS)


def beside_their_visits(tables):
    """Return patients who have visits beside each of them."""
    return tables["visits"].merge(tables["patients"], on="patient_id")


def ruled(model, path, rules):
    """Return a model as it would have been saved with some rules across tables."""
    loaded = load_tables(model.save(path))
    described = json.loads((loaded.folder / generator_files.DATABASE).read_text())
    (loaded.folder / generator_files.DATABASE).write_text(json.dumps({**described, "rules": rules}))
    return loaded


def test_drawn_rows_keep_rules_across_tables_and_persons_have_as_many_rows_as_without(fitted, tmp_path):
    rules = ["visits.visited >= patients.born", "patients.born >= 1960-01-01", "visits.score >= 35"]
    seen = beside_their_visits(fitted[0].sample(2000, seed=3))
    assert (seen["score"] < 35).any()
    assert (seen["born"] < pd.Timestamp("1960-01-01").date()).any()
    drawn = ruled(fitted[0], tmp_path / "clinic.dps", rules).sample(2000, seed=3)
    seen = beside_their_visits(drawn)
    assert (seen["visited"] >= seen["born"]).all()
    assert (drawn["patients"]["born"] >= pd.Timestamp("1960-01-01").date()).all()
    assert (seen["score"] >= 35).all()
    assert len(drawn["patients"]) == drawn["patients"]["patient_id"].nunique() == 2000
    assert set(drawn["drugs"]["visit_id"]) <= set(drawn["visits"]["visit_id"])
    without = len(fitted[0].sample(2000, seed=4)["visits"])
    assert len(drawn["visits"]) == pytest.approx(without, rel=0.1)


def test_persons_who_are_drawn_on_a_condition_keep_the_rules_as_well(fitted, tmp_path):
    model = ruled(fitted[0], tmp_path / "clinic.dps", ["visits.visited >= patients.born", "visits.score >= 45"])
    drawn = model.sample(600, where="patients.sex = 'F' and \"visits: rows\" >= 2", seed=5)
    assert set(drawn["patients"]["sex"]) == {"F"}
    assert (drawn["visits"]["score"] >= 45).all()
    assert drawn["visits"].groupby("patient_id").size().min() >= 2
    assert drawn["patients"].attrs["effective_sample_size"] <= 600


def test_a_database_that_was_saved_before_rules_were_kept_draws_as_it_did(fitted, tmp_path):
    loaded = load_tables(fitted[0].save(tmp_path / "clinic.dps"))
    described = json.loads((loaded.folder / generator_files.DATABASE).read_text())
    del described["rules"]
    (loaded.folder / generator_files.DATABASE).write_text(json.dumps(described))
    pd.testing.assert_frame_equal(loaded.sample(50, seed=1)["visits"], fitted[0].sample(50, seed=1)["visits"])


def test_no_real_row_stays_behind_once_it_is_settled(fitted):
    restricted = fitted[2] / "store" / "restricted"
    assert list(restricted.rglob("*.parquet")) == []
    assert list(restricted.rglob("*.npy")) == []


def test_what_was_saved_holds_no_key_of_a_real_row(fitted, tmp_path):
    keys = {f"visit-{n:06d}" for n in range(0, 3000, 7)}
    assert not keys & set(fitted[0].sample(300)["visits"]["visit_id"])


def test_a_fit_that_stopped_half_way_is_gone_on_with_and_learns_nothing_twice(tmp_path, monkeypatch):
    fitter, ledger = synthesizer(tmp_path)
    tables = {name: table for name, table in clinic(500).items() if name != "drugs"}
    relations = {name: RELATIONS[name] for name in tables}
    with monkeypatch.context() as patch:
        patch.setattr(learning, "learn", lambda *given: 1 / 0)
        with pytest.raises(UnexpectedFailure) as stopped:
            fitter.fit(tables, relations=relations)
    (release,) = ledger.releases("patients")
    assert f"resume={release.id!r}" in stopped.value.__notes__[0]
    before = {e.mechanism: e.id for e in ledger.entries("patients")}
    fewer = {**relations, "visits": {**relations["visits"], "max_rows": 1}}
    with pytest.raises(ReleaseStateError, match=r"tables\.visits\.max_rows changed"):
        fitter.fit(tables, relations=fewer, resume=release.id)
    model = fitter.fit(tables, relations=relations, resume=release.id)
    after = {e.mechanism: e.id for e in ledger.entries("patients")}
    assert before.items() <= after.items()
    assert model.release == release.id
    assert model.epsilon <= 4.0
    assert len(model.sample(5)["patients"]) == 5


def test_a_fit_of_a_version_that_counted_no_histories_is_gone_on_with_and_pays_for_nothing_more(tmp_path, monkeypatch):
    fitter, ledger = synthesizer(tmp_path)
    tables = {name: table for name, table in clinic(400).items() if name != "drugs"}
    relations = {name: RELATIONS[name] for name in tables}
    with monkeypatch.context() as patch:
        patch.setattr(stages.CountingTable, "done", lambda *given: True)
        patch.setattr(stages.Settlement, "run", lambda *given: 1 / 0)
        with pytest.raises(UnexpectedFailure):
            fitter.fit(tables, relations=relations)
    (release,) = ledger.releases("patients")
    before = [e.id for e in ledger.entries("patients")]
    model = fitter.fit(tables, relations=relations, resume=release.id)
    assert [e.id for e in ledger.entries("patients")] == before
    assert len(model.sample(5)["patients"]) == 5


def test_a_crash_between_the_settlement_and_the_release_of_weights_loses_nothing(tmp_path, monkeypatch):
    fitter, ledger = synthesizer(tmp_path)
    tables = {name: table for name, table in clinic(400).items() if name != "drugs"}
    relations = {name: RELATIONS[name] for name in tables}
    honest, moved = generator_files.release_to, []

    def dies_at_the_second(learnt, folder):
        if moved:
            raise RuntimeError
        moved.append(folder)
        honest(learnt, folder)

    with monkeypatch.context() as patch:
        patch.setattr(generator_files, "release_to", dies_at_the_second)
        with pytest.raises(UnexpectedFailure):
            fitter.fit(tables, relations=relations)
    (release,) = ledger.releases("patients")
    assert release.state == "settled"
    model = fitter.fit(tables, relations=relations, resume=release.id)
    assert set(model.sample(5)) == set(tables)


def test_a_column_that_identifies_somebody_is_made_anew_in_a_child_table_too(tmp_path):
    fitter, _ = synthesizer(tmp_path)
    tables = {name: table for name, table in clinic(400).items() if name != "drugs"}
    tables["visits"] = tables["visits"].assign(
        email=[f"someone{n}@example.org" for n in range(len(tables["visits"]))],
        badge=[f"B-{n:06d}" for n in range(len(tables["visits"]))],
    )
    drawn = fitter.fit(tables, relations={name: RELATIONS[name] for name in tables}).sample(100)["visits"]
    assert not set(drawn["email"]) & set(tables["visits"]["email"])
    assert not set(drawn["badge"].dropna()) & set(tables["visits"]["badge"])


def test_related_tables_have_a_card_in_the_model_and_after_saving(fitted, tmp_path):
    card = dps.load(fitted[0].save(tmp_path / "c.dps")).card()
    assert card.facts == fitted[0].card().facts
    assert [t["name"] for t in card.facts.tables] == list(RELATIONS)
    assert "these tables" in card.meaning


def test_an_account_that_cannot_pay_refuses_before_anything_is_read(fitted, tmp_path, monkeypatch):
    fitter, ledger = synthesizer(fitted[2])
    before = len(ledger.entries("patients"))
    monkeypatch.setattr(pq, "ParquetFile", None)  # whoever reads rows fails
    with pytest.raises(BudgetExceeded):
        fitter.fit(clinic(50), relations=RELATIONS)
    assert len(ledger.entries("patients")) == before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"visits": {"parent": {"patient": "patients"}}}, "there is no column 'patient'"),
        ({"visits": {"parent": {"patient_id": "persons"}}}, "there is no table 'persons'"),
        ({"visits": {"parent": {"patient_id": "patients"}, "order": "ward"}}, "an order needs a number"),
        ({"visits": {"parent": {"patient_id": "patients", "ward": "wards"}}}, "belongs to one row of one table"),
        ({"visits": {"parent": {"patient_id": "patients"}, "max_rows": 0}}, "max_rows"),
        ({"visits": {"parent": {"patient_id": "patients"}, "colour": 1}}, "colour"),
        (
            {"visits": {"parent": {"patient_id": "patients"}, "columns": {"ward": {"kind": "categry"}}}},
            r"^tables.visits.columns.ward: kind: .* Did you mean category\?$",
        ),
    ],
)
def test_a_mistake_is_refused_by_its_name_and_nothing_is_charged(tmp_path, changes, words):
    fitter, ledger = synthesizer(tmp_path)
    tables = {name: table for name, table in clinic(50).items() if name != "drugs"}
    with pytest.raises(InvalidInput, match=words):
        fitter.fit(tables, relations={"patients": {"key": "patient_id"}, **changes})
    assert all(r.state == "voided" for r in ledger.releases("patients"))
    assert ledger.entries("patients") == []


def test_the_types_of_a_csv_are_measured_and_charged_and_only_an_order_must_be_declared(tmp_path):
    tables = clinic(1200)
    for name, table in tables.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    fitter, ledger = synthesizer(tmp_path)
    names = ("patients", "visits")
    sources = {name: tmp_path / f"{name}.csv" for name in names}
    relations = {name: RELATIONS[name] for name in names}
    with pytest.raises(InvalidInput, match="Declare what it holds"):
        fitter.fit(sources, relations=relations)
    assert ledger.entries("patients") == []
    relations["visits"] = {**relations["visits"], "columns": {"visited": {"kind": "date"}}}
    drawn = fitter.fit(sources, relations=relations).sample(200)
    visited = drawn["visits"]["visited"]
    assert visited.notna().mean() > 0.99, "of an order, dates are as ISO writes them unless a format says otherwise"
    assert visited.min() >= tables["visits"]["visited"].min()
    assert drawn["visits"].groupby("patient_id")["visited"].apply(lambda s: s.is_monotonic_increasing).all()
    assert {"types of patients", "types of visits"} <= {e.mechanism for e in ledger.entries("patients")}
    assert set(drawn["visits"]["ward"].dropna()) <= {"north", "south", "west"}
    assert pd.api.types.is_float_dtype(drawn["visits"]["score"])
    assert drawn["patients"]["born"].iloc[0].year > 1900


def test_a_declared_csv_is_read(tmp_path):
    tables = clinic(400)
    for name, table in tables.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    day, category = {"kind": "date", "format": "%Y-%m-%d"}, {"kind": "category"}
    columns = {
        "patients": {"sex": category, "born": day},
        "visits": {"visited": day, "ward": category, "score": {"kind": "decimal"}},
    }
    fitter, _ = synthesizer(tmp_path)
    relations = {name: {**RELATIONS[name], "columns": facts} for name, facts in columns.items()}
    drawn = fitter.fit({name: tmp_path / f"{name}.csv" for name in columns}, relations=relations).sample(30)
    assert pd.api.types.is_float_dtype(drawn["visits"]["score"])


def test_a_root_without_a_table_is_whom_the_others_name_so_one_table_has_histories(tmp_path):
    """Visits alone: as many a person as real ones have, in order, where single rows would be a person each."""
    visits = clinic(900)["visits"]
    fitter, ledger = synthesizer(tmp_path, epsilon=5.0)
    relations = {"patients": {"key": "patient_id"}, "visits": {**RELATIONS["visits"]}}
    drawn = fitter.fit({"visits": visits}, relations=relations).sample(400)
    assert list(drawn["patients"].columns) == ["patient_id"]
    counts = drawn["visits"].groupby("patient_id").size()
    assert abs(counts.mean() - visits.groupby("patient_id").size().mean()) < 0.5
    assert set(drawn["visits"]["patient_id"]) <= set(drawn["patients"]["patient_id"])
    assert drawn["visits"].groupby("patient_id")["visited"].apply(lambda s: s.is_monotonic_increasing).all()
    assert ledger.releases("patients")[0].state == "settled"


def test_only_a_root_may_lack_its_table(tmp_path):
    fitter, ledger = synthesizer(tmp_path)
    with pytest.raises(InvalidInput, match="name the same tables"):
        fitter.fit({"patients": clinic(50)["patients"]}, relations={n: RELATIONS[n] for n in ("patients", "visits")})
    assert ledger.releases("patients") == []


def test_a_database_under_an_umbrella_charges_it_once_for_all_tables_and_fits_what_it_holds(tmp_path):
    ledger = dps.Ledger.open(f"sqlite:///{tmp_path}/ledger.db")
    ledger.open_account("persons", epsilon=30, delta=1e-5, unit="patient_id", umbrella=True)
    ledger.open_account("patients", epsilon=6, delta=1e-5, under="persons")
    assert ledger.account("persons").order < ledger.account("patients").order
    fitter, _ = synthesizer(tmp_path)
    tables = {name: table for name, table in clinic(400).items() if name != "drugs"}
    model = fitter.fit(tables, relations={name: RELATIONS[name] for name in tables})
    (mirror,) = ledger.releases("persons")
    assert (mirror.mirrors, mirror.state) == (model.release, "settled")
    assert 0 < ledger.balance("persons").cost_spent <= mirror.reserved_cost
    assert len(ledger.entries("persons")) == len(ledger.entries("patients"))
    ledger.verify()


def test_rows_that_a_csv_s_untyped_nulls_would_leave_out_are_refused_with_what_to_declare(tmp_path):
    """Left out once rows are related, one row would shift all rows after it to somebody else's parent."""
    tables = clinic(400)
    tables["patients"].loc[3, "sex"] = None
    for name, table in tables.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    sources = {name: tmp_path / f"{name}.csv" for name in ("patients", "visits")}
    relations = {name: {**RELATIONS[name]} for name in sources}
    relations["visits"]["columns"] = {"visited": {"kind": "date", "format": "%Y-%m-%d"}}
    relations["patients"]["columns"] = {"sex": {"nulls": "drop"}}
    fitter, ledger = synthesizer(tmp_path)
    with pytest.raises(InvalidInput, match="Declare its kind as well"):
        fitter.fit(sources, relations=relations)
    relations["patients"]["columns"] = {}
    relations["visits"]["columns"]["score"] = {"kind": "decimal"}
    relations["visits"]["columns"]["ward"] = {"after": "score"}
    with pytest.raises(InvalidInput, match=r"'ward' is after 'score'.*Declare what 'ward' is as well"):
        fitter.fit(sources, relations=relations)
    relations["visits"]["columns"]["ward"] = {"same_as": "visited", "part": "month"}
    with pytest.raises(InvalidInput, match=r"columns: {ward: {kind: integer}}"):
        fitter.fit(sources, relations=relations)
    relations["patients"]["columns"] = {"sex": {"nulls": "drop"}, "born": {"nulls": "drop"}}
    with pytest.raises(InvalidInput) as refused:
        fitter.fit(sources, relations=relations)
    told = [line.partition(" has ")[0].partition(" is ")[0] for line in str(refused.value).splitlines()]
    assert told == [
        f"tables.{table}: columns: {c!r}"
        for table, c in (("patients", "sex"), ("patients", "born"), ("visits", "ward"))
    ]
    assert ledger.entries("patients") == []
    del relations["visits"]["columns"]["ward"]
    relations["patients"]["columns"] = {"sex": {"kind": "category", "nulls": "drop"}}
    assert len(fitter.fit(sources, relations=relations).sample(20)["patients"]) == 20


def test_a_source_that_cannot_be_read_to_its_end_is_one_sentence_and_its_reservation_stays(tmp_path, monkeypatch):
    """Why it failed is a fact about rows, so it is told beside them, to their owner alone."""

    def broken(*given):
        raise InvalidInput("while looking at 5001")

    monkeypatch.setattr(relating, "relate", broken)
    fitter, ledger = synthesizer(tmp_path)
    with pytest.raises(ReadingFailed) as told:
        fitter.fit(clinic(50), relations=RELATIONS)
    assert "5001" not in str(told.value)
    assert [r.state for r in ledger.releases("patients")] == ["reserved"]
    (details,) = (tmp_path / "store" / "restricted").rglob("reading-failed.txt")
    assert "5001" in details.read_text()
    assert details.stat().st_mode & 0o077 == 0


def test_what_hangs_on_the_order_of_a_table_comes_back_around_it(tmp_path):
    """A visit's discharge is coded as its offset from the day by which visits follow each other."""
    tables = clinic(300)
    visits = tables["visits"]
    day = pd.to_datetime(visits["visited"])
    stay = pd.Series(range(len(visits))) % 4
    visits["discharged"] = (day + pd.to_timedelta(stay.where(stay > 0), unit="D")).dt.date
    visits["arrived"] = day + pd.to_timedelta(8 + stay, unit="h")
    visits["billed"] = visits["discharged"]
    hangs = {"discharged": {"after": "visited"}, "arrived": {"after": "visited"}, "billed": {"same_as": "discharged"}}
    fitter, _ = synthesizer(tmp_path)
    relations = {"patients": RELATIONS["patients"], "visits": {**RELATIONS["visits"], "columns": hangs}}
    model = fitter.fit({name: tables[name] for name in relations}, relations=relations)
    drawn = model.sample(300)["visits"]
    assert list(drawn.columns) == list(visits.columns)
    visited, discharged = pd.to_datetime(drawn["visited"]), pd.to_datetime(drawn["discharged"])
    assert drawn["billed"].equals(drawn["discharged"])
    known = discharged.notna()
    assert (discharged >= visited)[known].all()
    assert (drawn["arrived"] >= visited).all()
    assert ((discharged - visited).dt.days[known] <= 40).mean() > 0.9  # days apart, not the 300 over which visits lie
