"""Tables as they are compared."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
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
