"""What the cells of a CSV's column are: a type, and the value of each cell, told from that cell alone."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa

from dp_synth_pipeline.tabular import formats
from dp_synth_pipeline.tabular.kinds.base import Column
from dp_synth_pipeline.tabular.sources.csv.spelling import CERTAIN, CLOCKS
from dp_synth_pipeline.tabular.sql import literal, quoted

TEXT, MOMENT = "VARCHAR", "TIMESTAMP WITH TIME ZONE"
TEMPORAL = ("TIME", "DATE", "TIMESTAMP", MOMENT)

PLAIN = r"[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)?"
"""A number as programs write it."""

_BEFORE, _AFTER = r"[-+(]?\s?[$€£¥]?\s?[-+]?", r"\s?[%$€£¥]?\)?"
POINTED = rf"{_BEFORE}([0-9]{{1,3}}(,[0-9]{{3}})+|[0-9]{{1,3}}([ '][0-9]{{3}})+|[0-9]+)([.][0-9]+)?{_AFTER}"
COMMAED = rf"{_BEFORE}([0-9]{{1,3}}([.][0-9]{{3}})+|[0-9]{{1,3}}([ '][0-9]{{3}})+|[0-9]+)(,[0-9]+)?{_AFTER}"
"""A number as people write it: with a decimal point, such as `$1,200.50`, or with a decimal comma, such as `1.200,5 €`."""


@dataclass(frozen=True)
class CellType:
    """What the cells of one column are.

    Attributes:
        sql: DuckDB's type of their values.
        format: how dates and times are written, for strftime, or numbers: one of `formats.NOTATIONS`.
        strict: whether a date or time in another format is none, since a person declared the format.
    """

    sql: str = TEXT
    format: str | None = None
    strict: bool = False

    @classmethod
    def of_column(cls, column: Column) -> CellType:
        """Return what the cells of a column with a known storage type are."""
        return cls(sql_type(column.arrow_type), column.format)

    def value(self, name: str) -> str:
        """Write the SQL of the value of a text column's cell; null where it is none of this type."""
        cell = f"trim({quoted(name)})"
        if self.sql == TEXT:
            return quoted(name)
        if self.sql in TEMPORAL:
            return self._moment(cell)
        if self.sql in ("BOOLEAN", "INTERVAL"):
            return f"TRY_CAST({cell} AS {self.sql})"
        number = _number(cell, self.format)
        if "INT" not in self.sql:
            return f"TRY_CAST({number} AS {self.sql})"
        whole = f"CASE WHEN {number} = floor({number}) AND abs({number}) < 9007199254740992 THEN {number} END"
        exact = f"CASE WHEN regexp_full_match({cell}, '[-+]?[0-9]+') THEN TRY_CAST({cell} AS {self.sql}) END"
        return f"coalesce({exact}, TRY_CAST({whole} AS {self.sql}))"

    def _moment(self, cell: str) -> str:
        read = [f"try_strptime({cell}, [{', '.join(map(literal, self._readings()))}])"] if self.format else []
        free = [] if self.strict and self.format else [f"TRY_CAST({cell} AS {self.sql})"]
        # A conversion of types that strptime returned cannot fail, but of its own moments beyond the calendar it may.
        values = [*(f"TRY_CAST({value} AS {self.sql})" for value in read), *free]
        return f"coalesce({', '.join(values)})" if len(values) > 1 else values[0]

    def _readings(self) -> list[str]:
        """Return the formats to try: the column's own, then other clocks, and days that can be read in one way only.

        A file that is written anew in another format is then read as before, though its profile is reused.
        """
        assert self.format is not None
        if self.strict:
            return [self.format]
        day, zone = re.split(r"[T ]?%-?[HI]", self.format, maxsplit=1)[0], ""
        if formats.in_utc(self.format):
            zone = next((z for z in formats.UTC if self.format.endswith(z)), "")
        clocks = [f"{between}{clock}{zone}" for between in ("T", " ") for clock in CLOCKS] if day else CLOCKS
        days = [day, *CERTAIN] if day else [""]
        others = [f"{d}{clock}" for d in days for clock in clocks] if formats.of_clock(self.format) else []
        return [*dict.fromkeys([self.format, *others, *(d for d in days if d)])]


def sql_type(arrow_type: pa.DataType) -> str:
    """Return DuckDB's type for a storage type.

    Example:
        >>> sql_type(pa.uint8()), sql_type(pa.string()), sql_type(pa.decimal128(9, 2))
        ('UTINYINT', 'VARCHAR', 'DECIMAL(9, 2)')
    """
    t = pa.types
    if t.is_integer(arrow_type):
        width = {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}[arrow_type.bit_width]
        return f"U{width}" if t.is_unsigned_integer(arrow_type) else width
    if t.is_decimal(arrow_type):
        return f"DECIMAL({arrow_type.precision}, {arrow_type.scale})"
    if t.is_timestamp(arrow_type):
        return "TIMESTAMP" if arrow_type.tz is None else MOMENT
    tests = {
        "BOOLEAN": t.is_boolean,
        "DOUBLE": t.is_floating,
        "DATE": t.is_date,
        "TIME": t.is_time,
        "INTERVAL": t.is_duration,
    }
    return next((sql for sql, holds in tests.items() if holds(arrow_type)), TEXT)


def storage_type(sql: str) -> pa.DataType:
    """Return the storage type of values of one of DuckDB's types that cells are given here."""
    return {
        "BIGINT": pa.int64(),
        "DOUBLE": pa.float64(),
        "BOOLEAN": pa.bool_(),
        "DATE": pa.date32(),
        "TIME": pa.time64("us"),
        "TIMESTAMP": pa.timestamp("us"),
        MOMENT: pa.timestamp("us", "UTC"),
        "INTERVAL": pa.duration("us"),
    }.get(sql, pa.string())


def _number(cell: str, notation: str | None) -> str:
    """Write the SQL of a finite number: in its own notation first, then as programs write it."""
    comma = notation == formats.COMMA
    kept, point = ("[^0-9,]", "','") if comma else ("[^0-9.]", "'.'")
    digits = f"replace(regexp_replace({cell}, {literal(kept)}, '', 'g'), {point}, '.')"
    sign = f"CASE WHEN regexp_matches({cell}, '[-(]') THEN -1 ELSE 1 END"
    pattern = literal(COMMAED if comma else POINTED)
    spelled = f"WHEN regexp_full_match({cell}, {pattern}) THEN {sign} * TRY_CAST({digits} AS DOUBLE)"
    plain = f"WHEN regexp_full_match({cell}, {literal(PLAIN)}) THEN TRY_CAST({cell} AS DOUBLE)"
    return f"(CASE {spelled} {plain} END)" if comma else f"(CASE {plain} {spelled} END)"
