"""How a CSV spells its cells, told from all rows: words for booleans and nulls, and the one format of dates and times.

Like a storage type, a spelling is public: yes or no for a whole column and one of a fixed list of formats. Nothing of a
cell is in it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular import words
from dp_synth_pipeline.tabular.kinds.base import KINDS
from dp_synth_pipeline.tabular.sql import literal, quoted, readable

if TYPE_CHECKING:
    from dp_synth_pipeline.tabular.source import Source

FORMAT = b"dp_synth.format"
"""The key of a format in the Arrow schema of a synthetic file."""

ORDERS = ("%Y{0}%m{0}%d", "%d{0}%m{0}%Y", "%m{0}%d{0}%Y", "%d{0}%m{0}%y", "%m{0}%d{0}%y", "%y{0}%m{0}%d")
PADDED = [o.format(s) for s in "-/." for o in ORDERS if s != "." or not o.startswith("%m")]  # a dot is day first
PADDED += ["%d-%b-%Y"]
DATES = [*PADDED, *(d.replace("%m", "%-m").replace("%d", "%-d") for d in PADDED)]
CLOCKS = ["%H:%M", "%H:%M:%S", "%H:%M:%S.%g", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p"]
TIMES = [*CLOCKS, *(c.replace("%H", "%-H").replace("%I", "%-I") for c in CLOCKS)]
UTC = ("Z", "+00", "+00:00", "+0000")
"""What is tried, in DuckDB's strftime: a time, or a date, or with `T` or a blank also a time, or then also a suffix."""

SHAPE = re.compile(r"(?P<date>[^T :]+)(?:(?P<between>[T ])(?P<time>[\d:.]+(?: [AP]M)?)(?P<zone>Z|\+00(?::?00)?)?)?")
DIGITS = {"Y": r"\d{4}", "g": r"\d{3}", "f": r"\d{6}", "b": "[A-Z][a-z]{2}", "p": "[AP]M"}

DAYS, CLOCK = {"Y", "y", "m", "d", "b", "B", "j"}, {"H", "I", "p", "M", "S", "f", "g", "z"}
BARE = {"m", "d", "y", "j", "H", "I", "M", "S"}
"""Directives that a person may declare, and those that `%-` writes without a leading zero."""

TEMPORAL = ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIME")
NO_DAY = "2000-01-01"
SAMPLE = 2048

BOUNDS = {"lower", "upper", "decimals"}
"""Facts that declare digits to be numbers, and no codes."""


@dataclass(frozen=True)
class Told:
    """What a person declared about the cells of a CSV.

    Attributes:
        formats: column to the format that its cells are written in.
        others: columns that are no dates.
        names: columns whose cells are names, or are not read.
        numbers: columns whose cells are numbers, though they begin with 0.
    """

    formats: Mapping[str, Any] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()


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


def declared(columns: Mapping[str, Any]) -> Told:
    """Pick what a table's declared facts say about dates and times; whether it can hold is checked once the file is open."""
    facts = {n: f or {} for n, f in columns.items()}
    kinds = {n: KINDS.get(str(f.get("kind"))) for n, f in facts.items()}
    open_ = [n for n, f in facts.items() if f.get("kind") is None]
    dates = [n for n, k in kinds.items() if n in open_ or (k is not None and k.csv_dates(facts[n]))]
    values = [n for n, k in kinds.items() if n in open_ or (k is not None and not k.csv_names)]
    numbers = [n for n, k in kinds.items() if facts[n].keys() & BOUNDS or (k is not None and k.csv_numbers)]
    return Told(
        {n: facts[n]["format"] for n in dates if facts[n].get("format") is not None},
        others=tuple(n for n, f in facts.items() if n not in dates or f.get("categories")),
        names=tuple(n for n, f in facts.items() if n not in values or f.get("categories")),
        numbers=tuple(n for n in numbers if not facts[n].get("categories")),
    )


