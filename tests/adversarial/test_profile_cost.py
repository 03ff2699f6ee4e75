"""Every histogram that is really released is in the events: whatever is declared, whatever the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dp_synth_pipeline.errors import NotCharged
from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.privacy.events import DiscreteGaussian, Event, Gaussian, Threshold
from dp_synth_pipeline.privacy.odometer import Odometer, covers
from dp_synth_pipeline.tabular.profiling import measure, profile_plan
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan
from dp_synth_pipeline.tabular.schema import Column, NullPolicy, TableSchema
from dp_synth_pipeline.tabular.sources.ingestion import Snapshot
from tests.unit.tabular.snapshots import profile, take

ROWS = 240
VARIANTS: dict[str, tuple[pa.DataType, dict[str, Any]]] = {
    "category": (pa.string(), {}),
    "category declared": (pa.string(), {"categories": ["a", "b", "zz"]}),
    "category of nothing": (pa.string(), {"categories": []}),
    "category drop": (pa.string(), {"nulls": "drop"}),
    "category constant": (pa.string(), {"nulls": "constant", "constant": "?"}),
    "numeric category": (pa.int64(), {"kind": "category"}),
    "boolean": (pa.bool_(), {}),
    "boolean category": (pa.bool_(), {"kind": "category"}),
    "integer": (pa.int32(), {}),
    "integer bounded": (pa.int32(), {"lower": 0, "upper": 30}),
    "integer below": (pa.int32(), {"upper": 30}),
    "integer point": (pa.int32(), {"lower": 3, "upper": 3}),
    "integer mean": (pa.uint8(), {"nulls": "mean"}),
    "integer as decimal": (pa.int64(), {"kind": "decimal"}),
    "decimal": (pa.float64(), {}),
    "decimal digits": (pa.float64(), {"decimals": 1}),
    "decimal bounded": (pa.float32(), {"lower": -1.5, "upper": 99.5}),
    "decimal all": (pa.float64(), {"decimals": 2, "lower": 0, "upper": 50, "nulls": "drop"}),
    "decimal stored": (pa.decimal128(8, 3), {}),
    "decimal as integer": (pa.float64(), {"kind": "integer"}),
    "date": (pa.date32(), {}),
    "date bounded": (pa.date32(), {"lower": date(1999, 1, 1), "upper": date(2001, 1, 1)}),
    "datetime": (pa.timestamp("us"), {}),
    "datetime zoned": (pa.timestamp("us", "UTC"), {"lower": datetime(1999, 1, 1)}),
    "datetime as date": (pa.timestamp("ms"), {"kind": "date"}),
    "identifier": (pa.int64(), {"kind": "identifier"}),
    "excluded": (pa.string(), {"kind": "excluded"}),
}


def column(kind: pa.DataType, shape: str) -> pa.Array:
    """Rows that leave every branch open: one value alone, few values, or many, with nulls or without."""
    i = {"one": np.zeros(ROWS, int), "few": np.arange(ROWS) % 4, "many": np.arange(ROWS)}[shape]
    if pa.types.is_string(kind):
        values: list[Any] = [f"v{k % 80}" for k in i]
    elif pa.types.is_boolean(kind):
        values = [bool(k % 2) for k in i]
    elif pa.types.is_date(kind):
        values = [date(2000, 1, 1) + timedelta(days=int(k)) for k in i]
    elif pa.types.is_timestamp(kind):
        values = [datetime(2000, 1, 1) + timedelta(hours=int(k)) for k in i]
    elif pa.types.is_decimal(kind):
        values = [Decimal(int(k)) / 8 for k in i]
    else:
        values = [float(k) / 4 if pa.types.is_floating(kind) else int(k) for k in i]
    if shape != "one":
        values[::7] = [None] * len(values[::7])
    return pa.array(values, kind)


class Till:
    """Remembers the odometer of the last profile, and the noise of every release that it noted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[float, float, int]] = []
        self.odometer: Odometer | None = None
        true = mechanisms.noisy_histograms

        def watched(histograms: Any, *, scale: float, sensitivity: float, odometer: Odometer) -> Any:
            self.calls.append((scale, sensitivity, len(histograms)))
            self.odometer = odometer
            return true(histograms, scale=scale, sensitivity=sensitivity, odometer=odometer)

        monkeypatch.setattr(mechanisms, "noisy_histograms", watched)

    @property
    def paid(self) -> Fraction:
        """Gaussian costs add up as squared sensitivity over noise."""
        return price(self.odometer.used) if self.odometer else Fraction(0)


