"""What the private pass learned about a table: released values, so they may be kept, shown and reused.

A profile holds no count that was not noised and no value that was not thresholded or declared.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy import events as ev
from dp_synth_pipeline.tabular.calendar_effects import CalendarEffects
from dp_synth_pipeline.tabular.kinds.base import Kind, lookup

FORMAT = 1

MOST_CODES = 40
"""Codes of a number line, at most; a profile that says nothing about them was written when there were always as many."""


@dataclass(frozen=True)
class ColumnProfile:
    """One column's noisy fine histogram, as probabilities that sum to 1 with `other` and `null_rate`.

    Attributes:
        name: the column.
        kind: as in the schema.
        values: values with a cell of their own: categories (text; likeliest first, or in order if ordinal), booleans, or
            heavy numbers. Dates are day numbers and datetimes are microseconds, both since 1970-01-01 UTC; durations
            are microseconds. Whole numbers are exact; decimals of more than 15 digits are text, and so exact too.
        weights: their probabilities.
        bins: half-open `(lower, upper)` cells of a number line, ascending, without the heavy values.
        bin_weights: their probabilities.
        other: probability of all suppressed categories together; for a number, of values that noise hides altogether.
        null_rate: probability of a null.
        decimals: digits after the point that values are written with; None for full precision.
        resolution: microseconds between neighbouring datetimes or durations.
        declared: facts about this column that a person declared, so that they cost nothing.
        misfits: share of a CSV's cells that its measured type does not hold, so that they are nulls.
        most_codes: into how many codes a number line is divided, at most.
        respelled: whether released values that need more digits than `decimals` come back as they are; else rounded, as
            profiles of earlier versions mean it.
        rounded: steps that values are rounded to, finest first, each with the share of the values in bins that are; the
            others are multiples of what `decimals` and `resolution` tell.
        separate: whether each released value of a number line has a code, as those of a category have; else those that are
            heavy.
        effects: on which weekdays, days of a month and hours dates in bins fall more often; None if on all alike.
    """

    name: str
    kind: Kind
    values: tuple[Any, ...]
    weights: tuple[float, ...]
    bins: tuple[tuple[float, float], ...] = ()
    bin_weights: tuple[float, ...] = ()
    other: float = 0.0
    null_rate: float = 0.0
    decimals: int | None = None
    resolution: int | None = None
    declared: tuple[str, ...] = ()
    misfits: float = 0.0
    most_codes: int = MOST_CODES
    respelled: bool = False
    rounded: tuple[tuple[float, float], ...] = ()
    effects: CalendarEffects | None = None
    separate: bool = False

    @property
    def hidden(self) -> bool:
        """Whether there are values, but noise hides each of them, so that nothing but nulls can be generated."""
        return not self.values and not self.bins and self.null_rate < 1

    @property
    def points(self) -> tuple[int | float, ...]:
        """The released values on the number line, whole ones exact; nothing for a category."""
        return tuple(float(v) if isinstance(v, str) else v for v in self.values) if self.kind.numeric else ()

    @property
    def lower(self) -> int | float | None:
        """The least value that generation can draw, on the number line; None for a category."""
        return min((*self.points, *(b[0] for b in self.bins)), default=None)

    @property
    def upper(self) -> int | float | None:
        """The largest value that generation can draw, on the number line; None for a category."""
        return max((*self.points, *(b[1] for b in self.bins)), default=None)

    @property
    def mean(self) -> float | None:
        """The private mean on the number line, without nulls; None for a category."""
        if not self.kind.numeric:
            return None
        total = math.fsum(self.weights) + math.fsum(self.bin_weights)
        inner = [w * (a + b) / 2 for (a, b), w in zip(self.bins, self.bin_weights, strict=True)]
        heavy = [w * v for v, w in zip(self.points, self.weights, strict=True)]
        return math.fsum([*inner, *heavy]) / total if total > 0 else None

    @property
    def median(self) -> Any:
        """The private median: a point of the number line, or a value of an ordinal column; None for a category."""
        if self.kind.ordered and not self.kind.numeric:
            cells = [(v, v, w) for v, w in zip(self.values, self.weights, strict=True)]
        elif self.kind.numeric:
            points = [(v, v, w) for v, w in zip(self.points, self.weights, strict=True)]
            cells = sorted([*points, *((a, b, w) for (a, b), w in zip(self.bins, self.bin_weights, strict=True))])
        else:
            return None
        half = math.fsum(w for _, _, w in cells) / 2
        for low, high, mass in cells:
            if mass > 0 and half <= mass:
                return low + (high - low) * half / mass if high != low else low
            half -= mass
        return cells[-1][1] if cells else None

    @property
    def mode(self) -> Any:
        """The likeliest released value, else the middle of the densest cell; None if neither was released.

        A released number outweighs whole cells of others, so it is denser than any of them.
        """
        if self.values:
            return max(zip(self.weights, self.values, strict=True), key=lambda p: p[0])[1]
        if not self.bins:
            return None
        density = [w / (b - a) for (a, b), w in zip(self.bins, self.bin_weights, strict=True)]
        low, high = self.bins[density.index(max(density))]
        return (low + high) / 2


@dataclass(frozen=True)
class TableProfile:
    """The released profile of one table.

    Attributes:
        population: noisy or declared number of privacy units, at least 1.
        rows: noisy number of rows to train on and, by default, to generate; at least 1.
        unit: the privacy unit, 'row' or a column's name.
        columns: the learned columns, in table order.
        events: what the row count, the types of a CSV's columns and the histograms cost.
        set_aside: noisy number of a CSV's lines that were no rows; None where it was not measured.
        calendar: on which weekdays, days of a month and hours the rows of histories lie; None if on all alike.
        end: the place on the number line where histories end together, as where data were taken; None if they do not.
    """

    population: int
    rows: int
    unit: str
    columns: tuple[ColumnProfile, ...]
    events: tuple[ev.Event, ...] = ()
    set_aside: int | None = None
    calendar: CalendarEffects | None = None
    end: float | None = None

    def __getitem__(self, name: str) -> ColumnProfile:
        for column in self.columns:
            if column.name == name:
                return column
        raise InvalidInput(f"the profile has no column {name!r}.")

    @property
    def ends(self) -> dict[str, tuple[int | float, int | float]]:
        """The least and the largest value that generation can draw, of each column on a number line that has any."""
        ends = ((c.name, c.lower, c.upper) for c in self.columns)
        return {name: (low, high) for name, low, high in ends if low is not None and high is not None}

    def to_json(self) -> str:
        """Return the profile as JSON text that `from_json` reads back unchanged.

        One that an earlier version wrote comes back letter for letter: a refresh knows by it that codes mean what they did.
        """
        facts = asdict(self) | {"format": FORMAT, "events": [e.to_dict() for e in self.events]}
        for column in facts["columns"]:
            if column["most_codes"] == MOST_CODES:
                del column["most_codes"]
            for name in ("respelled", "rounded", "effects", "separate"):
                if not column[name]:
                    del column[name]
        if not facts["calendar"]:
            del facts["calendar"]
        if self.end is None:
            del facts["end"]
        return json.dumps(facts, indent=1, default=_name)

    @classmethod
    def from_json(cls, text: str) -> TableProfile:
        """Read back what `to_json` wrote."""
        facts = json.loads(text)
        if facts.pop("format", None) != FORMAT:
            raise InvalidInput("this profile was written by another version; materialize `profile` again.")
        columns = tuple(_column(c) for c in facts.pop("columns"))
        events = tuple(ev.from_dict(e) for e in facts.pop("events"))
        if found := facts.get("calendar"):
            facts["calendar"] = CalendarEffects.from_dict(found)
        return cls(columns=columns, events=events, **facts)


def _name(kind: Kind) -> str:
    return kind.name


def _column(facts: dict[str, Any]) -> ColumnProfile:
    facts["kind"] = lookup(facts["kind"])
    for name in ("bins", "rounded"):
        facts[name] = tuple((float(a), float(b)) for a, b in facts.get(name, ()))
    for name in ("values", "weights", "bin_weights", "declared"):
        facts[name] = tuple(facts[name])
    if found := facts.get("effects"):
        facts["effects"] = CalendarEffects.from_dict(found)
    return ColumnProfile(**facts)
