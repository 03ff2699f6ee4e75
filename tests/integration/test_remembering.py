"""A refresh that remembers, from its rows to its card: what it measures, charges, combines, starts from and says."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import numpy as np
import pytest

from dp_synth_pipeline.ledger import Entry, Ledger
from dp_synth_pipeline.model import artifact
from dp_synth_pipeline.model.autoregressive.generator import Generator
from dp_synth_pipeline.model.marginals import storage
from dp_synth_pipeline.model.marginals.remembering import Memory
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.synthesis import generator_files, memory
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.synthesizer import Synthesizer, SyntheticModel
from tests.integration.conftest import Bench, people

ROWS = people()[["age", "city", "smoker", "score"]]
ALONE = {"training": {"method": "marginals"}}
"""Releases without training, where a test is not about the network."""


class Place:
    def __init__(self, folder: Path) -> None:
        self.ledger, self.store = Ledger.open(f"sqlite:///{folder}/ledger.db"), Store(folder / "store")
        self.ledger.open_account("people", epsilon=10.0, delta=1e-4)
        self.generator = folder / "store" / "releasable" / "people" / "generator"

    @property
    def learnt(self) -> Generator:
        found, _ = artifact.load(self.generator)
        assert isinstance(found, Generator)
        return found

    def fit(self, rows: Any = ROWS, **changes: Any) -> SyntheticModel:
        terms = {"refresh": {"remember": True, "epsilon": 0.5}, "training": {"max_epochs": 1}, **changes}
        fitter = Synthesizer("people", 3.0, self.ledger, table="people", store=self.store, show=False, **terms)
        return fitter.fit(rows)

    def entries(self, number: int) -> list[Entry]:
        return list(self.ledger.entries(release_id=self.ledger.releases("people")[number].id))

    def known(self) -> tuple[Memory, list[str]]:
        found = storage.load_memory(self.generator / generator_files.MEMORY)
        return found, generator_files.facts(self.generator)["memory"]["releases"]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_refresh_goes_on_from_the_one_before_it(place, monkeypatch):
    place.fit()
    assert [e.mechanism for e in place.entries(0)] == ["row count", "profile", "marginals", "training"]
    network, (before, _), measured = place.learnt.proposal, place.known(), []
    updated = Memory.updated
    monkeypatch.setattr(Memory, "updated", lambda known, new: measured.append(new) or updated(known, new))
    card = place.fit().card()

    first, second = place.ledger.releases("people")
    assert (first.epsilon, second.epsilon) == (3.0, 0.5)
    (entry,) = place.entries(1)
    (event,) = entry.events
    assert isinstance(event, Gaussian), "all that it may spend goes into the marginals that are remembered"
    assert 0.49 < second.final_epsilon <= 0.5
    assert set(entry.upon) >= {e.id for e in place.entries(0)}
    learnt = place.learnt
    assert all((p == q).all() for p, q in zip(learnt.proposal.parameters(), network.parameters(), strict=True))
    (new,) = measured
    assert learnt.tilt is not None
    assert learnt.tilt.layout == before.layout
    assert new.layout == before.layout
    assert new.scale == pytest.approx(event.noise_multiplier * len(new.layout.cliques) ** 0.5, rel=1e-6)
    known, releases = place.known()
    alone = before.updated(new)  # a function of released numbers, with no row in reach
    assert np.array_equal(known.shares, alone.shares)
    assert np.array_equal(known.variance, alone.variance)
    assert releases == [first.id, second.id]

    events = [v for e in (entry, *place.entries(0)) for v in e.events]
    assert card.facts.epsilon == pytest.approx(accountant.epsilon(events, second.final_delta), rel=1e-6)
    assert card.facts.added_epsilon == second.final_epsilon < first.final_epsilon < card.facts.epsilon
    assert {m["release"] for m in card.facts.reused} == {first.id}
    assert any("earlier releases of this account are combined" in s and first.id[:12] in s for s in card.limits)


def test_other_columns_begin_anew_and_the_card_says_why(place):
    place.fit(**ALONE)
    with pytest.warns(UserWarning, match="begins anew"):
        card = place.fit(ROWS.drop(columns="score"), **ALONE).card()
    assert [e.mechanism for e in place.entries(1)] == ["row count", "profile", "marginals"]
    assert card.facts.reused == []
    assert any("begins anew" in s and memory.OTHER_CODES in s for s in card.limits)
    assert place.known()[1] == [place.ledger.releases("people")[1].id]


def test_a_table_that_is_another_one_by_now_begins_anew_and_counts_what_told_it_so(place, monkeypatch):
    place.fit(**ALONE)
    monkeypatch.setattr(Memory, "lost", property(lambda _: True))
    with pytest.warns(UserWarning, match="begins anew"):
        card = place.fit(**ALONE).card()
    first, second = place.ledger.releases("people")
    assert any(memory.DRIFTED in s for s in card.limits)
    assert {m["release"] for m in card.facts.reused} == {first.id}
    assert place.known()[1] == [second.id]


def test_what_is_remembered_is_on_record_before_rows_are_looked_at(place, monkeypatch):
    place.fit(**ALONE)
    seen = []

    def stopped(release: Release, *_: object) -> None:
        seen.append(release.upon)
        raise KeyboardInterrupt

    monkeypatch.setattr(Release, "charge", stopped)
    with pytest.raises(KeyboardInterrupt):
        place.fit(**ALONE)
    assert set(seen[0]) >= {e.id for e in place.entries(0)}


def test_a_refresh_draws_as_many_rows_as_the_noisy_counts_tell_that_a_table_has_by_now(bench: Bench) -> None:
    bench.ledger.open_account("weeks", epsilon=60.0, delta=1e-4)
    terms = {**ALONE, "account": "weeks", "epsilon": 20.0, "refresh": {"remember": True}}
    terms |= {"columns": {name: {"kind": "excluded"} for name in people() if name not in ROWS}}
    for rows in (600, 600, 900):
        people(rows).to_parquet(bench.folder / "people.parquet")
        assert bench.refresh(**terms).success
        drawn = bench.store / "releasable/people/synthetic.parquet"
        ((told,),) = duckdb.sql(f"SELECT count(*) FROM '{drawn}'").fetchall()
        known = storage.load_memory(bench.store / "releasable/people/generator" / generator_files.MEMORY)
        assert 10 * math.sqrt(known.rows.variance) < 60
        assert told == pytest.approx(rows, abs=60), "ten deviations"


def test_a_refresh_warns_of_a_table_that_moved_and_publishes_it(bench: Bench) -> None:
    bench.ledger.open_account("weeks", epsilon=60.0, delta=1e-4)
    terms = {**ALONE, "account": "weeks", "epsilon": 20.0, "refresh": {"remember": True}}
    terms |= {"columns": {name: {"kind": "excluded"} for name in people() if name not in ROWS}}

    def drift() -> dg.AssetCheckEvaluation:
        result = bench.refresh(**terms)
        assert result.success
        return next(e for e in result.get_asset_check_evaluations() if e.check_name == "drift")

    assert drift().passed, "there is none before it"
    stayed = drift()
    assert stayed.passed
    people().assign(city="Oslo").to_parquet(bench.folder / "people.parquet")
    moved = drift()
    assert not moved.passed
    assert moved.severity is dg.AssetCheckSeverity.WARN
    assert moved.metadata["moved"].value > 10 * stayed.metadata["moved"].value
    assert next(iter(moved.metadata["furthest"].value)) == "city"
