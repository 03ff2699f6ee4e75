"""The declared row filter: an SQL predicate that judges each row by itself, so that it costs nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import duckdb

from dp_synth_pipeline.errors import InvalidInput

_BEYOND_THE_ROW = re.compile(
    r"(?i)\b(select|from|table|values|with|over|(?:un)?pivot|ctid|\w*_to_xml\w*|dblink\w*|query\w*)\b"
)
_OF_THE_ROW = re.compile(r"(?i)\bdistinct\s+from\b|\b(?:extract|substring|trim|overlay)\s*\([^()]*?\bfrom\b")
"""Where FROM begins no subquery."""

_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[\w .-]*`")
_OTHER_QUOTES = re.compile(r"#|`|\$\w*\$")
"""What begins a comment or a quotation in one engine or another, so that we might take for text what runs."""

_NO_FUNCTION_OF_THE_ROW = (
    *("rand", "randn", "random", "random_normal", "randstr", "setseed", "uniform", "normal", "zipf", "seq[1248]"),
    *(r"\w*uuid(?:v[1-7]|_string|_generate_\w+)?", "nextval", "currval", "lastval", "setval"),
    *("clock_timestamp", "timeofday", r"txid_\w+", r"pg_\w+", "set_config", "current_setting", "getvariable"),
    *(
        "error",
        "stats",
        "vector_type",
        "write_log",
        r"sleep\w*",
        r"current_\w*id",
        r"current_query\w*",
        "in_search_path",
    ),
)
"""Functions of any engine that tell one row by chance, by its place in the table or by the state of the session."""

_UNSTEADY = re.compile(rf"(?i)\b(?:{'|'.join(_NO_FUNCTION_OF_THE_ROW)})\s*\(|\.\s*(?:nextval|currval)\b|''\s*\(")
"""Such a function being called; or one whose name is quoted, so that it cannot be told."""

_CLOCKS = {"now", "today", "get_current_time", "get_current_timestamp", "transaction_timestamp", "current_date"}
_PLACES = {"current_database", "current_schema", "current_schemas"}
"""The same for all rows of a query and public, so that what uses them still judges each row by itself."""

_ONE_ROW = {
    *("BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON"),
    *("CONJUNCTION", "CONSTANT", "FUNCTION", "LAMBDA", "OPERATOR", "TYPE"),
}
"""The expressions of DuckDB's parser that read one row: no SUBQUERY and no WINDOW."""

WANTED = "write a predicate of one row's columns, as in \"visit_date >= '2024-01-01'\""


def check(text: str) -> str:
    """Return a predicate that reads the row it judges and no other.

    A predicate of one row at a time is a filter that one unit moves by its own rows only, so the guarantee holds for
    what it keeps (Dwork and Roth 2014, section 2: stability 1). One that looks at other rows, as a subquery does, is not.

    Raises:
        InvalidInput: for a blank one, a statement's end, a comment, a subquery, a window, or a function such as random,
            whose value depends on which rows were judged before.

    Example:
        >>> check("visit_date >= '2024-01-01'")
        "visit_date >= '2024-01-01'"
    """
    if not text.strip():
        raise InvalidInput(f"filter: it is blank; remove it, or {WANTED}.")
    for mark in (";", "--", "/*", "\\", "'''", '"""'):
        if mark in text:
            raise InvalidInput(f"filter: {mark!r} may not stand in it, since it could end the predicate; {WANTED}.")
    bare = _QUOTED.sub("''", re.sub(r'(?i)"ctid"', "ctid", text))  # where a row lies: PostgreSQL's, quoted or not
    if match := _OTHER_QUOTES.search(bare):
        raise InvalidInput(
            f"filter: {match.group(0)!r} may not stand in it, since it could hide a part of it; {WANTED}."
        )
    if match := _BEYOND_THE_ROW.search(_OF_THE_ROW.sub("", bare)):
        raise _beyond(match.group(0))
    if match := _UNSTEADY.search(bare):
        raise _unsteady(match.group(0))
    if _unbalanced(bare):
        raise InvalidInput(f"filter: its brackets or quotes do not match; {WANTED}.")
    return text.strip()


