"""A whole release of related tables on neighbours, 200 times each: nothing released tells them apart beyond the claim.

One person is added who is unlike everybody else: the only one of a place and of a ward, with the most visits. Each run takes
the true path of a declared plan, noise and all: row count, profile and marginals of the persons, how many of them have
visits, the profile of one visit each, and both trainings. The attacker sees everything that is released, knows both
databases and the weights that trainings started from. Rows are related once, since all of a person's are alike, but for the
canary's: which of these is profiled is drawn in every run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch

from dp_synth_pipeline.model.autoregressive import initialization
from dp_synth_pipeline.model.autoregressive.generator import Generator
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.base import Before, Released
from dp_synth_pipeline.privacy.events import DiscreteLaplace, Event, Gaussian, SubsampledGaussian
from dp_synth_pipeline.relations import relating
from dp_synth_pipeline.relations.relating import RelatedRows
from dp_synth_pipeline.synthesis.allocation import Declared
from dp_synth_pipeline.synthesis.database import histories
from dp_synth_pipeline.synthesis.database.settings import DatabaseSettings
from dp_synth_pipeline.synthesis.database.table_release import Given, TableRelease
from dp_synth_pipeline.synthesis.mechanisms.marginals import Marginals
from dp_synth_pipeline.synthesis.mechanisms.profile import Profile
from dp_synth_pipeline.synthesis.mechanisms.row_count import RowCount
from dp_synth_pipeline.synthesis.mechanisms.training import Training
from dp_synth_pipeline.synthesis.protection import LedgerProtection
from dp_synth_pipeline.synthesis.release_plan import MARGINALS, PROFILE, ROW_COUNT, TRAINING, ReleasePlan
from dp_synth_pipeline.synthesis.run_state import RunState, dump_schema
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.tabular.profiling import measure
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.tabular.sources import ingestion, source
from tests.adversarial.distinguish import Claim, Distinguished, check, check_in_turn, unprobed  # noqa: F401
from tests.adversarial.test_distinguish_pipeline import cumulated
from tests.lanes import one_now
from tests.unit.tabular.snapshots import Remembering

pytestmark = pytest.mark.slow

RUNS = 200
"""On each database; half of them to choose an attack, half to measure it. They convict the mutants below; smaller mistakes,
which what is claimed for a whole release hides, are those of `test_person_sensitivity`."""

OTHERS, MOST, NOISE = 60, 6, 2.0
SPEC = GeneratorSpec(hidden=3, embedding=2, optimizer="sgd", learning_rate=0.05, averaging=0.0)
COUNT, PAIRS = DiscreteLaplace(2.0), Gaussian(3.0)
TRAINED = {"patients": SubsampledGaussian(2.0, 0.5, 2), "visits": SubsampledGaussian(2.0, 0.5, 2)}
COLUMNS: dict[str, dict[str, Any]] = {"patients": {}, "visits": {"paid": {"lower": 1, "upper": 4096, "decimals": 2}}}
SETTINGS = DatabaseSettings(
    database="clinic",
    account="clinic",
    epsilon=4.0,
    tables={  # type: ignore[arg-type]
        "patients": {"source": "p.parquet", "key": "patient"},
        "visits": {
            "source": "v.parquet",
            "parent": {"patient": "patients"},
            "max_rows": MOST,
            "columns": COLUMNS["visits"],
        },
    },
)
RELATIONS = SETTINGS.relations


def clinic(canary: bool) -> dict[str, pd.DataFrame]:
    """Return persons, of whom two in three have two visits that are alike, and the canary with as many as may be."""
    held = np.repeat([i for i in range(OTHERS) if i % 3], 2)
    patients = pd.DataFrame({"patient": range(OTHERS), "place": [("Ulm", "Bonn", "Ulm")[i % 3] for i in range(OTHERS)]})
    visits = pd.DataFrame({"patient": held, "ward": [("A", "B")[i % 2] for i in held], "paid": 4.5 + held % 8})
    if canary:
        patients = pd.concat([patients, pd.DataFrame({"patient": [OTHERS], "place": ["canary"]})])
        odd = {"patient": OTHERS, "ward": "C", "paid": [4000.25] * (MOST - 2) + [3999.75, 1.0]}
        visits = pd.concat([visits, pd.DataFrame(odd)])
    return {"patients": patients, "visits": visits}


@dataclass
class Side:
    """One of the two databases, with what does not change from run to run.

    Attributes:
        rows: the related rows of each table.
        sources: the columns of each table's source.
        profiled: of each table, the ways in which one row of each person may be chosen, as likely as each other.
    """

    rows: dict[str, RelatedRows]
    sources: dict[str, TableSchema]
    profiled: dict[str, list[Remembering]] = field(default_factory=dict)

    def codes(self, name: str, codec: Any) -> np.ndarray:
        return codec.encode(self.table(name))

    def table(self, name: str) -> Any:
        if name not in self._tables:
            self._tables[name] = pq.read_table(self.rows[name].path)
        return self._tables[name]

    _tables: dict[str, Any] = field(default_factory=dict)


def prepared(folder: Path, canary: bool) -> Side:
    folder.mkdir()
    files, schemas = {}, {}
    for name, frame in clinic(canary).items():
        frame.to_parquet(folder / f"{name}.parquet", index=False)
        declared = {**COLUMNS[name], **{key: {"kind": "identifier"} for key in RELATIONS[name].keys}}
        found = source.parse(str(folder / f"{name}.parquet"))
        how: Any = {"declared": declared, "keys": RELATIONS[name].keys}
        taken = ingestion.snapshot(found, folder / f"{name}.taken", **how)
        files[name], schemas[name] = taken.path, taken.schema
    (folder / "related").mkdir()
    side = Side(relating.relate(RELATIONS, files, schemas, folder / "related"), schemas)
    for name, rows in side.rows.items():
        table = side.table(name)
        numbers = table[rows.unit].to_numpy()
        first = {unit: np.flatnonzero(numbers == unit) for unit in np.unique(numbers)}
        ways = max((len(held) for held in first.values()), default=1) if canary else 1
        for way in range(ways):
            one = folder / f"{name}-{way}.parquet"
            pq.write_table(table.take([held[way % len(held)] for held in first.values()]), one)
            side.profiled.setdefault(name, []).append(Remembering(one))
    return side


@pytest.fixture(scope="module")
def sides() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        yield prepared(Path(folder) / "without", canary=False), prepared(Path(folder) / "with", canary=True)


def plan_of(side: Side, name: str) -> tuple[list[Event], list[str]]:
    """Return all that one table's mechanisms perform, and so all that the ledger charges."""
    profile = ProfilePlan(None, NOISE, 1e-4).histogram_events(side.rows[name].schema)
    events, tags = [*profile, TRAINED[name]], [*[PROFILE] * len(profile), TRAINING]
    if name == "patients":
        events, tags = [COUNT, PAIRS, *events], [ROW_COUNT, MARGINALS, *tags]
    return events, tags


