"""Delta tables are read at one version, with pushdown, and replaced in one commit."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.sources import ingestion, source
from dp_synth_pipeline.targets import sink

deltalake = pytest.importorskip("deltalake")

ROWS = pa.table(
    {
        "age": pa.array([30, 40, 50, None], pa.int32()),
        "cost": pa.array([Decimal("1.25"), Decimal(2), Decimal(3), Decimal(4)], pa.decimal128(8, 2)),
        "city": ["Rome", "Oslo", "Rome", None],
        "seen": pa.array([1, 2, 3, None], pa.timestamp("us", "UTC")),
        "secret": ["a", "b", "c", "d"],
    }
)
HIDDEN = {"secret": {"kind": "excluded"}}


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    deltalake.write_deltalake(str(tmp_path / "lake"), ROWS.slice(0, 2))
    deltalake.write_deltalake(str(tmp_path / "lake"), ROWS.slice(2), mode="append")
    return tmp_path / "lake"


def snapshot(uri: str, folder: Path, where: str | None = None) -> tuple[ingestion.Snapshot, pa.Table]:
    taken = ingestion.snapshot(source.parse(uri, where=where), folder / "r" / "s.parquet", declared=HIDDEN)
    return taken, pq.read_table(taken.path)


@pytest.mark.parametrize("form", ["delta://{}", "{}"])
def test_a_delta_table_is_read_with_its_types_and_without_what_is_excluded(lake, tmp_path, form):
    taken, rows = snapshot(form.format(lake), tmp_path)
    kept = {c.name: c.storage for c in taken.schema.learned}
    assert kept == {"age": "int32", "cost": "decimal128(8, 2)", "city": "string", "seen": "timestamp[us, tz=UTC]"}
    assert rows.column_names == list(kept)
    assert sorted(rows["cost"].to_pylist()) == ROWS["cost"].to_pylist()
    assert [p.name for p in taken.path.parent.iterdir()] == ["s.parquet"]


def test_the_current_version_and_the_rows_of_the_filter_are_read(lake, tmp_path):
    ages = snapshot(f"delta://{lake}", tmp_path, "city = 'Rome'")[1]["age"]
    assert sorted(ages.to_pylist()) == [30, 50]
    deltalake.DeltaTable(str(lake)).delete("age = 30")
    assert snapshot(f"delta://{lake}", tmp_path / "later")[1].num_rows == 3


def test_a_delta_table_is_replaced_with_another_schema_in_one_version(lake, tmp_path):
    new = pa.table({"x": pa.array([1, 2], pa.uint16()), "took": pa.array([5, None], pa.duration("us"))})
    pq.write_table(new, tmp_path / "s.parquet")
    uri = f"delta://{lake}"
    sink.check_writable(uri)
    assert sink.publish(tmp_path / "s.parquet", uri) == uri
    table = deltalake.DeltaTable(str(lake))
    assert table.version() == 2
    assert table.to_pyarrow_table().to_pydict() == {"x": [1, 2], "took": [5, None]}
    assert deltalake.DeltaTable(str(lake), version=1).to_pyarrow_table().num_rows == 4


def test_a_publish_that_fails_halfway_leaves_the_old_version(lake, tmp_path):
    pq.write_table(pa.table({"x": range(100_000)}), tmp_path / "s.parquet")
    damaged = (tmp_path / "s.parquet").read_bytes()
    middle = len(damaged) // 2
    (tmp_path / "s.parquet").write_bytes(damaged[: middle - 500] + os.urandom(1000) + damaged[middle + 500 :])
    with pytest.raises(Exception):  # noqa: B017, PT011
        sink.publish(tmp_path / "s.parquet", f"delta://{lake}")
    assert deltalake.DeltaTable(str(lake)).version() == 1


def test_a_new_folder_is_made_and_one_with_other_files_is_refused(tmp_path):
    pq.write_table(ROWS, tmp_path / "s.parquet")
    uri = f"delta://{tmp_path / 'deep' / 'lake'}"
    sink.check_writable(uri)
    sink.publish(tmp_path / "s.parquet", uri)
    assert deltalake.DeltaTable(str(tmp_path / "deep" / "lake")).to_pyarrow_table().num_rows == 4
    with pytest.raises(InvalidInput, match="holds something else than a Delta table"):
        sink.check_writable(f"delta://{tmp_path}")


def test_a_folder_without_a_delta_table_and_a_damaged_log_are_refused(lake, tmp_path):
    with pytest.raises(InvalidInput, match="there is no Delta table"):
        snapshot(f"delta://{tmp_path / 'nothing'}", tmp_path)
    for log in (lake / "_delta_log").iterdir():
        log.write_text("{'secret': 1}")
    with pytest.raises(InvalidInput, match="its log is damaged") as refused:
        snapshot(f"delta://{lake}", tmp_path)
    assert "secret" not in str(refused.value)
