"""Reads a rule across columns as a person wrote it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dp_synth_pipeline.errors import InvalidInput

FORMS = "'start <= end', 'age >= 18', 'total = a + b' or 'country -> currency'"

WORDS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq"}
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<quoted>"[^"]+" | `[^`]+`)
    | (?P<text>'[^']*')
    | (?P<moment>\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:\d{2})?)?)
    | (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)? | \.\d+)
    | (?P<operator>-> | <= | >= | == | < | > | = | \+ | - | ,)
    | (?P<word>[^\W\d][\w.]*)
    )""",
    re.VERBOSE,
)

Token = tuple[str, str]


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


Rule = Comparison | Sum | Dependency


def parse(text: str) -> Rule:
    """Read one rule.

    Raises:
        InvalidInput: if it has none of the three forms, or names a column twice where that says nothing.

    Example:
        >>> parse("total = price + fee").terms
        ((1, 'price'), (1, 'fee'))
    """
    if not isinstance(text, str):
        raise InvalidInput(f"rules: expected text such as {FORMS}, got {text!r}.")
    tokens = _tokens(text)
    operators = [v for k, v in tokens if k == "operator" and v not in ("+", "-", ",")]
    if len(operators) != 1:
        raise _refused(text, "it needs exactly one of <=, <, >=, >, ==, = and ->")
    at = next(i for i, t in enumerate(tokens) if t == ("operator", operators[0]))
    left, right = tokens[:at], tokens[at + 1 :]
    if not left or not right:
        raise _refused(text, f"something is missing beside {operators[0]}")
    clean = " ".join(text.split())
    rule = _dependency(clean, left, right) if operators[0] == "->" else _relation(clean, left, operators[0], right)
    if not isinstance(rule, Sum) and len(set(rule.columns)) != len(rule.columns):
        raise _refused(text, "it relates a column to itself")
    return rule


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
