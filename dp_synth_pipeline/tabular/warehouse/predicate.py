"""The declared row filter: an SQL predicate that judges each row by itself, so that it costs nothing."""

from __future__ import annotations

import re

from dp_synth_pipeline.errors import InvalidInput

_BEYOND_THE_ROW = re.compile(r"(?i)\b(select|table|over|\w*_to_xml\w*|dblink\w*|query\w*)\b")


def check(text: str) -> str:
    """Return a predicate that reads the row it judges and no other.

    A predicate of one row at a time is a filter that one unit moves by its own rows only, so the guarantee holds for
    what it keeps (Dwork and Roth 2014, section 2: stability 1). One that looks at other rows, as a subquery does, is not.

    Raises:
        InvalidInput: for a blank one, a statement's end, a comment, a subquery or a window.

    Example:
        >>> check("visit_date >= '2024-01-01'")
        "visit_date >= '2024-01-01'"
    """
    wanted = "write a predicate of one row's columns, as in \"visit_date >= '2024-01-01'\""
    if not text.strip():
        raise InvalidInput(f"filter: it is blank; remove it, or {wanted}.")
    for mark in (";", "--", "/*", "\\", "$$"):
        if mark in text:
            raise InvalidInput(f"filter: {mark!r} may not stand in it, since it could end the predicate; {wanted}.")
    bare = re.sub(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"", "''", text)
    if found := _BEYOND_THE_ROW.search(bare):
        raise InvalidInput(
            f"filter: {found.group(0)!r} would look at other rows, so that one person could move many; {wanted}."
        )
    if _unbalanced(bare):
        raise InvalidInput(f"filter: its brackets or quotes do not match; {wanted}.")
    return text.strip()


def _unbalanced(bare: str) -> bool:
    depth = 0
    for character in bare.replace("''", ""):
        depth += (character == "(") - (character == ")")
        if depth < 0 or character in "'\"":
            return True
    return depth != 0