def price(events: tuple[Event, ...]) -> Fraction:
    return sum((e.amount for e in events if isinstance(e, Gaussian)), Fraction(0))


def deltas(events: tuple[Event, ...]) -> Fraction:
    return sum((e.amount for e in events if isinstance(e, Threshold)), Fraction(0))


def check(till: Till, snapshot: Snapshot, plan: ProfilePlan) -> None:
    till.calls.clear()
    found = profile(snapshot, plan)
    events = plan.histogram_events(snapshot.schema)
    assert till.odometer is not None
    assert float(till.paid) == pytest.approx(sum(n * (moved / scale) ** 2 for scale, moved, n in till.calls))
    assert till.paid <= price(events)
    assert deltas(till.odometer.used) <= deltas(events)
    assert {s for _, s, _ in till.calls} <= {plan.unit.max_rows}
    assert {s for s, _, _ in till.calls} <= {
        plan.scale * by for by in (1, profile_plan.RANGE_FINDING, profile_plan.REFINEMENT, profile_plan.ROUNDED)
    }
    assert float(price(events)) == pytest.approx(
        profile_plan.weight(snapshot.schema, plan.unit, plan.refined) * (plan.unit.max_rows / plan.scale) ** 2
    )
    assert found.events == plan.count_events() + events


@pytest.mark.parametrize(("shape", "scale"), [("one", 6.0), ("few", 500.0), ("many", 0.4)])
def test_no_column_releases_more_than_its_events_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str, scale: float
) -> None:
    table = pa.table({name: column(kind, shape) for name, (kind, _) in VARIANTS.items()})
    snapshot = take(table, tmp_path, {name: facts for name, (_, facts) in VARIANTS.items()})
    till, paid = Till(monkeypatch), {}

    def metered(honest: Any) -> Any:
        def measured(self: Any, column: Column) -> Any:
            before = till.paid
            result = honest(self, column)
            paid[column.name] = till.paid - before
            return result

        return measured

    for name in ("numeric", "category"):
        monkeypatch.setattr(measure._Pass, name, metered(getattr(measure._Pass, name)))
    plan = ProfilePlan(None, scale, 1e-7, population=ROWS)
    profile(snapshot, plan)
    assert set(paid) == {c.name for c in snapshot.schema.learned}
    for one in snapshot.schema.learned:
        alone = TableSchema((replace(one, nulls=NullPolicy.KEEP),))
        assert paid[one.name] <= price(plan.histogram_events(alone)), one.name


