"""Named numbers come back as the source holds them, also those that doubles would alter; what is not kept is said."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.events import Threshold
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.tabular import schema
from dp_synth_pipeline.tabular.encoding import exact
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling import measure
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan
from dp_synth_pipeline.tabular.schema import Kind
from dp_synth_pipeline.tabular.sources import ingestion, source

ROWS = 4000
PLAN = ProfilePlan(1.0, 2.0, 1e-6)

ZONES = [None, "UTC", "Etc/UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo", "+14:00", "-12:00"]
MOMENTS = [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in ZONES]
STORED = [(Kind.DATE, t) for t in (pa.date32(), *MOMENTS)] + [(Kind.DATETIME, t) for t in MOMENTS]
STEP = {"s": 10**6, "ms": 10**3}
"""Microseconds to which a storage type holds moments, if these are not single ones."""

MICROS, DAY = 10**6, 86_400 * 10**6
ENDS = (-719_162, 2_932_896, -62_135_596_800 * MICROS, 253_402_300_800 * MICROS, -exact.MOST_NANOSECONDS, 2**63 // 1000)
NEAR_ENDS = st.builds(lambda end, days, one: end + days * DAY + one, *map(st.sampled_from, (ENDS, *[(-1, 0, 1)] * 2)))
POINTS = st.integers(-(2**63), 2**63 - 1) | NEAR_ENDS | st.integers(-(10**6), 10**6)


def returned(values: list[Any], storage: pa.DataType, folder: Path, declared: dict[str, Any] | None = None) -> pa.Array:
    """Return what becomes of a column after profile, codes and back."""
    cells = pa.array([values[i % len(values)] for i in range(ROWS)], storage)
    pq.write_table(pa.table({"x": cells}), folder / "t.parquet")
    told = {"x": declared} if declared else None
    found = ingestion.snapshot(
        source.parse(str(folder / "t.parquet")), folder / "s" / "snapshot.parquet", declared=told
    )
    profile = TableProfile.from_json(
        measure.measure(found.path, found.schema, PLAN, ROWS, Odometer(PLAN.histogram_events(found.schema))).to_json()
    )
    assert Threshold(PLAN.threshold_delta) in profile.events
    codec = TableCodec(found.schema, profile)
    return codec.decode(codec.encode(pq.read_table(found.path, columns=["x"]))).column("x")


@pytest.mark.parametrize(
    ("values", "storage"),
    [
        ([2**63 - 1, -(2**63), 0, 7], pa.int64()),
        ([2**53 + 1, 2**53 + 3, 2**62 + 1], pa.int64()),
        ([2**64 - 1, 0, 2**63 + 5], pa.uint64()),
        ([127, -128, 3], pa.int8()),
        ([Decimal("1234567890123456.78"), Decimal("-9999999999999999.99"), Decimal("0.01")], pa.decimal128(18, 2)),
        ([Decimal(10**38 - 1), Decimal(1), Decimal(-(10**37) - 1)], pa.decimal128(38, 0)),
        ([date(1, 1, 1), date(1599, 12, 31), date(2024, 2, 29), date(9999, 12, 31)], pa.date32()),
        ([datetime(1, 1, 1), datetime(2024, 2, 29, 1, 2, 3, 4), datetime.max], pa.timestamp("us")),
        ([datetime(1678, 1, 1, 0, 0, 0, 1), datetime(2261, 12, 31, 1, 1, 1, 999999)], pa.timestamp("ns")),
        ([timedelta(days=99_999_999, microseconds=1), timedelta(microseconds=-1)], pa.duration("us")),
    ],
    ids=str,
)
def test_named_values_come_back_as_they_are(values: list[Any], storage: pa.DataType, tmp_path: Path) -> None:
    made = returned(values, storage, tmp_path)
    assert made.type == storage
    assert set(made.to_pylist()) == set(values)


def test_whole_numbers_without_a_name_stay_within_their_type_and_what_was_declared(tmp_path: Path) -> None:
    some = np.random.default_rng().integers(2**62, 2**63 - 1, ROWS)  # public, and drawn anew: no value matters
    free = np.array(returned(some.tolist(), pa.int64(), tmp_path))
    assert free.min() >= 0, "what noise takes for a tail is as long as the values' own range at most"
    assert (free > 2**62).mean() > 0.8, "values above 2^62 were all brought below it"
    low, high = 2**62 + 12_345, 2**63 - 98_765
    bounded = returned(some.tolist(), pa.int64(), tmp_path, {"lower": low, "upper": high}).to_pylist()
    assert low <= min(bounded)
    assert max(bounded) <= high


def test_decimals_without_a_name_keep_the_digits_that_doubles_have_and_no_tail_of_theirs(tmp_path: Path) -> None:
    made = returned([Decimal(i) / 10 for i in range(ROWS)], pa.decimal128(38, 20), tmp_path).to_pylist()
    assert all(v == Decimal(f"{float(v):.15g}") for v in made)


@pytest.mark.parametrize(
    ("storage", "facts", "said"),
    [
        (pa.int8(), {"upper": 1000}, "upper: 1000 lies beyond storage type int8"),
        (pa.uint16(), {"lower": -1}, "lower: -1 lies beyond storage type uint16"),
        (pa.int64(), {"upper": 2**63}, "lies beyond storage type int64"),
        (pa.decimal128(5, 2), {"upper": 1000}, "lies beyond storage type decimal128"),
        (pa.timestamp("ns"), {"upper": "2300-01-01"}, "lies beyond storage type timestamp"),
        (
            pa.int8(),
            {"kind": "category", "categories": ["1", "300"]},
            "category '300' is not a value of storage type int8",
        ),
    ],
)
def test_a_declaration_that_the_type_cannot_hold_is_refused(storage: pa.DataType, facts: dict, said: str) -> None:
    with pytest.raises(InvalidInput, match=said.replace("(", r"\(")):
        schema.build({"x": storage}, {"x": facts})


def test_a_day_that_yaml_reads_as_a_date_bounds_a_column_of_datetimes() -> None:
    built = schema.build({"x": pa.timestamp("us")}, {"x": {"lower": date(2020, 1, 1)}})
    assert built["x"].lower == datetime(2020, 1, 1)


def test_what_is_not_kept_follows_from_types_and_declarations_alone() -> None:
    storage = {
        "n": pa.int64(),
        "m": pa.int32(),
        "d": pa.decimal128(38, 2),
        "e": pa.decimal128(9, 2),
        "t": pa.timestamp("ns"),
    }
    said = " ".join(exact.limits_of(schema.build(storage)))
    assert "nearest double: n." in said
    assert "15 digits: d." in said
    assert "years 1 to 9999" in said.lower()
    assert "Nanoseconds are cut to microseconds: t." in said
    assert exact.limits_of(schema.build({"n": pa.int64()}, {"n": {"lower": 0, "upper": 100}})) == []
    (many,) = exact.limits_of(schema.build({f"n{i}": pa.int64() for i in range(9)}))
    assert many.endswith("n0, n1, n2, n3, n4 and 4 more.")


def test_what_released_ends_do_not_reach_is_not_told_as_a_limit() -> None:
    built = schema.build({"n": pa.int64(), "t": pa.timestamp("us"), "d": pa.decimal128(38, 2)})
    near, far = {"n": (0, 99), "t": (0, 10**15), "d": (0, 1)}, {"n": (-(2**53) - 1, 0), "t": (0, 2**53 + 1)}
    assert [limit.split(":")[0] for limit in exact.limits_of(built, near)] == [exact.LONG]
    told = " ".join(exact.limits_of(built, far))
    assert "nearest double: n." in told
    assert "after 2255 that were not named are rounded: t." in told
    assert exact.CALENDAR not in told


def written(kind: Kind, storage: pa.DataType, point: int) -> list[pa.Array]:
    """Return one cell as a named value and as a drawn one."""
    column = schema.build({"x": storage}, {"x": {"kind": kind.name}})["x"]
    drawn = kind.to_arrow(np.array([float(point)]), np.array([False]), column)
    return [kind.exactly([point], storage), drawn]


@pytest.mark.parametrize(("kind", "storage"), STORED, ids=str)
@settings(max_examples=20)
@given(point=POINTS)
@example(point=2**63 - 1)
@example(point=-(2**63))
def test_whatever_is_drawn_python_has_a_day_or_a_moment_for_it(kind: Kind, storage: pa.DataType, point: int) -> None:
    for cells in written(kind, storage, point):
        assert cells.type == storage
        assert cells[0].as_py().year in range(1, 10_000)


@pytest.mark.parametrize(("kind", "storage"), STORED, ids=str)
@settings(max_examples=20)
@given(point=POINTS)
def test_what_lies_within_the_calendar_comes_out_as_it_is_and_what_does_not_at_its_end(
    kind: Kind, storage: pa.DataType, point: int
) -> None:
    first, last = exact.calendar(storage)
    named, drawn = written(kind, storage, point)
    if pa.types.is_date(storage):
        assert named.equals(drawn)
        assert named.cast(pa.int32())[0].as_py() == min(max(point, first), last)
        return
    scale, step = DAY if kind is Kind.DATE else 1, STEP.get(storage.unit, 1)
    nearest = min(max(point, -(-first // scale)), last // scale) * scale
    off = [abs(c.cast(pa.timestamp("us", storage.tz)).cast(pa.int64())[0].as_py() - nearest) for c in (named, drawn)]
    assert off[0] < step
    assert off[1] < step + np.spacing(float(abs(nearest))), "a double is near it"


def test_the_calendar_keeps_the_last_second_of_utc_and_a_day_inside_other_zones() -> None:
    epoch, micro = datetime(1970, 1, 1), timedelta(microseconds=1)
    ends = [(end - epoch) // micro for end in (datetime.min, datetime.max)]
    day = timedelta(days=1) // micro
    assert exact.calendar(pa.date32()) == ((date.min - epoch.date()).days, (date.max - epoch.date()).days)
    for unit in ("s", "ms", "us"):
        assert [*exact.calendar(pa.timestamp(unit))] == [*exact.calendar(pa.timestamp(unit, "UTC"))] == ends
        assert [*exact.calendar(pa.timestamp(unit, "Asia/Tokyo"))] == [ends[0] + day, ends[1] - day]
    assert exact.calendar(pa.timestamp("ns")) == (-exact.MOST_NANOSECONDS, exact.MOST_NANOSECONDS)
