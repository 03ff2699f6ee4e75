"""A condition on synthetic rows, in SQL: which rows satisfy it, and which codes a row that may still satisfy it can have.

DuckDB parses it and DuckDB judges rows by it, so that both mean the same. It is a predicate of one row, like a `filter`, but
it reads rows that a released generator drew and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput, nearest
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.encoding.support import Support, released_values, support
from dp_synth_pipeline.tabular.sources.warehouse import predicate
from dp_synth_pipeline.tabular.sql import literal, quoted, readable

Where = str | Mapping[str, Any]
"""SQL, or values by column: one, a list of which one must hold, or None for null."""

TRUTHS = {True: ("yes", "true", "on", "y"), False: ("no", "false", "off", "n")}
"""Texts that YAML reads as truth values."""

FORM = "write SQL over a row's columns, as in \"y = 'yes' AND age BETWEEN 60 AND 80\", or values by column"


def written(where: Where, codec: TableCodec) -> str:
    """Write a condition as SQL.

    Raises:
        InvalidInput: if it is blank, or holds a value that has no form in SQL.
    """
    if isinstance(where, str) and where.strip():
        return where.strip()
    if isinstance(where, Mapping) and where:
        return " AND ".join(_equal(str(n), respelled(v, str(n), codec)) for n, v in where.items())
    raise InvalidInput(f"where: it is empty; {FORM}.")


def check(where: Where, names: Sequence[str] | None = None) -> None:
    """Refuse what is no condition, or names a column that a table lacks, by what a person wrote alone.

    Args:
        names: the table's columns; None if they are not known yet.

    Raises:
        InvalidInput: saying what is wrong with it.
    """
    sql = where.strip() if isinstance(where, str) else " AND ".join(_equal(str(n), v) for n, v in where.items())
    if not sql:
        raise InvalidInput(f"where: it is empty; {FORM}.")
    paths = list(_columns(_tree(sql)))
    if names is not None:
        for path in paths:
            own_name(path, names)


def names_in(where: Where) -> list[str]:
    """Return the names of columns that a condition has, as a person wrote them."""
    if isinstance(where, Mapping):
        return [str(name) for name in where]
    return [path[-1] for path in _columns(_tree(where.strip()))]


def no_texts(name: str) -> str:
    """Say why no condition can be on a text column."""
    return (
        f"where: column {name!r} is text, which is written last, upon the rest of its row, so no row can be chosen by it. "
        f"Ask for values of other columns, and texts follow."
    )


def of_root(where: Where, root: str, columns: Mapping[str, Sequence[str]]) -> Where:
    """Return a condition on related tables as one on the root's columns alone, without its name before them.

    Args:
        root: the table whose rows are drawn first.
        columns: the columns of each table, of the root those that it is drawn with.

    Raises:
        InvalidInput: if it is no condition, or names a column of another table.
    """
    if isinstance(where, Mapping):
        plain = {str(name): value for name, value in where.items()}
        paths = {n: tuple(n.split(".", 1)) if n.partition(".")[0] in columns else (n,) for n in plain}
        return {_of_root(paths[name], root, columns)[-1]: value for name, value in plain.items()}
    if not isinstance(where, str) or not where.strip():
        raise InvalidInput(f"where: it is empty; {FORM}.")
    tree = _tree(where.strip())
    for node in predicate.nodes(tree):
        if node["class"] == "COLUMN_REF":
            node["column_names"] = list(_of_root(tuple(node["column_names"]), root, columns))
    return predicate.written(tree)


def _of_root(path: tuple[str, ...], root: str, columns: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return a column of the root without its table's name; what is no column at all stays as it is."""
    if len(path) > 1 and path[0].casefold() == root.casefold():
        return path[1:]
    own = {name.casefold() for name in columns[root]}
    if ".".join(path).casefold() in own:  # a static column that the root carries
        return (".".join(path),)
    for table, names in columns.items():
        theirs = {name.casefold() for name in names}
        qualified = len(path) > 1 and path[0].casefold() == table.casefold()
        if table != root and (qualified or (len(path) == 1 and path[0].casefold() in theirs - own)):
            raise InvalidInput(
                f"where: {'.'.join(path)!r} is a column of {table}, and a condition can be on columns of {root} alone: its "
                f"rows are drawn first, and those of other tables follow them. It has: {', '.join(columns[root])}."
            )
    return path


