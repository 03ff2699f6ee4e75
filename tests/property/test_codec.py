"""Every kind of column goes to codes and back, whatever its values: same type, same nulls, same cell."""

from __future__ import annotations

import tempfile
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_synth_pipeline.tabular import grid
from dp_synth_pipeline.tabular.codec import TableCodec
from dp_synth_pipeline.tabular.columns.axis import AxisCodec
from tests.unit.tabular.snapshots import no_noise, profile, quiet, take

EXACT = 2**53
"""Whole numbers up to here are exact on the axis."""


def integers(kind: pa.DataType) -> st.SearchStrategy[int]:
    info = np.iinfo(str(kind))
    return st.integers(max(info.min, -EXACT), min(info.max, EXACT))


def moments(step: timedelta) -> st.SearchStrategy[datetime]:
    first, last = datetime(1700, 1, 1), datetime(2250, 1, 1)
    return st.integers(0, (last - first) // step).map(lambda k: first + k * step)


WHOLE = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    **{kind: integers(kind) for kind in WHOLE},
    pa.float32(): st.floats(-1e6, 1e6, width=32),
    pa.float64(): st.one_of(
        st.floats(-1e9, 1e9).filter(lambda x: abs(x) > 1e-9 or x == 0),
        st.integers(-(10**7), 10**7).map(lambda k: k / 100),
    ),
    pa.decimal128(14, 2): st.integers(-(10**13), 10**13).map(lambda k: Decimal(k) / 100),
    pa.decimal128(5, 3): st.integers(-99_999, 99_999).map(lambda k: Decimal(k) / 1000),
    pa.date32(): st.dates(date(1, 1, 1), date(9999, 12, 31)),
    pa.timestamp("s"): moments(timedelta(seconds=1)),
    pa.timestamp("ms"): moments(timedelta(milliseconds=1)),
    pa.timestamp("us"): moments(timedelta(microseconds=1)),
    pa.timestamp("ns"): moments(timedelta(hours=1)),
    pa.timestamp("us", "UTC"): moments(timedelta(minutes=1)),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8),
    pa.dictionary(pa.int32(), pa.string()): st.text("abcdef", min_size=1, max_size=2),
}


@st.composite
def columns(draw: st.DrawFn, kind: pa.DataType) -> pa.Array:
    """A few values that repeat, some that do not, and maybe nulls, in one column of 40 to 140 rows."""
    repeated = draw(st.lists(VALUES[kind], min_size=1, max_size=5))
    single = draw(st.lists(VALUES[kind], max_size=30))
    times = draw(st.integers(8, 20))
    nulls = draw(st.sampled_from([0, 12]))
    values = repeated * times + single + [repeated[0]] * 32 + [None] * nulls
    return pa.array(values, pa.string() if pa.types.is_dictionary(kind) else kind).cast(kind)


@pytest.mark.parametrize("kind", VALUES, ids=str)
@settings(max_examples=5)
@given(data=st.data())
def test_a_column_goes_to_codes_and_back(kind: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(columns(kind))
    table = pa.table({"x": values})
    with tempfile.TemporaryDirectory() as folder, no_noise():
        taken = take(table, Path(folder))
        found = profile(taken, quiet(len(values)))
    (column,) = (codec := TableCodec(taken.schema, found)).columns
    codes = codec.encode(table).astype(np.int64)[:, 0]
    assert codes.min() >= 0
    assert codes.max() < codec.cardinalities[0]

    back = codec.decode(codes[:, None])["x"]
    assert back.type == taken.schema["x"].arrow_type
    if not (pa.types.is_timestamp(kind) or pa.types.is_dictionary(kind)):  # Parquet has no seconds and no dictionaries
        assert back.type == kind
    unnamed = codes == (-1 if isinstance(column, AxisCodec) or column.other is None else column.other)
    kept = np.asarray(values.is_null()) & (column.null is not None)
    assert (np.asarray(back.is_null()) == (kept | unnamed)).all()
    assert (column.null is not None) == (values.null_count > 0)

    if isinstance(column, AxisCodec):
        check_cells(column, values, codes, back)
    else:
        own = set(column.values[: column.own])  # any other value may take another's code
        named = [v in own for v in values.to_pylist()]
        assert [b for b, n in zip(back.to_pylist(), named, strict=True) if n] == [
            v for v, n in zip(values.to_pylist(), named, strict=True) if n
        ]


def check_cells(column: AxisCodec, values: pa.Array, codes: np.ndarray, back: pa.Array) -> None:
    """A heavy value comes back as it is, a double to 12 digits; others lie within the ends of their group's cells."""
    kind, heavy = column.column.kind, len(column.heavy)
    x, null = grid.to_axis(values, kind)
    y, _ = grid.to_axis(back, kind)
    own = (codes < heavy) & ~null & np.isin(x, column.heavy)
    single = pa.types.is_float32(back.type)
    assert y[own] == pytest.approx(x[own], rel=0 if single else 1e-12, abs=0), "single precision is exact"
    ends = np.append(column.starts[1:], len(column.mass))
    for code in np.unique(codes[(codes >= heavy) & ~null]) if len(column.starts) else []:
        if code == column.null:
            continue
        members = slice(column.starts[code - heavy], ends[code - heavy])
        low, high = column.low[members].min(), column.high[members].max()
        room = max(column.step, 1e-6 * max(abs(low), abs(high)) if single else 0, np.spacing(max(abs(low), abs(high))))
        drawn = y[codes == code]
        assert drawn.min() >= low - room
        assert drawn.max() <= high + room