def row_by_row(text: str) -> str:
    """Write a predicate for DuckDB that leaves out a row on which it cannot be evaluated, such as for a failed cast.

    An error would be a fact about one row that everybody sees.
    """
    return f"coalesce(TRY({text}), false)"


def check_parsed(text: str) -> None:
    """Refuse what DuckDB, which is to run the predicate, parses as more than expressions of one row.

    Raises:
        InvalidInput: for a subquery, a window, a function of somebody's own, or what is no predicate.
    """
    for node in _parsed(text):
        if what := beyond_one_row(node):
            raise _unsteady(what) if what == node.get("function_name") else _beyond(what)


def beyond_one_row(node: dict[str, Any]) -> str:
    """Return what in a node of DuckDB's syntax tree is no function of the row that is judged; empty if nothing is."""
    if node["class"] not in _ONE_ROW:
        return node["class"].replace("_", " ").lower()
    if node.get("schema") or node.get("catalog"):
        return f"{node.get('function_name', 'a type')} of a schema"
    name = node.get("function_name", "")
    return name if name.lower() in _varying() - _CLOCKS - _PLACES else ""


def ordered_columns(text: str) -> set[str]:
    """Return the columns that a predicate for DuckDB compares by order, such as `a` in `a >= 'x'`.

    Example:
        >>> sorted(ordered_columns("a >= 'x' AND b = 'y' AND c BETWEEN 1 AND 2 AND CAST(d AS DATE) < '2024-01-01'"))
        ['a', 'c']
    """
    compared = [
        node
        for node in _parsed(text)
        if node["class"] == "BETWEEN" or (node["class"] == "COMPARISON" and _ORDER.search(node["type"]))
    ]
    operands = [node.get(side) or {} for node in compared for side in ("left", "right", "input", "lower", "upper")]
    return {o["column_names"][-1] for o in operands if o.get("class") == "COLUMN_REF"}


_ORDER = re.compile("LESS|GREATER")


def _parsed(text: str) -> Iterator[dict[str, Any]]:
    where = tree(text)
    if where is None:
        raise InvalidInput(f"filter: DuckDB cannot parse it; {WANTED}.")
    return nodes(where)


def tree(text: str) -> dict[str, Any] | None:
    """Return DuckDB's syntax tree of a predicate; None if it is none."""
    query = f"SELECT 1 FROM judged WHERE ({text}\n)"
    try:
        serialized = duckdb.execute("SELECT json_serialize_sql(?)", [query]).fetchall()[0][0]
        (statement,) = json.loads(serialized)["statements"]
        return statement["node"]["where_clause"]
    except (duckdb.Error, KeyError, ValueError):
        return None


@cache
def _varying() -> set[str]:
    """Return the functions that DuckDB itself knows to be more than functions of their arguments."""
    with duckdb.connect() as con:
        functions = con.execute(
            "SELECT function_name FROM duckdb_functions() WHERE stability <> 'CONSISTENT'"
        ).fetchall()
    return {name.lower() for (name,) in functions}


def nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield every expression in a syntax tree of DuckDB, the whole one first."""
    if isinstance(tree, dict):
        if "class" in tree:
            yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for part in tree:
            yield from nodes(part)


def _beyond(what: str) -> InvalidInput:
    return InvalidInput(f"filter: {what!r} could look at other rows, so that one person could move many; {WANTED}.")


def _unsteady(what: str) -> InvalidInput:
    return InvalidInput(
        f"filter: {what.rstrip(' (')!r} is no function of the row: which rows it keeps could depend on the others, so that "
        f"one person could move many; {WANTED}."
    )


def _unbalanced(bare: str) -> bool:
    depth = 0
    for character in bare.replace("''", ""):
        depth += (character == "(") - (character == ")")
        if depth < 0 or character in "'\"":
            return True
    return depth != 0
