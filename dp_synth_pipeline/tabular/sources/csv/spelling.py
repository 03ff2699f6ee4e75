"""How a CSV spells its cells, told from all rows: words for booleans and nulls, and the one format of dates and times.

Like a storage type, a spelling is public: yes or no for a whole column and one of a fixed list of formats. Nothing of a
cell is in it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import duckdb

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular import formats
from dp_synth_pipeline.tabular.sources.csv import words
from dp_synth_pipeline.tabular.sources.csv.declared import DeclaredCells
from dp_synth_pipeline.tabular.sql import literal, quoted

ORDERS = ("%Y{0}%m{0}%d", "%d{0}%m{0}%Y", "%m{0}%d{0}%Y", "%d{0}%m{0}%y", "%m{0}%d{0}%y", "%y{0}%m{0}%d")
PADDED = [o.format(s) for s in "-/." for o in ORDERS if s != "." or not o.startswith("%m")]  # a dot is day first
PADDED += ["%d-%b-%Y"]
DATES = [*PADDED, *(d.replace("%m", "%-m").replace("%d", "%-d") for d in PADDED)]
CLOCKS = ["%H:%M", "%H:%M:%S", "%H:%M:%S.%g", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p"]
TIMES = [*CLOCKS, *(c.replace("%H", "%-H").replace("%I", "%-I") for c in CLOCKS)]
"""What is tried, in DuckDB's strftime: a time, or a date, or with `T` or a blank both, and then also a suffix for UTC."""

SHAPE = re.compile(r"(?P<date>[^T :]+)(?:(?P<between>[T ])(?P<time>[\d:.]+(?: [AP]M)?)(?P<zone>Z|\+00(?::?00)?)?)?")
DIGITS = {"Y": r"\d{4}", "g": r"\d{3}", "f": r"\d{6}", "b": "[A-Z][a-z]{2}", "p": "[AP]M"}

TEMPORAL = ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIME")
SAMPLE = 2048


@dataclass(frozen=True)
class Spelling:
    """How a CSV spells its cells.

    Attributes:
        text: columns to be read as text.
        formats: for each column with one, the format that its cells are written in.
        values: the SQL of the value of each column whose cells are not values yet.
    """

    text: tuple[str, ...] = ()
    formats: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def replaced(self) -> str:
        """What follows `SELECT *` so that the cells of all columns are values."""
        values = ", ".join(f"{value} AS {quoted(n)}" for n, value in self.values.items())
        return f" REPLACE ({values})" if values else ""


def find(con: duckdb.DuckDBPyConnection, read: words.Read, names: Collection[str], cells: DeclaredCells) -> Spelling:
    """Look at all rows for the columns that stay text, words that stand for nulls, and formats of dates and times.

    Declared formats hold; in the columns that DuckDB takes for dates or times, or for text though every cell is one, a
    format is found if it writes every cell as it stands. Text that two formats fit, such as `04/05/2013 10:11`, stays text.

    Args:
        read: the relation that reads the CSV with some columns as text.
        names: the columns that the file's first line names.
        cells: what a person declared.

    Raises:
        InvalidInput: for a declared format that is none, or that a cell is not written in; the message holds no value.
    """
    described = con.execute(f"DESCRIBE SELECT * FROM {read(())}").fetchall()
    types = {name: sql_type for name, sql_type, *_ in described if name in names}
    declared = {n: formats.check(n, f) for n, f in cells.formats.items() if n in types}
    truths = [n for n, t in types.items() if t == "BOOLEAN" and n not in (*cells.booleans, *declared)]
    worded = _worded(con, read, {n: t for n, t in types.items() if n not in (*cells.names, *declared)}, cells)
    undated = (*declared, *(n for n, t in worded.items() if t not in TEMPORAL))
    dateable = [n for n, t in types.items() if n not in undated and (t in TEMPORAL or _may_be_date(n, t, cells))]
    blanked = partial(_blanked, read)
    plausible = _plausible(con, blanked, dateable)
    codes = _checked(con, blanked, truths, declared)
    written = declared | _detected(con, read, types, plausible)
    values = {n: words.value(n, t) for n, t in worded.items()}
    values |= {n: _value(n, f) for n, f in written.items() if n in declared or types[n] not in TEMPORAL}
    return Spelling((*codes, *values), written, values)


def _worded(
    con: duckdb.DuckDBPyConnection, read: words.Read, types: Mapping[str, str], cells: DeclaredCells
) -> dict[str, str]:
    """Return the SQL type of each text column that holds values of one type, and words for nulls; NaN is such a word."""
    texts = [n for n, t in types.items() if t == "VARCHAR"]
    numbers = _hold(con, read(()), {n: f"NOT isnan({quoted(n)})" for n, t in types.items() if t == "DOUBLE"})
    return words.find(con, read, [*texts, *(n for n, holds in numbers.items() if holds is False)], cells.numbers)


def _may_be_date(name: str, sql_type: str, cells: DeclaredCells) -> bool:
    """Whether this is text of which nobody declared what it is."""
    return sql_type == "VARCHAR" and name not in cells.others


def _blanked(read: words.Read, text: Iterable[str]) -> str:
    """Return the relation with some columns as text, and nulls in them for the words that stand for nulls."""
    return words.without(read(text), text)


def _checked(
    con: duckdb.DuckDBPyConnection, read: words.Read, truths: Sequence[str], declared: Mapping[str, str]
) -> list[str]:
    """Refuse cells that are not written as declared; return the columns of truth values that hold other words too."""
    conditions = {
        **{(n, ""): f"lower({quoted(n)}) IN ('true', 'false')" for n in truths},
        **{(n, f): f"{quoted(n)} IS NULL OR {_value(n, f)} IS NOT NULL" for n, f in declared.items()},
    }
    holds = _hold(con, read([*truths, *declared]), conditions)
    for name, format in declared.items():
        if holds[name, format] is False:
            raise InvalidInput(
                f"column {name!r}: format: not every cell is written as {format!r} says; mend the cells or the format, "
                f"or declare kind: category to keep them as text."
            )
    return [n for n in truths if holds[n, ""] is False]


