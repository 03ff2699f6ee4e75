"""Odd tables: columns of any type, spelled as files of any kind, of any size, under any name; drawn by Hypothesis."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from hypothesis import strategies as st

TEXT, NUMBER = "Zq7canary", 7348915062
"""What is planted in cells, and must not be repeated in any message."""

ROWS = (0, 1, 2, 30, 300)

SPECIAL = {
    **{
        t: (0, 1, -1, 2 ** (t.bit_width - 1) - 1, -(2 ** (t.bit_width - 1)))
        for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())
    },
    **{t: (0, 1, 2**t.bit_width - 1) for t in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
    pa.float32(): (0.0, -0.0, 1e-45, 3.4e38, 0.1, 7348915062.0),
    pa.float64(): (0.0, -0.0, 5e-324, 1.7e308, 0.1, 1 / 3, float("nan"), float("inf")),
    pa.bool_(): (True, False),
    pa.date32(): (date(1, 1, 1), date(1599, 12, 31), date(1970, 1, 1), date(2024, 2, 29), date(9999, 12, 31)),
    pa.timestamp("us"): (datetime(1, 1, 1), datetime(1970, 1, 1), datetime(2024, 2, 29, 12, 30), datetime.max),
    pa.timestamp("ns"): (datetime(1678, 1, 1), datetime(2024, 2, 29, 1, 2, 3, 4), datetime(2261, 12, 31)),
    pa.timestamp("s", "Europe/Paris"): (datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 7, 1, tzinfo=UTC)),
    pa.timestamp("ms", "America/St_Johns"): (datetime(1900, 1, 1, tzinfo=UTC), datetime(9998, 1, 1, tzinfo=UTC)),
    pa.time64("us"): (time(0), time(23, 59, 59, 999999), time(12, 30)),
    pa.time32("s"): (time(0), time(23, 59, 59)),
    pa.duration("us"): (timedelta(0), timedelta(days=-3), timedelta(days=99_999_999)),
    pa.duration("s"): (timedelta(0), timedelta(days=1)),
    pa.string(): (
        "",
        " ",
        "a",
        "É́",
        "東京",
        "😀\u200d",
        "\u202eabc",
        "a\tb",
        "NA",
        "null",
        "'\"",
        "[/]",
        "1",
        "0x1F",
        "=1+1",
    ),
    pa.large_string(): ("a", "b" * 500),
    pa.dictionary(pa.int8(), pa.string()): ("low", "high"),
    pa.null(): (None,),
}
for precision, scale in ((5, 2), (15, 0), (18, 2), (38, 0), (38, 37), (19, 19)):
    most = Decimal(f"{10**precision - 1}e-{scale}")
    SPECIAL[pa.decimal128(precision, scale)] = (Decimal(0), most, most.copy_negate(), Decimal(1).scaleb(-scale))

REFUSED = {
    pa.list_(pa.int64()): ([1], [], [NUMBER]),
    pa.struct([("a", pa.int64())]): ({"a": 1}, {"a": NUMBER}),
    pa.binary(): (b"\x00", TEXT.encode()),
    pa.map_(pa.string(), pa.int64()): ([("a", 1)],),
}
"""Types that no generator draws from; a column of one must be named in the refusal."""

NAMES = (
    *(
        "a",
        "Age",
        "age ",
        "pulse [/min]",
        "[/]",
        "[bold]x",
        "select",
        "from",
        'quo"te',
        "apo'strophe",
        "a.b",
        "a,b",
        "a;b",
    ),
    *(
        "ünï",
        "東京",
        "😀",
        "with space",
        "x" * 200,
        "1",
        "2024",
        "__index_level_0__",
        "%s{0}",
        "a\\b",
        "$a",
        "count(*)",
        "rowid",
    ),
    *("null", "row", "a\tb", "-", "--exclude", "source", "k", "n", "__proto__", "id"),
)


@dataclass(frozen=True)
class Case:
    """One table and how it is written."""

    table: pa.Table
    spelling: str
    quoting: str

    def write(self, folder: Path) -> str:
        """Write the table and return its address."""
        if self.spelling == "parquet":
            pq.write_table(self.table, folder / "t.parquet")
            return str(folder / "t.parquet")
        if self.spelling == "duckdb":
            with duckdb.connect(str(folder / "t.duckdb")) as con:
                con.register("arrow_rows", self.table)
                con.execute("CREATE TABLE t AS SELECT * FROM arrow_rows")
            return f"duckdb:///{folder / 't.duckdb'}?table=t"
        return str(self._csv(folder / "t.csv"))

    def _csv(self, path: Path) -> Path:
        delimiter = {"semicolon": ";", "tab": "\t"}.get(self.quoting, ",")
        text = pa.table([_text(c) for c in self.table.columns], names=self.table.column_names)
        options = pa.csv.WriteOptions(
            delimiter=delimiter, quoting_style="all_valid" if self.quoting == "all" else "needed"
        )
        pa.csv.write_csv(text, path, options)
        cells = path.read_bytes().decode()
        if self.quoting == "crlf":
            cells = cells.replace("\n", "\r\n")
        encoding = {"bom": "utf-8-sig", "latin": "latin-1", "utf16": "utf-16"}.get(self.quoting, "utf-8")
        path.write_bytes(cells.encode(encoding, errors="replace"))
        return path


def _text(column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    if pa.types.is_dictionary(column.type) or pa.types.is_decimal(column.type):
        return column.cast(pa.string())
    try:
        return pc.cast(column, pa.string())
    except (pa.ArrowException, ValueError):
        return pa.array([None if v is None else str(v) for v in column.to_pylist()], pa.string())


@st.composite
def columns(draw: st.DrawFn, rows: int, odd: bool) -> pa.Array:
    """Draw a column: constant, all null, unique, of few values or of many, with its type's extremes among them."""
    kinds = REFUSED if odd else SPECIAL
    storage = draw(st.sampled_from(sorted(kinds, key=str)))
    shape = draw(st.sampled_from(["few", "few", "few", "constant", "unique", "nulls", "planted"]))
    values = list(kinds[storage])
    if shape == "nulls":
        cells = [None] * rows
    elif shape == "constant":
        cells = [values[draw(st.integers(0, len(values) - 1))]] * rows
    elif shape == "unique" and pa.types.is_integer(storage) and storage.bit_width > 8:
        cells = list(range(rows))
    elif shape == "unique" and pa.types.is_string(storage):
        cells = [f"{TEXT}{i}" for i in range(rows)]
    else:
        if shape == "planted" and pa.types.is_string(storage):
            values.append(TEXT)
        if shape == "planted" and (pa.types.is_int64(storage) or pa.types.is_float64(storage)):
            values.append(NUMBER)
        some = draw(st.lists(st.sampled_from(range(len(values))), min_size=1, max_size=6))
        step = draw(st.sampled_from([1, 3]))
        cells = [values[some[i // step % len(some)]] for i in range(rows)]
        if draw(st.booleans()):
            cells = [None if i % 7 == 0 else c for i, c in enumerate(cells)]
    if pa.types.is_dictionary(storage):
        return pa.array(cells, pa.string()).dictionary_encode().cast(storage)
    return pa.array(cells, storage)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a table and a spelling of it; a few have a column of a type that is to be refused, or a name twice."""
    rows = draw(st.sampled_from([*ROWS, 30, 300, 300]))
    width = draw(st.sampled_from([1, 1, 2, 2, 3, 5, 12]))
    odd = draw(st.integers(0, width * 10))  # one table in ten or so
    made = [draw(columns(rows, odd=odd == i)) for i in range(width)]
    names = draw(st.lists(st.sampled_from(NAMES), min_size=width, max_size=width, unique=True))
    if width > 1 and draw(st.integers(0, 14)) == 0:
        names[1] = names[0].swapcase()
    spelling = draw(st.sampled_from(["parquet", "parquet", "duckdb", "csv"]))
    if odd < width and spelling == "csv":
        spelling = "parquet"
    quoting = draw(st.sampled_from(["plain", "all", "semicolon", "tab", "crlf", "bom", "latin", "utf16"]))
    return Case(pa.table(made, names=names), spelling, quoting)