def find(con: duckdb.DuckDBPyConnection, source: Source, read: words.Read, names: Collection[str]) -> Spelling:
    """Look at all rows for the columns that stay text, words that stand for nulls, and formats of dates and times.

    Declared formats hold; in the columns that DuckDB takes for dates or times, or for text though every cell is one, a
    format is found if it writes every cell as it stands. Text that two formats fit, such as `04/05/2013 10:11`, stays text.

    Args:
        names: the columns that the file's first line names.

    Raises:
        InvalidInput: for a declared format that is none, or that a cell is not written in; the message holds no value.
    """
    described = con.execute(f"DESCRIBE SELECT * FROM {read(())}").fetchall()
    types = {name: kind for name, kind, *_ in described if name in names}
    told = {n: check(n, f) for n, f in source.told.formats.items() if n in types}

    def blanked(text: Iterable[str]) -> str:
        return words.without(read(text), text)

    unsure = [n for n, kind in types.items() if kind == "BOOLEAN" and n not in (*source.booleans, *told)]
    untold = {n: kind for n, kind in types.items() if n not in (*source.told.names, *told)}
    texts = [n for n, kind in untold.items() if kind == "VARCHAR"]
    nans = _hold(con, read(()), {n: f"NOT isnan({quoted(n)})" for n, kind in untold.items() if kind == "DOUBLE"})
    found = words.find(con, read, [*texts, *(n for n, none in nans.items() if none is False)], source.told.numbers)
    undated = (*told, *(n for n, kind in found.items() if kind not in TEMPORAL))
    dateable = [n for n, kind in types.items() if n not in undated and _dateable(n, kind, source)]
    tried = _plausible(con, blanked, dateable)
    asked = {
        **{(n, ""): f"lower({quoted(n)}) IN ('true', 'false')" for n in unsure},
        **{(n, f): f"{quoted(n)} IS NULL OR {_value(n, f)} IS NOT NULL" for n, f in told.items()},
    }
    holds = _hold(con, blanked([*unsure, *told]), asked)
    for name, wanted in told.items():
        if holds[name, wanted] is False:
            raise InvalidInput(
                f"column {name!r}: format: not every cell is written as {wanted!r} says; mend the cells or the format, "
                f"or declare kind: category to keep them as text."
            )
    formats, doubtful = dict(told), {}
    for name, fits in _fitting(con, blanked(tried), tried).items():
        if len(fits) == 1:
            formats[name] = fits[0]
        elif fits and types[name] in TEMPORAL:
            doubtful[name] = fits
    formats |= _as_read(con, read, {n: types[n] for n in doubtful}, doubtful)
    parsed = {n: words.value(n, kind) for n, kind in found.items()}
    parsed |= {n: _value(n, f) for n, f in formats.items() if n in told or types[n] not in TEMPORAL}
    return Spelling((*(n for n in unsure if holds[n, ""] is False), *parsed), formats, parsed)


def check(name: str, format: Any) -> str:
    """Return a declared format if it is one.

    Raises:
        InvalidInput: unless it is text with the directives of a whole day or of a time of day, and none that DuckDB does
            not know.
    """
    found = re.findall(r"%(-?.?)", format.replace("%%", "")) if isinstance(format, str) else []
    bare = {f.removeprefix("-") for f in found}
    known = bare <= DAYS | CLOCK and all(f[1:] in BARE for f in found if f.startswith("-"))
    a_day = bare & {"Y", "y"} and ("j" in bare or ("d" in bare and bare & {"m", "b", "B"}))
    a_time = "M" in bare and ("H" in bare or {"I", "p"} <= bare) and not bare & (DAYS | {"z"})
    if not (known and (a_day or a_time)):
        raise InvalidInput(
            f"column {name!r}: format: expected the directives of a day, as in '%d.%m.%Y' or '%Y-%m-%dT%H:%M:%SZ', or of a "
            f"time of day, as in '%H:%M', got {format!r}."
        )
    return format


def of_day(format: str) -> bool:
    """Whether a format writes days, or days and times, and not times of day alone."""
    return bool(_directives(format) & DAYS)


def in_utc(format: str) -> bool:
    """Whether what a format writes says that it is in UTC."""
    return format.endswith(UTC) or "%z" in format.replace("%%", "")


def written(schema: pa.Schema) -> str:
    """List the columns of a synthetic file for a SELECT that writes text, with dates and times in their format.

    Example:
        >>> written(pa.schema([pa.field("born", pa.date32(), metadata={FORMAT: "%d.%m.%Y"})]))
        'strftime("born", \\'%d.%m.%Y\\') AS "born"'
    """
    return ", ".join(
        f"{_text(quoted(f.name), f.metadata[FORMAT].decode())} AS {quoted(f.name)}"
        if f.metadata and FORMAT in f.metadata
        else readable(pa.schema([f]))
        for f in schema
    )


