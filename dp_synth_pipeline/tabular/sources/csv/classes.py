"""The classes of a CSV's cells, and the type that a column's noisy counts of them choose.

A class is the set of types that accept a cell, so each cell falls into exactly one, and the list is the same for every
table. Nothing here looks at more than one cell at a time, or at counts without noise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dp_synth_pipeline.tabular import formats
from dp_synth_pipeline.tabular.sources.csv import identifying, spelling, words
from dp_synth_pipeline.tabular.sources.csv.values import COMMAED, MOMENT, PLAIN, POINTED, TEXT, CellType
from dp_synth_pipeline.tabular.sql import literal

EMPTY, WORD, CODE = "empty", "word for null", "code"
_WHOLE, _REAL, _BOTH = "whole", "number", "number or grouped by points"
_POINTED, _COMMAED, _EITHER = "with a decimal point", "with a decimal comma", "grouped or with a decimal comma"
_TRUTH, _TIME, _DAY, _DATETIME, _MOMENT = "truth value", "time", "date", "datetime", "moment"

CLASSES = (
    *(EMPTY, WORD, CODE, _WHOLE, _REAL, _BOTH, _POINTED, _COMMAED, _EITHER),
    *(_TRUTH, _TIME, _DAY, _DATETIME, _MOMENT, *identifying.CLASSES, "text"),
)
"""The cells of a column's histogram; public, and the same for every column."""

_DIGITS = (CODE, _WHOLE, identifying.CARD)

ACCEPTS: dict[CellType, tuple[str, ...]] = {
    CellType("BOOLEAN"): (_TRUTH,),
    CellType("BIGINT"): _DIGITS,
    CellType("DOUBLE"): (*_DIGITS, _REAL, _BOTH),
    CellType("DOUBLE", formats.POINT): (*_DIGITS, _REAL, _BOTH, _POINTED, _EITHER),
    CellType("DOUBLE", formats.COMMA): (*_DIGITS, _BOTH, _COMMAED, _EITHER),
    CellType("TIME"): (_TIME,),
    CellType("DATE"): (_DAY,),
    CellType("TIMESTAMP"): (_DAY, _DATETIME),
    CellType(MOMENT): (_DAY, _DATETIME, _MOMENT),
    CellType(TEXT): CLASSES,
}
"""The classes that each type accepts, the narrower type first."""

NUMBERS = ("BIGINT", "DOUBLE")


def class_of(cell: str) -> str:
    """Write the SQL of the class of a cell, an SQL value of type VARCHAR that was trimmed."""
    day, rest, is_card = spelling.day_of(cell), spelling.rest_of(cell), identifying.is_card(cell)
    time = f"regexp_extract({rest}, '^[T ](.*?){spelling.ZONE}?$', 1)"
    zoned = f"regexp_matches({rest}, '{spelling.ZONE}$')"
    whole = f"TRY_CAST({cell} AS BIGINT) IS NOT NULL"
    grouped = "[-+]?[0-9]{1,3}([.][0-9]{3})+"
    pointed, commaed = (f"regexp_full_match({cell}, {literal(p)})" for p in (POINTED, COMMAED))
    cases = {
        f"{cell} IS NULL OR {cell} = ''": EMPTY,
        words.is_null(cell): WORD,
        f"regexp_full_match({cell}, '{words.CODE}')": CODE,
        f"regexp_full_match({cell}, '[0-9]+') AND {whole} AND {is_card}": identifying.CARD,
        f"regexp_full_match({cell}, '[-+]?[0-9]+') AND {whole}": _WHOLE,
        f"regexp_full_match({cell}, '{grouped}')": _BOTH,
        f"regexp_full_match({cell}, '{PLAIN}') OR regexp_full_match(lower({cell}), '[-+]?inf(inity)?')": _REAL,
        f"lower({cell}) IN ('true', 'false')": _TRUTH,
        f"{pointed} AND {commaed}": _EITHER,
        pointed: _POINTED,
        commaed: _COMMAED,
        spelling.is_time(cell): _TIME,
        spelling.is_day(cell): _DAY,
        f"{spelling.is_day(day)} AND {spelling.is_time(time)} AND {zoned}": _MOMENT,
        f"{spelling.is_day(day)} AND {spelling.is_time(time)}": _DATETIME,
        is_card: identifying.CARD_IN_GROUPS,
        **{f"regexp_full_match({cell}, {literal(p)})": name for name, p in identifying.PATTERNS.items()},
    }
    whens = " ".join(f"WHEN {condition} THEN {literal(name)}" for condition, name in cases.items())
    return f"CASE {whens} ELSE 'text' END"


def choose(seen: Mapping[str, float], allowed: Collection[str] | None, *, numbers: bool) -> CellType | None:
    """Return the narrowest type that accepts nearly all cells; None if no cell was seen, or no allowed type fits.

    Codes lose their zeros as numbers, so where any are seen, no number fits unless a person says that they are numbers, or
    most cells have digits after a point, as no code has: noise then made the codes.

    Args:
        seen: noisy counts of classes, without those that noise would explain.
        allowed: the SQL types that may be chosen; None for all.
        numbers: whether a person declared that digits are numbers.
    """
    filled = {c: n for c, n in seen.items() if c not in (EMPTY, WORD)}
    if not filled:
        return None
    least, coded = spelling.FITS * sum(filled.values()), filled.get(CODE, 0) > filled.get(_REAL, 0)
    for cell_type, accepted in ACCEPTS.items():
        loses = coded and cell_type.sql in NUMBERS and not numbers
        fits = sum(n for c, n in filled.items() if c in accepted) >= least
        if fits and not loses and (allowed is None or cell_type.sql in allowed):
            return cell_type
    return None


def kind_of(seen: Mapping[str, float]) -> str | None:
    """Return the kind of a column that identifies somebody, by the classes that were seen; None if they tell of none."""
    return identifying.kind_of(seen, spelling.FITS, (EMPTY, WORD), identifying.KINDS)


def hint_of(seen: Mapping[str, float]) -> str | None:
    """Return the kind of a column that identifies somebody if it hardly repeats."""
    return identifying.kind_of(seen, spelling.FITS, (EMPTY, WORD), identifying.HINTS)


def misfits(cell_type: CellType) -> tuple[str, ...]:
    """Return the classes whose cells are nulls in a column of this type, though they are no words for nulls."""
    accepted = ACCEPTS[CellType(cell_type.sql, cell_type.format if cell_type.sql == "DOUBLE" else None)]
    return tuple(c for c in CLASSES if c not in (*accepted, EMPTY, WORD))
