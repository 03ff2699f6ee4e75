"""Columns that hang on others come back in order, with the gaps that were coded, whatever the values are."""

from __future__ import annotations

import tempfile
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_synth_pipeline.tabular import offsets
from dp_synth_pipeline.tabular.constraints.hold import points
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from tests.unit.tabular.snapshots import no_noise, profile, quiet, take

FIRST, LAST = datetime(1700, 1, 1), datetime(2200, 1, 1)
MINUTES = (LAST - FIRST) // timedelta(minutes=1)

moments = st.integers(0, MINUTES).map(lambda k: FIRST + timedelta(minutes=k))
days = st.dates(date(2, 1, 1), date(9000, 1, 1))

PAIRS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any], pa.DataType, st.SearchStrategy[Any]]] = {
    # the base's type and values, the type of what comes after it, and how much later
    "days": (pa.date32(), days, pa.date32(), st.integers(0, 90_000).map(lambda d: timedelta(d))),
    "moments": (
        pa.timestamp("us"),
        moments,
        pa.timestamp("us"),
        st.integers(0, 10**6).map(lambda m: timedelta(0, 60 * m)),
    ),
    "paris": (
        *(pa.timestamp("us", "Europe/Paris"), moments),
        *(pa.timestamp("us", "UTC"), st.integers(0, 10**6).map(lambda m: timedelta(0, 60 * m))),
    ),
    "lengths": (
        *(pa.duration("us"), st.integers(-(10**6), 10**6).map(lambda s: timedelta(0, s))),
        *(pa.duration("us"), st.integers(0, 10**6).map(lambda s: timedelta(0, s))),
    ),
    "whole": (pa.int64(), st.integers(-(2**61), 2**61), pa.int64(), st.integers(0, 2**60)),
    "small": (pa.int8(), st.integers(-128, 27), pa.int8(), st.integers(0, 100)),
    "cents": (
        *(pa.float64(), st.integers(-(10**9), 10**9).map(lambda c: c / 100)),
        *(pa.float64(), st.integers(0, 10**6).map(lambda c: c / 100)),
    ),
    "decimals": (
        *(pa.decimal128(12, 2), st.integers(-(10**8), 10**8).map(lambda c: Decimal(c) / 100)),
        *(pa.decimal128(14, 2), st.integers(0, 10**6).map(lambda c: Decimal(c) / 100)),
    ),
    "mixed": (
        *(pa.int32(), st.integers(-(10**6), 10**6)),
        *(pa.float64(), st.integers(0, 10**4).map(lambda c: c / 4)),
    ),
}


@st.composite
def pairs(draw: st.DrawFn, name: str) -> pa.Table:
    """Rows of a base and of what comes after it, in which some gaps and nulls repeat; 120 to 200 rows."""
    kind, bases, later, gaps = PAIRS[name]
    zero = timedelta(0) if isinstance(draw(gaps), timedelta) else 0
    drawn = draw(st.lists(st.tuples(bases, gaps), min_size=2, max_size=20))
    rows = [(a, g) for a, g in drawn] * 6 + [(a, zero) for a, _ in drawn[:4]] * 12
    a = [base for base, _ in rows] + [None, rows[0][0]] * 12
    b = [base + gap for base, gap in rows] + [rows[0][0], None] * 12
    return pa.table({"a": pa.array(a, kind), "b": pa.array(b, later)})


def there_and_back(table: pa.Table, declared: dict[str, Any]) -> tuple[TableCodec, np.ndarray, pa.Table]:
    with tempfile.TemporaryDirectory() as folder, no_noise():
        taken = take(table, Path(folder), declared)
        codec = TableCodec(taken.schema, profile(taken, quiet(table.num_rows)))
    codes = codec.encode(table).astype(np.int64)
    return codec, codes, pa.Table.from_batches([codec.decode(codes)])