@pytest.mark.parametrize("closer", [0, 2])
@pytest.mark.parametrize("unit", [PrivacyUnit(), PrivacyUnit("who", 3)], ids=str)
def test_no_table_releases_more_than_its_events_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: PrivacyUnit, closer: int
) -> None:
    table = pa.table({name: column(kind, "many") for name, (kind, _) in VARIANTS.items()})
    table = table.append_column("who", pa.array(np.arange(ROWS) // 5))
    declared = {name: facts for name, (_, facts) in VARIANTS.items()} | {"who": {"kind": "identifier"}}
    snapshot = take(table, tmp_path, declared, unit=unit)
    till = Till(monkeypatch)
    check(till, snapshot, ProfilePlan(1.0, 2.0, 1e-7, unit, refined=closer))
    assert len(till.calls) > 60
    assert sum(n for scale, _, n in till.calls if scale == profile_plan.REFINEMENT * 2.0) == closer


@pytest.mark.parametrize("hidden", [0, 1, 2])
def test_closer_looks_that_no_column_needs_are_spent_on_numbers_to_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hidden: int
) -> None:
    names = [pa.array([f"v{k % 80 if i < hidden else 0}" for k in range(ROWS)]) for i in range(2)]
    table = pa.table({"x": column(pa.int64(), "many"), "y": column(pa.float64(), "many"), "a": names[0], "b": names[1]})
    snapshot = take(table, tmp_path)
    plan, till = ProfilePlan(None, 4.0, 1e-7, population=ROWS, refined=2, sparing=True), Till(monkeypatch)
    profile(snapshot, plan)
    charged, scales = price(plan.histogram_events(snapshot.schema)), [scale for scale, _, _ in till.calls]
    assert scales.count(4.0 * profile_plan.REFINEMENT) == hidden
    assert (1 - 1e-6) * charged <= till.paid <= charged
    assert (min(s for s in scales if s > 4.0 * profile_plan.REFINEMENT) < 4.0) == (hidden < 2)


def one_more(wanted: int) -> Callable[[Any, np.ndarray, float], np.ndarray]:
    """Return a profile's way to noise histograms that does so once more, at the wanted call."""
    honest, seen = measure._Pass._noisy, []

    def noisy(self: Any, histogram: np.ndarray, factor: float = 1.0) -> np.ndarray:
        seen.append(factor)
        if len(seen) == wanted:
            honest(self, histogram, factor)
        return honest(self, histogram, factor)

    return noisy


@pytest.mark.parametrize("wanted", [1, 2, 5])
@pytest.mark.parametrize("unit", [PrivacyUnit(), PrivacyUnit("who", 3)], ids=str)
def test_a_profile_that_releases_one_histogram_more_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: PrivacyUnit, wanted: int
) -> None:
    table = pa.table({"x": column(pa.string(), "few"), "y": column(pa.int64(), "few")})
    table = table.append_column("who", pa.array(np.arange(ROWS) // 5))
    snapshot = take(table, tmp_path, {"who": {"kind": "identifier"}}, unit=unit)
    plan = ProfilePlan(1.0, 5.0, 1e-7, unit, refined=1)
    profile(snapshot, plan)
    monkeypatch.setattr(measure._Pass, "_noisy", one_more(wanted))
    with pytest.raises(NotCharged):
        profile(snapshot, plan)


@pytest.mark.parametrize("factor", [0.999, 1 - 1e-12])
def test_a_profile_that_draws_less_noise_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factor: float
) -> None:
    snapshot = take(pa.table({"x": column(pa.string(), "few")}), tmp_path)
    honest = ProfilePlan.noise
    plan = ProfilePlan(1.0, 5.0, 1e-7)
    charged = Odometer(plan.histogram_events(snapshot.schema))
    monkeypatch.setattr(ProfilePlan, "noise", lambda self, by=1.0: factor * honest(self, by))
    with pytest.raises(NotCharged):
        measure.measure(snapshot.path, snapshot.schema, plan, ROWS, charged)


def test_a_profile_that_releases_one_threshold_more_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = take(pa.table({"x": column(pa.string(), "few")}), tmp_path)
    honest = measure._Pass.threshold
    monkeypatch.setattr(measure._Pass, "threshold", lambda self, by=1.0: (honest(self, by), honest(self, by))[0])
    with pytest.raises(NotCharged, match="threshold"):
        profile(snapshot, ProfilePlan(1.0, 5.0, 1e-7))


def test_the_profile_of_an_earlier_plan_draws_the_discrete_noise_that_was_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its figures were rounded by a person, so that no kind of histogram has just a multiple of another's noise."""
    snapshot = take(pa.table({"x": column(pa.string(), "few"), "y": column(pa.int64(), "few")}), tmp_path)
    now = ProfilePlan(1.0, 5.0, 1e-7, refined=1)
    base, closer, ranges, *_ = now.histogram_events(snapshot.schema)
    events = (
        DiscreteGaussian(5.01, 1, base.size),
        DiscreteGaussian(2.0, 1, closer.size),
        DiscreteGaussian(9.99, 1, ranges.size),
        Threshold(1e-7),
    )
    plan = profile_plan.declared(now, events, snapshot.schema)
    assert plan is not None
    assert plan.histogram_events(snapshot.schema) == events
    till = Till(monkeypatch)
    monkeypatch.setattr(mechanisms, "rounded_gaussian", lambda *asked: pytest.fail("another noise was drawn"))
    found = profile(snapshot, plan)
    assert {scale for scale, _, _ in till.calls} == {2.0, 5.01, 9.99}
    assert found.events == plan.count_events() + events
    assert till.odometer is not None
    assert covers(events, till.odometer.used)
    monkeypatch.setattr(measure._Pass, "_noisy", one_more(1))
    with pytest.raises(NotCharged):
        profile(snapshot, plan)


def test_one_row_more_changes_neither_plan_nor_events_nor_the_keys_of_what_is_released(tmp_path: Path) -> None:
    import json

    tables = [pa.table({name: column(kind, "few") for name, (kind, _) in VARIANTS.items()})]
    tables.append(pa.concat_tables([tables[0], tables[0].slice(5, 1)]))
    declared = {name: facts for name, (_, facts) in VARIANTS.items()}
    plan = ProfilePlan(0.02, 40.0, 1e-7, refined=2)
    released = []
    for i, table in enumerate(tables):
        snapshot = take(table, tmp_path / str(i), declared)
        released.append(json.loads(profile(snapshot, plan).to_json()))
    assert released[0]["events"] == released[1]["events"]
    assert list(released[0]) == list(released[1])
    assert [list(c) for c in released[0]["columns"]] == [list(c) for c in released[1]["columns"]]
