"""Leads from row to row of a history to the weekdays, days of a month and hours on which rows were counted."""

from __future__ import annotations

from typing import Self

import numpy as np

from dp_synth_pipeline.tabular.calendar_effects import CalendarEffects, Placement
from dp_synth_pipeline.tabular.encoding.axis import AxisCodec
from dp_synth_pipeline.tabular.profiling import grid
from dp_synth_pipeline.tabular.profiling.precision import MINUTE, RESOLUTIONS
from dp_synth_pipeline.tabular.schema import Column

YEARS = (-98_615, 120_895)
"""Days of the years 1700 to 2300, of which the calendar is followed; before and after them, distances stay as drawn."""

MOST = 3.0
"""How many times as likely as on an average a row is taken to be, at most: else nearly all would be drawn anew."""

CLOSED = 0.01
"""A day that is at most this times as likely as the likeliest has no rows."""

TRIES = 20
"""How often a row is drawn anew that leads to where few rows are."""


class DatedGaps:
    """Leads rows of a history to dates as they were counted.

    A distance that was drawn within a cell is placed in it, so that the next row lies where rows do. Where a cell is too
    narrow for that, such as a day after a Saturday, the row is drawn anew as often as there are no rows on such days.

    Args:
        effects: of the times of rows.
        order: the column that rows are ordered by.
        gap: codes distances to the next row.
    """

    def __init__(self, effects: CalendarEffects, order: Column, gap: AxisCodec) -> None:
        self._day, self._gap = grid.DAY / order.kind.rule_scale, gap
        self._first, self._last = (y * self._day for y in YEARS)
        self._placement = Placement(effects, np.array([self._first]), np.array([self._last]), self._day)

    @classmethod
    def of(cls, effects: CalendarEffects | None, order: Column | None, gap: object) -> Self | None:
        """Return what leads from row to row; None where rows lie on all days alike."""
        if effects is None or order is None or not isinstance(gap, AxisCodec):
            return None
        return cls(effects, order, gap)

    def placed(self, gaps: np.ndarray, codes: np.ndarray, now: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return distances that lead to where rows lie, each in its own cell and as round as it was.

        Args:
            gaps: as they were drawn, int64 (rows,) in days or microseconds.
            codes: of each, int64 (rows,).
            now: times from which they lead, int64 (rows,).
        """
        low, high = self._gap.cells(codes, gaps)
        step = np.ones(len(gaps), dtype=np.int64)
        for finer in reversed(RESOLUTIONS if self._day > 1 else ()):
            step[gaps % finer == 0] = finer
        share = np.divide(
            gaps - low + rng.random(len(gaps)) * step, high - low, out=np.zeros(len(gaps)), where=high > low
        )
        at = self._placement.placed(now + low, now + high, np.clip(share, 0, np.nextafter(1, 0)))
        days = np.floor(at / self._day) - np.floor(now / self._day)
        found = np.where(step == grid.DAY, days, np.floor((at - now) / step)).astype(np.int64) * step
        fits = (high - low > step) & (found >= low) & (found < high) & self._covered(now + low, now + high)
        return np.where(fits, found, gaps)

    def likely(self, gaps: np.ndarray, codes: np.ndarray, now: np.ndarray) -> np.ndarray:
        """Return with which chance rows stay as drawn, float64 (rows,) from 0 to 1; of a cell, that of all its days."""
        low, high = self._gap.cells(codes, gaps)
        whole = gaps % int(self._day) == 0  # then the hour stays, whatever it is
        alone = high - low <= (1 if self._day == 1 else MINUTE)
        low = np.where(alone, gaps, low)
        high = np.where(alone, np.where(whole, gaps, gaps + MINUTE), high)
        likely = self._placement.likely(now + low, now + high)
        most = min(float(likely.max(initial=1.0)), MOST)
        return np.where(self._covered(now + low, now + high), np.minimum(likely / most, 1.0), 1.0)

    def opened(self, gaps: np.ndarray, codes: np.ndarray, now: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return distances of which those to days on which no row lies lead to one of the seven days after it.

        Args:
            gaps, codes, now: as `placed` takes them.
        """
        shut = np.flatnonzero(self.likely(gaps, codes, now) < CLOSED)
        later = gaps[shut, None] + np.arange(1, 8) * int(self._day)
        at = now[shut, None] + later
        chance = self._placement.likely(at.ravel(), at.ravel()).reshape(at.shape).cumsum(1)
        chosen = (rng.random((len(shut), 1)) * chance[:, -1:] >= chance).sum(1)
        found = gaps.copy()
        found[shut] = np.where(chosen < 7, later[np.arange(len(shut)), np.minimum(chosen, 6)], gaps[shut])
        return found

    def _covered(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return (low >= self._first) & (high < self._last)
