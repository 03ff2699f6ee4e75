"""Numbers, dates and lengths of time: heavy values keep a code, the rest merges to nearly equal mass, decoding is fine."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_synth_pipeline.tabular.calendar_effects import Placement
from dp_synth_pipeline.tabular.encoding import exact
from dp_synth_pipeline.tabular.encoding.copula import even_quantiles
from dp_synth_pipeline.tabular.encoding.rounding import Rounding
from dp_synth_pipeline.tabular.kinds.base import Column
from dp_synth_pipeline.tabular.profiling import grid
from dp_synth_pipeline.tabular.profiling.profile import MOST_CODES, ColumnProfile

LEAST_CODES = 8
"""Codes that a column may have, however few rows there are for its noise."""

HEAVY = 0.6
"""A value keeps a code of its own if it has this part of what a code has in the mean, or more."""

MOST_HEAVY = 0.8
"""Part of a column's codes that heavy values take at most."""

FEW_VALUES, MOST_OF_THEM = 2.5, 0.9
"""So many times as many released values as a number line has codes keep a code each, if they are this part of its values."""

LEFT = 4
"""Codes that other values have beside those, at least."""

ABOVE_NOISE = 4
"""Rows that a cell of two columns has in the mean, in deviations of its noise, were as many pairs measured as columns."""


def worth_coding(rows: int, noise: float, columns: int) -> int:
    """Return the most codes per column at which pairs of columns stand out of their noise: fewer, where noise is high.

    More cells hold more of a shape, but each has its own noise; decoding within a code is by the profile's finer cells.

    Args:
        noise: standard deviation, in rows, of one histogram of pairs that took all that may be spent; 0 without privacy.
        columns: how many columns are learned.
    """
    if noise == 0:
        return MOST_CODES
    codes = math.sqrt(rows / (ABOVE_NOISE * noise * math.sqrt(columns)))
    return max(LEAST_CODES, min(math.floor(codes), MOST_CODES))


def worth_separating(profile: ColumnProfile, codes: int) -> bool:
    """Whether each released value of a number line is worth a code: it has few, and hardly any beside them.

    Numbers may be names, such as those of schools. Two of one code have all else in common, so that the district of one
    would be the other's half of the time.

    Args:
        codes: the most that it has else: fewer, where noise is high.
    """
    few = 0 < len(profile.points) <= FEW_VALUES * codes
    return few and math.fsum(profile.weights) >= MOST_OF_THEM * max(1 - profile.null_rate, 1e-9)


