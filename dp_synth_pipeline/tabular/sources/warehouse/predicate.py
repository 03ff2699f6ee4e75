"""The declared row filter: an SQL predicate that judges each row by itself, so that it costs nothing.

A predicate of one row at a time is a filter that one unit moves by its own rows only, so the guarantee holds for what it
keeps (Dwork and Roth 2014, section 2: stability 1). One that looks at other rows, as a subquery does, is not.

The text is parsed as the engine that runs it would parse it: by DuckDB for files and its own tables, by sqlglot for others.
Each expression in it must be one that is known to read its row and nothing else, and what runs is written anew from what
was parsed, so that nothing runs that was not looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import duckdb
from sqlglot import Dialect, exp
from sqlglot.errors import SqlglotError

from dp_synth_pipeline.errors import InvalidInput

_CLOCKS = {"now", "today", "get_current_time", "get_current_timestamp", "transaction_timestamp", "current_date"}
_PLACES = {"current_database", "current_schema", "current_schemas"}
"""The same for all rows of a query and public, so that what uses them still judges each row by itself."""

_ONE_ROW = {
    *("BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON"),
    *("CONJUNCTION", "CONSTANT", "FUNCTION", "LAMBDA", "OPERATOR", "TYPE"),
}
"""The expressions of DuckDB's parser that read one row: no SUBQUERY and no WINDOW."""

_STATEFUL = {"error", "getvariable", "in_search_path", "stats", "vector_type", "write_log"}
"""Functions that DuckDB calls steady, and that tell a row by how it is stored, by the session, or by stopping the query."""

_HIDDEN = {
    "duckdb": re.compile("rowid|file_row_number|file_index"),
    "postgres": re.compile("ctid|tableoid|[xc]min|[xc]max"),
    "snowflake": re.compile(r"metadata\$.*"),
}
"""Columns that no table declares, in small letters: where a row lies among others, and who wrote it."""

_READS_ITS_ROW = frozenset(
    """
    And Or Not Xor Paren EQ NEQ GT GTE LT LTE NullSafeEQ NullSafeNEQ Is Between In Like ILike SimilarTo Escape
    Add Sub Mul Div IntDiv Mod Neg Pow DPipe Concat Literal RawString Boolean Null Identifier Interval IntervalSpan Var
    DataTypeParam Tuple Case If Coalesce Nullif Cast TryCast Greatest Least AtTimeZone
    Lower Upper Trim Substring Length Left Right StrPosition Replace StartsWith EndsWith Initcap Reverse Contains SplitPart
    Pad RegexpLike RegexpILike JSONExtract JSONExtractScalar JSONPath JSONPathKey JSONPathRoot JSONPathSubscript
    Abs Ceil Floor Round Sign Sqrt Exp Ln Log Trunc
    Extract Year Month Day Quarter Week DayOfWeek DayOfYear LastDay Date Time Timestamp Datetime DateTrunc TimestampTrunc
    DatetimeTrunc DateAdd DateSub DateDiff TimestampAdd TimestampSub TimestampDiff DatetimeAdd DatetimeSub DatetimeDiff
    TsOrDsToDate TsOrDsToTimestamp TsOrDsAdd TsOrDsDiff StrToDate StrToTime TimeToStr ToChar
    CurrentDate CurrentTime CurrentTimestamp CurrentDatetime Localtime Localtimestamp
    """.split()  # noqa: SIM905 (a list of a hundred names, one to a line, is no easier to read)
)
"""The expressions of sqlglot that read one row, or the clock of the query: no subquery, window, sequence or unknown name."""

_TYPES = (
    exp.DataType.TEXT_TYPES
    | exp.DataType.NUMERIC_TYPES
    | exp.DataType.TEMPORAL_TYPES
    | {exp.DataType.Type.BOOLEAN, exp.DataType.Type.INTERVAL, exp.DataType.Type.UUID}
)
"""What may be cast to; a type of somebody's own may run code of theirs."""

WANTED = "write a predicate of one row's columns, as in \"visit_date >= '2024-01-01'\""


DUCKDB = "duckdb"
"""The dialect of files, of DuckDB's own tables and of Delta Lake, which DuckDB reads."""


def check(text: str, dialect: str = DUCKDB) -> str:
    """Return the SQL that runs for a predicate that reads the row it judges and no other.

    Args:
        text: the predicate, as a person wrote it.
        dialect: what the engine that runs it speaks, as sqlglot names it.

    Raises:
        InvalidInput: for a blank one, what the engine cannot parse, a subquery, a window, a function of somebody's own, or
            one such as random, whose value depends on which rows were judged before.

    Example:
        >>> check("age > 1 and d < now()", "postgres")
        'age > 1 AND d < CURRENT_TIMESTAMP'
    """
    if not text.strip():
        raise InvalidInput(f"filter: it is blank; remove it, or {WANTED}.")
    return _for_duckdb(text) if dialect == DUCKDB else _for_others(text, dialect)


