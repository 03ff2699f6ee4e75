"""One private pass over a snapshot: a noisy row count, then noisy fine histograms of every column.

Everything that leaves this module is noised by `privacy.mechanisms`, or declared. The number of histograms and their
noise are fixed before the first of them, from public facts and the noisy row count.

One unit moves each histogram by at most `max_rows` (L2), so m histograms cost m Gaussian mechanisms. Which cells a
histogram has, which columns are refined and what numbers have of refinements that none needs may depend on earlier noisy
counts; what all of it amounts to does not, so the cost is that of a fixed plan (`profile_plan`). An odometer refuses
whatever is beyond it.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.odometer import ROUNDING, Odometer
from dp_synth_pipeline.tabular import calendar_effects
from dp_synth_pipeline.tabular.calendar_effects import CalendarEffects
from dp_synth_pipeline.tabular.profiling import grid, public_lists
from dp_synth_pipeline.tabular.profiling.counting import WHOLE, Counts, HistoryValues
from dp_synth_pipeline.tabular.profiling.precision import rounded_to
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.profiling.profile_plan import (
    RANGE_FINDING,
    REFINEMENT,
    ROUNDED,
    ProfilePlan,
    counts_rows,
    finds_categories,
    finds_rounding,
)
from dp_synth_pipeline.tabular.profiling.shrinkage import shrunk
from dp_synth_pipeline.tabular.profiling.smoothing import smooth
from dp_synth_pipeline.tabular.profiling.special_values import SpecialValues
from dp_synth_pipeline.tabular.schema import Column, NullPolicy, TableSchema

LEAST_CELLS, MOST_CELLS, FINE_CELLS = 64, 1024, 256
"""About how many cells range-finding rounds, at least and at most, and the last round spread over a column's support."""

HIDDEN = 14.0
"""Deviations of base noise that a column's suppressed rows must be for a refinement of it to win more than numbers lose."""

BESIDE = 3.0
"""Deviations of noise from which numbers beside released ones are believed to be held: few cells are looked at."""

BEYOND = 0.02
"""Part of the persons whose last row may lie beyond where histories end together, besides what noise explains."""

LAST_PART = 0.05
"""Part of the line before that end in which as many last rows must lie as if all lay evenly."""

AROUND = 2
"""Cells of the public grid on either side of those that surely hold somebody that are refined with them: what lies
beyond counts in the end cells, and would make them too heavy."""


def _bounds(column: Column) -> tuple[int | float, int | float]:
    """Return the ends that were declared, or that the storage type has; whole ones exactly."""
    least, most = column.kind.ends(column.arrow_type)
    low = least if column.lower is None else max(least, grid.axis_value(column.lower))
    return low, most if column.upper is None else min(most, grid.axis_value(column.upper))


def measure_population(units: int, plan: ProfilePlan, odometer: Odometer) -> int:
    """Return the declared population, or the noisy count of units; at least 1.

    Args:
        odometer: of the entry that was charged `plan.count_events()`.
    """
    if plan.count_epsilon is None:
        return max(1, plan.population or 1)
    noisy, _ = mechanisms.noisy_count(units, epsilon=plan.count_epsilon, odometer=odometer)
    return max(1, noisy)


def measure(
    path: Path,
    schema: TableSchema,
    plan: ProfilePlan,
    population: int,
    odometer: Odometer,
    histories: HistoryValues | None = None,
) -> TableProfile:
    """Profile the snapshot at `path` with the noise that `plan` fixed.

    Args:
        path: a Parquet snapshot whose rows per unit are bounded already.
        population: the noisy or declared number of units, from `measure_population`.
        odometer: of the entry that was charged `plan.histogram_events(schema)`.
        histories: what persons have in all of their rows, if the snapshot has one row of each.

    Raises:
        NotCharged: if a histogram was to be released that was not charged.
    """
    pass_ = _Pass(Counts(path), schema, plan, population, odometer)
    rows = pass_.rows() if counts_rows(schema, plan.unit) else population
    named = {c.name: pass_.category(c) for c in schema.learned if not c.kind.numeric}
    least = HIDDEN * plan.scale / pass_.total if plan.sparing and len(named) < len(schema.learned) else 0.0
    hidden = _most_hidden(schema, named, least)[: plan.refined]
    named |= {c.name: pass_.category(c, REFINEMENT) for c in hidden}
    numbers = pass_.under(plan.of_numbers(schema, plan.refined - len(hidden)))
    columns = {c.name: named.get(c.name) or numbers.numeric(c) for c in schema.learned}
    if histories is not None:
        for column in _most_hidden(schema, columns)[: plan.named]:
            columns[column.name] = pass_.of_histories(column, columns[column.name], histories)
    last = plan.paid(schema).last
    calendar = None if schema.order is None else pass_.of_times(schema.order)
    end = None if last is None else pass_.end(last)
    events = plan.count_events() + plan.histogram_events(schema)
    return TableProfile(population, rows, str(plan.unit), tuple(columns.values()), events, calendar=calendar, end=end)