class AxisCodec:
    """Codes: heavy values (ascending), then groups of neighbouring cells (ascending), then null if needed.

    A group's members are the released cells inside it: narrow bins, and values too light for a code. Decoding draws a
    member by its released weight, then a value uniformly within the bin, so spikes, skew and rounding come back.
    """

    def __init__(self, column: Column, profile: ColumnProfile, *, keep_nulls: bool) -> None:
        self.column, self.decimals = column, column.kind.decimals(profile.decimals)
        self.step = column.kind.step(profile.decimals, profile.resolution)
        self.exact = exact.released(column, profile.values)
        points = np.array(profile.points, dtype=float)
        spell = grid.respelled if profile.respelled else grid.written
        values, same = np.unique(spell(points, self.decimals), return_inverse=True)
        self.finer = values[values != grid.written(values, self.decimals)]
        weights = np.bincount(same, profile.weights, minlength=len(values))
        origin = _origin(values, points, np.array(profile.weights), same)
        spelled = np.where(origin < 0, values, np.append(points, 0.0)[origin])
        heavy = np.flatnonzero(weights >= HEAVY / profile.most_codes)
        heavy = heavy[np.argsort(-weights[heavy])][: math.floor(MOST_HEAVY * profile.most_codes)]
        heavy = np.arange(len(values)) if profile.separate else np.sort(heavy)
        self.heavy, self.spelled, self.heavy_origin = values[heavy], spelled[heavy], origin[heavy]
        light = np.setdiff1d(np.arange(len(values)), heavy)
        # Members: (low, high, weight); a light value is a member of zero width.
        bins, bin_weights = self._between(profile, values)
        low = np.concatenate([spelled[light], bins[:, 0]])
        high = np.concatenate([spelled[light], bins[:, 1]])
        mass = np.concatenate([weights[light], bin_weights])
        origins = np.append(origin[light], np.full(len(bins), -1))
        order = np.lexsort((high, low))
        self.low, self.high, self.mass, self.origin = low[order], high[order], mass[order], origins[order]
        self.slack = self._slack()
        self.placement = self._placement(profile)
        self.rounding = Rounding(self.low, self.high, profile.rounded) if profile.rounded and len(self.low) else None
        self._group(max(profile.most_codes - len(self.heavy), LEFT if profile.separate else 0))
        n = len(self.heavy) + len(self.starts)
        if n == 0:  # nothing was released about this column: one code that decodes to null
            self.cardinality, self.null, self.marginal = 1, 0, np.ones(1)
            return
        self.null = n if keep_nulls and profile.null_rate > 0 else None
        self.cardinality = n + (self.null is not None)
        nulls = [] if self.null is None else [profile.null_rate]
        marginal = np.concatenate(
            [weights[heavy], np.add.reduceat(self.mass, self.starts) if len(self.starts) else [], nulls]
        )
        self.marginal = marginal / marginal.sum()

    @property
    def centres(self) -> np.ndarray:
        """Where on the number line each code lies, (cardinality,); NaN for null."""
        ends = np.append(self.starts[1:], len(self.mass))
        spans = zip(self.starts, ends, strict=False)
        groups = [np.average(self.low[a:b] / 2 + self.high[a:b] / 2, weights=self.mass[a:b] + 1e-12) for a, b in spans]
        return np.concatenate([self.heavy, groups, [] if self.null is None else [np.nan]])

    @property
    def single(self) -> np.ndarray:
        """Which codes surely stand for one value, bool (cardinality,)."""
        return np.arange(self.cardinality) < len(self.heavy)

    @property
    def order(self) -> list[int]:
        """The codes of values, ascending by value."""
        return [] if self.cardinality == 1 else np.argsort(self.centres[: self.null], kind="stable").tolist()

    def _between(self, profile: ColumnProfile, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cut the bins at the released values, which they do not count, so that every value lies in one member only.

        A piece takes a share of its bin's mass by its width. A piece without a value that can be written holds noise, or
        values finer than the column's precision; it goes, unless it is all there is.
        """
        released, pieces, masses = np.sort(values), [], []
        for (low, high), mass in zip(profile.bins, profile.bin_weights, strict=True):
            inside = released[np.searchsorted(released, low) : np.searchsorted(released, high)]
            after = np.maximum(
                inside + np.where(np.isin(inside, self.finer), 0, self.step), np.nextafter(inside, np.inf)
            )
            ends = np.column_stack([np.append(low, after), np.append(inside, high)])
            ends = ends[(ends[:, 0] < ends[:, 1]) & self._holds(ends[:, 0], ends[:, 1])]
            width = ends[:, 1] - ends[:, 0]
            if len(ends):
                pieces.append(ends)
                masses.append(mass * width / width.sum())
        if not pieces:
            kept = slice(None) if not len(values) else slice(0)
            return np.array(profile.bins).reshape(-1, 2)[kept], np.array(profile.bin_weights)[kept]
        return np.concatenate(pieces), np.concatenate(masses)

    def _holds(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Whether a multiple of the column's step lies in each [low, high)."""
        if self.step == 0:
            return np.ones(len(low), dtype=bool)
        with np.errstate(over="ignore", invalid="ignore"):
            return grid.is_coarse(low, high, self.step) | (
                grid.first_multiple(low, self.step) < grid.first_multiple(high, self.step)
            )

    def _group(self, groups: int) -> None:
        total = self.mass.sum()
        if len(self.mass) == 0 or total <= 0:
            self.starts, self.edges = np.zeros(0, np.int64), np.zeros(0)
            return
        centre = (np.cumsum(self.mass) - self.mass / 2) / total
        group = np.minimum((centre * groups).astype(np.int64), groups - 1)
        self.starts = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
        self.edges = (self.low - self.slack)[self.starts[1:]]

    def _slack(self) -> np.ndarray:
        """Return how far below each member its values may lie, (members,): multiples of a step are off by a last digit.

        A released value that needs more digits is compared as it is, and what begins there reaches no further.
        """
        if not len(self.finer):
            return np.full(len(self.low), self.step / 4)
        exactly = np.isin(self.low, [self.finer, np.nextafter(self.finer, np.inf)])
        return np.where(exactly, 0.0, np.minimum(self.step / 4, np.diff(self.low, prepend=-np.inf) / 2))

    def points(self, values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Return `(x float64 (rows,), null bool (rows,))` of the number line, in the digits that decoding writes."""
        x, null = self.column.kind.to_axis(values)
        near = grid.written(x, self.decimals)
        return (np.where(np.isin(x, self.finer), x, near) if len(self.finer) else near), null

    def cells(self, codes: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of the cell of each drawn point, float64 (rows,); of a value by itself, both are the point."""
        if not len(self.low):
            return x.astype(float), x.astype(float)
        member = np.clip(np.searchsorted(self.low, x, side="right") - 1, 0, len(self.low) - 1)
        inside = (codes >= len(self.heavy)) & (x >= self.low[member]) & (x < self.high[member])
        return np.where(inside, self.low[member], x), np.where(inside, self.high[member], x)

    def encode(self, values: pa.Array) -> np.ndarray:
        """Return codes, int64 (rows,); values beyond the released cells take the nearest group."""
        x, null = self.points(values)
        if self.cardinality == 1 and self.null == 0:
            return np.zeros(len(x), np.int64)
        if len(self.starts):
            codes = len(self.heavy) + np.searchsorted(self.edges, x, side="right")
        else:
            codes = np.searchsorted(self.heavy[:-1] / 2 + self.heavy[1:] / 2, x)
        if len(self.heavy):
            place = np.clip(np.searchsorted(self.heavy, x), 0, len(self.heavy) - 1)
            codes = np.where(self.heavy[place] == x, place, codes)
        codes[null] = 0 if self.null is None else self.null
        return codes.astype(np.int64)

    def may_draw(self, values: pa.Array, codes: np.ndarray) -> np.ndarray:
        """Return which values are among those that decoding draws of their codes, bool (rows,)."""
        x, _ = self.points(values)
        lows, highs = np.append(self.low, np.inf), np.append(self.high, np.inf)
        member = np.searchsorted(self.low, x, side="right") - 1
        inside = (member >= 0) & ((x < highs[member]) | (x == lows[member]))
        return (self.encode(values) == codes) & np.where(codes < len(self.heavy), np.isin(x, self.heavy), inside)

    def decode(
        self, codes: np.ndarray, rng: np.random.Generator, quantiles: np.ndarray | None = None, *, spread: bool = True
    ) -> pa.Array:
        """Return values of the column's storage type, drawn within their cells by released weights.

        Args:
            quantiles: where in its cell each row lies, float (rows,) in [0, 1), see `copula`; None to spread rows evenly.
            spread: whether as many values are round, and on each weekday, as the profile tells; else evenly in each cell.
        """
        quantiles = even_quantiles(codes, rng) if quantiles is None else quantiles
        x = np.zeros(len(codes))
        own = codes < len(self.heavy)
        x[own] = self.spelled[codes[own]]
        ends = np.append(self.starts[1:], len(self.mass))
        cumulative = np.append(0.0, np.cumsum(self.mass))
        grouped = ~own & (codes < len(self.heavy) + len(self.starts))
        g = codes[grouped] - len(self.heavy)
        first, last = cumulative[self.starts[g]], cumulative[ends[g]]
        target = first + quantiles[grouped] * (last - first)
        member = np.clip(np.searchsorted(cumulative, target, side="right") - 1, self.starts[g], ends[g] - 1)
        rest = (target - cumulative[member]) / np.maximum(self.mass[member], 1e-300)
        rest = np.clip(rest, 0, np.nextafter(1.0, 0.0))
        low, high = self.low[member], self.high[member]
        at = self.placement.placed(low, high, rest) if spread and self.placement is not None else None
        x[grouped] = self._within(low, high, rest, at)
        if spread and self.rounding is not None:
            x[grouped] = grid.written(self.rounding.rounded(x[grouped], member, rest, rng, at), self.decimals)
        origin = np.full(len(codes), -1)
        origin[own], origin[grouped] = self.heavy_origin[codes[own]], self.origin[member]
        null = codes == (-1 if self.null is None else self.null)
        return self._exactly(self.column.kind.to_arrow(x, null, self.column), origin)

    def _exactly(self, values: pa.Array, origin: np.ndarray) -> pa.Array:
        """Put released values, by their number in the profile, in place of what doubles made of them."""
        if self.exact is None or not (origin >= 0).any():
            return values
        return pc.if_else(pa.array(origin >= 0), self.exact.take(pa.array(np.maximum(origin, 0))), values)  # type: ignore[attr-defined]

    def _placement(self, profile: ColumnProfile) -> Placement | None:
        """Return what places dates within their cells, if the profile tells of calendar effects."""
        if profile.effects is None:
            return None
        return Placement(profile.effects, self.low, self.high, grid.DAY / self.column.kind.rule_scale)

    def _within(self, low: np.ndarray, high: np.ndarray, u: np.ndarray, at: np.ndarray | None = None) -> np.ndarray:
        """Return the value at share `u` of those in [low, high), on the column's own step; a named one as it is spelled.

        Args:
            at: the points at which values are placed, instead of `u`.
        """
        step = self.step
        between = np.where(high > low, low + u * (high - low), low) if at is None else at
        if step == 0:
            return between
        named = low == high
        coarse, holds = grid.is_coarse(low, high, step), self._holds(low, high)
        low, high = np.where(coarse, 0, low), np.where(coarse, 0, high)
        first = grid.first_multiple(low, step)
        count = np.maximum(grid.first_multiple(high, step) - first, 1)
        number = np.floor(u * count) if at is None else np.clip(np.floor(at / step) - first, 0, count - 1)
        drawn = np.where((high > low) & holds, (first + number) * step, low)
        return np.where(named, between, grid.written(np.where(coarse, between, drawn), self.decimals))


def _origin(values: np.ndarray, points: np.ndarray, weights: np.ndarray, same: np.ndarray) -> np.ndarray:
    """Return which released value each is, by its likeliest spelling: 10.357019999999999 in the source is not 10.35702 here.

    Returns:
        number among the `points`; -1 where each of them is another number.
    """
    origin = np.full(len(values), -1)
    rising = np.argsort(weights, kind="stable")
    close = rising[np.isclose(points[rising], values[same[rising]], rtol=1e-12, atol=0)]
    origin[same[close]] = close
    return origin
