"""`identifier`: a column that is numbered anew, never read and never learned."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.kinds.base import Column
from dp_synth_pipeline.tabular.kinds.regenerated import Regenerated, is_number, numbers, widened
from dp_synth_pipeline.tabular.storage import is_text, synthetic_type

DIGIT, LETTER = "#", "?"
PLACES = {DIGIT: "0123456789", LETTER: "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
"""What stands for each placeholder of a pattern."""


class Identifier(Regenerated):
    """A running number, made anew for the synthetic rows; or a text that counts in a declared pattern."""

    name = "identifier"
    read_from = (is_text, *is_number)
    takes = ("pattern",)
    unique = True

    def storage(self, arrow_type: pa.DataType) -> str:
        """Name a type that is wide enough: there may be more synthetic rows than a narrow integer can count."""
        narrow = pa.types.is_integer(arrow_type) and arrow_type.bit_width < 32
        return "int64" if narrow else synthetic_type(widened(arrow_type))

    def csv_type(self, facts: Mapping[str, Any]) -> str:
        return "BIGINT" if facts.get("pattern") is None else "VARCHAR"

    def check_declared(self, name: str, arrow_type: pa.DataType, facts: Mapping[str, Any]) -> None:
        pattern = facts.get("pattern")
        if pattern is None:
            return
        if not isinstance(pattern, str) or not set(pattern) & set(PLACES):
            raise InvalidInput(
                f"column {name!r}: pattern: expected text in which each # stands for a digit and each ? for a letter, as in "
                f"'MRN-######'; got {pattern!r}."
            )
        if not is_text(arrow_type) and not re.fullmatch(r"[1-9]?[0-9]*#+", pattern):
            raise InvalidInput(
                f"column {name!r}: pattern: storage type {arrow_type} holds numbers, so a pattern is digits and then #, as "
                f"in '9#####'; got {pattern!r}."
            )

    def texts(self, column: Column, rows: np.ndarray) -> list[str]:
        """Return running numbers in the pattern; without one, in a text column, they follow the column's name."""
        if column.pattern is not None:
            return [counted(column.pattern, int(n)) for n in rows]
        if pa.types.is_string(column.arrow_type):
            return [f"{column.name}-{n:09d}" for n in rows]
        return [str(n) for n in rows]

    def generated(self, column: Column, first: int, rows: int) -> pa.Array:
        if column.pattern is None and not pa.types.is_string(column.arrow_type):
            counted_on = np.arange(first + 1, first + rows + 1)
            if pa.types.is_integer(column.arrow_type):
                return pa.array(counted_on).cast(column.arrow_type)
            return numbers([str(n) for n in counted_on], column.arrow_type)
        return super().generated(column, first, rows)


def counted(pattern: str, n: int) -> str:
    """Return a number in a pattern; what exceeds its places stands before the first of them, so that no two are alike.

    Example:
        >>> counted("MRN-####", 7), counted("MRN-####", 10_007), counted("?#", 12)
        ('MRN-0007', 'MRN-10007', 'B2')
    """
    sizes = [len(PLACES[c]) for c in pattern if c in PLACES]
    beyond, n = divmod(n, math.prod(sizes))
    written: list[str] = []
    for c in reversed(pattern):
        if c in PLACES:
            n, place = divmod(n, len(PLACES[c]))
            c = PLACES[c][place]
        written.append(c)
    text = "".join(reversed(written))
    first = next(i for i, c in enumerate(pattern) if c in PLACES)
    return f"{text[:first]}{beyond}{text[first:]}" if beyond else text