def _detected(
    con: duckdb.DuckDBPyConnection, read: words.Read, types: Mapping[str, str], plausible: Mapping[str, list[str]]
) -> dict[str, str]:
    """Return the format of each column that one format fits, or that DuckDB read by one of several that fit."""
    single, doubtful = {}, {}
    for name, fits in _fitting(con, _blanked(read, plausible), plausible).items():
        if len(fits) == 1:
            single[name] = fits[0]
        elif fits and types[name] in TEMPORAL:
            doubtful[name] = fits
    return single | _as_read(con, read, {n: types[n] for n in doubtful}, doubtful)


def _plausible(con: duckdb.DuckDBPyConnection, read: words.Read, names: list[str]) -> dict[str, list[str]]:
    """Return the formats that the first cells of each column may be written in; columns without any may be left out."""
    cells: dict[str, str] = {}
    for rows in (f" LIMIT {SAMPLE}", ""):  # all rows only for columns whose first rows are nulls
        empty = [n for n in names if n not in cells]
        if empty:
            columns = ", ".join(f"any_value({quoted(n)})" for n in empty)
            (first,) = con.execute(f"SELECT {columns} FROM (SELECT * FROM {read(empty)}{rows})").fetchall()
            cells |= {n: cell for n, cell in zip(empty, first, strict=True) if cell is not None}
    tried = {n: matching for n, cell in cells.items() if (matching := _formats(cell))}
    conditions = {(n, f): _same(n, f) for n, matching in tried.items() for f in matching}
    holds = _hold(con, f"(SELECT * FROM {read(tried)} LIMIT {SAMPLE})", conditions)
    return {n: [f for f in matching if holds[n, f]] for n, matching in tried.items()}


def _formats(cell: str) -> list[str]:
    shape = SHAPE.fullmatch(cell)
    if shape is None:
        return [t for t in TIMES if _looks(cell, t)]
    dates = [d for d in DATES if _looks(shape["date"], d)]
    if shape["time"] is None:
        return dates
    times = [t for t in TIMES if _looks(shape["time"], t)]
    return [f"{d}{shape['between']}{t}{shape['zone'] or ''}" for d in dates for t in times]


def _looks(text: str, format: str) -> bool:
    parts = re.split(r"%(-?.)", format)  # literals at even places, directives at odd ones
    shapes = [
        re.escape(p) if i % 2 == 0 else r"\d{1,2}" if p.startswith("-") else DIGITS.get(p, r"\d{2}")
        for i, p in enumerate(parts)
    ]
    return re.fullmatch("".join(shapes), text) is not None


def _fitting(con: duckdb.DuckDBPyConnection, relation: str, tried: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Return the formats that write all cells of each column as they stand: the first of each reading.

    Formats with and without leading zeros read alike; the second is asked about only where the first does not hold.
    """
    fits: dict[str, list[str]] = {n: [] for n in tried}
    open_: dict[tuple[str, str], list[str]] = {}
    for name, candidates in tried.items():
        for f in candidates:
            open_.setdefault((name, f.replace("%-", "%")), []).append(f)
    while open_:
        holds = _hold(con, relation, {(n, reading): _same(n, f[0]) for (n, reading), f in open_.items()})
        for name, reading in open_:
            fits[name] += open_[name, reading][:1] if holds[name, reading] else []
        open_ = {key: f[1:] for key, f in open_.items() if not holds[key] and f[1:]}
    return fits


def _hold(con: duckdb.DuckDBPyConnection, relation: str, conditions: Mapping[Any, str]) -> dict[Any, bool | None]:
    """Return for each condition whether it holds in every row; None if it is null in all of them."""
    if not conditions:
        return {}
    (answers,) = con.execute(
        f"SELECT {', '.join(f'bool_and({a})' for a in conditions.values())} FROM {relation}"
    ).fetchall()
    return dict(zip(conditions, answers, strict=True))


def _as_read(
    con: duckdb.DuckDBPyConnection, read: words.Read, types: Mapping[str, str], doubtful: Mapping[str, list[str]]
) -> dict[str, str]:
    """Of several formats that fit, return the one that DuckDB read a column by: it gives the same values."""
    if not doubtful:
        return {}
    tried = [(n, f) for n, fits in doubtful.items() for f in fits]
    own = ", ".join(f"sum(hash({quoted(n)})::HUGEINT)" for n in doubtful)
    by_format = ", ".join(f"sum(hash(CAST({_value(n, f)} AS {types[n]}))::HUGEINT)" for n, f in tried)
    (values,) = con.execute(f"SELECT {own} FROM {read(())}").fetchall()
    (sums,) = con.execute(f"SELECT {by_format} FROM {read(doubtful)}").fetchall()
    as_read = dict(zip(doubtful, values, strict=True))
    same = [(n, f) for (n, f), total in zip(tried, sums, strict=True) if total == as_read[n]]
    return dict(reversed(same))  # the first that fits


def _value(name: str, format: str) -> str:
    moment = TEMPORAL[2] if formats.in_utc(format) else "TIMESTAMP"
    sql_type = "TIME" if not formats.of_day(format) else moment if formats.of_clock(format) else "DATE"
    return f"CAST(try_strptime({quoted(name)}, {literal(format)}) AS {sql_type})"


def _same(name: str, format: str) -> str:
    return f"{quoted(name)} IS NOT DISTINCT FROM {formats.text(_value(name, format), format)}"