def _dateable(name: str, kind: str, source: Source) -> bool:
    """Whether a column may have a format: dates and times, and text of which nobody declared what it is."""
    return kind in TEMPORAL or (kind == "VARCHAR" and name not in source.told.others)


def _plausible(con: duckdb.DuckDBPyConnection, read: words.Read, names: list[str]) -> dict[str, list[str]]:
    """Return the formats that the first cells of each column may be written in; columns without any may be left out."""
    cells: dict[str, str] = {}
    for rows in (f" LIMIT {SAMPLE}", ""):  # all rows only for columns whose first rows are nulls
        left = [n for n in names if n not in cells]
        if left:
            some = ", ".join(f"any_value({quoted(n)})" for n in left)
            (found,) = con.execute(f"SELECT {some} FROM (SELECT * FROM {read(left)}{rows})").fetchall()
            cells |= {n: cell for n, cell in zip(left, found, strict=True) if cell is not None}
    tried = {n: found for n, cell in cells.items() if (found := _formats(cell))}
    asked = {(n, f): _same(n, f) for n, found in tried.items() for f in found}
    holds = _hold(con, f"(SELECT * FROM {read(tried)} LIMIT {SAMPLE})", asked)
    return {n: [f for f in found if holds[n, f]] for n, found in tried.items()}


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
    left: dict[tuple[str, str], list[str]] = {}
    for name, found in tried.items():
        for f in found:
            left.setdefault((name, f.replace("%-", "%")), []).append(f)
    while left:
        holds = _hold(con, relation, {(n, reading): _same(n, f[0]) for (n, reading), f in left.items()})
        for name, reading in left:
            fits[name] += left[name, reading][:1] if holds[name, reading] else []
        left = {key: f[1:] for key, f in left.items() if not holds[key] and f[1:]}
    return fits


def _hold(con: duckdb.DuckDBPyConnection, relation: str, asked: Mapping[Any, str]) -> dict[Any, bool | None]:
    """Return for each condition whether it holds in every row; None if it is null in all of them."""
    if not asked:
        return {}
    (answers,) = con.execute(f"SELECT {', '.join(f'bool_and({a})' for a in asked.values())} FROM {relation}").fetchall()
    return dict(zip(asked, answers, strict=True))


def _as_read(
    con: duckdb.DuckDBPyConnection, read: words.Read, types: Mapping[str, str], doubtful: Mapping[str, list[str]]
) -> dict[str, str]:
    """Of several formats that fit, return the one that DuckDB read a column by: it gives the same values."""
    if not doubtful:
        return {}
    tried = [(n, f) for n, found in doubtful.items() for f in found]
    own = ", ".join(f"sum(hash({quoted(n)})::HUGEINT)" for n in doubtful)
    by_format = ", ".join(f"sum(hash(CAST({_value(n, f)} AS {types[n]}))::HUGEINT)" for n, f in tried)
    (values,) = con.execute(f"SELECT {own} FROM {read(())}").fetchall()
    (sums,) = con.execute(f"SELECT {by_format} FROM {read(doubtful)}").fetchall()
    wanted = dict(zip(doubtful, values, strict=True))
    same = [(n, f) for (n, f), total in zip(tried, sums, strict=True) if total == wanted[n]]
    return dict(reversed(same))  # the first that fits


def _value(name: str, format: str) -> str:
    moment = TEMPORAL[2] if in_utc(format) else "TIMESTAMP"
    kind = "TIME" if not of_day(format) else moment if _directives(format) & CLOCK else "DATE"
    return f"CAST(try_strptime({quoted(name)}, {literal(format)}) AS {kind})"


def _directives(format: str) -> set[str]:
    return set(re.findall(r"%-?(.)", format.replace("%%", "")))


def _text(value: str, format: str) -> str:
    """Write a date or time in its format; DuckDB formats a time of day only with a day before it."""
    return f"strftime({value if of_day(format) else f'DATE {literal(NO_DAY)} + {value}'}, {literal(format)})"


def _same(name: str, format: str) -> str:
    return f"{quoted(name)} IS NOT DISTINCT FROM {_text(_value(name, format), format)}"
