"""A column of many towns, through whole runs: named by a closer look, charged for it once, and covered by a plan."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.synthesis import profile_cache
from dp_synth_pipeline.tabular.profiling import profile_plan
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from tests.integration.conftest import failure, people

ROWS, TOWNS = 30_000, 600


@pytest.fixture
def towns(bench):
    """Fifty rows for each town: too few for a full histogram's threshold (some 80 at epsilon 4), not for a closer one's."""
    people(ROWS).assign(city=[f"town {i % TOWNS}" for i in range(ROWS)]).to_parquet(bench.folder / "people.parquet")
    return bench


def looks(bench, release) -> list[int]:
    """How many histograms a release counted with a closer look's noise."""
    entries = [e for e in bench.ledger.entries(release_id=release.id) if e.mechanism == "profile"]
    counted = [e for entry in entries for e in entry.events if isinstance(e, Gaussian)]
    closer = [e for e in counted if e.noise < counted[0].noise]
    assert all(e.noise == pytest.approx(profile_plan.REFINEMENT * counted[0].noise) for e in closer)
    return [e.count for e in closer]


def said(ran) -> dict:
    return {"events": [one.event for one in ran], "mechanisms": [one.mechanism for one in ran]}


def kept(bench) -> TableProfile:
    return TableProfile.from_json((bench.store / "releasable/people" / profile_cache.PROFILE).read_text())


def test_many_towns_are_named_charged_once_and_covered_by_a_plan_of_what_ran(towns):
    result = towns.refresh()
    assert result.success, failure(result)
    assert towns.refresh().success
    first, second = towns.ledger.releases("people")
    assert looks(towns, first) == [1]
    assert looks(towns, second) == [], "the profile is kept"
    # Each town's noisy count lies 2 deviations above the threshold, so nearly all of them are named.
    assert len(kept(towns)["city"].values) > 0.8 * TOWNS
    drawn = pq.read_table(towns.store / "releasable/people/synthetic.parquet").column("city").to_pylist()
    assert len(set(drawn)) > 0.8 * TOWNS

    ran = [one for entry in towns.ledger.entries(release_id=first.id) for one in entry.tagged]
    towns.ledger.open_account("planned", epsilon=10.0, delta=1e-4, why="test")
    towns.ledger.declare_plan("planned", name="weekly", times=1, **said(ran), why="test", who="test")
    planned = towns.refresh(account="planned", plan="weekly")
    assert planned.success, failure(planned).user_failure_data.description
    (used,) = towns.ledger.releases("planned")
    assert looks(towns, used) == [1]
    towns.ledger.verify()


def test_declared_towns_are_not_looked_at_closer(towns):
    names = [f"town {i}" for i in range(TOWNS)]
    result = towns.refresh(columns={"person": {"kind": "excluded"}, "city": {"categories": names}})
    assert result.success, failure(result)
    (release,) = towns.ledger.releases("people")
    assert looks(towns, release) == []
    found = kept(towns)["city"]
    assert len(found.values) == TOWNS
    assert np.isclose(sum(found.weights) + found.other + found.null_rate, 1)
