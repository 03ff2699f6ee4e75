"""The rows of each unit, ready to be sampled by unit; or of random groups of units, when several are clipped as one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from dp_synth_pipeline.errors import TrainingError

Batch = tuple[torch.Tensor, torch.Tensor | None]
"""Codes (units, D) and None, or codes (units, rows, D) with the weight (units, rows) of each row: 0 where there is none."""


AT_ONCE = 1 << 25
"""Numbers that one part of a batch may hold in its widest layer: 128 MiB."""


def parts(batch: torch.Tensor, weight: torch.Tensor | None, codes: int) -> Iterator[Batch]:
    """Yield a batch in parts of units that fit into memory, however many rows a unit has; clipped sums add up.

    Args:
        codes: codes of all columns together.
    """
    rows = 1 if batch.dim() == 2 else batch.shape[1]
    size = max(1, AT_ONCE // (rows * codes + rows * rows * batch.shape[-1]))
    for start in range(0, max(1, len(batch)), size):
        yield batch[start : start + size], None if weight is None else weight[start : start + size]


class UnitRows:
    """The rows of each unit, padded to the longest.

    Args:
        codes: int (rows, columns); may be memory-mapped.
        units: int64 (rows,) ascending unit numbers; None when each row is a unit.
    """

    def __init__(self, codes: np.ndarray, units: np.ndarray | None) -> None:
        self.codes = codes
        self.starts: np.ndarray | None = None
        if units is not None:
            if len(units) != len(codes) or (units[1:] < units[:-1]).any():
                raise TrainingError(
                    "unit numbers must ascend, one for each row, so that all rows of a unit are clipped as one."
                )
            first = np.flatnonzero(np.append(True, units[1:] != units[:-1])) if len(units) else np.zeros(0, np.int64)
            self.starts = np.append(first, len(units))
            self.longest = int(np.diff(self.starts).max()) if len(units) else 1  # private

    def __len__(self) -> int:
        return len(self.codes) if self.starts is None else len(self.starts) - 1

    def take(self, chosen: np.ndarray) -> Batch:
        """Return the rows of the chosen units."""
        if self.starts is None:
            return self._codes(np.sort(chosen)), None
        index = self.starts[chosen][:, None] + np.arange(self.longest)
        present = index < self.starts[chosen + 1][:, None]
        rows = self._codes(np.minimum(index, len(self.codes) - 1))
        return rows, torch.from_numpy(present.astype(np.float32))

    def take_groups(self, chosen: np.ndarray, *, size: int, groups: int) -> Batch:
        """Return the chosen units in `groups` random groups, each row weighing 1 / size.

        Each unit joins a group by itself, at random, so that one unit changes one group only. A group's clipped gradient
        may then turn from any vector under the clip to any other: twice the sensitivity of a unit clipped by itself.
        """
        if self.starts is not None:
            raise TrainingError("microbatches of several rows need rows as privacy units; set microbatch to 1.")
        rng = np.random.default_rng()
        group = np.sort(rng.integers(0, groups, len(chosen)))
        place = np.arange(len(chosen)) - np.searchsorted(group, group)
        rows = np.zeros((groups, int(place.max()) + 1 if len(chosen) else 1), dtype=np.int64)
        weight = np.zeros(rows.shape, dtype=np.float32)
        rows[group, place], weight[group, place] = rng.permutation(chosen), 1 / size
        return self._codes(rows), torch.from_numpy(weight)

    def _codes(self, index: np.ndarray) -> torch.Tensor:
        if len(self.codes) == 0:  # an empty table trains like any other
            return torch.zeros(*index.shape, self.codes.shape[1], dtype=torch.int64)
        return torch.from_numpy(np.asarray(self.codes[index], dtype=np.int64))
