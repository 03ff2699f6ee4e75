"""One unit more moves each histogram by at most the sensitivity that its noise was chosen for.

The profile is adaptive: later histograms depend on earlier noisy ones. So the neighbour is measured with the *answers* of
the first table replayed, and the questions and the true counts are compared step by step: that is how adaptive
composition is proved.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.profiling import measure
from dp_synth_pipeline.tabular.profiling.counting import Counts
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan
from dp_synth_pipeline.tabular.schema import Column, Kind
from dp_synth_pipeline.tabular.sources.ingestion import Snapshot
from tests.adversarial.test_profile_cost import VARIANTS, column
from tests.unit.tabular.snapshots import take

ROWS = 240
NAMES = (
    *("category", "category declared", "category drop", "boolean", "integer", "integer bounded"),
    *("decimal", "decimal stored", "date", "datetime zoned"),
)
COLUMNS = {name: VARIANTS[name] for name in NAMES}
HANGS = {
    "date": {"after": "datetime zoned"},
    "integer": {"after": "integer bounded"},
    "decimal": {"same_as": "decimal stored"},
}
HIDDEN = -(10**9)
"""The answer for a key that the first table does not have: whatever its count, it stays hidden."""


@dataclass
class Step:
    counts: np.ndarray
    keys: list[Any] | None
    answer: np.ndarray


@dataclass
class Transcript:
    """What was asked and answered; `replay` gives the answers of an earlier one."""

    replay: list[Step] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    keys: list[Any] | None = None

    def answer(self, counts: np.ndarray, honest: np.ndarray) -> np.ndarray:
        keys, self.keys = self.keys, None
        if self.replay:
            earlier = self.replay[len(self.steps)]
            known = dict(zip(earlier.keys or [], earlier.answer, strict=keys is not None))
            honest = earlier.answer if keys is None else np.array([known.get(k, HIDDEN) for k in keys], dtype=np.int64)
        self.steps.append(Step(counts, keys, honest))
        return honest


@contextmanager
def watched(transcript: Transcript, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    honest_noise, honest_values = measure._Pass._noisy, Counts.values

    def values(self: Counts, column: Column, floor: int) -> list[tuple[Any, int]]:
        found = honest_values(self, column, floor)
        if column.kind.numeric:
            low, high = measure._bounds(column)
            transcript.keys = ["<null>", *(k for k, _ in found if low <= k <= high)]
        elif column.kind is Kind.CATEGORY and column.categories is None:
            transcript.keys = ["<null>", *(k for k, _ in found)]
        return found

    def noise(self: Any, counts: np.ndarray, factor: float = 1.0) -> np.ndarray:
        return transcript.answer(counts, honest_noise(self, counts, factor))

    with monkeypatch.context() as patch:
        patch.setattr(Counts, "values", values)
        patch.setattr(measure._Pass, "_noisy", noise)
        yield


def transcribe(
    snapshot: Snapshot, plan: ProfilePlan, monkeypatch: pytest.MonkeyPatch, replay: list[Step]
) -> list[Step]:
    transcript = Transcript(replay)
    with watched(transcript, monkeypatch):
        schema = offsets.modelled(snapshot.schema)
        measure.measure(snapshot.path, schema, plan, ROWS, Odometer(plan.histogram_events(schema)))
    return transcript.steps


def moved(first: Step, second: Step, floor: int, sensitivity: int) -> float:
    """Return the L2 distance of two histograms; keys of one table alone must be light enough for their threshold."""
    if first.keys is None:
        assert len(first.counts) == len(second.counts), "the grid does not depend on the rows"
        return float(np.linalg.norm(first.counts - second.counts))
    here = dict(zip(first.keys, first.counts.tolist(), strict=True))
    there = dict(zip(second.keys or [], second.counts.tolist(), strict=True))
    assert (
        max((n for k, n in {**here, **there}.items() if (k in here) != (k in there)), default=0) < floor + sensitivity
    )
    assert sum((k in here) != (k in there) for k in here | there) <= sensitivity
    return float(np.linalg.norm([here[k] - there[k] for k in here.keys() & there.keys()]))


def table(extra: pa.Table | None, units: bool) -> pa.Table:
    held = pa.table({name: column(kind, "many") for name, (kind, _) in COLUMNS.items()})
    held = held.append_column("who", pa.array(np.arange(ROWS) // 3 if units else np.arange(ROWS)))
    return held if extra is None else pa.concat_tables([held, extra])


def newcomer(rows: int) -> pa.Table:
    """The rows of one more unit: equal, so that they all meet in one cell, and unlike everyone else's."""
    arrays = {}
    for name, (kind, _) in COLUMNS.items():
        if pa.types.is_string(kind):
            value: Any = "nobody else's"
        elif pa.types.is_boolean(kind):
            value = True
        elif pa.types.is_temporal(kind):
            value = datetime(1903, 2, 1)
        else:
            value = pa.scalar("117").cast(kind).as_py()
        arrays[name] = pa.array([value] * rows, kind)
    return pa.table(arrays).append_column("who", pa.array([10**6] * rows))


@pytest.mark.parametrize(
    ("max_rows", "extra", "scale", "hangs"),
    [
        (1, "unlike", 0.6, False),
        (3, "unlike", 12.0, False),
        (1, "alike", 12.0, False),
        (3, "alike", 0.6, False),
        (1, "nulls", 0.6, False),
        (3, "nulls", 12.0, False),
        (1, "alike", 0.6, True),
        (3, "unlike", 0.6, True),
    ],
)
def test_one_unit_moves_every_histogram_by_at_most_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_rows: int, extra: str, scale: float, hangs: bool
) -> None:
    unit = PrivacyUnit("who", max_rows) if max_rows > 1 else PrivacyUnit()
    more = newcomer(max_rows)
    if extra != "unlike":
        alike = table(None, False).slice(8 if extra == "alike" else 7, 1).drop_columns("who")
        more = pa.concat_tables([alike] * max_rows).append_column("who", more["who"])
    declared = {name: facts for name, (_, facts) in COLUMNS.items()} | {"who": {"kind": "identifier"}}
    declared |= HANGS if hangs else {}
    plan = ProfilePlan(None, scale, 1e-4, unit, population=ROWS, refined=1)
    here = take(table(None, max_rows > 1), tmp_path / "here", declared, unit=unit)
    there = take(table(more, max_rows > 1), tmp_path / "there", declared, unit=unit)
    first = transcribe(here, plan, monkeypatch, [])
    second = transcribe(there, plan, monkeypatch, first)
    assert len(first) == len(second)
    floor = max(1, round(scale / 4))
    distances = [moved(a, b, floor, max_rows) for a, b in zip(first, second, strict=True)]
    assert max(distances) <= max_rows + 1e-9
    assert max(distances) == max_rows, "and one does move by that much, so the bound is not idle"
