"""What makes a source unusable, told without quoting a value.

The checks here look at real rows. They release nothing: a table that fails one is never trained on, and the message goes
to the person who pointed at it, without a value and without a count.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import duckdb
import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.tabular.schema import Column, NullPolicy, TableSchema
from dp_synth_pipeline.tabular.sources.csv import words
from dp_synth_pipeline.tabular.sources.header import Header
from dp_synth_pipeline.tabular.sources.source import Source
from dp_synth_pipeline.tabular.sql import literal, quoted

FORMATTED = r"[-+(]?\s?[$€£¥]?\s?[-+]?\d{1,3}([,.' ]?\d{3})*([.,]\d+)?\s?[%$€£¥]?\)?"
"""A number as people write it."""

MANY = 40
"""Different cells up to which numbers so written may well be categories."""


class Facts(NamedTuple):
    """What is asked about the values of one column, in the order of `_questions`.

    Attributes:
        filled: values that are not null.
        infinite: numbers or dates without an end.
        distinct: about how many different texts there are.
        numbers: texts that are numbers.
        formatted: texts that are numbers as people write them.
        codes: whether there is text of digits that begins with 0.
    """

    filled: int
    infinite: int
    distinct: int
    numbers: int
    formatted: int
    codes: bool


def check_rows(con: duckdb.DuckDBPyConnection, schema: TableSchema, source: Source) -> None:
    """Refuse tables that cannot be synthesized honestly; see the messages for the list."""
    questions = [q for c in schema.learned for q in _questions(c, source.is_csv and c.name not in source.cells.text)]
    rows, *answers = con.execute(f"SELECT {', '.join(['count(*)', *questions])} FROM source").fetchall()[0]
    if rows == 0:
        raise InvalidInput(f"{source.uri} has columns but no rows; there is nothing to learn. Name one with rows.")
    if rows == 1:
        raise InvalidInput(f"{source.uri} has one row only; a model of one row is not private. Name one with more.")
    size = len(Facts._fields)
    for i, column in enumerate(schema.learned):
        _check_column(con, column, Facts(*answers[size * i : size * (i + 1)]))


def _questions(column: Column, detected: bool) -> list[str]:
    """Write the SQL of the facts of a column.

    Args:
        detected: whether nobody declared that its cells are text.
    """
    name, storage = quoted(column.name), column.arrow_type
    endless = pa.types.is_floating(storage) or pa.types.is_date(storage) or pa.types.is_timestamp(storage)
    text = pa.types.is_string(storage) and column.categories is None
    return [
        f"count({name})",
        f"count(*) FILTER (WHERE NOT isfinite({name}))" if endless else "0",
        f"approx_count_distinct({name})" if text else "0",
        f"count(TRY_CAST({name} AS DOUBLE))" if text and detected else "0",
        f"count(*) FILTER (regexp_full_match(trim({name}), {literal(FORMATTED)}))" if text and detected else "0",
        f"coalesce(bool_or({words.is_code(column.name)}), false)" if text else "false",
    ]


def _check_column(con: duckdb.DuckDBPyConnection, column: Column, facts: Facts) -> None:
    name = column.name
    leave_out = f"leave it out (--exclude {name}, or in YAML: columns: {{{name}: {{kind: excluded}}}})"
    if facts.filled == 0 and column.nulls is NullPolicy.DROP:
        raise InvalidInput(f"column {name!r} holds only nulls, so nulls: drop would leave no row; {leave_out}.")
    if facts.infinite:
        what = "infinite or NaN numbers" if pa.types.is_floating(column.arrow_type) else "infinite dates"
        raise InvalidInput(f"column {name!r} holds {what}; write them as nulls, or {leave_out}.")
    if 0 < facts.numbers < facts.filled and facts.numbers >= 0.5 * facts.filled and not facts.codes:
        raise InvalidInput(
            f"column {name!r} mixes numbers and text; clean it, or declare it: columns: {{{name}: {{kind: category}}}} (in "
            f"the table's YAML, or in a file for --schema)."
        )
    if facts.distinct > MANY and facts.formatted >= 0.9 * facts.filled and not facts.codes:
        raise InvalidInput(
            f"column {name!r} holds numbers with currency signs, percent signs or commas; write plain ones, such as 1200.5, "
            f"or declare it: columns: {{{name}: {{kind: category}}}} (in the table's YAML, or in a file for --schema)."
        )
    if facts.filled >= 20 and facts.distinct >= 0.9 * facts.filled:
        exact = con.execute(f"SELECT count(DISTINCT {quoted(name)}) FROM source").fetchall()[0][0]
        if exact == facts.filled:
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
def explained(source: Source, header: Header) -> Iterator[None]:
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
    names = re.findall(r'column(?: name)?:? *"?([^"\n]+?)"? *(?:\n|is being|:)', message, re.IGNORECASE)
    column = next((c.strip() for c in reversed(names) if c.strip() in header.names), None)
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
    match = re.search(r"on Line:? *(\d+)", message)
    return match.group(1) if match else None


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
