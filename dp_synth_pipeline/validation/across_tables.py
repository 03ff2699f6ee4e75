"""How the rows of a table agree with the rows that they hang on, and how many a person has in several tables together.

Restricted: computed from real rows without noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from dp_synth_pipeline.relations.structure import Relations
from dp_synth_pipeline.validation.binning import code
from dp_synth_pipeline.validation.fidelity import PairFidelity, badness, mean, pair_fidelity
from dp_synth_pipeline.validation.history_figures import Compared, chosen_pairs, count_cells, count_column
from dp_synth_pipeline.validation.pair_shares import MOST_CELLS, PairShares, coarse, shares_of

MOST_SHOWN = 20
"""Columns of either table whose distances a page shows: those of the worst pairs."""


@dataclass(frozen=True)
class Link:
    """The columns of a table beside those of one that its rows hang on, over the rows of the former.

    Attributes:
        child, parent: the tables.
        pairs: each column of the parent with each of the child, the worst first; 1,000 at most.
        worst: the cells of the worst pair.
    """

    child: str
    parent: str
    pairs: list[PairFidelity]
    worst: PairShares

    @property
    def mean(self) -> tuple[float, float]:
        """Mean distance, and what a fresh sample of real persons would reach."""
        return mean([p.distance for p in self.pairs]), mean([p.baseline for p in self.pairs])

    @property
    def shown(self) -> tuple[list[str], list[str], list[list[float | None]]]:
        """Columns of the parent and of the child that a page shows, and their distances; None where none was taken."""
        down, across = (
            list(dict.fromkeys(getattr(p, side) for p in self.pairs))[:MOST_SHOWN] for side in ("left", "right")
        )
        known = {(p.left, p.right): p.distance for p in self.pairs}
        return down, across, [[known.get((left, right)) for right in across] for left in down]


@dataclass(frozen=True)
class Together:
    """How many rows a person has in two tables, jointly: the distance, and the shares of the persons."""

    pair: PairFidelity
    shares: PairShares


def links(relations: Relations, compared: Mapping[str, Compared], rng: np.random.Generator) -> list[Link]:
    """Return each table beside each of those above it, the nearest first; without those of no rows or columns.

    Args:
        rng: draws the pairs that are looked at, if there are too many; protects nothing.
    """
    found = []
    for table in relations:
        near, rows = table.name, None
        for above in relations.ancestors(table.name):
            near, rows = above.name, _up(compared[near], rows)
            link = _link(compared[near], compared[table.name], rows, rng)
            if link is not None:
                found.append(Link(table.name, near, *link))
    return found


Rows = tuple[np.ndarray, np.ndarray]
"""Numbers of rows in a real and in a synthetic table, int64 (rows,) each."""


def _up(near: Compared, rows: Rows | None) -> Rows:
    """Return the numbers of the rows one table further up, of each real and each synthetic row."""
    real, synthetic = near.real.parent, near.synthetic.parent
    assert real is not None
    assert synthetic is not None
    return (real, synthetic) if rows is None else (real[rows[0]], synthetic[rows[1]])


def _link(
    parent: Compared, child: Compared, rows: Rows, rng: np.random.Generator
) -> tuple[list[PairFidelity], PairShares] | None:
    if not all(map(len, rows)) or not parent.schema.learned or not child.schema.learned:
        return None
    above = {name: cells.at(*rows) for name, cells in parent.cells().items()}
    own, again = child.cells(), child.fresh()
    pairs = [pair_fidelity(above[a], own[b], again) for a, b in chosen_pairs(above, own, rng)]
    pairs.sort(key=badness, reverse=True)
    left, right = pairs[0].left, pairs[0].right
    few = coarse(parent.coded(parent.schema[left], MOST_CELLS)).at(*rows)
    return pairs, shares_of(few, coarse(child.coded(child.schema[right], MOST_CELLS)))


def counted_together(relations: Relations, compared: Mapping[str, Compared]) -> list[Together]:
    """Return how many rows a person has in each two tables below the root, none included."""
    root = compared[relations.root.name]
    exact, few = [], []
    for table in relations:
        if table.parent is not None:
            own, column = compared[table.name], count_column(table.name)
            real = np.bincount(own.real.person, minlength=len(root.real.person))
            synthetic = np.bincount(own.synthetic.person, minlength=len(root.synthetic.person))
            exact.append(count_cells(column, real, synthetic))
            few.append(coarse(code(column, pd.Series(real), pd.Series(synthetic), MOST_CELLS)))
    return [
        Together(pair_fidelity(exact[i], exact[j], root.fresh()), shares_of(few[i], few[j]))
        for i, j in combinations(range(len(exact)), 2)
    ]
