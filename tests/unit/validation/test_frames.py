"""Tables as they are compared."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.tabular.schema import Kind
from dp_synth_pipeline.validation import binning, frames


def test_decimals_with_nulls_lie_on_their_number_line(tmp_path: Path) -> None:
    values = [Decimal("1.5"), None, Decimal("2.5")]
    pq.write_table(pa.table({"x": pa.array(values, pa.decimal128(19, 2))}), tmp_path / "t.parquet")
    found = binning.axis(frames.read_frame(tmp_path / "t.parquet", ["x"])["x"], Kind.DECIMAL)
    np.testing.assert_array_equal(found, [1.5, np.nan, 2.5])


def test_columns_of_a_large_table_may_have_any_name(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(frames, "LARGEST", 2)
    names = ["pulse [/min]", 'quo"te', "count(*)"]
    pq.write_table(pa.table({n: [1, 2, 3] for n in names}), tmp_path / "t.parquet")
    assert list(frames.read_frame(tmp_path / "t.parquet", names).columns) == names


def test_dates_and_times_beyond_what_python_has_lie_at_its_ends_and_nulls_stay() -> None:
    days, moments = [3_663_000, None, -800_000, 0], [320_000_000_000, None, -70_000_000_000, 0]
    columns = {"day": pa.array(days, pa.int32()).cast(pa.date32())}
    for unit, more in (("s", 1), ("ms", 1000), ("us", 1_000_000)):
        for zone in (None, "America/New_York", "Asia/Tokyo"):
            cells = [None if m is None else m * more for m in moments]
            columns[f"{unit} {zone}"] = pa.array(cells).cast(pa.timestamp(unit, zone))
    found = frames.plain(pa.table(columns))
    for name in columns:
        cells = found[name].astype(object)
        assert [pd.isna(c) or c.year for c in cells[:3]] == [9999, True, 1], name
        assert columns[name].type == found[name].dtype.pyarrow_dtype
        assert cells[3] == columns[name][3].as_py(), "one that Python has is left alone"


def test_the_last_day_that_python_has_often_stands_for_never_and_is_left_alone() -> None:
    columns = {
        "day": pa.array([date(9999, 12, 31), date(1, 1, 1)]),
        "moment": pa.array([datetime(9999, 12, 31, 23, 59, 59), datetime(1, 1, 1)], pa.timestamp("s")),
    }
    found = frames.plain(pa.table(columns))
    assert {name: found[name].tolist() for name in columns} == {n: c.to_pylist() for n, c in columns.items()}
