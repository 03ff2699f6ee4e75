"""How far a release is expected to be from its table: from public and released facts alone, before anything is spent.

Distances are mean total variation distances, of all single columns and of all pairs, over categories and twentieths of the
rows. Three things make them, of which the noise is that of the very plans a release would make:

* Chance. As many rows drawn of the truth itself differ from it by `sqrt((cells - 1) / rows)`, times a constant.
* Values that thresholds hide, since each is too rare for the noise of the profile. A pair lacks what either column lacks.
* The noise of the marginals, in every cell of a pair that is not hidden. It costs no more than drawing both columns as
  if they had nothing to do with each other.

How a table's columns hang together is not known, so four constants are fitted to releases that were measured. The page on
choosing an epsilon says by how much they miss others.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass, replace

import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.marginals.plan import plan_again
from dp_synth_pipeline.privacy.budget import ADD_REMOVE, Budget, check_delta, check_release
from dp_synth_pipeline.synthesis import allocation
from dp_synth_pipeline.synthesis.settings import ReleaseSettings, UnitSettings
from dp_synth_pipeline.tabular import schema as schemas
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.profiling.profile_plan import weight

CELLS = 5.75
"""Cells of a column that count as much as equal ones would, where nobody knows its values: the mean of the Adult census."""

TWENTIETHS = 20
"""Parts of a number line that a distance tells apart."""

HIDDEN, STEEP = 25.0, 1.2
"""How much thresholds hide of a column, by the profile's noise as a share of the rows, and the power of that noise it grows
with (the Adult census, 500 to 43,958 rows, at epsilons of 0.1 to 16)."""

KEPT = 0.6
"""Part of the noise of a pair's cells that is left in drawn rows: models and raking take the rest (the same releases)."""

APART = 0.1
"""Distance of a pair of columns from what each of them tells by itself: what noise may cost at most (the same releases)."""

MEAN_SIZE = math.sqrt(2 / math.pi) / 2
"""Total variation distance of one cell whose share is wrong by a normal error of deviation 1."""

POOR = 0.1
"""Distance of pairs from which on a table is called poor: one row in ten is in another cell."""

FACTORS = (2, 3, 4, 6, 8, 10, 15, 20, 30, 50, 100)
"""By which rows may be multiplied in advice."""

