"""What makes a source unusable, told without quoting a value.

The checks here look at real rows. They release nothing: a table that fails one is never trained on, and the message goes
to the person who pointed at it, without a value and without a count.
"""

from __future__ import annotations

import codecs
import csv
import errno
import gzip
import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.tabular import words
from dp_synth_pipeline.tabular.schema import Column, NullPolicy, TableSchema
from dp_synth_pipeline.tabular.sql import literal, quoted

if TYPE_CHECKING:
    from dp_synth_pipeline.tabular.source import Source


FORMATTED = r"[-+(]?\s?[$€£¥]?\s?[-+]?\d{1,3}([,.' ]?\d{3})*([.,]\d+)?\s?[%$€£¥]?\)?"
"""A number as people write it."""

MANY = 40
"""Different cells up to which numbers so written may well be categories."""


@dataclass(frozen=True)
class Header:
    """Column names as the file itself writes them, and what separates them; empty where DuckDB knows them for certain."""

    names: tuple[str, ...] = ()
    delimiter: str = ","


def header(source: Source) -> Header:
    """Read a file's column names, and refuse names that DuckDB would silently change: empty ones and repeated ones."""
    if source.file is None or source.attach is not None:
        return Header()
    found = _csv_header(source.file) if source.is_csv else _parquet_header(source.file)
    seen = [n.strip().lower() for n in found.names]
    if source.is_csv and any(seen) and all(map(_is_data, seen)):
        raise InvalidInput(
            f"the first line of {source.uri} holds no column names; every cell of it is empty, a number or a date. Add a "
            f"first line that names the columns, or prefix names that are numbers."
        )
    twice = [n for n, key in zip(found.names, seen, strict=True) if seen.count(key) > 1]
    if twice:
        quotable = not (source.is_csv and any(n and _is_data(n) for n in seen))  # else it may be a row of values
        which = f" {twice[0]!r}" if quotable else ""
        raise InvalidInput(f"duplicate column name{which} in {source.uri}; rename one of the two.")
    if "" in seen:
        raise InvalidInput(f"a column of {source.uri} has no name; the first line must name every column.")
    return found


def _is_data(cell: str) -> bool:
    """Whether a cell of a first line is a value rather than a name: empty, a number, a truth value, a date or a time."""
    if cell in ("", "true", "false"):
        return True
    if re.fullmatch(r"[$€£]?[-+]?[\d.,' ]*\d[\d.,' ]*(e[-+]?\d+)?[%$€£]?", cell):
        return True
    return re.fullmatch(r"[-+]?\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([t ].*)?|\d{1,2}:\d{2}(:\d{2}.*)?", cell) is not None


def _csv_header(path: Path) -> Header:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as start:
            if start.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                raise InvalidInput(f"{path} is UTF-16 text, not UTF-8; save the file as UTF-8 and run again.")
        with opened(path, "rt", newline="", encoding="utf-8-sig", errors="replace") as lines:
            first = lines.readline()
    except (OSError, EOFError):
        return Header()
    delimiter = max(",;\t|", key=first.count)
    names = next(csv.reader([first], delimiter=delimiter), [])
    return Header(
        tuple(names) or ("",), delimiter
    )  # below a blank line, DuckDB would take the first row for the header


def _parquet_header(path: Path) -> Header:
    try:
        return Header(tuple(pq.read_schema(path).names))
    except (OSError, pa.ArrowException):
        return Header()


def check_rows(con: duckdb.DuckDBPyConnection, schema: TableSchema, source: Source) -> None:
    """Refuse tables that cannot be synthesized honestly; see the messages for the list."""
    asked = ["count(*)"]
    for column in schema.learned:
        name, kind = quoted(column.name), column.arrow_type
        endless = pa.types.is_floating(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind)
        text = pa.types.is_string(kind) and column.categories is None
        untold = source.is_csv and column.name not in source.text
        asked += [
            f"count({name})",
            f"count(*) FILTER (WHERE NOT isfinite({name}))" if endless else "0",
            f"approx_count_distinct({name})" if text else "0",
            f"count(TRY_CAST({name} AS DOUBLE))" if text and untold else "0",
            f"count(*) FILTER (regexp_full_match(trim({name}), {literal(FORMATTED)}))" if text and untold else "0",
            f"coalesce(bool_or({words.is_code(column.name)}), false)" if text else "false",
        ]
    rows, *facts = con.execute(f"SELECT {', '.join(asked)} FROM source").fetchall()[0]
    if rows == 0:
        raise InvalidInput(f"{source.uri} has columns but no rows; there is nothing to learn. Name one with rows.")
    if rows == 1:
        raise InvalidInput(f"{source.uri} has one row only; a model of one row is not private. Name one with more.")
    for i, column in enumerate(schema.learned):
        _check_column(con, column, *facts[6 * i : 6 * i + 6])


