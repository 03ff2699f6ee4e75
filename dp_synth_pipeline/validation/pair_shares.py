"""Shares of the rows in each cell of two columns together, real and synthetic, coarse enough to be looked at.

Restricted: computed from real rows without noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.validation.binning import Cells, code

MOST_PAIRS = 4
"""The pairs that are drawn: the worst ones."""

MOST_CELLS = 8
"""Parts of a number line, or of a column's values; what is missing is one more."""


@dataclass(frozen=True)
class PairShares:
    """Two columns together.

    Attributes:
        left, right: the columns, down and across.
        left_labels, right_labels: what each cell holds, in words.
        real, synthetic: shares of the rows, a list for each cell of `left`.
    """

    left: str
    right: str
    left_labels: list[str]
    right_labels: list[str]
    real: list[list[float]]
    synthetic: list[list[float]]

    @property
    def largest(self) -> float:
        """The largest share of either table."""
        return max(max(line) for table in (self.real, self.synthetic) for line in table)


def pair_shares(
    real: pd.DataFrame, synthetic: pd.DataFrame, schema: TableSchema, pairs: Sequence[tuple[str, str]]
) -> list[PairShares]:
    """Return the shares of each pair of learned columns, in cells that follow the real rows."""
    names = {name for pair in pairs for name in pair}
    coarse_cells = {n: coarse(code(schema[n], pd.Series(real[n]), pd.Series(synthetic[n]), MOST_CELLS)) for n in names}
    return [shares_of(coarse_cells[left], coarse_cells[right]) for left, right in pairs]


def coarse(cells: Cells) -> Cells:
    """Return a column in cells few enough to be looked at: the commonest in their order, and the others as one."""
    counts = np.bincount(cells.real, minlength=cells.size) + np.bincount(cells.synthetic, minlength=cells.size)
    present = np.flatnonzero(counts[:-1])
    by_size = present[np.argsort(-np.bincount(cells.real, minlength=cells.size)[present], kind="stable")]
    many = len(present) > MOST_CELLS
    kept = by_size[: MOST_CELLS - 1 if many else MOST_CELLS]
    kept = np.sort(kept) if cells.kind.numeric else kept
    words = list(map(_span, cells.labels)) if cells.kind.numeric else list(cells.labels)
    labels: list[str] = [words[int(i)] for i in kept]
    place = np.full(cells.size, len(labels))
    place[kept] = np.arange(len(labels))
    if many:
        labels.append(f"{len(present) - len(kept)} more")
    if counts[-1]:
        place[-1] = len(labels)
        labels.append(words[-1])
    return Cells(cells.name, cells.kind, labels, place[cells.real], place[cells.synthetic])


def _span(label: str) -> str:
    """Write a part of a number line in signs, as `binning` names it in words: "over 3 to 4.5" is 3 – 4.5."""
    if label.startswith("up to "):
        return f"≤ {label.removeprefix('up to ')}"
    if label.endswith(" and over"):
        return f"≥ {label.removesuffix(' and over')}"
    if " to " in label:
        return label.removeprefix("over ").replace(" to ", " \u2013 ")
    return label.replace("over ", "> ")


def shares_of(left: Cells, right: Cells) -> PairShares:
    """Return the shares of two columns of the same rows."""
    tables = []
    for a, b in ((left.real, right.real), (left.synthetic, right.synthetic)):
        counts = np.bincount(a * right.size + b, minlength=left.size * right.size)
        tables.append((counts.reshape(left.size, right.size) / len(a)).tolist())
    return PairShares(left.name, right.name, list(left.labels), list(right.labels), *tables)
