"""Columns that hang on others, through a whole release: order, gap and equality in every way to draw rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import yaml

import dp_synth_pipeline as dps
from dp_synth_pipeline.errors import InvalidInput, Unlearnable
from dp_synth_pipeline.synthesis.schema_inference import infer, to_yaml
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.synthesis.store import Store

ROWS = 3_000
HANGS = {
    "visited": {"same_as": "arrived"},
    "discharged": {"after": "visited"},
    "billed": {"after": "discharged", "nulls": "keep"},
    "net": {},
    "gross": {"after": "net"},
}


def visits(rows: int = ROWS) -> pd.DataFrame:
    """A made-up register: a stay of 1 to 9 days, or none; a bill at discharge, or a month later; a tax of a fifth."""
    rng = np.random.default_rng(3)
    day = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 500, rows), unit="D")
    stay = pd.Series(rng.integers(1, 10, rows), dtype="Int64").where(pd.Series(rng.random(rows) < 0.5))
    discharged = day + pd.to_timedelta(stay, unit="D")
    net = np.round(rng.gamma(4, 25, rows), 2)
    return pd.DataFrame(
        {
            "arrived": day + pd.to_timedelta(rng.integers(7 * 60, 20 * 60, rows), unit="m"),
            "visited": day.date,
            "discharged": discharged.dt.date,
            "billed": (discharged + pd.to_timedelta(np.where(rng.random(rows) < 0.7, 0, 30), unit="D")).dt.date,
            "net": net,
            "gross": np.round(net * np.where(rng.random(rows) < 0.4, 1, 1.2), 2),
            "ward": rng.choice(["north", "south"], rows),
        }
    )


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    ledger = dps.Ledger.open(f"sqlite:///{tmp_path_factory.mktemp('ledger')}/ledger.db")
    ledger.open_account("visits", epsilon=40, delta=1e-5)
    return ledger


def fitter(ledger, folder, **changes):
    how = {"columns": HANGS, "training": {"method": "marginals"}, "show": False, "table": "visits", **changes}
    return dps.Synthesizer("visits", 8.0, ledger, store=Store(folder / "store"), **how)


@pytest.fixture(scope="module")
def model(tmp_path_factory, ledger):
    folder = tmp_path_factory.mktemp("visits")
    fitter(ledger, folder).fit(visits()).save(folder / "visits.dps")
    return dps.load(folder / "visits.dps")


def hangs_together(rows: pd.DataFrame) -> None:
    visited, discharged, billed = (pd.to_datetime(rows[n]) for n in ("visited", "discharged", "billed"))
    assert (visited == rows["arrived"].dt.normalize()).all()
    assert (discharged.isna() | (discharged >= visited)).all()
    assert (billed.isna() | (billed >= discharged)).all()
    assert (rows["gross"].isna() | (rows["gross"] >= rows["net"])).all()
    assert rows["gross"].isna().mean() < 0.05  # where there is none, noise tells of a few once in some 700 releases


def test_order_gap_and_equality_come_back(model):
    rows = model.sample(4_000, seed=1)
    hangs_together(rows)
    assert list(rows.columns) == list(visits().columns)
    known = rows.dropna(subset=["discharged", "billed"])
    stay = (pd.to_datetime(known["discharged"]) - pd.to_datetime(known["visited"])).dt.days
    assert stay.median() == pytest.approx(5, abs=1)
    assert stay.between(1, 9).mean() > 0.95
    bill = (pd.to_datetime(known["billed"]) - pd.to_datetime(known["discharged"])).dt.days
    assert (bill == 0).mean() == pytest.approx(0.7, abs=0.1)
    assert (bill == 30).mean() == pytest.approx(0.3, abs=0.1)
    assert (rows["gross"] == rows["net"]).mean() == pytest.approx(0.4, abs=0.1)
    assert rows["discharged"].isna().mean() == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(
    "where",
    [
        "discharged >= DATE '2023-06-01' AND discharged < DATE '2023-09-01'",
        "visited = DATE '2023-03-04'",
        "discharged - visited >= 8",
        "billed IS NULL AND ward = 'north'",
    ],
)
def test_conditions_hold_of_what_was_decoded(model, where):
    rows = model.sample(60, where=where, seed=2)
    hangs_together(rows)
    condition = where.replace("discharged - visited >= 8", "true")
    found = rows.assign(discharged=pd.to_datetime(rows["discharged"]))
    if condition == "true":
        assert ((found["discharged"] - pd.to_datetime(rows["visited"])).dt.days >= 8).all()
    elif "2023-06" in where:
        assert found["discharged"].between("2023-06-01", "2023-08-31").all()
    elif "visited" in where:
        assert (pd.to_datetime(rows["visited"]) == "2023-03-04").all()
    else:
        assert rows["billed"].isna().all()


def test_filled_cells_are_placed_around_known_ones(model):
    day = pd.Timestamp("2023-05-05")
    partial = pd.DataFrame(
        {
            "arrived": [day + pd.Timedelta(hours=9), pd.NaT, pd.NaT],
            "visited": [None, day.date(), None],
            "discharged": [None, None, (day + pd.Timedelta(days=4)).date()],
            "net": [None, 10.0, None],
            "gross": [20.0, None, 30.0],
        }
    )
    whole = model.complete(partial, seed=3)
    known = partial.notna()
    assert (
        (whole[partial.columns].astype(str).where(known) == partial.astype(str).where(known))
        .where(known, True)
        .all()
        .all()
    )
    assert whole.notna().all().all()
    hangs_together(whole.assign(arrived=pd.to_datetime(whole["arrived"])))
    assert (pd.to_datetime(whole["visited"])[:2] == day).all()
    assert abs((pd.to_datetime(whole["visited"])[2] - day).days) < 30


def test_rows_that_are_never_drawn_have_no_likelihood(model):
    rows = model.sample(40, seed=4)
    assert np.isfinite(model.log_likelihood(rows)).all()
    other = rows.assign(visited=[d + pd.Timedelta(days=1) for d in rows["visited"]])
    before = rows.assign(gross=rows["net"] - 1)
    for broken in (other, before):
        assert np.isneginf(model.log_likelihood(broken)).all()


def test_a_model_counts_the_columns_that_it_publishes_and_not_what_it_sees_of_them(model):
    assert ", of 7 columns<" in model._repr_html_(), "visited is the same as arrived, and is published"


def test_rules_are_kept_by_rows_that_still_hang_together(model, tmp_path, ledger):
    rules = {"rules": ["discharged <= 2023-08-01", "visited >= 2023-03-01"]}
    ruled = fitter(ledger, tmp_path, validation=rules).fit(visits())
    rows = ruled.sample(500)
    hangs_together(rows)
    assert (pd.to_datetime(rows["visited"]) >= "2023-03-01").all()
    discharged = pd.to_datetime(rows["discharged"])
    assert (discharged.isna() | (discharged <= "2023-08-01")).all()


def test_a_profile_is_reused_while_the_declaration_stands(tmp_path, ledger):
    for hangs, entries in ((HANGS, 3), (HANGS, 1), ({**HANGS, "billed": {"after": "visited"}}, 3)):
        fitted = fitter(ledger, tmp_path, columns=hangs).fit(visits())
        charged = ledger.entries(release_id=fitted.card().facts.release)
        assert len(charged) == entries, [e.mechanism for e in charged]


def test_the_types_of_a_csv_are_measured_before_its_offsets(tmp_path, ledger):
    visits().to_csv(tmp_path / "visits.csv", index=False)
    rows = fitter(ledger, tmp_path).fit(tmp_path / "visits.csv").sample(500)
    assert str(rows["arrived"].dtype).startswith("datetime64")
    hangs_together(rows)


def test_what_the_types_of_a_csv_show_to_be_impossible_is_told_with_them(tmp_path, ledger):
    """That one column holds text is measured, so it is known once that was charged; the rest is given back."""
    visits().to_csv(tmp_path / "visits.csv", index=False)
    with pytest.raises(Unlearnable, match=r"'discharged': after: .* 'ward' is of kind category"):
        fitter(ledger, tmp_path, columns={"discharged": {"after": "ward"}}).fit(tmp_path / "visits.csv")


def test_the_card_says_what_a_null_base_costs(model):
    assert any(
        "hangs on a null one comes out null: visited, discharged" in limit for limit in model.card().facts.limits
    )


def test_an_inferred_schema_repeats_what_was_declared(tmp_path, ledger):
    visits().to_parquet(tmp_path / "visits.parquet")
    settings = ReleaseSettings(
        table="visits", source=str(tmp_path / "visits.parquet"), account="visits", epsilon=2, columns=HANGS
    )
    found = infer(ledger, Store(tmp_path / "store"), settings)
    columns = yaml.safe_load(to_yaml(found, settings))["columns"]
    assert columns["discharged"] == {"kind": "date", "after": "visited"}
    assert columns["visited"] == {"kind": "date", "same_as": "arrived"}


def test_a_circle_is_refused_before_anything_is_charged(tmp_path, ledger):
    before = len(ledger.entries("visits"))
    circle = {"visited": {"same_as": "discharged"}, "discharged": {"after": "visited"}}
    with pytest.raises(InvalidInput, match="hangs on itself"):
        fitter(ledger, tmp_path, columns=circle).fit(visits())
    assert len(ledger.entries("visits")) == before
