"""Each null policy for each kind, by rows alone and with released numbers alone."""

from __future__ import annotations

import stat
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.tabular import nulls, source
from dp_synth_pipeline.tabular.codec import TableCodec
from dp_synth_pipeline.tabular.measure import ProfilePlan
from dp_synth_pipeline.tabular.profile import ColumnProfile
from dp_synth_pipeline.tabular.schema import Column, Kind, NullPolicy
from tests.unit.tabular.snapshots import no_noise, profile, quiet, take

KINDS: dict[str, tuple[pa.DataType, list[Any], Any, Any]] = {
    # type, values, the mean or mode that fills, a constant that occurs nowhere
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


@pytest.mark.parametrize("name", KINDS)
def test_keep_leaves_every_null_where_it_was(tmp_path: Path, name: str) -> None:
    result, codec = completed(name, tmp_path, {})
    assert result["x"].cast(table(name)["x"].type).to_pylist() == table(name)["x"].to_pylist()
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
    assert result["x"].cast(kind, safe=False).to_pylist() == [*values, fill] * (ROWS // 4)
    codes = codec.encode(result).astype(np.int64)
    back = codec.decode(codes)["x"]
    assert back.type == kind
    assert back.to_pylist()[3::4] == [fill] * (ROWS // 4), "what fills has a code of its own"
    assert codec.columns[0].marginal[codes[3, 0]] >= 0.24


def test_the_mean_is_the_released_one_not_the_true_one(tmp_path: Path) -> None:
    taken = take(table("integer"), tmp_path, {"x": {"nulls": "mean"}})
    found = profile(taken, ProfilePlan(None, 400.0, 1e-6, population=ROWS))
    out = nulls.complete(taken.path, taken.schema, found, tmp_path / "completed.parquet")
    filled = set(pq.read_table(out)["x"].to_pylist()) - {10, 20, 40}
    assert filled <= {round(found["x"].mean or 0)}


def test_a_mode_that_nobody_may_know_is_refused() -> None:
    column = Column("c", Kind.CATEGORY, "string", NullPolicy.MEAN)
    with pytest.raises(InvalidInput, match="no category is frequent enough"):
        nulls.fill_value(column, ColumnProfile("c", Kind.CATEGORY, (), (), other=1.0))


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
    units = np.asarray(pq.read_table(out)[source.UNIT])
    assert units.tolist() == np.repeat(np.arange(50), 3).tolist()