def own_name(path: Sequence[str], names: Sequence[str], said: str = "where") -> str:
    """Return the table's own name of a column; like SQL, whatever its case.

    Raises:
        InvalidInput: if the table has no such column.
    """
    named = {n.casefold(): n for n in reversed(names)} | {n: n for n in names}
    name = path[-1]
    found = named.get(name, named.get(name.casefold()))
    if len(path) > 1 or found is None:
        raise InvalidInput(
            f"{said}: no column {'.'.join(path)!r}; the table has: {', '.join(names)}.{nearest(path[-1], names)} Text is "
            f"written in single quotes, and a name of other than letters, digits and _ in double quotes."
        )
    return found


def respelled(value: Any, name: str, codec: TableCodec) -> Any:
    """Return a truth value as the text that a column has for it, if it has texts: YAML reads `yes` and `no` as truth values.

    Any other value stays as it is.
    """
    if isinstance(value, (list, tuple, set, frozenset)):
        return [respelled(v, name, codec) for v in value]
    if not isinstance(value, bool) or name not in [c.name for c in codec.modelled]:
        return value
    own: Any = codec.columns[[c.name for c in codec.modelled].index(name)]
    if not own.column.kind.categorical:
        return value
    return next((text for text in own.values if str(text).lower() in TRUTHS[value]), value)


def _equal(name: str, value: Any) -> str:
    if isinstance(value, (list, tuple, set, frozenset, np.ndarray)):
        some = [v for v in value if v is not None]
        tests = [f"{quoted(name)} IN ({', '.join(map(value_literal, some))})"] if some else []
        tests += [f"{quoted(name)} IS NULL"] if len(some) < len(value) else []
        if not tests:
            raise InvalidInput(f"where: {name!r} has an empty list, which nothing fits; name a value.")
        return tests[0] if len(tests) == 1 else f"({' OR '.join(tests)})"
    return f"{quoted(name)} IS NULL" if value is None else f"{quoted(name)} = {value_literal(value)}"


def value_literal(value: Any) -> str:
    """Write one value as SQL.

    Raises:
        InvalidInput: if it is neither text, number, truth value, date nor datetime.
    """
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float, Decimal)):
        return str(value)
    if isinstance(value, (str, date, datetime)):
        return literal(value)
    raise InvalidInput(f"where: a value is text, a number, a truth value or a date; got {type(value).__name__}.")


@dataclass(frozen=True)
class _Part:
    """A part of a condition: a connective over others, or a test.

    Attributes:
        sql: as DuckDB writes it.
        how: and, or, not; or test.
        parts: what the connective joins.
        columns: the columns that it reads, by their names in the table.
        literals: of a comparison of a column with constants, those constants; None for any other test.
    """

    sql: str
    how: str
    parts: tuple[_Part, ...] = ()
    columns: frozenset[str] = frozenset()
    literals: tuple[str, ...] | None = None


Judge = Callable[[str, pa.Table], pa.Table]
"""Evaluates SQL expressions on each row of a table."""


