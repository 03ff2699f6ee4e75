"""Reads a rule across columns as a person wrote it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dp_synth_pipeline.errors import InvalidInput

FORMS = "'start <= end', 'age >= 18', 'total = a + b', 'paid = price * (1 - discount)' or 'country -> currency'"

WORDS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq"}
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<quoted>"[^"]+" | `[^`]+`)
    | (?P<text>'[^']*')
    | (?P<moment>\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:\d{2})?)?)
    | (?P<part>\(\s*1\s*[+-]\s*(?:"[^"]+"|`[^`]+`|[^\W\d][\w.]*)\s*\))
    | (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)? | \.\d+)
    | (?P<operator>-> | <= | >= | == | < | > | = | \+ | - | \* | / | ,)
    | (?P<aggregate>(?:sum|count|min|max)\(\s*[^\W\d][\w.]*\s*\))
    | (?P<word>[^\W\d][\w.]*)
    )""",
    re.VERBOSE,
)

Token = tuple[str, str]

Points = Callable[[str], Any]
"""Returns a column's values as numbers, float64 (rows,), NaN where null."""


@dataclass(frozen=True)
class Literal:
    """A value written in a rule: a finite number, or text such as '2024-01-31' or '2 days'."""

    value: float | int | str

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class Comparison:
    """`left operator right`, on each row.

    Attributes:
        text: the rule as it was written.
        operator: one of <, <=, >, >=, ==.
        right: another column's name, or a literal.
    """

    text: str
    left: str
    operator: str
    right: str | Literal

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it speaks of."""
        return (self.left,) if isinstance(self.right, Literal) else (self.left, self.right)

    @property
    def slug(self) -> str:
        """The rule in words, as a part of a check's name."""
        return f"{self.left}_{WORDS[self.operator]}_{self.right}"


