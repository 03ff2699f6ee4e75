"""Every kind of column goes to codes and back, whatever its values: same type, same nulls, same group."""

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

from dp_synth_pipeline.tabular.encoding.axis import AxisCodec
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
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
HUGE = pa.field("huge", pa.float64())
"""Doubles of every size; a field, to be told apart from the tamer ones."""

VALUES: dict[pa.DataType | pa.Field, st.SearchStrategy[Any]] = {
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
    pa.timestamp("us", "Europe/Paris"): moments(timedelta(seconds=30)),
    pa.duration("us"): st.timedeltas(timedelta(days=-40_000), timedelta(days=40_000)),
    pa.duration("s"): st.integers(-(10**9), 10**9).map(lambda s: timedelta(seconds=s)),
    HUGE: st.one_of(
        st.sampled_from([1e300, -1e300, 1e18, -1e18, 1e-12, -1e-12, 0.0]),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8),
    pa.dictionary(pa.int32(), pa.string()): st.text("abcdef", min_size=1, max_size=2),
}


@st.composite
def columns(draw: st.DrawFn, kind: pa.DataType, each: st.SearchStrategy[Any]) -> pa.Array:
    """A few values that repeat, some that do not, and maybe nulls, in one column of 40 to 140 rows."""
    repeated = draw(st.lists(each, min_size=1, max_size=5))
    single = draw(st.lists(each, max_size=30))
    times = draw(st.integers(8, 20))
    nulls = draw(st.sampled_from([0, 12]))
    values = repeated * times + single + [repeated[0]] * 32 + [None] * nulls
    return pa.array(values, pa.string() if pa.types.is_dictionary(kind) else kind).cast(kind)


def there_and_back(values: pa.Array, declared: dict[str, Any] | None = None) -> tuple[Any, np.ndarray, pa.Array]:
    """Return a column's codec, the codes of its values and what they decode to, through a profile without noise."""
    table = pa.table({"x": values})
    with tempfile.TemporaryDirectory() as folder, no_noise():
        taken = take(table, Path(folder), {"x": declared})
        found = profile(taken, quiet(len(values)))
    (column,) = (codec := TableCodec(taken.schema, found)).columns
    codes = codec.encode(table).astype(np.int64)[:, 0]
    assert codes.min(initial=0) >= 0
    assert codes.max(initial=0) < codec.cardinalities[0]
    assert codec.marginals()[0].sum() == pytest.approx(1)
    back = codec.decode(codes[:, None])["x"]
    assert back.type == taken.schema["x"].arrow_type
    for few in (0, 1):  # tables of no row and of one
        part = codec.decode(codec.encode(table.slice(0, few)).astype(np.int64))
        assert (part.num_rows, part["x"].type) == (few, back.type)
    return column, codes, back


@pytest.mark.parametrize("kind", VALUES, ids=str)
@settings(max_examples=5)
@given(data=st.data())
def test_a_column_goes_to_codes_and_back(kind: pa.DataType | pa.Field, data: st.DataObject) -> None:
    values = data.draw(columns(kind.type if kind is HUGE else kind, VALUES[kind]))
    kind = values.type
    column, codes, back = there_and_back(values)
    if pa.types.is_timestamp(kind):  # Parquet has no seconds
        assert back.type.tz == kind.tz
    elif not (pa.types.is_dictionary(kind) or pa.types.is_duration(kind)):  # and no dictionaries
        assert back.type == kind
    unnamed = codes == (-1 if isinstance(column, AxisCodec) or column.other is None else column.other)
    kept = np.asarray(values.is_null()) & (column.null is not None)
    assert (np.asarray(back.is_null()) == (kept | unnamed)).all()
    if not pa.types.is_float32(kind):  # single precision may round a value over the end of its group
        assert (column.encode(back)[~unnamed] == codes[~unnamed]).all(), "a value stays in its group"
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
    x, null = kind.to_axis(values)
    y, _ = kind.to_axis(back)
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


