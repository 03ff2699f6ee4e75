"""The rows of each unit, ready to be sampled by unit; or of random groups of units, when several are clipped as one."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from dp_synth_pipeline.errors import TrainingError
from dp_synth_pipeline.privacy.noise import secure_words

Batch = tuple[torch.Tensor, torch.Tensor | None]
"""Codes (units, D) and None, or codes (units, rows, D) with the weight (units, rows) of each row: 0 where there is none."""

Sizes = dict[int | None, tuple[int, ...]]
"""Ascending numbers of units in a part, for each number of rows to which units are padded; None for rows that are units."""

AT_ONCE = 1 << 24
"""Numbers that one part of a batch may hold in its widest layer: 128 MiB in double precision."""

TOGETHER = 64
"""A part has a multiple of so many rows.

Libraries compute the last rows of a matrix, those that fill no whole vector or tile, in another order than the rest. With
whole ones, a row's numbers are the same to the last bit wherever it lies in whatever company (`repeatable` tests that).
"""

TAIL = 8.0
"""Deviations of a sample's size from what is expected that the usual sizes of parts allow for."""

ROWS_A_UNIT = 2
"""Expected units in a sample have so many rows in the largest part of any class."""


def parts(
    batch: torch.Tensor, weight: torch.Tensor | None, codes: int, sizes: Sequence[int] = ()
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield a batch in parts that fit into memory, however many rows a unit has, padded to one of some sizes.

    Args:
        codes: codes of all columns together.
        sizes: ascending numbers of units that a part may have; without, a multiple of `TOGETHER` rows.

    Yields:
        Codes (size, D) or (size, rows, D), and the weight (size,) or (size, rows) of each row: 0 where there is none.
    """
    rows = rows_of(batch) or 1
    if not sizes:
        step = _step(rows)
        sizes = range(step, max(step, _most(rows, codes, batch.shape[-1])) + 1, step)
    weight = torch.ones(len(batch)) if weight is None else weight
    for start in range(0, max(1, len(batch)), sizes[-1]):
        part, share = batch[start : start + sizes[-1]], weight[start : start + sizes[-1]]
        missing = next(s for s in sizes if s >= len(part)) - len(part)
        padding = [(0, 0) * (x.dim() - 1) + (0, missing) for x in (part, share)]
        yield torch.nn.functional.pad(part, padding[0]), torch.nn.functional.pad(share, padding[1])


def rows_of(batch: torch.Tensor) -> int | None:
    """Return how many rows the units of a batch have; None for rows that are units."""
    return None if batch.dim() == 2 else batch.shape[1]


def part_sizes(expected: float, rows: int, codes: int, columns: int) -> tuple[int, ...]:
    """Return the sizes of parts in which samples of about `expected` units are computed.

    They reach from what few samples are smaller than to what few are larger than, and lie so close together that little is
    computed in vain. Larger samples are cut into parts, smaller ones are padded.

    Args:
        expected: units in a sample, public.
        rows: of each unit, padding included.
        codes: codes of all columns together.
    """
    step, spread = _step(rows), TAIL * math.sqrt(expected)
    most = max(step, min(_most(rows, codes, columns), math.ceil((expected + spread) / step) * step))
    least = max(step, math.floor((expected - spread) / step) * step)
    finest = max(1, round((most - least) / step / 8)) * step
    usual = min(most, math.ceil(expected / step) * step)
    return tuple(sorted({usual, most, *range(min(least, most), most, finest)} - {0}))


def _step(rows: int) -> int:
    """Return of how many units of `rows` rows a part must be a multiple."""
    return TOGETHER // math.gcd(TOGETHER, rows)


def _most(rows: int, codes: int, columns: int) -> int:
    """Return how many units' numbers fit into memory at once, in whole steps; none if not even one step does."""
    return AT_ONCE // (rows * codes + rows * rows * columns) // _step(rows) * _step(rows)


def unit_sizes(expected: float, rows: int, codes: int, columns: int) -> tuple[int, ...]:
    """Return the sizes of parts in which units of one class of `rows` rows are computed, each twice the one before.

    How many units of a sample are of one class is private, so no size lies closer to it than another. Units that fill more
    than one part are computed in several.

    Args:
        expected: units in a sample, of all classes, public.
        rows: of each unit, padding included.
        codes: codes of all columns together.
    """
    step = _step(rows)
    most = max(step, min(_most(rows, codes, columns), math.ceil(ROWS_A_UNIT * expected / rows / step) * step))
    return tuple(sorted({min(step << double, most) for double in range((most // step).bit_length() + 1)}))


def row_classes(most: int) -> tuple[int, ...]:
    """Return the numbers of rows to which units of 1 to `most` rows, at least 2, are padded: 1, 2, 3, 4, 6, 8, 12, 16, ...

    A unit's class follows from its own rows. So no unit is computed in another shape because of somebody else's, and little
    is computed in vain: few more than a fifth of the rows, for units of all lengths.
    """
    classes = sorted({1, *(start << double for start in (2, 3) for double in range(most.bit_length() + 1))})
    return tuple(classes[: bisect_left(classes, max(2, most)) + 1])


def group_rows(size: int) -> int:
    """Return the most rows that groups of about `size` units have: public, and beyond what chance does in 10^15 groups."""
    return math.ceil(size + TAIL * math.sqrt(size) + 2 * TAIL)


class UnitRows:
    """The rows of each unit, padded to those of its class (see `row_classes`).

    Args:
        codes: int (rows, columns); may be memory-mapped.
        units: int64 (rows,) ascending unit numbers; None when each row is a unit.

    Attributes:
        classes: numbers of rows to which units are padded; private, since the last follows from the longest unit.
    """

    def __init__(self, codes: np.ndarray, units: np.ndarray | None) -> None:
        self.codes = codes
        self.starts: np.ndarray | None = None
        self.classes: tuple[int, ...] = ()
        if units is not None:
            if len(units) != len(codes) or (units[1:] < units[:-1]).any():
                raise TrainingError(
                    "unit numbers must ascend, one for each row, so that all rows of a unit are clipped as one."
                )
            first = np.flatnonzero(np.append(True, units[1:] != units[:-1])) if len(units) else np.zeros(0, np.int64)
            self.starts = np.append(first, len(units))
            self.classes = row_classes(int(np.diff(self.starts).max()) if len(units) else 1)

    def __len__(self) -> int:
        return len(self.codes) if self.starts is None else len(self.starts) - 1

    def take(self, chosen: np.ndarray) -> list[Batch]:
        """Return the rows of the chosen units, one batch for each class that any of them is of; at least one."""
        if self.starts is None:
            return [(self._codes(np.sort(chosen)), None)]
        first, count = self.starts[chosen], np.diff(self.starts)[chosen]
        return [
            self._padded(first[some][:, None] + np.arange(rows), count[some])
            for rows, some in _by_class(count, self.classes)
        ]

    def take_groups(self, chosen: np.ndarray, *, size: int, groups: int) -> list[Batch]:
        """Return the chosen units in `groups` random groups, each row weighing 1 / size; groups of none are left out.

        Each unit joins a group by itself, at random, so that one unit changes one group only. A group's clipped gradient
        may then turn from any vector under the clip to any other: twice the sensitivity of a unit clipped by itself.
        """
        if self.starts is not None:
            raise TrainingError("microbatches of several rows need rows as privacy units; set microbatch to 1.")
        group = (secure_words(len(chosen)) % np.uint64(groups)).astype(np.int64)
        chosen = chosen[np.argsort(group, kind="stable")]
        count = np.bincount(group, minlength=groups)
        first, held = np.cumsum(count) - count, np.flatnonzero(count)
        batches = []
        for rows, some in _by_class(count[held], row_classes(group_rows(size))):
            place = np.minimum(first[held[some]][:, None] + np.arange(rows), max(0, len(chosen) - 1))
            codes, present = self._padded(chosen[place] if len(chosen) else place, count[held[some]])
            batches.append((codes, present / size))
        return batches

    def _padded(self, index: np.ndarray, count: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the rows at `index` (units, rows), of which each unit has the first `count`, and their weights."""
        present = np.arange(index.shape[1]) < count[:, None]
        codes = self._codes(np.minimum(index, max(0, len(self.codes) - 1)))
        return codes, torch.from_numpy(present.astype(np.float32))

    def _codes(self, index: np.ndarray) -> torch.Tensor:
        if len(self.codes) == 0:  # an empty table trains like any other
            return torch.zeros(*index.shape, self.codes.shape[1], dtype=torch.int64)
        return torch.from_numpy(np.asarray(self.codes[index], dtype=np.int64))


def _by_class(count: np.ndarray, classes: Sequence[int]) -> list[tuple[int, np.ndarray]]:
    """Return the units of each class that has any, by their numbers of rows; of the first class if there are no units."""
    of = np.searchsorted(classes, count)
    if len(count) and of.max() >= len(classes):
        raise TrainingError("a group has more rows than chance ever gives it; nothing was computed of it.")
    return [(classes[c], np.flatnonzero(of == c)) for c in (np.unique(of) if len(of) else [0])]