class Condition:
    """A predicate of one row of a table.

    Args:
        where: SQL, or values by column.
        codec: of the table.

    Raises:
        InvalidInput: if it is no predicate of the table's columns, or nothing that was released satisfies it.
    """

    def __init__(self, where: Where, codec: TableCodec) -> None:
        self._codec, self._schema, self._judge = codec, codec.schema.arrow_schema(), _judge()
        self._numbers = {c.name: i for i, c in enumerate(codec.modelled)}
        tree = _tree(written(where, codec))
        self._root = self._part(tree)
        self.sql = self._root.sql
        self.columns = self._root.columns
        self._check_columns()
        self.holds(self._schema.empty_table())
        self._possible = _Tables(codec, self._numbers, self._judge)
        self._instead = [
            np.isin(np.arange(cardinality), list(codec.forbidden.get(i, ((), ()))[0]))
            for i, cardinality in enumerate(codec.cardinalities)
        ]
        self._at = {self._numbers[name] for name in self.columns if name in self._numbers}
        if not all(np.any(self._fits(self._root, True, column, None)) for column in (-1, *self._at)):
            raise InvalidInput(f"nothing fits: {self._why_not(self._root)}.")

    def holds(self, table: pa.Table) -> np.ndarray:
        """Return whether each row satisfies it, bool (rows,); a row that cannot be judged does not."""
        return self._held(self._root, table)

    def allowed(self, column: int, before: np.ndarray) -> np.ndarray | None:
        """Return which codes a row that satisfies it may have in a column, bool (rows or 1, codes); None if any.

        Args:
            column: number among the modelled ones.
            before: codes of the columns before, int64 (rows, column); each row's are taken for what they rule out.
        """
        if column not in self._at:
            return None
        possible = np.atleast_2d(self._fits(self._root, True, column, before))
        return np.broadcast_to(possible, (len(possible), self._codec.cardinalities[column]))

    def rarest(self, table: pa.Table) -> str:
        """Say which of the tests that must all hold is satisfied by fewest of some rows."""
        parts = self._root.parts if self._root.how == "and" else (self._root,)
        shares = [(float(self._held(part, table).mean()), part.sql) for part in parts]
        share, sql = min(shares)
        return (
            f"{sql} holds in {share:.2g} of all draws" if share else f"{sql} held in none of {table.num_rows:,} draws"
        )

    def _held(self, part: _Part, table: pa.Table) -> np.ndarray:
        names = [n for n in self._schema.names if n in part.columns] or self._schema.names[:1]
        found = self._judge(f"coalesce(TRY({part.sql}), false)", table.select(names)).column(0)
        if not pa.types.is_boolean(found.type):
            raise InvalidInput(f"where: {part.sql} is no condition, which is true or false; {FORM}.")
        return np.asarray(found.combine_chunks())

    def _check_columns(self) -> None:
        written = [n for n in sorted(self.columns) if self._codec.schema[n].kind.composed]
        if written:
            raise InvalidInput(no_texts(written[0]))
        numbered = [n for n in sorted(self.columns) if self._codec.schema[n].kind.numbered]
        if numbered:
            raise InvalidInput(
                f"where: column {numbered[0]!r} is made anew for the rows that are drawn, so none can be chosen by it."
            )

    def _part(self, node: Mapping[str, Any]) -> _Part:
        joined = {"CONJUNCTION_AND": "and", "CONJUNCTION_OR": "or", "OPERATOR_NOT": "not"}.get(node["type"], "test")
        columns = frozenset(own_name(n, self._schema.names) for n in _columns(node))
        if joined == "test":
            return _Part(predicate.written(node), "test", (), columns, _literals(node))
        return _Part(predicate.written(node), joined, tuple(self._part(child) for child in node["children"]), columns)

    def _fits(self, part: _Part, wanted: bool, column: int, before: np.ndarray | None) -> np.ndarray | bool:
        """Say for each code of a column whether a part can be true (or false, if not `wanted`) given the codes before.

        Of columns that come later, and of all others if nothing is given, anything is assumed: only what is impossible is
        ruled out. A code that must not be drawn may be anything, since another one stands for it in the end; if nothing is
        given, it is not counted.
        """
        if part.how == "not":
            return self._fits(part.parts[0], not wanted, column, before)
        if part.how in ("and", "or"):
            each = [self._fits(p, wanted, column, before) for p in part.parts]
            every = (part.how == "and") == wanted
            found: np.ndarray | bool = each[0]
            for other in each[1:]:
                found = np.logical_and(found, other) if every else np.logical_or(found, other)
            return found
        if len(part.columns) != 1:
            return True
        (name,) = part.columns
        number = self._numbers.get(name)
        if number is None:  # a constant, or hangs on another column: rows are judged by it once they are drawn
            return True
        mask = self._possible.of(part, name)[0 if wanted else 1]
        if before is not None:
            mask = mask | self._instead[number]
        if number == column:
            return mask[None]
        if before is None or number > column:
            return bool(mask.any())
        return mask[before[:, number]][:, None]

    def _why_not(self, part: _Part) -> str:
        tests = [p for p in _tests(part) if len(p.columns) == 1 and next(iter(p.columns)) in self._numbers]
        for test in tests:
            (name,) = test.columns
            if not self._possible.of(test, name)[0].any():
                return f"no value that {name!r} can have satisfies {test.sql}; {released_values(self._coded(name))}"
        sets = "; ".join(released_values(self._coded(name)) for name in sorted(self.columns & self._numbers.keys()))
        return f"no row can satisfy {part.sql}; {sets}"

    def _coded(self, name: str) -> Any:
        return self._codec.columns[self._numbers[name]]