@pytest.mark.parametrize("policy", ["keep", "mean", "median", "mode"])
@pytest.mark.parametrize("kind", [*VALUES, pa.null()], ids=str)
def test_a_column_of_nulls_has_one_code_that_decodes_to_null(kind: pa.DataType | pa.Field, policy: str) -> None:
    kind = kind.type if isinstance(kind, pa.Field) else kind
    column, codes, back = there_and_back(pa.nulls(60, kind), {"nulls": policy})
    assert (column.cardinality, set(codes), back.null_count) == (1, {0}, 60)


@pytest.mark.parametrize("kind", VALUES, ids=str)
@settings(max_examples=5)
@given(data=st.data())
def test_a_column_of_one_value_has_one_code_that_decodes_to_it(
    kind: pa.DataType | pa.Field, data: st.DataObject
) -> None:
    value = data.draw(VALUES[kind])
    values = pa.array(
        [value] * 60, pa.string() if not isinstance(kind, pa.Field) and pa.types.is_dictionary(kind) else None
    )
    values = values.cast(kind.type if isinstance(kind, pa.Field) else kind)
    column, _, back = there_and_back(values)
    assert column.cardinality == 1
    if pa.types.is_float64(back.type):
        assert back.to_pylist() == pytest.approx(values.to_pylist(), rel=2e-12, abs=1e-15), "a double to 12 digits"
    elif not pa.types.is_dictionary(values.type):
        assert back.cast(values.type).to_pylist() == values.to_pylist()
    else:
        assert back.to_pylist() == values.to_pylist()


@settings(max_examples=10)
@given(data=st.data())
def test_thousands_of_categories_and_a_long_tail_stay_in_their_runs(data: st.DataObject) -> None:
    many, times = data.draw(st.integers(1000, 3000)), data.draw(st.integers(2, 6))
    values = [f"v{i}" for i in range(many)] * times + [f"v{i}" for i in range(40)] * 30 + ["once"]
    column, codes, back = there_and_back(pa.array(values))
    assert column.cardinality <= 65
    other = np.asarray(back.is_null())
    assert (other == (codes == (-1 if column.other is None else column.other))).all()
    assert (column.encode(back)[~other] == codes[~other]).all()
    own = codes < 40
    assert [b for b, o in zip(back.to_pylist(), own, strict=True) if o] == [
        v for v, o in zip(values, own, strict=True) if o
    ]


@settings(max_examples=15)
@given(values=st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=200), nulls=st.sampled_from([0, 9]))
def test_whole_numbers_read_as_ordinals_keep_their_order_in_their_codes(values: list[int], nulls: int) -> None:
    held = values * 8 + [values[0]] * 30 + [None] * nulls
    column, codes, back = there_and_back(pa.array(held, pa.int32()), {"kind": "ordinal"})
    present = np.array([v is not None for v in held])
    x = np.array([v for v in held if v is not None])
    in_order = codes[present][np.argsort(x, kind="stable")]
    assert (np.diff(in_order) >= 0).all(), "the greater value never has the lesser code"
    assert column.cardinality <= 65
    assert (column.encode(back) == codes).all()
    if len(set(values)) <= 64:
        assert back.to_pylist() == held


@settings(max_examples=15)
@given(
    names=st.lists(st.text("abcdefgh", min_size=1, max_size=4), min_size=2, max_size=150, unique=True), data=st.data()
)
def test_declared_ordinals_keep_the_declared_order_and_strangers_stay_apart(
    names: list[str], data: st.DataObject
) -> None:
    held = data.draw(st.lists(st.sampled_from(names), min_size=20, max_size=100))
    facts = {"kind": "ordinal", "categories": names, "other": data.draw(st.sampled_from(["drop", "draw"]))}
    column, codes, back = there_and_back(pa.array([*held, *["STRANGER"] * 40]), facts)
    place = np.array([names.index(v) for v in held])
    assert (np.diff(codes[: len(held)][np.argsort(place, kind="stable")]) >= 0).all()
    assert (column.encode(back)[: len(held)] == codes[: len(held)]).all()
    assert set(back.to_pylist()[len(held) :]) == ({None} if facts["other"] == "drop" else {"other"})
    assert column.forbidden == ((column.other,) if facts["other"] == "drop" else ())