@pytest.mark.parametrize("name", PAIRS)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_what_comes_after_is_never_before_and_equal_where_it_was(name: str, data: st.DataObject) -> None:
    table = data.draw(pairs(name))
    codec, codes, back = there_and_back(table, {"b": {"after": "a"}})
    assert back.schema.types == codec.schema.arrow_schema().types
    a, b = (points(back[n].combine_chunks()) for n in ("a", "b"))
    if pa.types.is_decimal(a.type):
        a, b = a.cast(pa.float64()), b.cast(pa.float64())
    known = pc.and_(pc.is_valid(a), pc.is_valid(b))
    assert pc.all(pc.greater_equal(b.filter(known), a.filter(known)), min_count=0).as_py()
    assert back["b"].is_null().to_pylist() == [
        x is None or y is None for x, y in zip(table["a"].to_pylist(), table["b"].to_pylist(), strict=True)
    ]
    spike = codec.columns[1]
    if 0.0 in spike.heavy:  # a gap that is often 0 keeps a code, and equality comes back exactly
        own = codes[:, 1] == int(np.flatnonzero(spike.heavy == 0)[0])
        assert pc.all(pc.equal(b.filter(pa.array(own)), a.filter(pa.array(own))), min_count=0).as_py()


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_gaps_of_days_that_have_a_code_come_back_exactly(data: st.DataObject) -> None:
    table = data.draw(pairs("days"))
    codec, codes, back = there_and_back(table, {"b": {"after": "a"}})
    gap = [None if None in pair else (pair[1] - pair[0]).days for pair in zip(*table.to_pydict().values(), strict=True)]
    drawn = [
        None if None in pair else (pair[1] - pair[0]).days for pair in zip(*back.to_pydict().values(), strict=True)
    ]
    own = codes[:, 1] < len(codec.columns[1].heavy)
    assert [g for g, o in zip(gap, own, strict=True) if o] == [d for d, o in zip(drawn, own, strict=True) if o]
    assert own.sum() > len(own) / 2


@settings(max_examples=20, deadline=None)
@given(
    values=st.lists(moments, min_size=1, max_size=20),
    nulls=st.integers(0, 20),
    zone=st.sampled_from([None, "Asia/Tokyo"]),
)
def test_the_day_of_a_moment_is_its_day_in_every_row(values: list[datetime], nulls: int, zone: str | None) -> None:
    arrived = pa.array(values * 12 + [None] * nulls, pa.timestamp("us", zone))
    table = pa.table({"arrived": arrived, "visited": pa.array([date(2020, 1, 1)] * len(arrived))})
    codec, codes, back = there_and_back(table, {"visited": {"same_as": "arrived"}})
    assert codes.shape[1] == len(codec.columns) == 1
    local = arrived if zone is None else pc.local_timestamp(back["arrived"])
    local = back["arrived"] if zone is None else local
    assert back["visited"].to_pylist() == [None if m is None else m.date() for m in local.to_pylist()]


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(st.tuples(moments, st.integers(0, 400), st.integers(0, 10**5)), min_size=1, max_size=30),
    known=st.lists(
        st.sampled_from([(), ("a",), ("b",), ("c",), ("a", "c"), ("b", "c"), ("d",)]), min_size=30, max_size=30
    ),
)
def test_drawn_cells_are_placed_around_known_ones(rows: list[Any], known: list[Any]) -> None:
    """Of a chain, a the day of d, b days after a, c a moment after b: what is known stays, and all of it is in order."""
    from dp_synth_pipeline.tabular.declare import build

    types = {"d": pa.timestamp("us"), "a": pa.date32(), "b": pa.date32(), "c": pa.timestamp("us")}
    schema = build(types, {"a": {"same_as": "d"}, "b": {"after": "a"}, "c": {"after": "b"}})
    modelled = {
        "d": pa.array([r[0] for r in rows], pa.timestamp("us")),
        "b: after a": pa.array([r[1] for r in rows], pa.int64()),
        "c: after b": pa.array([timedelta(0, 60 * r[2]) for r in rows], pa.duration("us")),
    }
    whole = offsets.restored(modelled, schema)
    others = {n: pc.add(whole[n], pa.scalar(timedelta(40), pa.duration("us"))).cast(types[n]) for n in ("d", "c")}
    others |= {n: pa.array([v + timedelta(40) for v in whole[n].to_pylist()], types[n]) for n in ("a", "b")}
    there = {
        n: pa.array([v if n in k else None for v, k in zip(others[n].to_pylist(), known, strict=False)], types[n])
        for n in types
    }
    found = offsets.restored(modelled, schema, there)
    for name in types:
        assert pc.all(pc.or_kleene(pc.is_null(there[name]), pc.equal(there[name], found[name]))).as_py(), name
    table = pa.table({n: found[n] for n in types})
    assert offsets.agree(table, schema).all()