class _Tables:
    """For each test of one column, the codes with which it can be true, and those with which it can be false."""

    def __init__(self, codec: TableCodec, numbers: Mapping[str, int], judge: Judge) -> None:
        self._codec, self._numbers, self._judge = codec, numbers, judge
        self._found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self._supports: dict[str, Support] = {}

    def of(self, test: _Part, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return both, bool (codes,) each."""
        if test.sql not in self._found:
            self._found[test.sql] = self._judged(test, name)
        return self._found[test.sql]

    def _judged(self, test: _Part, name: str) -> tuple[np.ndarray, np.ndarray]:
        codec = self._codec.columns[self._numbers[name]]
        if name not in self._supports:
            self._supports[name] = support(codec)
        known = self._supports[name]
        values, codes = known.values, known.codes
        ends = self._ends(test, name, values.type)
        if ends is not None:  # of values that are not all there, these may be in question beside the ends
            near = codec.encode(ends)
            ends, near = ends.filter(pa.array(~known.whole[near])), near[~known.whole[near]]
            values, codes = pa.concat_arrays([values, ends]), np.append(codes, near)
        truth = f"coalesce(CAST(TRY({test.sql}) AS INTEGER), -1)"
        held = np.asarray(self._judge(truth, pa.table({name: values})).column(0).combine_chunks())
        unknown = np.zeros(codec.cardinality, dtype=bool) if ends is not None else ~known.whole
        masks = []
        for wanted in (1, 0):
            mask = unknown.copy()
            mask[codes[held == wanted]] = True
            mask[list(self._codec.forbidden.get(self._numbers[name], ((), ()))[0])] = False
            masks.append(mask)
        return masks[0], masks[1]

    def _ends(self, test: _Part, name: str, kind: pa.DataType) -> pa.Array | None:
        """Return the constants that a column is compared with, as its values; None where a test compares nothing so."""
        if test.literals is None or pa.types.is_duration(kind):
            return None
        if not test.literals:
            return pa.array([], kind)
        empty = pa.table({name: pa.array([None], kind)})
        try:
            storage = self._judge(f"typeof({quoted(name)})", empty).column(0)[0].as_py()
            found = self._judge(", ".join(f"TRY_CAST({c} AS {storage})" for c in test.literals), empty)
            ends = [column.combine_chunks().cast(kind) for column in found.columns]
        except (InvalidInput, pa.ArrowException):
            return None
        return pa.concat_arrays(ends).drop_null()


def _judge() -> Judge:
    """Return what evaluates SQL expressions on each row of a table; it can read nothing else.

    Raises:
        InvalidInput: when called, if they cannot be evaluated for columns of these types.
    """
    con = duckdb.connect(config={"enable_external_access": "false", "threads": "1"})
    con.execute("SET TimeZone = 'UTC'")

    def judged(expressions: str, table: pa.Table) -> pa.Table:
        con.register("drawn", table)
        try:
            query = f"SELECT {expressions} FROM (SELECT {readable(table.schema)} FROM drawn) AS judged"
            return con.sql(query).to_arrow_table()
        except duckdb.Error as error:
            raise InvalidInput(f"where: {str(error).strip().splitlines()[0].rstrip('.')}; {FORM}.") from None
        finally:
            con.unregister("drawn")

    return judged


def _words_of_sql(sql: str) -> Iterator[str]:
    """Yield the words in double quotes of which a text would be a condition: names of columns, such as when or order."""
    for word in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", sql)):
        if predicate.tree(re.sub(rf"(?<![\w\"'.]){word}(?![\w\"'(])", f'"{word}"', sql)) is not None:
            yield word


def _tree(sql: str) -> dict[str, Any]:
    """Return DuckDB's syntax tree of a predicate of one row.

    Raises:
        InvalidInput: if it is none, or reads more than the row.
    """
    tree = predicate.tree(sql)
    if tree is None:
        word = next(_words_of_sql(sql), None)
        hint = (
            f"To write one, {FORM}."
            if word is None
            else f'{word} is a word of SQL: as a column, it is written "{word}".'
        )
        raise InvalidInput(f"where: this is no SQL condition: {sql}. {hint}")
    for node in predicate.nodes(tree):
        if what := predicate.beyond_one_row(node):
            raise InvalidInput(f"where: {what!r} is no function of one row; {FORM}.")
    return tree


def _columns(node: Any) -> Iterator[tuple[str, ...]]:
    for part in predicate.nodes(node):
        if part["class"] == "COLUMN_REF":
            yield tuple(part["column_names"])


def _literals(node: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the constants of a comparison, BETWEEN, IN or IS NULL between one bare column and nothing but constants."""
    kind = node["type"]
    if node["class"] == "COMPARISON":
        sides = [node["left"], node["right"]]
    elif node["class"] == "BETWEEN":
        sides = [node["input"], node["lower"], node["upper"]]
    elif kind in ("COMPARE_IN", "COMPARE_NOT_IN", "OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"):
        sides = node["children"]
    else:
        return None
    bare = [s for s in sides if s["class"] == "COLUMN_REF"]
    others = [s for s in sides if s["class"] != "COLUMN_REF"]
    if len(bare) != 1 or any(True for side in others for _ in _columns(side)):
        return None
    return tuple(predicate.written(side) for side in others)


def _tests(part: _Part) -> Iterator[_Part]:
    if part.how == "test":
        yield part
    for other in part.parts:
        yield from _tests(other)