@pytest.fixture(scope="module")
def claim(sides: tuple[Side, Side]) -> Claim:
    events = [event for name in COLUMNS for event in plan_of(sides[0], name)[0]]
    return Claim.of(events, (0.001, 0.05, 0.2, 0.35, 0.5), fixed=True)


class Paid(LedgerProtection):
    """One table's part of a plan that is paid for already: this is about what is released, not about who pays."""

    def __init__(self, side: Side, name: str, persons: int | None) -> None:
        self.settings, self._plan = SETTINGS.member(name, persons), ReleasePlan.of(*plan_of(side, name))

    def record(self, release_id: str) -> Any:
        return SimpleNamespace(state="started", relation="add-remove", run_id="run")

    def allocation(self, release_id: str) -> Declared:
        return Declared(self.settings, self._plan, 4.0, 1e-5)

    def charge(self, *args: Any, **rest: Any) -> None:
        return None

    def entries(self, release_id: str) -> tuple[()]:
        return ()

    def upon(self, state: RunState) -> list[str]:
        return []


class Made(TableRelease):
    """The release of one table, of which everything is in memory."""

    side: Side
    released: TableProfile

    @property
    def profile(self) -> TableProfile:
        return self.released

    def codes(self, codec: Any) -> Any:
        return (self.side.codes(self.name, codec), None) if self.given is None else (self.given.codes, self.given.units)


