"""An (epsilon, delta) limit under a named neighbouring relation and privacy unit."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dp_synth_pipeline.errors import InvalidInput

ADD_REMOVE = "add-remove"
"""Two tables are neighbours if one is the other plus all rows of one privacy unit."""

REPLACE_ONE = "replace-one"
"""Two tables are neighbours if one privacy unit's rows in one are replaced by another unit's rows in the other."""

RELATIONS = (ADD_REMOVE, REPLACE_ONE)

DELTA_EXPONENT = 1.2
"""`delta="auto"` is 1 / N ** 1.2, the convention of NeMo Safe Synthesizer; N is public or privately counted."""


@dataclass(frozen=True)
class PrivacyUnit:
    """Whose presence is hidden: one row, or all rows that share a value of `column` (at most `max_rows` of them).

    Example:
        >>> str(PrivacyUnit()), str(PrivacyUnit("patient_id", max_rows=4))
        ('row', 'patient_id')
    """

    column: str | None = None
    max_rows: int = 1

    def __post_init__(self) -> None:
        if self.max_rows < 1:
            raise InvalidInput(f"max_rows must be at least 1, got {self.max_rows}.")
        if self.column is None and self.max_rows != 1:
            raise InvalidInput("max_rows needs a unit column: a row is one row.")

    def __str__(self) -> str:
        return self.column or "row"


@dataclass(frozen=True)
class Budget:
    """A privacy limit: epsilon > 0, finite, and 0 < delta < 1, for add/remove of one privacy unit.

    Raises:
        InvalidInput: for a NaN, infinite, zero, negative or too large number.

    Example:
        >>> Budget(2.5, 1e-5).epsilon
        2.5
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)


def check_relation(relation: str) -> None:
    """Accept a neighbouring relation that can be accounted for; refuse all else by name."""
    if relation not in RELATIONS:
        raise InvalidInput(f"relation must be one of {', '.join(RELATIONS)}; got {relation!r}.")


def check_epsilon(epsilon: float) -> None:
    """Accept a finite epsilon above 0; refuse all else by name."""
    if not (isinstance(epsilon, (int, float)) and math.isfinite(epsilon) and epsilon > 0):
        raise InvalidInput(f"epsilon must be a finite number above 0, got {epsilon}. Typical values: 0.5 to 8.")


LEAST_RELEASE, MOST_RELEASE = 1e-3, 100.0
"""Epsilons that a release can work with: its accounting resolves losses of 1e-4, and beyond 100 nobody is protected while
the accounting itself takes for ever."""


def check_release(epsilon: float) -> None:
    """Accept the epsilon of one release if there is noise that fits it; refuse all else before anything is charged."""
    check_epsilon(epsilon)
    if not LEAST_RELEASE <= epsilon <= MOST_RELEASE:
        raise InvalidInput(
            f"epsilon of one release must lie between {LEAST_RELEASE:g} and {MOST_RELEASE:g}, got {epsilon:g}. Typical "
            f"values: 0.5 to 8."
        )


def check_delta(delta: float) -> None:
    """Accept 0 < delta < 1; refuse all else by name."""
    if not (isinstance(delta, (int, float)) and math.isfinite(delta) and 0 < delta < 1):
        raise InvalidInput(
            f"delta must lie strictly between 0 and 1, and below one over the number of units; got {delta}. "
            f"Typical value: 1e-5."
        )


def auto_delta(population: int, cap: float, floor: float = 0.0) -> float:
    """Return 1 / population ** 1.2, never above `cap` and never below `floor`.

    Args:
        population: a public or privately counted number of units, at least 1.
        cap: the account's delta.
        floor: what the release has already promised to mechanisms with a delta of their own.

    Example:
        >>> f"{auto_delta(43958, cap=1e-5):.2e}"
        '2.68e-06'
    """
    return min(cap, max(floor, max(population, 1) ** -DELTA_EXPONENT))