@dataclass(frozen=True)
class Sum:
    """`target = a + b - c`, on each row.

    Attributes:
        terms: sign (1 or -1) and column of each term, at least two of them.
    """

    text: str
    target: str
    terms: tuple[tuple[int, str], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it speaks of."""
        return tuple(dict.fromkeys((self.target, *(name for _, name in self.terms))))

    @property
    def slug(self) -> str:
        """The rule in words, as a part of a check's name."""
        first, *rest = self.terms
        head = f"minus_{first[1]}" if first[0] < 0 else first[1]
        return "_".join([self.target, "eq", head, *(f"{'plus' if s > 0 else 'minus'}_{n}" for s, n in rest)])

    def solved(self, name: str, of: Points) -> Any:
        """Return what one of its columns should be, from the others."""
        parts = [(-1, self.target), *self.terms]  # together they are 0
        others = [sign * of(other) for sign, other in parts if other != name]
        return sum(others) / -sum(sign for sign, other in parts if other == name)

    def turned(self, name: str) -> Sum:
        """Return what it says of another one of its columns: `a = target - b + c`."""
        own = next(sign for sign, other in self.terms if other == name)
        terms = ((own, self.target), *((-own * sign, other) for sign, other in self.terms if other != name))
        terms = tuple(sorted(terms, key=lambda term: -term[0]))
        written = [f"{'+' if sign > 0 else '-'} {written_name(other)}" for sign, other in terms]
        return Sum(f"{written_name(name)} = {' '.join(written).removeprefix('+ ')}", name, terms)

    def size(self, of: Points) -> Any:
        """Return the sum of its terms without their signs, of which a part is lost to rounding."""
        return sum(abs(of(name)) for _, name in self.terms)


@dataclass(frozen=True)
class Product:
    """`target = 1.2 * a * b / c * (1 - d)`, on each row.

    Attributes:
        factors: power (1 or -1) and column of each factor.
        by: the number that they are multiplied by, not 0.
        parts: power, sign (1 or -1) and column of each factor that is 1 with a column added or taken off, as a discount is.
    """

    text: str
    target: str
    factors: tuple[tuple[int, str], ...]
    by: float = 1.0
    parts: tuple[tuple[int, int, str], ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it speaks of."""
        names = (*(name for _, name in self.factors), *(name for *_, name in self.parts))
        return tuple(dict.fromkeys((self.target, *names)))

    @property
    def slug(self) -> str:
        """The rule in words, as a part of a check's name."""
        parts = [f"{'times' if power > 0 else 'over'}_{name}" for power, name in self.factors]
        parts += [
            f"{'times' if power > 0 else 'over'}_1_{'plus' if sign > 0 else 'minus'}_{name}"
            for power, sign, name in self.parts
        ]
        return "_".join([self.target, "eq", f"{self.by:g}", *parts]).replace("_eq_1_times_", "_eq_")

    def solved(self, name: str, of: Points) -> Any:
        """Return what one of its columns should be, from the others; not finite where any number would do, or none."""
        powers = [(-1, self.target), *self.factors]  # together, times `by` and the parts, they are 1
        above, below = self.by, 1.0
        for power, other in powers:
            if other != name:
                above, below = (above * of(other), below) if power > 0 else (above, below * of(other))
        for power, sign, other in self.parts:
            if other != name:
                part = 1 + sign * of(other)
                above, below = (above * part, below) if power > 0 else (above, below * part)
        for power, sign, other in self.parts:
            if other == name:
                return (below / above - 1 if power > 0 else above / below - 1) / sign
        power = sum(power for power, other in powers if other == name)
        return above / below if power == -1 else (below / above) ** (1 / power)

    def size(self, of: Points) -> Any:
        """Return its size, of which a part is lost to rounding."""
        return len((*self.factors, *self.parts)) * abs(self.solved(self.target, of))


Formula = Sum | Product
"""What computes the column on its left."""


@dataclass(frozen=True)
class Dependency:
    """`given -> target`: rows that agree in `given` agree in `target`."""

    text: str
    given: tuple[str, ...]
    target: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it speaks of."""
        return (*self.given, self.target)

    @property
    def slug(self) -> str:
        """The rule in words, as a part of a check's name."""
        return f"{'_'.join(self.given)}_gives_{self.target}"


Rule = Comparison | Formula | Dependency


def parse(text: str) -> Rule:
    """Read one rule.

    Raises:
        InvalidInput: if it has none of the forms, or names a column twice where that says nothing.

    Example:
        >>> parse("total = price + fee").terms
        ((1, 'price'), (1, 'fee'))
        >>> parse("gross = 1.2 * price * count").factors
        ((1, 'price'), (1, 'count'))
    """
    if not isinstance(text, str):
        raise InvalidInput(f"rules: expected text such as {FORMS}, got {text!r}.")
    tokens = _tokens(text)
    operators = [v for k, v in tokens if k == "operator" and v not in ("+", "-", "*", "/", ",")]
    if len(operators) != 1:
        raise _refused(text, "it needs exactly one of <=, <, >=, >, ==, = and ->")
    at = next(i for i, t in enumerate(tokens) if t == ("operator", operators[0]))
    left, right = tokens[:at], tokens[at + 1 :]
    if not left or not right:
        raise _refused(text, f"something is missing beside {operators[0]}")
    clean = " ".join(text.split())
    rule = _dependency(clean, left, right) if operators[0] == "->" else _relation(clean, left, operators[0], right)
    if not isinstance(rule, Formula) and len(set(rule.columns)) != len(rule.columns):
        raise _refused(text, "it relates a column to itself")
    return rule


def written_name(name: str) -> str | None:
    """Return a column's name as a rule writes it; None if no rule can."""
    if re.fullmatch(r"[^\W\d][\w.]*", name):
        return name
    return f'"{name}"' if '"' not in name else f"`{name}`" if "`" not in name else None


def qualified(formula: str, table: str) -> str:
    """Return a formula of one table's columns as a rule across tables, which names each as TABLE.COLUMN.

    Example:
        >>> qualified("total = 1.2 * price", "orders")
        'orders.total = 1.2 * orders.price'
    """
    found = _tokens(formula)
    return " ".join(_across(kind, value, table) for kind, value in found)


def _across(kind: str, value: str, table: str) -> str:
    if kind == "part":
        return f"(1 {value[0]} {written_name(f'{table}.{value[1:]}')})"
    return str(written_name(f"{table}.{value}")) if kind == "word" else value


def _tokens(text: str) -> list[Token]:
    tokens, at, body = [], 0, text.rstrip()
    while at < len(body):
        token = _TOKEN.match(body, at)
        if token is None:
            raise _refused(text, f"{body[at:].strip()[:12]!r} is not understood")
        kind = str(token.lastgroup)
        value = token[kind]
        if kind in ("quoted", "text"):
            kind, value = ("word" if kind == "quoted" else "text"), value[1:-1]
        if kind == "part":  # 1 with a column added or taken off, told by its sign
            value = value[1:-1].strip()[1:].strip()
            value = value[0] + value[1:].strip().strip('"`')
        if kind == "aggregate":  # across tables: what the rows below come to
            kind, value = "word", "".join(value.split())
        tokens.append((kind, value))
        at = token.end()
    return tokens


def _dependency(text: str, left: list[Token], right: list[Token]) -> Dependency:
    names = [v for k, v in left if k == "word"]
    expected = [t for name in names for t in (("operator", ","), ("word", name))][1:]
    if not names or left != expected or len(right) != 1 or right[0][0] != "word":
        raise _refused(text, "-> takes one or more columns on its left, parted by commas, and one on its right")
    return Dependency(text, tuple(names), right[0][1])


def _relation(text: str, left: list[Token], operator: str, right: list[Token]) -> Rule:
    if any(token in (("operator", "*"), ("operator", "/")) for token in left + right):
        return _product(text, left, operator, right)
    sides = [_side(text, left), _side(text, right)]
    single = [s[0] if len(s) == 1 and (s[0][0] > 0 or isinstance(s[0][1], Literal)) else None for s in sides]
    if operator in ("=", "==") and single[0] is not None and single[1] is None and isinstance(single[0][1], str):
        terms = [(sign, value) for sign, value in sides[1] if isinstance(value, str)]
        if len(terms) != len(sides[1]):
            raise _refused(text, "a sum takes columns alone, no numbers")
        if single[0][1] in [name for _, name in terms]:
            raise _refused(text, "the column on the left is also on the right")
        return Sum(text, single[0][1], tuple(terms))
    if single[0] is None or single[1] is None:
        raise _refused(text, "a sum stands on the right of =, with one column on the left")
    a, b = single[0][1], single[1][1]
    operator = "==" if operator == "=" else operator
    if isinstance(a, Literal):
        a, b, operator = b, a, FLIPPED[operator]
    if isinstance(a, Literal):
        raise _refused(text, "it names no column")
    return Comparison(text, a, operator, b)


def _product(text: str, left: list[Token], operator: str, right: list[Token]) -> Product:
    """Read `a = 1.2 * b / c`: one column on the left; columns, numbers and (1 - d) on the right, between * and / alone."""
    if operator not in ("=", "==") or len(left) != 1 or left[0][0] != "word":
        raise _refused(text, "a product stands on the right of =, with one column on the left")
    values, signs = right[::2], right[1::2]
    if len(right) % 2 == 0 or any(sign not in (("operator", "*"), ("operator", "/")) for sign in signs):
        raise _refused(text, "a product takes columns and numbers, with * or / between them")
    factors, parts, by = [], [], 1.0
    for power, (kind, value) in zip((1, *(1 if sign[1] == "*" else -1 for sign in signs)), values, strict=True):
        if kind == "word":
            factors.append((power, value))
        elif kind == "part":
            parts.append((power, 1 if value[0] == "+" else -1, value[1:]))
        elif kind == "number" and float(value) != 0:
            by = by * float(value) if power > 0 else by / float(value)
        else:
            raise _refused(text, f"{value!r} is no column and no number other than 0")
    rule = Product(text, left[0][1], tuple(factors), by, tuple(parts))
    named = [name for _, name in factors] + [name for *_, name in parts]
    if not named or not 0 < by < float("inf"):
        raise _refused(text, "a product takes columns, and numbers that are neither 0 nor too large")
    if left[0][1] in named:
        raise _refused(text, "the column on the left is also on the right")
    if len({name for *_, name in parts}) != len(parts) or {n for *_, n in parts} & {n for _, n in factors}:
        raise _refused(text, "a column in (1 - column) stands nowhere else in the product")
    return rule


def _side(text: str, tokens: list[Token]) -> list[tuple[int, str | Literal]]:
    """Read `a + b - c`, or one literal, with signs."""
    terms: list[tuple[int, str | Literal]] = []
    sign, waiting, signed = 1, True, False
    for kind, value in tokens:
        if kind == "operator" and value in ("+", "-"):
            if signed:
                raise _refused(text, f"{value!r} follows another sign")
            sign, waiting, signed = (-1 if value == "-" else 1), True, True
        elif kind == "operator" or not waiting:
            raise _refused(text, f"{value!r} stands where a sign was expected")
        elif kind == "part":
            raise _refused(text, "(1 - column) is a factor of a product")
        else:
            terms.append((sign, value) if kind == "word" else (1, _literal(text, kind, value, sign)))
            sign, waiting, signed = 1, False, False
    if waiting:
        raise _refused(text, "it ends with a sign")
    return terms


def _literal(text: str, kind: str, value: str, sign: int) -> Literal:
    if kind != "number":
        if sign < 0:
            raise _refused(text, f"-{value} is no date and no number")
        return Literal(value)
    number = float(value) if re.search(r"[.eE]", value) else int(value)
    if number == float("inf"):
        raise _refused(text, f"{value} is too large a number")
    return Literal(sign * number)


def _refused(text: str, why: str) -> InvalidInput:
    return InvalidInput(f"rule {text!r}: {why}; write it as {FORMS}.")
