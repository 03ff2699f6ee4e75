"""A small table with a column of every kind, its schema and a profile that fits it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import Kind, TableSchema, build

ROWS = 400
DAY = 86_400e6
STORAGE = {
    "id": pa.int64(),
    "age": pa.int32(),
    "amount": pa.float64(),
    "price": pa.decimal128(10, 2),
    "sector": pa.string(),
    "grade": pa.int8(),
    "member": pa.bool_(),
    "joined": pa.date32(),
    "seen": pa.timestamp("us"),
    "logged": pa.timestamp("ms", tz="Europe/Madrid"),
}


def schema(**declared: dict[str, Any]) -> TableSchema:
    return build(STORAGE, {"id": {"kind": "identifier"}, "grade": {"kind": "category"}} | declared)


def profile() -> TableProfile:
    def number(name: str, kind: Kind, low: float, high: float, nulls: float = 0.0, **more: Any) -> ColumnProfile:
        return ColumnProfile(name, kind, (), (), ((low, high),), (1.0 - nulls,), null_rate=nulls, **more)

    columns = (
        number("age", Kind.INTEGER, 18, 90, nulls=0.1),
        number("amount", Kind.DECIMAL, 0, 100, decimals=1),
        number("price", Kind.DECIMAL, 0, 50, decimals=2),
        ColumnProfile("sector", Kind.CATEGORY, ("north", "south"), (0.5, 0.4), other=0.1),
        ColumnProfile("grade", Kind.CATEGORY, ("1", "2", "3"), (0.3, 0.3, 0.4)),
        ColumnProfile("member", Kind.BOOLEAN, (True, False), (0.5, 0.5)),
        number("joined", Kind.DATE, 10_000, 12_000),
        number("seen", Kind.DATETIME, 10_000 * DAY, 12_000 * DAY),
        number("logged", Kind.DATETIME, 10_000 * DAY, 12_000 * DAY),
    )
    return TableProfile(ROWS, ROWS, "row", columns)


def good(seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    days = [int(d) for d in rng.integers(10_000, 12_000, ROWS)]
    moments = [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=d, minutes=61) for d in days]
    columns = {
        "id": list(range(1, ROWS + 1)),
        "age": [None if rng.random() < 0.1 else int(v) for v in rng.integers(18, 90, ROWS)],
        "amount": [float(v) for v in rng.random(ROWS).round(1) * 100],
        "price": pa.array([float(v) for v in rng.random(ROWS).round(2) * 50]).cast(STORAGE["price"], safe=False),
        "sector": [str(v) for v in rng.choice(["north", "south"], ROWS)],
        "grade": [int(v) for v in rng.integers(1, 4, ROWS)],
        "member": [bool(v) for v in rng.random(ROWS) < 0.5],
        "joined": [date(1970, 1, 1) + timedelta(days=d) for d in days],
        "seen": [m.replace(tzinfo=None) for m in moments],
        "logged": moments,
    }
    return pa.table({n: v if isinstance(v, pa.Array) else pa.array(v, STORAGE[n]) for n, v in columns.items()})


def spoiled(column: str, value: Any, rows: int = 1) -> pa.Table:
    """Return the good table with `value` in the first rows of one column."""
    table = good()
    values = [value] * rows + table[column].to_pylist()[rows:]
    storage = table.schema.field(column).type
    return table.set_column(table.schema.get_field_index(column), column, pa.array(values, storage))
