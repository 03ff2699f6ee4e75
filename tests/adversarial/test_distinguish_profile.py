"""Every step of the profile passes a distinguishing test aimed at it, and is caught once its noise is left out.

For each step there is a pair of neighbouring tables at which it tells most, found by bisection where a table must lie on
the brink of a decision, and the few released numbers that an attacker would look at. The claim is the cost of the events
that the ledger would be charged with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.tabular.encoding import nulls
from dp_synth_pipeline.tabular.profiling.counting import Counts
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan
from dp_synth_pipeline.tabular.sources.ingestion import Snapshot
from tests.adversarial.distinguish import Claim, Distinguished, check
from tests.lanes import one_now
from tests.unit.tabular.snapshots import no_noise, profile, profiles, take

POPULATION = 90
RUNS = 400
"""On each table: a step without noise needs few. The whole pipeline is run more often, in test_distinguish_pipeline."""

Patch = pytest.MonkeyPatch
Look = Callable[[Snapshot, TableProfile], list[float]]
PLAN = ProfilePlan(None, 2.0, 1e-4, population=POPULATION)
CLOSER = ProfilePlan(None, 5.0, 1e-4, population=POPULATION, refined=1)


@dataclass(frozen=True)
class Case:
    """Tables that differ in one unit, one of them with `extra` more rows, and what the attacker looks at."""

    table: Callable[[int], pa.Table]
    look: Look
    declared: dict[str, Any] = field(default_factory=dict)
    plan: ProfilePlan = PLAN
    brink: tuple[int, int] | None = None
    """Between how many rows a decision changes; None to compare 0 with 1."""
    runs: int = RUNS


def category(extra: int) -> pa.Table:
    return pa.table({"c": ["a"] * 30 + ["b"] * 30 + ["a"] * extra})


def lone_category(extra: int) -> pa.Table:
    return pa.table({"c": ["a"] * 60 + ["canary"] * extra})


def integers(high: list[int | None], low: int = 40) -> pa.Table:
    return pa.table({"x": pa.array([32 + i % 32 for i in range(low)] + high, pa.int64())})


def decimals(extra: int) -> pa.Table:
    return pa.table({"x": [1.0 + i for i in range(60 - extra)] + [i + 1.25 for i in range(extra)]})


def owned(extra: int) -> pa.Table:
    """Twenty people with two rows each, and one more with three."""
    who = [i // 2 for i in range(40)] + [99] * 3 * extra
    return pa.table({"c": ["a"] * len(who), "who": who})


def weights(taken: Snapshot, found: TableProfile) -> list[float]:
    (column,) = found.columns
    shown = dict(zip(column.values, column.weights, strict=True))
    return [shown.get(k, 0.0) for k in ("a", "b", "canary", 7.0, 9.0)] + [column.other, len(shown)]


def named(taken: Snapshot, found: TableProfile) -> list[float]:
    """How many values have a name."""
    return [len(found.columns[0].values)]


def bounds(taken: Snapshot, found: TableProfile) -> list[float]:
    (column,) = found.columns
    return [column.lower or 0.0, column.upper or 0.0]


def masses(taken: Snapshot, found: TableProfile) -> list[float]:
    """The probability of cell 0 and of cell 1."""
    (column,) = found.columns
    held = dict(zip((low for low, _ in column.bins), column.bin_weights, strict=True))
    return [held.get(0.0, 0.0), held.get(1.0, 0.0)]


def facts(taken: Snapshot, found: TableProfile) -> list[float]:
    (column,) = found.columns
    decimals = -1 if column.decimals is None else column.decimals
    return [found.population, found.rows, column.null_rate, decimals]


def fill(taken: Snapshot, found: TableProfile) -> list[float]:
    (column,) = taken.schema.learned
    return [float(nulls.fill_value(column, found.columns[0]))]


BOUNDED = {"x": {"lower": 0, "upper": 255}}
MEAN = {"x": {"lower": 0, "upper": 255, "kind": "decimal", "decimals": 3, "nulls": "mean"}}
THREE = PrivacyUnit("who", 3)
CASES: dict[str, Case] = {
    "row count": Case(category, facts, plan=ProfilePlan(0.5, 100.0, 1e-4), runs=1500),
    "category": Case(category, weights, runs=1500),
    "lone category": Case(lone_category, weights),
    "closer look": Case(category, weights, plan=CLOSER, runs=1500),
    "lone category, closer": Case(lone_category, weights, plan=CLOSER),
    "heavy value": Case(lambda n: pa.table({"x": [9] * 30 + [7] * (30 + n)}), weights, BOUNDED),
    "named value": Case(lambda n: pa.table({"x": [9] * 60 + [7] * n}), named, BOUNDED, brink=(0, 60)),
    "bounds": Case(lambda n: integers([128 + i for i in range(n)]), bounds, BOUNDED, brink=(0, 40)),
    "fine cells": Case(
        lambda n: pa.table({"x": [0] * 30 + [1] * (30 + n)}),
        masses,
        {"x": {"lower": 0, "upper": 1}},
        ProfilePlan(None, 2.0, 1e-80, population=60),
        runs=1200,
    ),
    "mean": Case(lambda n: integers([255] * n), fill, MEAN),
    "precision": Case(decimals, facts, {"x": {"lower": 1, "upper": 255}}, brink=(0, 60)),
    "nulls of a number": Case(lambda n: integers([None] * n), facts, BOUNDED, brink=(0, 40)),
    "nulls of a category": Case(lambda n: pa.table({"c": ["a"] * 40 + [None] * n}), facts, brink=(0, 40)),
    "rows of a unit": Case(owned, facts, plan=ProfilePlan(None, 6.0, 1e-4, THREE, population=20), runs=1500),
    "rows without nulls": Case(lambda n: pa.table({"c": ["a"] * (40 + n)}), facts, {"c": {"nulls": "drop"}}),
}


def neighbours(case: Case, folder: Path) -> tuple[Snapshot, Snapshot]:
    """Snapshot the two tables; on the brink, those between which a noiseless answer changes."""

    def taken(extra: int) -> Snapshot:
        return take(case.table(extra), folder / str(extra), case.declared, unit=case.plan.unit)

    def said(extra: int) -> list[float]:
        snapshot = taken(extra)
        return case.look(snapshot, profile(snapshot, case.plan))

    low, high = 0, 1
    if case.brink is not None:
        low, high = case.brink
        with no_noise():
            first = said(low)
            assert said(high) != first
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if said(middle) == first else (low, middle)
    return taken(low), taken(high)


def scores(case: Case, taken: Snapshot) -> np.ndarray:
    return np.array([case.look(taken, found) for found in profiles(taken, case.plan, case.runs)], dtype=float)


def attack(
    case: Case, pair: tuple[Snapshot, Snapshot], before: Callable[[Snapshot], None] = lambda taken: None
) -> None:
    events = case.plan.count_events() + case.plan.histogram_events(pair[0].schema)
    both = []
    for taken in pair:
        before(taken)
        both.append(scores(case, taken))
    check(both[0], both[1], Claim.of(events))


@pytest.mark.parametrize("name", CASES)
def test_a_step_tells_no_more_than_its_events_cost(tmp_path: Path, name: str) -> None:
    attack(CASES[name], neighbours(CASES[name], tmp_path))


@dataclass
class Asked:
    """Which counts were read since the last release: that is how a step is known without looking inside."""

    questions: set[str] = field(default_factory=set)
    hit: int = 0

    def take(self) -> frozenset[str]:
        taken, self.questions = frozenset(self.questions), set()
        return taken


@contextmanager
def asked(patch: Patch) -> Iterator[Asked]:
    log = Asked()
    for name in ("values", "line", "nulls", "precision", "rows"):
        honest = getattr(Counts, name)

        def noted(self: Counts, *args: Any, _name: str = name, _honest: Any = honest) -> Any:
            log.questions.add(_name)
            return _honest(self, *args)

        patch.setattr(Counts, name, noted)
    yield log
    assert log.hit, "the mutant never came to its step, so the test shows nothing"


Swap = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From true counts and noisy ones, what a mutant releases."""