EPSILONS = (0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
"""Which may be named in advice; beyond, the mathematics promises little."""


@dataclass(frozen=True)
class Shape:
    """What is public or was released of a table.

    Attributes:
        rows: how many there are, as a person says or an earlier release counted with noise.
        columns: how many are learned.
        max_rows: rows per unit; units are taken to have so many.
        cells: cells of a column, as `CELLS` counts them.
    """

    rows: int
    columns: int
    max_rows: int = 1
    cells: float = CELLS

    def __post_init__(self) -> None:
        for name, value, least in (("rows", self.rows, 1), ("columns", self.columns, 2)):
            if value < least:
                raise InvalidInput(
                    f"{name} must be at least {least} for a distance of pairs to be expected, got {value}. Give a number "
                    f"that is public or was released."
                )

    @property
    def codes(self) -> tuple[int, ...]:
        """How many codes each column is planned with: at least two, since one tells nothing."""
        return (max(round(self.cells), 2),) * self.columns

    @classmethod
    def of(cls, profile: TableProfile, max_rows: int = 1) -> Shape:
        """Return the shape that a released profile tells."""
        roots = [_root(column) for column in profile.columns]
        return cls(profile.rows, len(roots), max_rows, max(math.fsum(roots) / max(len(roots), 1), 1.0) ** 2)


@dataclass(frozen=True)
class Noise:
    """Deviations of the noise of a cell, as shares of the rows.

    Attributes:
        profile: of a single column.
        pairs: of a pair, were all of them measured: one that is not is taken to lose what noise would cost it.
        measured: how many pairs and triples are.
        behind: of a pair, how far what is known of it lies behind a table that moves, on average over its cells.
    """

    profile: float
    pairs: float
    measured: int
    behind: float = 0.0


@dataclass(frozen=True)
class Quality:
    """How far drawn rows are expected to be from real ones.

    Attributes:
        one_way: mean distance of single columns.
        two_way: mean distance of pairs of columns.
    """

    one_way: float
    two_way: float

    @property
    def poor(self) -> bool:
        """Whether pairs of columns will be far off."""
        return self.two_way >= POOR


def expected(shape: Shape, epsilon: float, delta: float, relation: str = ADD_REMOVE) -> Quality:
    """Return how far a release by itself is expected to be from a table of this shape.

    Raises:
        InvalidInput: if no release has such an epsilon or delta.
    """
    return quality(shape, planned(shape, epsilon, delta, relation))


def remembered(
    shape: Shape, first: float, later: float, times: int, delta: float, relation: str = ADD_REMOVE, drift: float = 0.0
) -> list[Quality]:
    """Return how far each of some refreshes is expected to be, of which each remembers those before it.

    What is known and what is measured anew are weighed by their squared errors. Of a table that stays these are variances
    of noise, and precisions add up. One that moves, on and on in one direction, is followed at some distance, which is part
    of the error: a Kalman filter that knows how far the table has moved, though not where to.

    Args:
        first: epsilon of the first one, which also measures the profile.
        later: epsilon of each later one.
        times: how many there are.
        drift: mean distance by which pairs move from each refresh to the next, from 0 to 1.

    Raises:
        InvalidInput: if no release has such an epsilon or delta.
    """
    begun = planned(shape, first, delta, relation)
    cliques = [(0, 1)] * begun.measured
    whole = allocation.RemainingBudget((), Budget(later, delta), relation=relation).whole()
    again = (plan_again(cliques, shape.codes, whole, shape.max_rows).scale / shape.rows) ** 2
    variance, behind, step = begun.pairs**2, 0.0, drift / (MEAN_SIZE * shape.cells**2)
    noises = [begun]
    for _ in range(times - 1):
        known = variance + (behind + step) ** 2
        gain = known / (known + again)
        variance, behind = (1 - gain) ** 2 * variance + gain**2 * again, (1 - gain) * (behind + step)
        noises.append(Noise(begun.profile, math.sqrt(variance), begun.measured, behind))
    return [quality(shape, noise) for noise in noises]


def planned(shape: Shape, epsilon: float, delta: float, relation: str = ADD_REMOVE) -> Noise:
    """Return the noise that a release with the default settings would plan; half of the columns are numbers."""
    check_release(epsilon)
    check_delta(delta)
    unit = UnitSettings(column="unit", max_rows=shape.max_rows) if shape.max_rows > 1 else "row"
    settings = ReleaseSettings(
        table="expected", source="expected.csv", account="expected", epsilon=epsilon, delta=delta, unit=unit
    )
    schema = schemas.build({f"c{i}": pa.int64() if i % 2 else pa.string() for i in range(shape.columns)})
    units, spec = math.ceil(shape.rows / shape.max_rows), settings.training.spec()
    asked = allocation.BudgetRequest.of(settings, delta)
    profile = allocation.plan_profile(settings, asked, schema, relation, units)
    spent = (*profile.count_events(), *profile.histogram_events(schema))
    left = allocation.RemainingBudget(spent, Budget(epsilon, delta), relation=relation)
    pairs = allocation.marginals(left, spec, shape.codes, units, shape.rows, shape.max_rows)
    every = math.sqrt(pairs.pairs / pairs.chosen)
    noise = profile.scale
    if profile.sparing:  # what refinements take goes where it is needed, so columns have on average what all share
        noise *= math.sqrt(weight(schema, profile.unit) / weight(schema, profile.unit, profile.refined))
    return Noise(noise / shape.rows, pairs.scale * every / shape.rows, pairs.chosen + pairs.triples)


def quality(shape: Shape, noise: Noise) -> Quality:
    """Return the distances that noise and chance make of a table of this shape."""
    cells = shape.cells**2
    lost = 1 - math.exp(-HIDDEN * noise.profile**STEEP)
    shown = (1 - lost) ** 2
    one = math.hypot(lost, MEAN_SIZE * math.sqrt((shape.cells - 1) / shape.rows))
    chance = MEAN_SIZE * math.sqrt((cells - 1) / shape.rows)
    blur = min(MEAN_SIZE * KEPT * cells * noise.pairs, APART) * shown
    behind = MEAN_SIZE * cells * noise.behind * shown  # nothing takes it for noise, so all of it stays
    return Quality(min(one, 1.0), min(math.hypot(1 - shown, blur, behind, chance), 1.0))


def better(shape: Shape, epsilon: float, delta: float, relation: str = ADD_REMOVE) -> tuple[int | None, float | None]:
    """Return how many times the rows, and which epsilon, would make a release not poor; None for what does not."""

    def enough(times: int, asked: float) -> bool:
        larger = replace(shape, rows=times * shape.rows)
        return expected(larger, asked, delta, relation).two_way < POOR

    epsilons = [e for e in EPSILONS if e > epsilon]
    rows = bisect.bisect_left(FACTORS, True, key=lambda times: enough(times, epsilon))
    budget = bisect.bisect_left(epsilons, True, key=lambda asked: enough(1, asked))
    return dict(enumerate(FACTORS)).get(rows), dict(enumerate(epsilons)).get(budget)


def _root(column: ColumnProfile) -> float:
    """Return the root of a column's cells: of shares that are equal, there are as many as the square of the sum of roots."""
    shares = (*column.weights, *column.bin_weights, column.other, column.null_rate)
    total = sum(math.sqrt(share) for share in shares)
    return min(total, math.sqrt(TWENTIETHS)) if column.kind.numeric else total