def _check_column(
    con: duckdb.DuckDBPyConnection,
    column: Column,
    filled: int,
    infinite: int,
    distinct: int,
    numbers: int,
    formatted: int,
    codes: bool,
) -> None:
    name = column.name
    leave_out = f"leave it out (--exclude {name}, or in YAML: columns: {{{name}: {{kind: excluded}}}})"
    if filled == 0 and column.nulls is NullPolicy.DROP:
        raise InvalidInput(f"column {name!r} holds only nulls, so nulls: drop would leave no row; {leave_out}.")
    if infinite:
        what = "infinite or NaN numbers" if pa.types.is_floating(column.arrow_type) else "infinite dates"
        raise InvalidInput(f"column {name!r} holds {what}; write them as nulls, or {leave_out}.")
    if 0 < numbers < filled and numbers >= 0.5 * filled and not codes:
        raise InvalidInput(
            f"column {name!r} mixes numbers and text; clean it, or declare it: columns: {{{name}: {{kind: category}}}} (in "
            f"the table's YAML, or in a file for --schema)."
        )
    if distinct > MANY and formatted >= 0.9 * filled and not codes:
        raise InvalidInput(
            f"column {name!r} holds numbers with currency signs, percent signs or commas; write plain ones, such as 1200.5, "
            f"or declare it: columns: {{{name}: {{kind: category}}}} (in the table's YAML, or in a file for --schema)."
        )
    if filled >= 20 and distinct >= 0.9 * filled:
        exact = con.execute(f"SELECT count(DISTINCT {quoted(name)}) FROM source").fetchall()[0][0]
        if exact == filled:
            raise InvalidInput(
                f"column {name!r} is text that never repeats, so nothing in it can be published privately; {leave_out}, "
                f"or declare it as an identifier to have it numbered anew."
            )


def check_units(source: Source, unit: PrivacyUnit, units: int, delta: float | None) -> None:
    """Refuse a table of one privacy unit or none, and a fixed delta that is not below one over the number of units."""
    if units == 0:
        raise InvalidInput(
            f"the unit column {unit.column!r} of {source.uri} holds nothing but nulls, and rows without a unit are left "
            f"out; name the column that tells whose row it is, or leave the unit out if each row is somebody of their own."
        )
    if units < 2:
        raise InvalidInput(
            f"{source.uri} holds one privacy unit only, and a model of one person is not private; name "
            f"a source with more of them, or check which column the unit is."
        )
    if delta is not None and delta * units >= 1:
        raise InvalidInput(
            f"delta={delta:g} is not below one over the number of units of this table, so it would allow the "
            f"publication of someone's row. Use delta auto, or a smaller one, such as 1e-6."
        )


def check_filter(con: duckdb.DuckDBPyConnection, relation: str, where: str | None) -> None:
    """Refuse a filter that DuckDB cannot apply to this relation; the filter is public, DuckDB's words are not repeated."""
    try:
        if where is not None:
            con.execute(f"SELECT * FROM {relation} WHERE ({where}) LIMIT 0").fetchall()
    except duckdb.Error as error:
        raise InvalidInput(
            f"filter: DuckDB cannot apply it to this source ({type(error).__name__}); check the names of its columns and "
            f"the types of its literals. Nothing was charged."
        ) from None


@contextmanager
def explained(source: Source, header: Header):
    """Turn DuckDB's errors, which quote values, into ours, which do not."""
    try:
        yield
    except duckdb.ConversionException as error:
        raise InvalidInput(_mixed(str(error), header)) from None
    except duckdb.OutOfMemoryException:
        raise InvalidInput("the disk or memory is full while reading the source; free some space.") from None
    except duckdb.IOException as error:
        full = "No space left" in str(error)
        what = "the disk is full" if full else "the source cannot be opened: it is locked, damaged or of another format"
        raise InvalidInput(f"{source.uri}: {what}. Nothing was charged.") from None
    except duckdb.CatalogException:
        raise InvalidInput(f"{source.uri}: no such table in this DuckDB file.") from None
    except duckdb.InvalidInputException as error:
        raise InvalidInput(_unreadable(source, str(error), header)) from None
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise InvalidInput(f"{source.uri}: the disk is full. Free some space; nothing was charged.") from None
    except duckdb.Error as error:
        raise InvalidInput(
            f"{source.uri} cannot be read ({type(error).__name__}). Check its format; the details are withheld because "
            f"they may quote values."
        ) from None


def _mixed(message: str, header: Header) -> str:
    # DuckDB quotes the line at fault, which may itself speak of a "column"; only a name from the header may be repeated.
    found = re.findall(r'column(?: name)?:? *"?([^"\n]+?)"? *(?:\n|is being|:)', message, re.IGNORECASE)
    column = next((c.strip() for c in reversed(found) if c.strip() in header.names), None)
    if column is None:
        return "a column mixes types; clean it, or declare it as a category: columns: {NAME: {kind: category}}."
    return f"column {column!r} mixes types; clean it, or declare it: columns: {{{column}: {{kind: category}}}}."


def _unreadable(source: Source, message: str, header: Header) -> str:
    if not source.is_csv:
        return f"{source.uri} cannot be read: it is damaged, or not what its name says. Nothing was charged."
    if re.search(r"Could not convert|Conversion", message):
        return _mixed(message, header)
    if re.search(r"not utf-8 encoded|invalid unicode|byte sequence", message, re.IGNORECASE):
        where = f"line {_line(message)} of {source.uri}" if _line(message) else source.uri
        return f"{where} is not UTF-8 text; save the file as UTF-8 and run again."
    line = _line(message) or _line(_read_as_text(source, header))
    where = f"line {line} of {source.uri}" if line else source.uri
    return f"{where} is not valid CSV: wrong number of fields, quotes or encoding. Mend that line and run again."


def _line(message: str) -> str | None:
    """Return the number of the line that DuckDB complains about; the message also quotes that line, so nothing else."""
    found = re.search(r"on Line:? *(\d+)", message)
    return found.group(1) if found else None


def _read_as_text(source: Source, header: Header) -> str:
    """Read a CSV with nothing left to detect and return DuckDB's complaint: detection fails without naming a line."""
    columns = ", ".join(f"{literal(n)}: 'VARCHAR'" for n in header.names)
    options = f", auto_detect=false, delim={literal(header.delimiter)}, columns={{{columns}}})"
    try:
        with duckdb.connect() as con:
            con.execute(f"SELECT count(*) FROM {source.relation.removesuffix(')')}{options}").fetchall()
    except duckdb.Error as error:
        return str(error)
    return ""
