"""What one unit alone holds is named with a probability of at most the threshold's delta: 100,000 trials of the real path.

Every trial is a unit with values of its own in a table of many such units: their noise is independent and the threshold
does not depend on the rows, so that one profile is as many trials as it has lone units.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.privacy.odometer import Unmetered
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan
from tests.adversarial.distinguish import ALPHA, lower
from tests.unit.tabular.snapshots import profiles, take

HONEST = mechanisms.threshold
PROFILES = 25
DELTA = 0.01
ROWS = 4
ROW, UNIT = PrivacyUnit(), PrivacyUnit("who", ROWS)
OTHERS = 500
"""People who are all alike, since a column that never repeats is refused."""


@dataclass(frozen=True)
class Case:
    """Lone units, each with values of its own.

    Attributes:
        lone: how many; times `PROFILES`, the number of trials.
        keys: values that each of them has and nobody else, in one column.
        rows: rows that it writes each of them into.
        held: rows of *other* units, one each, that hold the same value: not enough to be a candidate without it.
        columns: 2 if numbers may give it away too.
        scale: noise of a cell, in rows.
        refined: 1 if the column is counted once more with less noise.
    """

    lone: int
    keys: int = 1
    rows: int = 1
    held: int = 0
    columns: int = 1
    scale: float = 2.0
    unit: PrivacyUnit = ROW
    refined: int = 0

    def table(self) -> pa.Table:
        key = np.arange(self.lone * self.keys).repeat(self.rows + self.held)
        theirs = np.tile(np.arange(self.rows + self.held) >= self.rows, self.lone * self.keys)
        who = np.where(theirs, self.lone + np.arange(len(key)), key // self.keys)
        columns = {
            "c": [f"lone-{k}" for k in key] + ["common"] * OTHERS,
            "x": [*(10 * key + 10), *[0] * OTHERS],
            "who": [*who, *range(10**7, 10**7 + OTHERS)],
        }
        left_out = {"x"} if self.columns == 1 else set()
        if self.unit.column is None:
            left_out.add("who")
        return pa.table({name: values for name, values in columns.items() if name not in left_out})

    def shown(self, found: TableProfile) -> int:
        """Count the lone units of which anything was named."""
        keys = {int(str(v).split("-")[1]) for v in found["c"].values if v != "common"}
        if self.columns > 1:
            keys |= {int(v) // 10 - 1 for v in found["x"].values if v}
        return len({k // self.keys for k in keys})


ALONE, ALIKE = Case(4000), Case(4000, rows=ROWS, unit=UNIT)
BRIM = Case(500, held=9, scale=40.0)
"""With this noise ten rows make a candidate, and nine are there."""

CASES = {
    "a row of its own": ALONE,
    "a row that makes a candidate": BRIM,
    "a category and a number": replace(BRIM, columns=2),
    "all rows of a unit alike": ALIKE,
    "all rows of a unit different": replace(BRIM, keys=ROWS, unit=UNIT),
    "a closer look": replace(BRIM, refined=1),
    "a closer look at all rows of a unit": replace(ALIKE, scale=4.0, refined=1),
}


def check(case: Case, folder: Path, times: int = PROFILES) -> int:
    """Return in how many trials lone units show; fail if the rate is proved to be above delta, beyond doubt."""
    plan = ProfilePlan(None, case.scale, DELTA, case.unit, population=case.lone + OTHERS, refined=case.refined)
    hits = sum(case.shown(p) for p in profiles(take(case.table(), folder, unit=case.unit), plan, times))
    assert lower(hits, case.lone * times, ALPHA) <= DELTA, f"{hits} of {case.lone * times} lone units were named"
    return hits


@pytest.mark.parametrize("name", CASES)
def test_what_is_seen_once_is_published_with_a_probability_of_at_most_delta(tmp_path: Path, name: str) -> None:
    assert check(CASES[name], tmp_path) > 0, "the trials are no idle ones: a few do show"


def test_there_are_a_hundred_thousand_trials_of_rows_and_of_units() -> None:
    assert ALONE.lone * PROFILES == ALIKE.lone * PROFILES == 100_000


def test_a_category_of_many_people_is_published_beside_them(tmp_path: Path) -> None:
    plan = ProfilePlan(None, ALONE.scale, DELTA, population=ALONE.lone + OTHERS)
    (found,) = profiles(take(ALONE.table(), tmp_path), plan, 1)
    assert found["c"].mode == "common"


def keyed(keys: int | None = None, sensitivity: int | None = None, delta: float = 1.0) -> Callable:
    """A threshold that forgets how many keys one unit has, or how many rows, or takes a larger delta past the odometer."""
    honest = mechanisms.threshold

    def wrong(scale: float, own: float, **rest: Any) -> float:
        told = {"keys": keys or rest["keys"], "sensitivity": sensitivity or rest["sensitivity"]}
        return honest(scale, min(own * delta, 0.5), **told, odometer=Unmetered())

    return wrong


def too_low(scale: float, delta: float, **rest: Any) -> float:
    """A threshold that starts as if nobody else held the value."""
    return HONEST(scale, delta, **rest) - (BRIM.held if scale < BRIM.scale else 0)


MUTANTS = {
    "is not there": (ALONE, lambda *args, **rest: 0.0),
    "is not there for units": (ALIKE, lambda *args, **rest: 0.0),
    "spends the delta of four releases": (BRIM, keyed(delta=4.0)),
    "forgets the second column": (CASES["a category and a number"], keyed(delta=2.0)),
    "forgets that a unit has several values": (CASES["all rows of a unit different"], keyed(keys=1)),
    "forgets that a unit has several rows": (ALIKE, keyed(sensitivity=1)),
    "forgets it in a closer look": (CASES["a closer look at all rows of a unit"], keyed(sensitivity=1)),
    "forgets what makes a candidate in a closer look": (CASES["a closer look"], too_low),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_threshold_is_caught_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutant: str) -> None:
    case, wrong = MUTANTS[mutant]
    monkeypatch.setattr(mechanisms, "threshold", wrong)
    with pytest.raises(AssertionError, match="lone units were named"):
        check(case, tmp_path, 50 if case.lone < 1000 else 5)
