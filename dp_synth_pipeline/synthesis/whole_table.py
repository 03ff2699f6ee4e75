"""Draws the whole of a table whose partitions were released one by one, from all of their generators: free, as all draws.

A refresh reads the partition that is new, and pays for that one. What earlier partitions released stays, so the whole table
is drawn from it, each partition by its released number of rows. A table over the last windows is its last partition's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.synthesis.progress import unheard
from dp_synth_pipeline.synthesis.released import Released
from dp_synth_pipeline.synthesis.sampling import Asked, Drawer, Drawn, Report


class WholeTable:
    """Draws rows of all partitions, as often of each as it has rows by its released number.

    Args:
        partitions: the released generator of each.

    Raises:
        InvalidInput: if the columns or types of two partitions differ.
    """

    def __init__(self, partitions: Sequence[Released]) -> None:
        self.partitions = partitions
        self._drawers = [Drawer(p.folder, p.folder / "profile.json") for p in partitions]
        self.schema = self._drawers[0].schema
        for partition, drawer in zip(partitions, self._drawers, strict=True):
            if not drawer.schema.equals(self.schema):
                raise InvalidInput(
                    f"the columns of {partition.table} are of other types than those of {partitions[0].table}, so they do "
                    f"not make one table; declare the kinds of a CSV's columns, or draw each partition by its own name."
                )

    def draw(self, rows: int, asked: Asked = Asked(), report: Report = unheard) -> Drawn:
        """Return as many rows, partition by partition; how many each gives is chance, as in a sample of the whole.

        Raises:
            InvalidInput: if a condition or shares are asked for, which only a single partition has.
        """
        if asked.where is not None or asked.share is not None:
            raise InvalidInput(
                f"--where and --share draw from one generator, and this table has one for each partition; name one, such as "
                f"{self.partitions[0].table}."
            )
        chance = asked.chance()
        known = np.array([drawer.profile.rows for drawer in self._drawers], dtype=float)
        counts = chance.multinomial(rows, known / known.sum())
        return Drawn(rows, self._batches(counts, chance, report))

    def _batches(self, counts: np.ndarray, chance: np.random.Generator, report: Report) -> Iterator[pa.RecordBatch]:
        done = 0
        for drawer, count in zip(self._drawers, counts, strict=True):
            if not count:
                continue
            for batch in drawer.draw(int(count), Asked(seed=int(chance.integers(2**63)))):
                done += batch.num_rows
                report(done, int(counts.sum()))
                yield batch