def made(side: Side, name: str, persons: int | None, patch: pytest.MonkeyPatch) -> Made:
    """Return the release of a table past its profile."""
    protection, counts = Paid(side, name, persons), side.profiled[name]
    of_run = counts[np.random.default_rng().integers(len(counts))]
    rows = side.rows[name]
    state = RunState("release", dump_schema(rows.schema), units=rows.units).with_(
        snapshot=of_run.snapshot, completed=of_run.snapshot
    )
    found = Made(protection.settings, protection, Store(rows.path.parent), state)
    found.name, found.rows, found.source, found.side = name, rows, side.sources[name], side
    patch.setattr(measure, "Counts", lambda path: of_run)
    population = RowCount().perform(found)
    assert population is not None
    profile = Profile(population).perform(found)
    assert profile is not None
    found.released, file = profile, rows.path.with_name(f"{name}.profile.json")
    file.write_text(profile.to_json())
    found.state = found.state.with_(profile=file)
    return found


def release(side: Side, canary: Side, patch: pytest.MonkeyPatch) -> list[float]:
    """Run every mechanism once, as the stages of a release do, and return the scores of what it released.

    Args:
        canary: the database with the canary, whose gradients the attacker knows.
    """
    root = made(side, "patients", None, patch)
    measured = Marginals(root.columns, root.profile).perform(root)
    assert measured is not None
    tables: Any = {"patients": root}
    persons = histories.persons(RELATIONS, "visits", tables)
    visits = tables["visits"] = made(side, "visits", persons, patch)
    scores = [*seen_in(root.profile, "place", "canary"), *seen_in(visits.profile, "ward", "C"), float(persons)]
    last = int(np.argmax([p == "canary" for p in canary.table("patients")["place"].to_pylist()]))
    cells = canary.codes("patients", root.codec)[[last]].astype(np.int64)
    pairs = measured.counts[measured.layout.index(cells)[0]]
    scores += [float(pairs.sum()), float(measured.counts.sum())]
    released = Released(root.codec.marginals(), orders=root.codec.orders())
    network = initialization.begin(root.codec.cardinalities, SPEC, released)
    scores.append(along(root, network, cells))
    codecs = {name: table.codec for name, table in tables.items()}
    context = histories.context_of(RELATIONS, "visits", codecs, {n: table.source for n, table in tables.items()})
    visits.given = histories.given_rows(visits, RELATIONS, tables, context)
    known = given_of(canary, visits, tables, context)
    cards = (*context.cardinalities, *context.own_cardinalities)
    orders = histories.orders_of(RELATIONS, "visits", codecs, context, visits.source)
    moving = context.before(visits.codec.orders())
    network = AutoregressiveNetwork(cards, SPEC, len(context.cardinalities), orders, moving)
    return [*scores, along(visits, network, known.codes[known.units == last].astype(np.int64))]


def given_of(side: Side, visits: Made, tables: Any, context: Any) -> Given:
    """Return what the rows of another database would be learnt from, were this profile its own."""
    others = {}
    for name, table in tables.items():
        other = Made(table.settings, table.protection, table.store, table.state)
        other.name, other.rows, other.source, other.side = name, side.rows[name], table.source, side
        other.released = table.released
        others[name] = other
    return histories.given_rows(others["visits"], RELATIONS, others, context)


def along(table: Made, network: AutoregressiveNetwork, rows: np.ndarray) -> float:
    """Train, and return how far that went in the direction in which the canary pushes, in what is learnt."""
    network.mix()
    grads = torch.autograd.grad(network.losses(torch.from_numpy(rows)).sum(), list(network.parameters()))
    size = torch.cat([g.flatten() for g in grads]).norm() + 1e-9
    first = [p.detach().clone() for p in network.parameters()]
    network.settle()
    generator = Generator(network)
    Training.of(table, table.codec, SPEC, table.profile.population).train(generator)
    generator.proposal.mix()
    moves = zip(grads, generator.proposal.parameters(), first, strict=True)
    return float(sum(((after.detach() - before) * g).sum() for g, after, before in moves) / size)


def seen_in(profile: TableProfile, column: str, value: str) -> list[float]:
    scores = [float(profile.population)]
    for one in profile.columns:
        scores += [one.null_rate, one.other, len(one.values), max(one.weights, default=0.0)]
        scores += cumulated(one) if one.kind.numeric else []
    named = dict(zip(profile[column].values, profile[column].weights, strict=True))
    return [*scores, named.get(value, -1.0)]