def mutated(*questions: str, release: Swap = lambda true, noisy: true) -> Callable[[Patch, Asked], None]:
    """A profile that makes the mistake in each step that reads just these counts; `|` divides the steps."""
    steps = [frozenset(step.split()) for step in " ".join(questions).split("|")]

    def install(patch: Patch, log: Asked) -> None:
        honest = mechanisms.noisy_histograms

        def noise(histograms: Any, **rest: Any) -> Any:
            noisy, event = honest(histograms, **rest)
            if log.take() not in steps:
                return noisy, event
            log.hit += 1
            return [release(np.asarray(h), n) for h, n in zip(histograms, noisy, strict=True)], event

        patch.setattr(mechanisms, "noisy_histograms", noise)

    return install


def quieter(true: np.ndarray, noisy: np.ndarray) -> np.ndarray:
    return true + np.round(0.3 * (noisy - true)).astype(np.int64)


def only(cell: int) -> Swap:
    def release(true: np.ndarray, noisy: np.ndarray) -> np.ndarray:
        shown = noisy.copy()
        shown[cell] = true[cell]
        return shown

    return release


def count_times(factor: float) -> Callable[[Patch, Asked], None]:
    def install(patch: Patch, log: Asked) -> None:
        honest = mechanisms.noisy_count

        def noise(count: int, **rest: Any) -> Any:
            log.hit += 1
            noisy, event = honest(count, **rest)
            return count + round(factor * (noisy - count)), event

        patch.setattr(mechanisms, "noisy_count", noise)

    return install


