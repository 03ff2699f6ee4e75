"""Each null policy for each kind, by rows alone and with released numbers alone."""

from __future__ import annotations

import stat
import tempfile
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.tabular.encoding import nulls
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan
from dp_synth_pipeline.tabular.schema import Column, Kind, NullPolicy, TableSchema
from dp_synth_pipeline.tabular.sources import ingestion
from tests.unit.tabular.snapshots import no_noise, profile, quiet, take

pytestmark = pytest.mark.slow

KINDS: dict[str, tuple[pa.DataType, list[Any], Any, Any]] = {
    # type, values, the mean or mode that fills, a constant that occurs nowhere
    "duration": (
        pa.duration("us"),
        [timedelta(days=-1), timedelta(days=-1), timedelta(days=5)],
        timedelta(days=1),
        timedelta(hours=7),
    ),
    "category": (pa.string(), ["x", "y", "x"], "x", "unknown"),
    "boolean": (pa.bool_(), [True, False, True], True, False),
    "integer": (pa.int16(), [10, 20, 40], 23, -1),
    "unsigned": (pa.uint8(), [10, 20, 40], 23, 255),
    "decimal": (pa.float64(), [1.25, 2.25, 4.0], 2.5, -0.75),
    "single": (pa.float32(), [1.25, 2.25, 4.0], 2.5, -0.75),
    "stored": (
        pa.decimal128(9, 2),
        [Decimal("1.25"), Decimal("2.25"), Decimal("4.00")],
        Decimal("2.50"),
        Decimal("-7.10"),
    ),
    "date": (pa.date32(), [date(1960, 1, 1), date(1960, 1, 3), date(1960, 1, 5)], date(1960, 1, 3), date(1900, 1, 1)),
    "datetime": (
        pa.timestamp("us"),
        [datetime(1960, 1, 1), datetime(1960, 1, 3), datetime(1960, 1, 5)],
        datetime(1960, 1, 3),
        datetime(2000, 1, 1, 12, 30),
    ),
    "zoned": (
        pa.timestamp("us", "UTC"),
        [datetime(2020, 1, d, tzinfo=UTC) for d in (1, 3, 5)],
        datetime(2020, 1, 3, tzinfo=UTC),
        datetime(2000, 1, 1, 12, 30, tzinfo=UTC),
    ),
}
ROWS = 400


