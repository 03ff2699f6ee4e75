"""The whole pipeline on neighbouring tables, 500 times each: nothing released tells them apart beyond the claim.

One person is added who is unlike everybody else: the only one with a category, a column's maximum by far, and the only
null. Each run takes the true path of a declared plan, noise and all: count, profile, nulls, codec, noisy measuring, DP-SGD,
drawing. The attacker sees everything that is released, knows both tables, and knows even the weights that training started
from. The snapshots, and the counts within them that do not change from run to run, are read once.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from dp_synth_pipeline.model.autoregressive import initialization
from dp_synth_pipeline.model.autoregressive.generator import Generator
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.base import Released
from dp_synth_pipeline.model.marginals import measuring
from dp_synth_pipeline.privacy.events import DiscreteLaplace, Event, Gaussian, SubsampledGaussian
from dp_synth_pipeline.synthesis import release_plan
from dp_synth_pipeline.synthesis.allocation import Declared
from dp_synth_pipeline.synthesis.mechanisms.marginals import Marginals
from dp_synth_pipeline.synthesis.mechanisms.profile import Profile
from dp_synth_pipeline.synthesis.mechanisms.row_count import RowCount
from dp_synth_pipeline.synthesis.mechanisms.training import Training
from dp_synth_pipeline.synthesis.protection import LedgerProtection
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.release_plan import PROFILE, ROW_COUNT, ReleasePlan
from dp_synth_pipeline.synthesis.run_state import RunState, dump_schema
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.tabular.encoding import nulls
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling import measure
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan
from dp_synth_pipeline.tabular.sources.ingestion import Snapshot
from tests.adversarial.distinguish import Claim, Distinguished, check, check_in_turn, unprobed  # noqa: F401
from tests.lanes import one_now
from tests.unit.tabular.snapshots import Remembering, take

RUNS = 500
"""On each table; half of them to choose an attack, half to measure it."""

MUTANT = 250
"""Runs that convict a mutant; each step has mutants of its own in test_distinguish_profile and test_distinguish_training."""

ROWS = 40
DECLARED: dict[str, Any] = {
    "age": {"lower": 0, "upper": 127, "nulls": "mean"},
    "paid": {"lower": 1, "upper": 4096, "decimals": 2},
}
SPEC = GeneratorSpec(hidden=3, embedding=2, optimizer="sgd", learning_rate=0.05, averaging=0.0)
SETTINGS = ReleaseSettings(table="people", source="people.parquet", account="people", epsilon=3.0)
MARGINALS, TRAINING = Gaussian(3.0), SubsampledGaussian(2.0, 0.5, 3)


def people() -> dict[str, list[Any]]:
    return {
        "place": [("Ulm", "Bonn", "Ulm")[i % 3] for i in range(ROWS)],
        "age": [20 + i for i in range(ROWS)],
        "paid": [4.5 + i % 8 for i in range(ROWS)],
        "visits": [i % 2 == 0 for i in range(ROWS)],
    }


CANARY = {"place": "canary", "age": None, "paid": 4000.25, "visits": True}


@dataclass
class Side:
    """One of the two tables, with what does not change from run to run."""

    snapshot: Snapshot
    counts: Remembering
    completed: dict[Any, Path] = field(default_factory=dict)

    def complete(self, profile: TableProfile) -> Path:
        """Complete the snapshot, once for each set of values that fill its nulls."""
        schema = self.snapshot.schema
        fills = tuple(nulls.fill_value(c, profile[c.name]) for c in schema.learned)
        if fills not in self.completed:
            out = self.snapshot.path.with_name(f"completed-{len(self.completed)}.parquet")
            self.completed[fills] = nulls.complete(self.snapshot.path, schema, profile, out)
        return self.completed[fills]


@pytest.fixture(scope="module")
def sides() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        without = people()
        tables = [without, {k: [*v, CANARY[k]] for k, v in without.items()}]
        taken = [take(pa.table(t), Path(folder) / str(i), DECLARED) for i, t in enumerate(tables)]
        yield tuple(Side(s, Remembering(s.path)) for s in taken)


@pytest.fixture(scope="module")
def events(sides: tuple[Side, Side]) -> tuple[Event, ...]:
    """The declared plan: everything that one release performs, so everything that the ledger charges."""
    schema = sides[0].snapshot.schema
    return (DiscreteLaplace(2.0), *ProfilePlan(None, 4.0, 1e-4).histogram_events(schema), MARGINALS, TRAINING)


@pytest.fixture(scope="module")
def claim(events: tuple[Event, ...]) -> Claim:
    return Claim.of(events, (0.001, 0.05, 0.2, 0.35, 0.5), fixed=True)


class Paid(LedgerProtection):
    """A use of a declared plan that is paid for already: this is about what is released, not about who pays."""

    def __init__(self, events: tuple[Event, ...]) -> None:
        self.settings, self._events = SETTINGS, events

    def record(self, release_id: str) -> Any:
        return SimpleNamespace(state="started", relation="add-remove", run_id="run")

    def allocation(self, release_id: str) -> Declared:
        tags = [ROW_COUNT, *[PROFILE] * (len(self._events) - 3), release_plan.MARGINALS, release_plan.TRAINING]
        return Declared(SETTINGS, ReleasePlan.of(self._events, tags), 3.0, 1e-5)

    def charge(self, *args: Any, **rest: Any) -> None:
        return None

    def entries(self, release_id: str) -> tuple[()]:
        return ()

    def upon(self, state: RunState) -> list[str]:
        return []


def release(side: Side, events: tuple[Event, ...]) -> list[float]:
    """Run every mechanism once, as the stages of a release do, and return the scores of what it released."""
    snapshot, schema = side.snapshot, side.snapshot.schema
    state = RunState("release", dump_schema(schema), units=snapshot.units).with_(snapshot=snapshot.path)
    made = Release(SETTINGS, Paid(events), Store(snapshot.path.parent), state)
    population = RowCount().perform(made)
    assert population is not None
    profile = Profile(population).perform(made)
    assert profile is not None
    codec, completed = TableCodec(schema, profile), side.complete(profile)
    completed.with_name("encoded").unlink(missing_ok=True)  # the codes of the run before
    file = completed.with_name("profile.json")
    file.write_text(profile.to_json())
    made.state = made.state.with_(completed=completed, profile=file)
    measured = Marginals(made.columns, profile).perform(made)
    assert measured is not None
    # Fitting and raking to the measured pairs are post-processing, and slow; the attacker sees the pairs themselves.
    released = Released(codec.marginals(), orders=codec.orders())
    network = initialization.begin(codec.cardinalities, SPEC, released)
    network.mix()  # the attacker knows what is learnt, and looks there
    grads, first = gradient(network, codec, schema), [p.detach().clone() for p in network.parameters()]
    trained = Generator(network)
    network.settle()
    Training.of(made, codec, SPEC, population).train(trained)
    trained.proposal.mix()
    moves = zip(grads, trained.proposal.parameters(), first, strict=True)
    along = sum(((after.detach() - before) * g).sum() for g, after, before in moves)
    trained.proposal.settle()
    drawn = list(trained.draw(profile.rows, forbidden=codec.forbidden))
    rows = codec.decode(np.concatenate(drawn))
    return [*seen_in_profile(profile), *seen_in_pairs(measured, codec, schema), float(along), *seen_in_rows(rows)]


def seen_in_profile(profile: TableProfile) -> list[float]:
    scores = [float(profile.population), float(profile.rows)]
    for column in profile.columns:
        shown = dict(zip(column.values, column.weights, strict=True))
        scores += [column.null_rate, column.other, len(shown), len(column.bins), max(column.weights, default=0.0)]
        if column.kind.numeric:
            scores += [column.lower or 0.0, column.upper or 0.0, column.mean or 0.0, *cumulated(column)]
    place = profile["place"]
    named = dict(zip(place.values, place.weights, strict=True))
    return [*scores, *(named.get(k, -1.0) for k in ("canary", "Ulm", "Bonn"))]


def cumulated(column: ColumnProfile) -> list[float]:
    """The probability up to a few points of the number line."""
    lows = np.array([*column.values, *(a for a, _ in column.bins)], dtype=float)
    mass = np.array([*column.weights, *column.bin_weights])
    return [float(mass[lows < end].sum()) for end in (8, 16, 32, 64, 1024, 2048)]


def canary_codes(codec: TableCodec, schema: Any) -> np.ndarray:
    arrays = [pa.array([CANARY[c.name]], pa.string() if c.name == "place" else c.arrow_type) for c in schema.learned]
    return codec.encode(pa.RecordBatch.from_arrays(arrays, names=[c.name for c in schema.learned])).astype(np.int64)


def gradient(network: AutoregressiveNetwork, codec: TableCodec, schema: Any) -> list[torch.Tensor]:
    """The direction in which the canary pushes the weights."""
    loss = network.losses(torch.from_numpy(canary_codes(codec, schema))).sum()
    grads = torch.autograd.grad(loss, list(network.parameters()))
    size = torch.cat([g.flatten() for g in grads]).norm() + 1e-9
    return [g / size for g in grads]


def seen_in_pairs(measured: measuring.Marginals, codec: TableCodec, schema: Any) -> list[float]:
    """The counts of the cells that the canary is in, pair by pair and in all."""
    cells = measured.counts[measured.layout.index(canary_codes(codec, schema))[0]]
    padded = np.zeros(6)
    padded[: len(cells)] = cells
    return [*padded.tolist(), float(cells.sum()), float(measured.counts.sum())]


def seen_in_rows(rows: pa.RecordBatch) -> list[float]:
    place, age, paid = (rows.column(n).to_pylist() for n in ("place", "age", "paid"))
    numbers = [p for p in paid if p is not None]
    ages = [a for a in age if a is not None]
    return [
        float(len(place)),
        float(place.count("canary")),
        float(place.count("Ulm")),
        float(age.count(None)),
        float(sum(ages)),
        float(max(numbers, default=0.0)),
        float(sum(numbers)),
        float(sum(p > 1024 for p in numbers)),
    ]


def scored(
    sides: tuple[Side, Side], events: tuple[Event, ...], runs: int, patch: pytest.MonkeyPatch
) -> tuple[np.ndarray, np.ndarray]:
    scores = []
    for side in sides:
        patch.setattr(measure, "Counts", lambda path, side=side: side.counts)
        scores.append(np.array([release(side, events) for _ in range(runs)]))
    return scores[0], scores[1]


@pytest.mark.parametrize("runs", [RUNS, pytest.param(40 * RUNS, marks=pytest.mark.nightly)])
def test_the_whole_pipeline_tells_no_more_than_its_plan_costs(
    sides: tuple[Side, Side], events: tuple[Event, ...], claim: Claim, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(*scored(sides, events, runs, monkeypatch), claim)


def names_everybody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(measure.mechanisms, "threshold", lambda *args, **rest: -1e9)


def counts_cells_truly(patch: pytest.MonkeyPatch) -> None:
    honest = measure.mechanisms.noisy_histograms
    exact = lambda h, **rest: ([np.asarray(x, np.int64) for x in h], honest(h, **rest)[1])  # noqa: E731
    patch.setattr(measure.mechanisms, "noisy_histograms", exact)


@pytest.mark.parametrize("mutant", one_now([counts_cells_truly, names_everybody]))
def test_a_pipeline_is_caught_that(
    sides: tuple[Side, Side],
    events: tuple[Event, ...],
    claim: Claim,
    monkeypatch: pytest.MonkeyPatch,
    mutant: Callable[[pytest.MonkeyPatch], None],
) -> None:
    mutant(monkeypatch)
    with pytest.raises(Distinguished):
        check_in_turn(lambda runs: scored(sides, events, runs, monkeypatch), claim, MUTANT)