def no_threshold(patch: Patch, log: Asked) -> None:
    patch.setattr(mechanisms, "threshold", lambda *args, **rest: (setattr(log, "hit", 1), 0.0)[1])


def closer_only(release: Swap = lambda true, noisy: true) -> Callable[[Patch, Asked], None]:
    def install(patch: Patch, log: Asked) -> None:
        honest = mechanisms.noisy_histograms

        def noise(histograms: Any, *, scale: float, **rest: Any) -> Any:
            noisy, event = honest(histograms, scale=scale, **rest)
            if scale >= CLOSER.scale:
                return noisy, event
            log.hit += 1
            return [release(np.asarray(h), n) for h, n in zip(histograms, noisy, strict=True)], event

        patch.setattr(mechanisms, "noisy_histograms", noise)

    return install


def closer_without_threshold(patch: Patch, log: Asked) -> None:
    honest = mechanisms.threshold

    def threshold(scale: float, *args: Any, **rest: Any) -> float:
        if scale >= CLOSER.scale:
            return honest(scale, *args, **rest)
        log.hit += 1
        return 0.0

    patch.setattr(mechanisms, "threshold", threshold)


MUTANTS: dict[str, tuple[str, Callable[[Patch, Asked], None]]] = {
    "the true row count": ("row count", count_times(0.0)),
    "a third of the noise on the row count": ("row count", count_times(0.3)),
    "the true counts of categories": ("category", mutated("values", "nulls")),
    "a third of the noise on categories": ("category", mutated("values", "nulls", release=quieter)),
    "the true counts of a closer look": ("closer look", closer_only()),
    "a third of the noise on a closer look": ("closer look", closer_only(release=quieter)),
    "every category of a closer look": ("lone category, closer", closer_without_threshold),
    "every category, however rare": ("lone category", no_threshold),
    "the true counts of heavy values": ("heavy value", mutated("values", "nulls", "|", "line")),
    "the values whose true counts pass": ("named value", mutated("values", "nulls")),
    "the true coarse cells, and so the bounds": ("bounds", mutated("line")),
    "the true fine cells": ("fine cells", mutated("line")),
    "the true counts of digits, and so the precision": ("precision", mutated("precision")),
    "the true null rate of a number": ("nulls of a number", mutated("values", "nulls", "|", "line")),
    "the true null rate of a category": ("nulls of a category", mutated("values", "nulls", release=only(0))),
    "the true number of rows of a unit table": ("rows of a unit", mutated("rows")),
    "a third of the noise on the rows of a unit table": ("rows of a unit", mutated("rows", release=quieter)),
    "the true number of rows without a null": ("rows without nulls", mutated("rows")),
}


@pytest.mark.parametrize("mutant", one_now(MUTANTS))
def test_a_profile_is_caught_that_shows(tmp_path: Path, monkeypatch: Patch, mutant: str) -> None:
    name, install = MUTANTS[mutant]
    pair = neighbours(CASES[name], tmp_path)
    with monkeypatch.context() as patch, asked(patch) as log:
        install(patch, log)
        with pytest.raises(Distinguished):
            attack(CASES[name], pair)


def test_a_profile_is_caught_that_fills_nulls_with_the_true_mean(tmp_path: Path, monkeypatch: Patch) -> None:
    pair = neighbours(CASES["mean"], tmp_path)

    def averaged(taken: Snapshot) -> None:
        counts = Counts(taken.path)
        ((total, rows),) = counts._sql(f"SELECT sum(x), count(x) FROM {counts.source}")
        monkeypatch.setattr(ColumnProfile, "mean", property(lambda self: float(total) / rows))

    with pytest.raises(Distinguished):
        attack(CASES["mean"], pair, averaged)