def table(name: str) -> pa.Table:
    kind, values, _, _ = KINDS[name]
    column = pa.array([*values, None] * (ROWS // 4), kind)
    return pa.table({"x": column, "row": pa.array(np.arange(ROWS))})


def completed(name: str, folder: Path, facts: dict[str, Any]) -> tuple[pa.Table, TableCodec]:
    taken = take(table(name), folder, {"x": facts, "row": {"kind": "integer"}})
    with no_noise():
        found = profile(taken, quiet(ROWS))
    out = nulls.complete(taken.path, taken.schema, found, folder / "restricted" / "completed.parquet")
    assert stat.S_IMODE(out.stat().st_mode) == 0o400
    assert not list(folder.glob("restricted/*.partial"))
    return pq.read_table(out), TableCodec(taken.schema, found)


def as_given(result: pa.Table, name: str) -> list[Any]:
    """Read a completed column; a snapshot holds durations as microseconds."""
    kind = KINDS[name][0]
    return result["x"].cast(kind, safe=False).to_pylist()


@pytest.mark.parametrize("name", KINDS)
def test_keep_leaves_every_null_where_it_was(tmp_path: Path, name: str) -> None:
    result, codec = completed(name, tmp_path, {})
    assert as_given(result, name) == table(name)["x"].to_pylist()
    assert codec.columns[0].null is not None


@pytest.mark.parametrize("name", KINDS)
def test_drop_leaves_out_exactly_the_rows_with_a_null(tmp_path: Path, name: str) -> None:
    result, codec = completed(name, tmp_path, {"nulls": "drop"})
    assert result["row"].to_pylist() == [i for i in range(ROWS) if i % 4 != 3]
    assert codec.columns[0].null is None


@pytest.mark.parametrize("policy", ["mean", "constant"])
@pytest.mark.parametrize("name", KINDS)
def test_a_fill_replaces_every_null_and_is_generated_again(tmp_path: Path, name: str, policy: str) -> None:
    kind, values, mean, constant = KINDS[name]
    fill = mean if policy == "mean" else constant
    facts = {"nulls": policy} if policy == "mean" else {"nulls": policy, "constant": constant}
    result, codec = completed(name, tmp_path, facts)
    assert result.num_rows == ROWS
    assert result["x"].null_count == 0
    assert as_given(result, name) == [*values, fill] * (ROWS // 4)
    codes = codec.encode(result).astype(np.int64)
    back = codec.decode(codes)["x"]
    assert back.type == kind
    assert back.to_pylist()[3::4] == [fill] * (ROWS // 4), "what fills has a code of its own"
    assert codec.columns[0].marginal[codes[3, 0]] >= 0.24


FIGURES = {  # the median and the mode of KINDS' values
    "category": ("x", "x"),
    "boolean": (True, True),
    "integer": (20, 10),
    "unsigned": (20, 10),
    "decimal": (2.25, 1.25),
    "stored": (Decimal("2.25"), Decimal("1.25")),
    "date": (date(1960, 1, 3), date(1960, 1, 1)),
    "datetime": (datetime(1960, 1, 3), datetime(1960, 1, 1)),
    "duration": (timedelta(days=-1), timedelta(days=-1)),
}


@pytest.mark.parametrize("policy", ["median", "mode"])
@pytest.mark.parametrize("name", FIGURES)
def test_the_median_and_the_mode_fill_in_what_the_histogram_says(tmp_path: Path, name: str, policy: str) -> None:
    result, codec = completed(name, tmp_path, {"nulls": policy})
    fill = FIGURES[name][policy == "mode"]
    assert as_given(result, name) == [*KINDS[name][1], fill] * (ROWS // 4)
    assert codec.columns[0].null is None


def test_an_ordinal_is_filled_with_the_middle_of_its_order(tmp_path: Path) -> None:
    facts = {"kind": "ordinal", "categories": ["low", "middle", "high"]}
    held = pa.array((["low"] * 3 + ["middle"] * 4 + ["high"] * 6 + [None]) * 20)
    for policy, fill in (("median", "middle"), ("mean", "high"), ("mode", "high")):
        taken = take(pa.table({"x": held}), tmp_path / policy, {"x": {**facts, "nulls": policy}})
        with no_noise():
            found = profile(taken, quiet(len(held)))
        out = nulls.complete(taken.path, taken.schema, found, tmp_path / policy / "c.parquet")
        assert pq.read_table(out)["x"].to_pylist()[13] == fill
        assert TableCodec(taken.schema, found).columns[0].values == ["low", "middle", "high"]  # type: ignore[union-attr]


def test_a_column_of_nulls_has_nothing_to_fill_them_with(tmp_path: Path) -> None:
    for kind in (pa.int16(), pa.string(), pa.bool_(), pa.date32(), pa.duration("us")):
        data = pa.table({"x": pa.nulls(ROWS, kind), "y": [1, 2] * (ROWS // 2)})
        taken = take(data, tmp_path / str(kind), nulls="mode")
        found = profile(taken, quiet(ROWS, scale=0.05))  # with more, a draw now and then counts a row that is no null
        out = nulls.complete(taken.path, taken.schema, found, tmp_path / str(kind) / "c.parquet")
        assert pq.read_table(out)["x"].null_count == ROWS
        assert found["x"].null_rate == 1


ROW = st.tuples(st.none() | st.integers(0, 5), st.none() | st.sampled_from("ab"), st.integers(0, 9))


@settings(max_examples=20, deadline=None)
@given(rows=st.lists(ROW, min_size=2), extra=ROW)
@pytest.mark.parametrize("policy", ["drop", "mean", "keep"])
def test_every_policy_acts_on_each_row_by_itself(policy: str, rows: list[tuple], extra: tuple) -> None:
    """Neighbours stay neighbours: one row more adds at most that row, with one and the same released profile."""

    def completed_rows(held: list[tuple], folder: Path) -> Counter:
        a, b, c = zip(*held, strict=True)
        data = pa.table({"a": pa.array(a, pa.int64()), "b": pa.array(b, pa.string()), "c": pa.array(c, pa.int64())})
        pq.write_table(data, folder / "snapshot.parquet")
        out = nulls.complete(folder / "snapshot.parquet", schema, released, folder / "completed.parquet")
        return Counter(tuple(row.values()) for row in pq.read_table(out).to_pylist())

    kinds = {"a": (Kind.INTEGER, "int64"), "b": (Kind.CATEGORY, "string"), "c": (Kind.INTEGER, "int64")}
    schema = TableSchema(tuple(Column(n, *kinds[n], NullPolicy(policy)) for n in kinds))
    numbers = [ColumnProfile(n, Kind.INTEGER, (3.0,), (0.9,), null_rate=0.1) for n in "ac"]
    released = TableProfile(9, 9, "row", (*numbers, ColumnProfile("b", Kind.CATEGORY, ("a",), (0.9,), null_rate=0.1)))
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        before, after = completed_rows(rows, Path(one)), completed_rows([*rows, extra], Path(other))
    assert not before - after, "no other row changes"
    added = list((after - before).elements())
    if policy == "drop":
        assert added == ([] if None in extra else [extra])
    else:
        assert len(added) == 1
        assert all(x == e for x, e in zip(added[0], extra, strict=True) if e is not None)


def test_the_mean_is_the_released_one_not_the_true_one(tmp_path: Path) -> None:
    taken = take(table("integer"), tmp_path, {"x": {"nulls": "mean", "lower": 0, "upper": 1000}})
    found = profile(taken, ProfilePlan(None, 40_000.0, 1e-6, population=ROWS))
    out = nulls.complete(taken.path, taken.schema, found, tmp_path / "completed.parquet")
    filled = set(pq.read_table(out)["x"].to_pylist()) - {10, 20, 40}
    assert filled <= {round(found["x"].mean or 0)}


def test_a_mode_that_nobody_may_know_is_refused() -> None:
    column = Column("c", Kind.CATEGORY, "string", NullPolicy.MEAN)
    with pytest.raises(InvalidInput, match="no category is frequent enough"):
        nulls.fill_value(column, ColumnProfile("c", Kind.CATEGORY, (), (), other=1.0))


@pytest.mark.parametrize("policy", ["mean", "median", "mode"])
def test_a_figure_of_numbers_that_noise_hides_is_refused(policy: str) -> None:
    column = Column("x", Kind.INTEGER, "int64", NullPolicy(policy))
    with pytest.raises(InvalidInput, match=f"private {policy}, but noise hides"):
        nulls.fill_value(column, ColumnProfile("x", Kind.INTEGER, (), (), other=0.9, null_rate=0.1))


def test_a_value_in_quotes_cannot_break_the_query(tmp_path: Path) -> None:
    facts = {"nulls": "constant", "constant": "'); DROP TABLE snapshot; --"}
    result, _ = completed("category", tmp_path, facts)
    assert facts["constant"] in result["x"].to_pylist()


def test_a_failure_leaves_no_half_written_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = take(table("integer"), tmp_path)
    found = profile(taken, quiet(ROWS))

    def fail(snapshot: Path, query: str, values: list[Any], out: Path) -> None:
        out.write_text("half")
        raise duckdb.IOException("No space left on device")

    monkeypatch.setattr(nulls, "_copy", fail)
    with pytest.raises(duckdb.IOException):
        nulls.complete(taken.path, taken.schema, found, tmp_path / "restricted" / "completed.parquet")
    assert [p.name for p in (tmp_path / "restricted").iterdir()] == ["snapshot.parquet"]


def test_unit_numbers_survive_in_order(tmp_path: Path) -> None:
    who = pa.array(np.repeat(np.arange(50), 4))
    data = pa.table({"who": who, "x": pa.array([1, 2, None, 4] * 50), "y": pa.array([None, "a", "b", "c"] * 50)})
    taken = take(data, tmp_path, {"x": {"nulls": "drop"}, "y": {"nulls": "mean"}}, unit=PrivacyUnit("who", 4))
    out = nulls.complete(
        taken.path,
        taken.schema,
        profile(taken, ProfilePlan(1.0, 1.0, 1e-6, PrivacyUnit("who", 4))),
        tmp_path / "c.parquet",
    )
    units = np.asarray(pq.read_table(out)[ingestion.UNIT])
    assert units.tolist() == np.repeat(np.arange(50), 3).tolist()


def test_a_number_that_is_declared_a_category_is_filled_as_one(tmp_path: Path) -> None:
    result, _ = completed("integer", tmp_path, {"kind": "category", "nulls": "constant", "constant": "7"})
    assert sorted(set(result["x"].to_pylist())) == ["10", "20", "40", "7"]
