"""What becomes of a column's nulls, and of the categories that are too rare to be released."""

from __future__ import annotations

from enum import StrEnum


class NullPolicy(StrEnum):
    """What becomes of a null before training."""

    KEEP = "keep"
    """Missingness is modelled and reproduced."""
    MEAN = "mean"
    """The private mean; the private mode where values lie on no axis."""
    MEDIAN = "median"
    """The private median; the private mode of a category or boolean."""
    MODE = "mode"
    """The likeliest released value, else the middle of the densest cell."""
    DROP = "drop"
    """The whole row is left out."""
    CONSTANT = "constant"
    """A declared value."""

    @property
    def measured(self) -> bool:
        """Whether nulls are filled with a figure of the private histogram."""
        return self in (NullPolicy.MEAN, NullPolicy.MEDIAN, NullPolicy.MODE)


class OtherPolicy(StrEnum):
    """What becomes of suppressed categories: those that are too rare to be released."""

    DROP = "drop"
    """Generation writes a released category that fits the rest of the row in their place."""
    DRAW = "draw"
    """Generation draws them as often as they occur, and writes a public label."""