def scored(sides: tuple[Side, Side], runs: int, patch: pytest.MonkeyPatch) -> tuple[np.ndarray, np.ndarray]:
    patch.setattr(histories, "encoded", lambda table: table.side.codes(table.name, table.codec))
    patch.setattr(histories, "LEAST_MOVING", 2)
    first, second = (np.array([release(side, sides[1], patch) for _ in range(runs)]) for side in sides)
    return first, second


@pytest.mark.parametrize("runs", [RUNS, pytest.param(20 * RUNS, marks=pytest.mark.nightly)])
def test_a_release_of_related_tables_tells_no_more_than_its_plan_costs(
    sides: tuple[Side, Side], claim: Claim, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(*scored(sides, runs, monkeypatch), claim)


def persons_are_counted_truly(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(histories, "persons", lambda relations, name, tables: tables["patients"].side.rows[name].units)


def names_everybody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(measure.mechanisms, "threshold", lambda *args, **rest: -1e9)


@pytest.mark.parametrize("mutant", one_now([persons_are_counted_truly, names_everybody]))
def test_a_release_is_caught_in_which(
    sides: tuple[Side, Side],
    claim: Claim,
    monkeypatch: pytest.MonkeyPatch,
    mutant: Callable[[pytest.MonkeyPatch], None],
) -> None:
    mutant(monkeypatch)
    with pytest.raises(Distinguished):
        check_in_turn(lambda runs: scored(sides, runs, monkeypatch), claim, RUNS)


ALONE = SubsampledGaussian(0.8, 1.0, 1)
"""Everybody joins one step of the child table's training, so that the canary's clip is put to the test by itself."""


ALONE_CLAIM = Claim.of(ALONE, (0.01, 0.05, 0.1, 0.2, 0.35, 0.5))


def trained_alone(sides: tuple[Side, Side], runs: int, patch: pytest.MonkeyPatch) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of the training of the child table, on one profile that both databases share."""
    patch.setattr(histories, "encoded", lambda table: table.side.codes(table.name, table.codec))
    patch.setattr(histories, "LEAST_MOVING", 2)
    patch.setitem(TRAINED, "visits", ALONE)
    tables: Any = {"patients": made(sides[1], "patients", None, patch)}
    visits = tables["visits"] = made(sides[1], "visits", OTHERS, patch)
    codecs = {name: table.codec for name, table in tables.items()}
    context = histories.context_of(RELATIONS, "visits", codecs, {n: table.source for n, table in tables.items()})
    given = [given_of(side, visits, tables, context) for side in sides]
    canary = given[1].codes[np.array(sides[1].table("visits")["ward"].to_pylist()) == "C"].astype(np.int64)
    assert len(canary) == MOST == len(given[1].codes) - len(given[0].codes)
    cards, width = (*context.cardinalities, *context.own_cardinalities), len(context.cardinalities)
    scores, moving = [], context.before(visits.codec.orders())
    assert moving, "a column is learnt by how far it moves"
    for visits.given in given:
        scores.append(np.array([[pushed(visits, cards, width, moving, canary)] for _ in range(runs)]))
    return scores[0], scores[1]


def pushed(visits: Made, cards: tuple[int, ...], given: int, moving: Mapping[int, Before], canary: np.ndarray) -> float:
    torch.manual_seed(3)  # the attacker knows the first weights; noise is never seeded
    return along(visits, AutoregressiveNetwork(cards, SPEC, given, moving=moving), canary)


def test_training_of_a_child_table_tells_no_more_of_a_canary_person_than_its_event_costs(
    sides: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch
) -> None:
    check(*trained_alone(sides, 2 * RUNS, monkeypatch), ALONE_CLAIM)


def test_training_of_a_child_table_is_caught_that_clips_each_row(
    sides: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = histories.Given
    monkeypatch.setattr(histories, "Given", lambda codes, units, *more: honest(codes, np.arange(len(codes)), *more))
    with pytest.raises(Distinguished):
        check_in_turn(lambda runs: trained_alone(sides, runs, monkeypatch), ALONE_CLAIM, 2 * RUNS)