def row_by_row(text: str) -> str:
    """Write a predicate for DuckDB that leaves out a row on which it cannot be evaluated, such as for a failed cast.

    An error would be a fact about one row that everybody sees.
    """
    return f"coalesce(TRY({text}), false)"


def _for_duckdb(text: str) -> str:
    parsed = tree(text)
    if parsed is None:
        raise _unparsed("DuckDB")
    for node in nodes(parsed):
        if what := beyond_one_row(node):
            raise _unsteady(what) if what == node.get("function_name") else _beyond(what)
        if node["class"] == "COLUMN_REF" and _HIDDEN[DUCKDB].fullmatch(node["column_names"][-1].lower()):
            raise _beyond(node["column_names"][-1])
    return written(parsed)


def beyond_one_row(node: dict[str, Any]) -> str:
    """Return what in a node of DuckDB's syntax tree is no function of the row that is judged; empty if nothing is."""
    if node["class"] not in _ONE_ROW:
        return node["class"].replace("_", " ").lower()
    if node.get("schema") or node.get("catalog"):
        return f"{node.get('function_name', 'a type')} of a schema"
    name = node.get("function_name", "")
    return name if name.lower() in (_varying() | _STATEFUL) - _CLOCKS - _PLACES else ""


def ordered_columns(text: str) -> set[str]:
    """Return the columns that a predicate for DuckDB compares by order, such as `a` in `a >= 'x'`.

    Example:
        >>> sorted(ordered_columns("a >= 'x' AND b = 'y' AND c BETWEEN 1 AND 2 AND CAST(d AS DATE) < '2024-01-01'"))
        ['a', 'c']
    """
    compared = [
        node
        for node in nodes(tree(text))
        if node["class"] == "BETWEEN" or (node["class"] == "COMPARISON" and _ORDER.search(node["type"]))
    ]
    operands = [node.get(side) or {} for node in compared for side in ("left", "right", "input", "lower", "upper")]
    return {o["column_names"][-1] for o in operands if o.get("class") == "COLUMN_REF"}


_ORDER = re.compile("LESS|GREATER")


def tree(text: str) -> dict[str, Any] | None:
    """Return DuckDB's syntax tree of a predicate; None if it is none."""
    try:  # as it stands it closes no bracket that is not its own; and in brackets nothing can follow it
        found, _ = map(_statement, (text, f"({text}\n)"))
        return found["where_clause"]
    except (duckdb.Error, KeyError, ValueError):
        return None


def _statement(predicate: str) -> dict[str, Any]:
    query = f"SELECT 1 FROM judged WHERE {predicate}"
    serialized = duckdb.execute("SELECT json_serialize_sql(?)", [query]).fetchall()[0][0]
    (statement,) = json.loads(serialized)["statements"]
    return statement["node"]


def written(node: Mapping[str, Any]) -> str:
    """Write a part of DuckDB's syntax tree as SQL."""
    shell = json.loads(_shell())
    shell["statements"][0]["node"]["where_clause"] = node
    text = duckdb.execute("SELECT json_deserialize_sql(?)", [json.dumps(shell)]).fetchall()[0][0]
    return text.partition(" WHERE ")[2]


@cache
def _shell() -> str:
    return duckdb.execute("SELECT json_serialize_sql('SELECT 1 WHERE true')").fetchall()[0][0]


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


def _for_others(text: str, dialect: str) -> str:
    engine = Dialect.get_or_raise(dialect)
    try:
        found, _ = (engine.parse_into(exp.Condition, form) for form in (text, f"({text}\n)"))
    except SqlglotError:
        raise _unparsed(dialect) from None
    if len(found) != 1 or found[0] is None:
        raise _unparsed(dialect)
    for node in found[0].walk():
        _check_node(node, dialect)
    return found[0].sql(engine, comments=False)


def _check_node(node: exp.Expr, dialect: str) -> None:
    """Refuse an expression that is not known to read its row and nothing else."""
    if isinstance(node, exp.Column):
        if node.table or (dialect in _HIDDEN and _HIDDEN[dialect].fullmatch(node.name.lower())):
            raise _beyond(node.sql(dialect))
    elif isinstance(node, exp.DataType):
        if node.this not in _TYPES:
            raise _unsteady(node.sql(dialect))
    elif type(node).__name__ not in _READS_ITS_ROW:
        looks_around = isinstance(node, (exp.Query, exp.SubqueryPredicate, exp.Window, exp.UDTF))
        raise (_beyond if looks_around else _unsteady)(node.sql(dialect, normalize_functions=False))


def _unparsed(engine: str) -> InvalidInput:
    return InvalidInput(f"filter: as SQL of {engine} it is no predicate; {WANTED}.")


def _beyond(what: str) -> InvalidInput:
    return InvalidInput(f"filter: {what!r} could look at other rows, so that one person could move many; {WANTED}.")


def _unsteady(what: str) -> InvalidInput:
    return InvalidInput(
        f"filter: {what!r} is no function of the row: which rows it keeps could depend on the others, so that "
        f"one person could move many; {WANTED}."
    )