def _most_hidden(schema: TableSchema, profiles: dict[str, ColumnProfile], least: float = 0.0) -> list[Column]:
    """Return the columns whose categories were looked for: those that lost most first, then those with most of them.

    Args:
        least: the part of its rows that a column must have lost.
    """
    return sorted(
        (c for c in schema.learned if finds_categories(c) and profiles[c.name].other >= least),
        key=lambda c: (profiles[c.name].other, len(profiles[c.name].values)),
        reverse=True,
    )


class _Pass:
    def __init__(
        self, counts: Counts, schema: TableSchema, plan: ProfilePlan, population: int, odometer: Odometer
    ) -> None:
        self.counts, self.schema, self.plan, self.odometer = counts, schema, plan, odometer
        self.total = float(population)
        self.total_noise = 0.0 if plan.count_epsilon is None else math.sqrt(2) / plan.count_epsilon
        self.sensitivity = plan.unit.max_rows
        # Counts under `floor` are never candidates, so a lone unit can lift a cell only from below it: the threshold
        # starts at floor - 1 + sensitivity. This keeps near-unique columns cheap and costs a quarter of a deviation of
        # base histograms, 0.56 of refinement ones.
        self.floor = max(1, round(plan.scale / 4))

    def under(self, plan: ProfilePlan) -> _Pass:
        """Return this pass with the noise of another plan of it."""
        other = copy.copy(self)
        other.plan = plan
        return other

    def threshold(self, factor: float = 1.0) -> float:
        """Spend a histogram's part of delta; return the noisy count from which it names a value.

        Args:
            factor: noise of that histogram, in units of a base one's.
        """
        limit = mechanisms.threshold(
            self.plan.noise(factor),
            self.plan.delta(self.schema),
            keys=self.sensitivity,
            sensitivity=self.sensitivity,
            odometer=self.odometer,
        )
        return self.floor - 1 + limit

    def rows(self) -> int:
        """Measure how many rows training will see, and how many there are."""
        noisy = self._noisy(
            np.array(self.counts.rows([c.name for c in self.schema.learned if c.nulls is NullPolicy.DROP]))
        )
        self.total, self.total_noise = float(max(1, noisy.sum())), math.sqrt(2) * self.plan.scale
        return int(max(1, noisy[0]))

    def category(self, column: Column, factor: float = 1.0) -> ColumnProfile:
        """Measure a category, ordinal or boolean: released values, the rest as `other`, nulls. One histogram.

        Args:
            factor: noise of that histogram, in units of a base one's.
        """
        scale = self.plan.noise(factor)
        keys, noisy = self._named(column, factor)
        null_rate, cells = self._rate(noisy[0], scale), noisy[1:]
        empty, present = self._all_null(noisy[0], scale), self.total * (1 - null_rate)
        public = np.full(len(keys), column.names is not None)
        if column.names is None:
            public = public_lists.held(self._lists(column), keys, cells, present, scale)
            shown = public | (cells >= self.threshold(factor))
        else:
            shown = cells >= self._least(column, empty=empty)
        if column.names is None or empty or shown.any():
            keys, cells, public = [k for k, s in zip(keys, shown, strict=True) if s], cells[shown], public[shown]
        if not keys and empty:
            return ColumnProfile(column.name, column.kind, (), (), null_rate=1.0, declared=column.declared)
        other = present - cells.sum() if column.kind.categorical else 0.0
        if other < 3 * math.hypot(scale * math.sqrt(len(cells) + 1), self.total_noise):
            other = 0.0
        if public.any():
            cells = shrunk(cells, present - other, scale)
        share = grid.to_probabilities(np.append(cells, other) if other else cells, present) * (1 - null_rate)
        order = column.kind.order(column, keys, share[: len(keys)])
        values: list[Any] = [keys[i] for i in order]
        return ColumnProfile(
            column.name,
            column.kind,
            column.kind.released(values),
            tuple(float(share[i]) for i in order),
            other=float(share[-1]) if other else 0.0,
            null_rate=null_rate,
            declared=column.declared,
        )

    def of_histories(self, column: Column, found: ColumnProfile, histories: HistoryValues) -> ColumnProfile:
        """Name categories by all rows of each person as well, whose values weigh as much together as one does alone.

        What was named before keeps its share. Others have as much for their weight as these have together, and no more than
        what had no name: rare values of long histories weigh more than they are frequent.
        """
        known = [str(value) for value in found.values]
        weights = histories.weights(column, known, self.floor)
        scale, delta = self.plan.scale, self.plan.delta(self.schema)
        exact = np.array([*weights.values()], np.int64)
        noise: dict[str, Any] = {"scale": scale * WHOLE * (1 + ROUNDING), "sensitivity": WHOLE * self.sensitivity}
        (noisy,), _ = mechanisms.noisy_histograms([exact], **noise, odometer=self.odometer)
        least = mechanisms.threshold_of_divided(
            scale, delta, keys=histories.most, step=1 / WHOLE, odometer=self.odometer
        )
        cells = noisy / WHOLE
        shown = np.flatnonzero(cells[len(known) :] >= self.floor - 1 + least) + len(known)
        if not len(shown) or found.null_rate >= 1:  # of a column without a value, noise told both
            return found
        weighed, share = float(cells[: len(known)].sum()), math.fsum(found.weights)
        new = cells[shown] * (share / weighed if share and weighed > 0 else 1 / self.total)
        room = found.other or scale * math.sqrt(len(known) + 1) / self.total  # what noise may have hidden
        new *= min(1.0, room / float(new.sum()))
        other = max(found.other - float(new.sum()), 0.0)
        whole = np.array([*found.weights, *new]) * ((1 - found.null_rate - other) / (share + float(new.sum())))
        keys = list(weights)
        values = [*known, *(keys[i] for i in shown)]
        order = column.kind.order(column, values, whole)
        names = column.kind.released([values[i] for i in order])
        return replace(found, values=names, weights=tuple(float(whole[i]) for i in order), other=other)

    def _named(self, column: Column, factor: float) -> tuple[list[str], np.ndarray]:
        """Return names and their noisy counts, after that of nulls: public names, and those of at least `floor` rows."""
        public = [*(column.names or ()), *(v for values in self._lists(column) for v in values)]
        found = dict(self.counts.values(column, 1 if public else self.floor))
        rare = [k for k, n in found.items() if n >= self.floor] if column.names is None else []
        keys = list(dict.fromkeys([*public, *rare]))
        return keys, self._noisy(np.array([self.counts.nulls(column), *(found.get(k, 0) for k in keys)]), factor)

    def _lists(self, column: Column) -> public_lists.Lists:
        listed = finds_categories(column) and not column.kind.ordered
        return public_lists.of(column.name) if listed else ()

    def numeric(self, column: Column) -> ColumnProfile:
        """Measure a number, date or datetime: heavy values, then rounds of ever finer cells for the rest."""
        decimals, resolution, counted = self._precision(column)
        special = self._heavy(column, decimals, self.threshold())
        values = special.values
        width = column.kind.step(decimals, resolution)
        edges = self._within(column.kind.public_edges(column.arrow_type), column)
        coarse = self._cells(column, edges, special, RANGE_FINDING)
        fine, cells = self._zoom(column, edges, coarse, width, special)
        (nulls, *heavy), noise = special.counts()
        null_rate = self._rate(nulls, noise[0])
        seen = bool(values) or bool((cells > 0).any())
        empty = not seen and self._all_null(nulls, noise[0])
        if not seen and not empty:
            fine, cells = self._unseen(column)
        held = np.flatnonzero(cells > 0)
        share = grid.to_probabilities(np.append(heavy, cells[held]), self.total * (1 - null_rate)) * (1 - null_rate)
        binned = np.zeros(len(cells))
        binned[held] = share[len(values) :]
        kept = np.flatnonzero(binned > 1e-12)  # the projection leaves dust where it cut to 0
        found = ColumnProfile(
            column.name,
            column.kind,
            tuple(str(v) if isinstance(v, Decimal) else v for v in values),
            tuple(float(s) for s in share[: len(values)]),
            tuple((float(fine[i]), float(fine[i + 1])) for i in kept),
            tuple(float(binned[i]) for i in kept),
            other=0.0 if values or len(kept) or empty else 1 - null_rate,
            null_rate=1.0 if empty else null_rate,
            decimals=decimals,
            resolution=resolution,
            declared=column.declared,
            respelled=column.decimals is None and special.finer,
        )
        found = replace(found, rounded=self._rounded(column, found, counted, special))
        return replace(found, effects=self._effects(column, found, special))

    def _heavy(self, column: Column, decimals: int | None, threshold: float) -> SpecialValues:
        """Release the values within declared bounds whose noisy count passes the threshold. One base histogram."""
        low, high = _bounds(column)
        candidates = [(v, n) for v, n in self.counts.values(column, self.floor) if low <= v <= high]
        exact = np.array([self.counts.nulls(column), *(n for _, n in candidates)])
        noisy = self._noisy(exact)
        released = np.flatnonzero(noisy[1:] >= threshold)
        kept = np.append(0, released + 1)
        values, sure = [candidates[i][0] for i in released], threshold + 2 * self.plan.scale
        return SpecialValues(values, decimals, noisy[kept], self.plan.scale, sure)

    def _cells(self, column: Column, edges: np.ndarray, special: SpecialValues, factor: float = 1.0) -> np.ndarray:
        """Count a grid's cells, and in the same histogram what lies beside them."""
        noisy = self._noisy(self.counts.line(column, edges, special.points, special.decimals), factor)
        special.again.append((noisy[len(edges) - 1 :], self.plan.noise(factor)))
        return noisy[: len(edges) - 1]

    def _unseen(self, column: Column) -> tuple[np.ndarray, np.ndarray]:
        """Spread a column whose values noise hides between its declared ends; with an end open, nothing is known of it.

        The cell with the largest noise would be a guess over the whole number line.
        """
        low, high = _bounds(column)
        if not (math.isfinite(low) and math.isfinite(high)):
            return np.zeros(1), np.zeros(0)
        return self._within(np.zeros(0), column)[[0, -1]], np.array([self.total])

    def _zoom(
        self, column: Column, edges: np.ndarray, coarse: np.ndarray, width: float, special: SpecialValues
    ) -> tuple[np.ndarray, np.ndarray]:
        """Refine the support: range-finding histograms, then a base one, as many whatever the data are.

        Range-finding cells are as many as leave six deviations of noise in each, were they even. Where noise explains all
        but released numbers, the same histograms look at cells beside these: 1 beside 2 to 5, 17.5 beside 22 and 27.
        """
        noise = self.plan.noise(RANGE_FINDING)
        support = self._support(column, edges, coarse, width, special)
        beside = support is None and (column.kind.whole or column.kind.fractional) and bool(special.values)
        if beside:
            least, most = np.searchsorted(edges, special.points[[0, -1]], side="right") - 1
            support = int(least), int(most)
        first, last = (max(support[0] - AROUND, 0), support[1] + AROUND) if support is not None else (0, -1)
        edges, coarse = edges[first : last + 2], coarse[first : last + 1]
        if last < first:  # released values are all there is, if anything; the histograms are paid for, and count them
            for factor in (*[RANGE_FINDING] * column.kind.rounds, 1.0):
                self._cells(column, edges[:1], special, factor)
            return edges[:1], np.zeros(0)
        most = int(np.clip(self.total / (6 * noise), LEAST_CELLS, MOST_CELLS))
        for _ in range(column.kind.rounds):
            middle = grid.refine(edges, coarse, scale=noise, width=width, cells=most)
            counted = self._cells(column, middle, special, RANGE_FINDING)
            edges, coarse = middle, grid.reconcile(edges, coarse, noise, middle, counted, noise)
        fine = grid.refine(edges, coarse, scale=self.plan.scale, width=width, cells=FINE_CELLS)
        cells = self._cells(column, fine, special)
        cells = grid.reconcile(edges, coarse, noise, fine, cells, self.plan.scale)
        room = grid.free(fine, width, grid.respelled(special.points, special.decimals))
        open_cells, mass = room > 0, np.zeros(len(cells))
        if beside:
            return fine, np.where(open_cells & (cells > BESIDE * self.plan.scale), cells, 0.0)
        mass[open_cells] = smooth(cells[open_cells], room[open_cells], self.plan.scale)
        return grid.without_tails(fine, np.where(open_cells, cells, 0.0), mass, self.plan.scale, width)

    def _support(
        self, column: Column, edges: np.ndarray, coarse: np.ndarray, width: float, special: SpecialValues
    ) -> tuple[int, int] | None:
        """Return the first and last cell of the public grid that noise does not explain, of those that can hold a value.

        If the released values are surely too few for all rows, some cell holds others, so the likeliest is found.
        """
        room = grid.free(edges, width, grid.respelled(special.points, special.decimals))
        able = np.flatnonzero(room > 0)
        low, high = column.kind.usual
        near = np.searchsorted(edges[1:][able], low, side="right"), np.searchsorted(edges[:-1][able], high) - 1
        counts, noise = special.counts()
        others = self.total - counts.sum() > grid.SURE * math.hypot(*noise, self.total_noise)
        least = 0.0 if others and special.values else grid.SURE
        found = grid.support(coarse[able], self.plan.noise(RANGE_FINDING), (int(near[0]), int(near[1])), least)
        return found and (int(able[found[0]]), int(able[found[1]]))

    def _precision(self, column: Column) -> tuple[int | None, int | None, np.ndarray | None]:
        """Return decimals, resolution in microseconds, and noisy counts of values by the step that writes them, if any.

        A finer one needs more rows than noise or half a percent.
        """
        if not column.kind.measures_precision(column):
            counts = self._noisy(self.counts.precision(column), ROUNDED) if self._finds_rounding(column) else None
            return column.kind.declared_decimals(column), None, counts
        noisy = self._noisy(self.counts.precision(column), RANGE_FINDING)
        told = [column.kind.precision(i) for i in range(len(noisy))]
        last = np.array([i for i, precision in enumerate(told) if precision not in told[i + 1 :]])
        finer = np.append(np.cumsum(noisy[::-1])[::-1][1:], 0)  # rows that need more than each
        noise = self.plan.noise(RANGE_FINDING) * np.sqrt(len(noisy) - 1 - last)
        fits = finer[last] <= np.maximum(3 * noise, 0.005 * self.total)
        return *told[last[np.flatnonzero(fits)[0]]], noisy

    def _finds_rounding(self, column: Column) -> bool:
        return finds_rounding(column) and self.plan.rounded(self.schema) > 0

    def _rounded(
        self, column: Column, found: ColumnProfile, counts: np.ndarray | None, special: SpecialValues
    ) -> tuple[tuple[float, float], ...]:
        """Return the steps that values in bins are rounded to, and how many are: of the noisy counts of all, free.

        Args:
            counts: by step, released values included.
        """
        if counts is None or not found.bins:
            return ()
        own = [column.kind.precision_counts(np.array([x]), column) for x in special.points]
        upto = np.cumsum(found.bin_weights) / math.fsum(found.bin_weights)
        low, high = found.bins[np.searchsorted(upto, 0.05)][0], found.bins[np.searchsorted(upto, 0.95)][1]
        noise = self.plan.noise(ROUNDED if finds_rounding(column) else RANGE_FINDING)
        width = column.kind.step(found.decimals, found.resolution)
        return rounded_to(column.kind.ladder, special.without(counts, own), noise, own=width, spread=high - low)

    def _effects(self, column: Column, found: ColumnProfile, special: SpecialValues) -> CalendarEffects | None:
        """Count by weekday, day of the month and hour, and return the calendar effects of values in bins."""
        names, noisy, day = column.kind.effects, self._calendar(column), grid.DAY / column.kind.rule_scale
        if not noisy or not found.bins:
            return None
        own = [calendar_effects.count(np.array([x]), day, names) for x in special.points]
        counts = {
            name: special.without(cells, [each[i] for each in own])
            for i, (name, cells) in enumerate(zip(names, noisy, strict=True))
        }
        if "hours" in counts:
            midnights = any(step == day for step, _ in found.rounded)
            counts["hours"] = calendar_effects.hours(counts["hours"], midnights=midnights)
        low, high = np.array(found.bins).T
        bins = low, high, np.array(found.bin_weights)
        released = special.points // day if column.kind.step(found.decimals, found.resolution) == day else ()
        return calendar_effects.fitted(counts, self.plan.noise(ROUNDED), bins, day, released)

    def of_times(self, order: Column) -> CalendarEffects | None:
        """Count what rows are ordered by as other dates are, and return its calendar effects over whole years.

        Days without an hour have a midnight for one, which tells nothing of the hours of others.
        """
        day = grid.DAY / order.kind.rule_scale
        counts = dict(zip(order.kind.effects, self._calendar(order), strict=False))
        if "hours" in counts:
            counts["hours"] = calendar_effects.hours(counts["hours"], midnights=True)
        whole = np.zeros(1), np.array([calendar_effects.CYCLE * day]), np.ones(1)
        return calendar_effects.fitted(counts, self.plan.noise(ROUNDED), whole, day)

    def end(self, last: Column) -> float | None:
        """Return where the histories of persons end, on the number line; None if they do not end together.

        They do if beyond some place hardly any last row lies, and before it as many in a small part of the line as if all
        lay evenly. There it is the outermost cell, or value, that holds as many.
        """
        decimals = last.kind.decimals(None)
        width, special = last.kind.step(decimals, None), self._heavy(last, decimals, self.threshold())
        edges = self._within(last.kind.public_edges(last.arrow_type), last)
        fine, cells = self._zoom(last, edges, self._cells(last, edges, special, RANGE_FINDING), width, special)
        heavy, _ = special.counts()
        held = [(x, x + width, count) for x, count in zip(special.points, heavy[1:], strict=True)]
        held += [(fine[i], fine[i + 1], cells[i]) for i in np.flatnonzero(cells > 0)]
        if not held:
            return None
        low, high, count = np.array(held).T
        whole, total = high.max() - low.min(), count.sum()
        least = max(LAST_PART * total, grid.SURE * self.plan.scale)
        dense = count * whole >= total * (high - low)
        for end in np.sort(high)[::-1]:
            if count[high > end].sum() > BEYOND * total + self.plan.scale:
                break
            near = (high <= end) & (high > end - LAST_PART * whole)
            if count[near].sum() >= least and (near & dense).any():
                return float(high[near & dense].max() - width)
        return None

    def _calendar(self, column: Column) -> list[np.ndarray]:
        """Return noisy counts by each calendar effect; none of a plan of an earlier version, which pays for none."""
        paid = bool(column.kind.effects) and self.plan.rounded(self.schema) > 0
        return [self._noisy(counts, ROUNDED) for counts in self.counts.calendar(column)] if paid else []

    def _within(self, edges: np.ndarray, column: Column) -> np.ndarray:
        """Cut a grid to the bounds that a person declared."""
        low, high = _bounds(column)
        width = column.kind.step(column.decimals)
        inside = edges[(edges > low) & (edges < high + width)]
        ends = [[float(v)] if math.isfinite(v) else [] for v in (low, high + width)]
        cut = np.unique(np.concatenate([ends[0], inside, ends[1]]))
        return cut if len(cut) > 1 else np.append(cut, np.nextafter(cut, np.inf))  # one point, or beyond the grid

    def _rate(self, noisy_nulls: float, scale: float) -> float:
        """A null rate that noise does not explain, else 0; at most 0.999 so that something is left to learn.

        Where noise would hide as many nulls as there are rows, so large a count is noise.
        """
        if min(noisy_nulls, self.total) < 3 * scale:
            return 0.0
        return float(min(noisy_nulls / max(self.total, 1.0), 0.999))

    def _least(self, column: Column, *, empty: bool) -> float:
        """Return the noisy count from which a publicly known name is kept; below it, noise would explain it."""
        if empty:
            return grid.SURE * self.plan.scale
        return column.kind.least_count * self.plan.scale

    def _all_null(self, noisy_nulls: float, scale: float) -> bool:
        """Whether noise explains every row that is not a null; what holds no value gets no cell, so one code."""
        tolerance = 3 * math.hypot(scale, self.total_noise)
        return self._rate(noisy_nulls, scale) > 0 and self.total - noisy_nulls < tolerance

    def _noisy(self, histogram: np.ndarray, factor: float = 1.0) -> np.ndarray:
        if len(histogram) == 0:
            return histogram.astype(np.int64)
        (noisy,), _ = mechanisms.noisy_histograms(
            [histogram], scale=self.plan.noise(factor), sensitivity=self.sensitivity, odometer=self.odometer
        )
        return noisy
