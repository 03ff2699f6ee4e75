"""Numbers that others give: found with the profile, charged once, told, and kept in every row that is drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dp_synth_pipeline as dps
from dp_synth_pipeline.synthesis import generator_files, profile_cache
from dp_synth_pipeline.synthesis.reading import COMPUTED
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.synthesizer import SyntheticModel

TOTAL = "total = price * pieces"


def orders(rows: int = 3_000) -> pd.DataFrame:
    rng = np.random.default_rng()
    price, pieces = np.round(rng.lognormal(3, 0.5, rows), 2), rng.integers(1, 9, rows)
    return pd.DataFrame({"price": price, "pieces": pieces, "total": np.round(price * pieces, 2)})


class Place:
    def __init__(self, folder: Path) -> None:
        self.store, self.ledger = Store(folder / "store"), dps.Ledger.open(f"sqlite:///{folder / 'ledger.db'}")
        self.ledger.open_account("orders", epsilon=100, delta=1e-5)

    def fit(self, source: Any = None, **terms: Any) -> SyntheticModel:
        how = {"training": {"method": "marginals"}, "show": False, **terms}
        fitter = dps.Synthesizer("orders", 4.0, self.ledger, store=self.store, table="orders", **how)
        return fitter.fit(orders() if source is None else source)

    def mechanisms(self) -> list[str]:
        last = list(self.ledger.releases("orders"))[-1]
        return [entry.mechanism for entry in self.ledger.entries(release_id=last.id)]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def kept(rows: pd.DataFrame) -> float:
    whole = rows.dropna()
    return float((np.abs(whole["total"] - whole["price"] * whole["pieces"]) < 0.0051).mean())


def test_a_total_is_found_charged_told_and_kept_in_each_draw(place: Place, tmp_path: Path) -> None:
    model = place.fit()
    assert place.mechanisms()[:3] == ["row count", "formulas", "profile"]
    assert generator_files.facts(place.store.releasable("orders") / generator_files.FOLDER)["rules"] == [TOTAL]
    assert kept(model.sample(500)) == 1
    assert kept(model.sample(100, where="pieces > 4")) == 1
    assert kept(model.complete(pd.DataFrame({"price": [9.99] * 50, "pieces": [3] * 50}))) == 1
    model.save(tmp_path / "orders.dps")
    assert kept(dps.load(tmp_path / "orders.dps").sample(200)) == 1
    assert any(TOTAL in limit for limit in model.card().limits)


def test_a_refresh_that_reuses_the_profile_keeps_what_was_found_with_it_at_no_charge(place: Place) -> None:
    place.fit()
    again = place.fit()
    assert "formulas" not in place.mechanisms()
    assert kept(again.sample(300)) == 1
    assert any(TOTAL in limit for limit in again.card().limits)
    lineage = place.ledger.lineage(list(place.ledger.releases("orders"))[-1].id)
    assert "formulas" in [entry.mechanism for entry in lineage.earlier]


def test_a_profile_that_was_kept_before_there_were_formulas_is_reused_without(place: Place) -> None:
    place.fit(validation={"find_formulas": False})
    assert "formulas" not in place.mechanisms()
    path = place.store.releasable("orders") / profile_cache.FACTS
    facts = json.loads(path.read_text())
    del facts["formulas"]
    path.write_text(json.dumps(facts))
    again = place.fit()
    assert place.mechanisms()[0] == "marginals"
    assert kept(again.sample(500)) < 0.5


@pytest.mark.parametrize(
    "validation",
    [{"find_formulas": False}, {"enforce_rules": False}],
    ids=["not wanted", "no rules are kept"],
)
def test_nothing_is_looked_for_that_nobody_needs(place: Place, validation: dict[str, Any]) -> None:
    model = place.fit(validation=validation)
    assert "formulas" not in place.mechanisms()
    assert kept(model.sample(500)) < 0.5
    assert not any(TOTAL in limit for limit in model.card().limits)


def test_what_a_person_declared_is_not_found_once_more(place: Place) -> None:
    model = place.fit(validation={"rules": [TOTAL]})
    assert kept(model.sample(500)) == 1
    assert not any(TOTAL in limit for limit in model.card().limits)


def test_what_was_found_gives_way_to_what_a_person_declares_later(place: Place) -> None:
    place.fit()
    again = place.fit(validation={"rules": ["total = pieces"]})
    assert not any(TOTAL in limit for limit in again.card().limits)
    drawn = again.sample(200).dropna()
    assert (drawn["total"] == drawn["pieces"]).all()


def test_the_same_is_found_in_text_whose_types_are_measured(place: Place, tmp_path: Path) -> None:
    orders().to_csv(tmp_path / "orders.csv", index=False)
    model = place.fit(tmp_path / "orders.csv")
    assert place.mechanisms()[:4] == ["row count", "types", "formulas", "profile"]
    assert kept(model.sample(300)) == 1


def test_the_terminal_says_what_was_found(shell) -> None:
    orders().to_parquet(shell.folder / "orders.parquet")
    done = shell(
        "synthesize", "orders.parquet", "--out", "o.parquet", "--epsilon", 4, "--open-account", "--purpose", "testing"
    )
    assert done.code == 0, done.text
    assert f"{COMPUTED}: {TOTAL}." in " ".join(done.text.split())
    assert kept(pd.read_parquet(shell.folder / "o.parquet")) == 1
