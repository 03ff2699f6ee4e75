"""Raking: weights for drawn rows, so that their marginals come nearer to the measured ones. Post-processing, so free.

The weight of a row is `exp(sum over measured cliques of tilt[cell of the clique])`: of all weights that reach given
marginals, those nearest to uniform have this form (Deming & Stephan 1940; Csiszar 1975). A weight depends on its row
alone, so rows can be drawn, weighted and kept in a stream.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from dp_synth_pipeline.model.devices import fastest
from dp_synth_pipeline.model.marginals.balanced_sampling import CLIQUES, balanced
from dp_synth_pipeline.model.marginals.dependencies import impossible
from dp_synth_pipeline.model.marginals.measuring import Layout, Marginals, count
from dp_synth_pipeline.model.marginals.pairs import ORDINARY
from dp_synth_pipeline.model.threads import few_threads

STEPS = 60
RATE = 0.02
TRUSTED = 0.04
"""Tilt at which a cell's miss is as large as its noise; found on the Adult census, flat from 0.02 to 0.08."""

NEVER = -20.0
"""Tilt of a cell that no row has, as a code of one column determines that of another."""

SURE = 3.0
"""Standard deviations of noise above which it is known how frequent a given code is."""

MOST_DRAWS, LEAST_DRAWS = 1 << 16, 1 << 13
"""Rows to find the tilt on. Chosen among more draws, they leave little to chance: eight times as many won 2 % on Adult."""

MANY = 600
"""Cliques up to which the most rows are drawn. The more cliques, the more noise in each, and the fewer rows are needed."""

MOST_CLIQUES = 2400
"""Cliques that are raked; of more, those that miss by most, so that wide tables take no hours."""


def draws(measured: Marginals) -> int:
    """Return how many rows `rake` takes: fewer where cliques are many, or columns: each reads those before."""
    cliques = min(max(len(measured.layout.cliques), 1), MOST_CLIQUES)
    columns = max(len(measured.layout.cardinalities), ORDINARY)
    return max(min(MOST_DRAWS * MANY // cliques, MOST_DRAWS * ORDINARY // columns, MOST_DRAWS), LEAST_DRAWS)


@dataclass(frozen=True)
class Tilt:
    """Log-weights of the cells of measured pairs and triples, float32 (cells,)."""

    layout: Layout
    values: np.ndarray

    def log_weights(self, codes: np.ndarray) -> np.ndarray:
        """Return each row's log-weight, float32 (rows,), up to a constant."""
        total = np.zeros(len(codes), dtype=np.float32)
        columns = np.ascontiguousarray(codes.T, dtype=np.int32)
        for clique, place in self.layout.places():
            total += self.values[place].take(self.layout.within(clique, columns))
        return total

    def resample(
        self, codes: np.ndarray, rows: int, *, cliques: int = CLIQUES, rng: np.random.Generator | None = None
    ) -> np.ndarray:
        """Return `rows` of the draws, in no order, chosen by their weights so that they have the marginals of them all.

        Args:
            codes: int (draws, columns), in no order either.
            cliques: how many of the measured ones are balanced, at most; of more, some that chance picks.
            rng: decides; a fresh one by default.
        """
        rng = rng or np.random.default_rng()
        logs = self.log_weights(codes).astype(np.float64)
        kept = balanced(codes, logs, self.layout, rows, cliques=cliques, rng=rng)
        return codes[rng.permutation(np.repeat(np.arange(len(codes)), kept))]


def even(layout: Layout) -> Tilt:
    """Return the tilt under which all rows weigh the same."""
    return Tilt(layout, np.zeros(layout.cells, dtype=np.float32))


def upon(codes: np.ndarray, measured: Marginals, given: int) -> Marginals:
    """Return marginals in which what is given is as frequent as in drawn rows, so that they say what follows upon it.

    Where noise hides how frequent a given code is, they say what the drawn rows do.

    Args:
        codes: int (draws, columns), drawn upon the first `given` columns.
    """
    layout, counts = measured.layout, measured.counts.copy()
    drawn = count(codes, layout) * (measured.rows / len(codes))
    for clique, place in layout.places():
        if clique[0] < given:
            shape = (layout.cardinalities[clique[0]], -1)
            cells, there = counts[place].reshape(shape), drawn[place].reshape(shape)
            whole, noise = cells.sum(1), measured.scale * math.sqrt(cells.shape[1])
            known = whole > SURE * noise
            factor = np.divide(there.sum(1), whole, out=np.zeros(len(whole)), where=known)
            counts[place] = np.where(known[:, None], cells * factor[:, None], there).ravel()
    return Marginals(layout, counts, measured.scale, measured.rows)


def rake(
    codes: np.ndarray,
    measured: Marginals,
    *,
    steps: int = STEPS,
    device: torch.device | str | None = None,
    contexts: int = 1,
    never: np.ndarray | None = None,
) -> Tilt:
    """Find the tilt at which the drawn rows have the measured marginals, as far as the noise lets one know them.

    Maximises the dual `tilt . marginals - log mean(weight)` less a quadratic penalty. At the maximum each cell misses its
    target by penalty times tilt, so misses of the noise's size stay where a tilt of `TRUSTED` would end them.

    Args:
        codes: int (draws, columns), drawn by the generator.
        device: where it is found; by default on the `fastest`.
        contexts: how many sets of as many draws there are, one after the other, each of which keeps its weight: those that
            were drawn upon the same.
        never: which cells no row has, bool (cells,); by default those that are `impossible`.
    """
    device, never = device or fastest(), impossible(measured) if never is None else never
    if len(measured.layout.cliques) > MOST_CLIQUES:
        measured, never = _farthest(codes[:LEAST_DRAWS], measured, never, MOST_CLIQUES)
    fixed = torch.from_numpy(NEVER * never.astype(np.float32)).to(device)
    draws = _Draws(codes, measured.layout, device)
    target = torch.from_numpy(measured.counts / measured.rows).float().to(device)
    tilt = torch.zeros_like(target)
    tilt.grad = torch.empty_like(tilt)
    penalty = 0.5 * measured.scale / measured.rows / TRUSTED
    optimizer = torch.optim.Adam([tilt], lr=RATE)
    with few_threads():
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = RATE * (1 - step / steps)
            weights = draws.log_weights(tilt + fixed).view(contexts, -1).softmax(1).flatten() / contexts
            found = draws.marginals(weights)
            torch.add(found - target, tilt, alpha=2 * penalty, out=tilt.grad)
            tilt.grad[fixed < 0] = 0  # what no row has stays so
            optimizer.step()
    return Tilt(measured.layout, (tilt + fixed).cpu().numpy())


def _farthest(codes: np.ndarray, measured: Marginals, never: np.ndarray, most: int) -> tuple[Marginals, np.ndarray]:
    """Return the `most` cliques of which the drawn rows miss the measured cells by most, beyond what chance explains.

    Those with cells that no row has come before all others, since what was found of them is said to be kept.
    """
    each = measured.rows / len(codes)
    found = count(codes, measured.layout) * each
    chance = math.sqrt(2 / math.pi) * np.sqrt(measured.scale**2 + found * each)  # mean size of noise and sampling
    missed = np.add.reduceat(np.abs(found - measured.counts) - chance, measured.layout.offsets[:-1])
    missed[np.logical_or.reduceat(never, measured.layout.offsets[:-1])] = np.inf
    chosen = np.sort(np.argsort(-missed)[:most])
    layout = Layout(measured.layout.cardinalities, tuple(measured.layout.cliques[i] for i in chosen))
    places = [slice(*measured.layout.offsets[[i, i + 1]]) for i in chosen]
    counts, never = (np.concatenate([cells[p] for p in places]) for cells in (measured.counts, never))
    return Marginals(layout, counts, measured.scale, measured.rows), never


class _Draws:
    """Drawn rows, whose cells are found anew for each clique: memory grows with columns, not with cliques."""

    def __init__(self, codes: np.ndarray, layout: Layout, device: torch.device | str) -> None:
        self.layout = layout
        self.columns = torch.from_numpy(np.ascontiguousarray(codes.T, dtype=np.int32)).to(device)

    def _cells(self) -> Iterator[tuple[slice, torch.Tensor]]:
        for clique, place in self.layout.places():
            yield place, self.layout.within(clique, self.columns)

    def log_weights(self, tilt: torch.Tensor) -> torch.Tensor:
        """Return the sum of tilts of each row's cells, float32 (draws,)."""
        total = tilt.new_zeros(self.columns.shape[1])
        for place, cells in self._cells():
            total += tilt[place].index_select(0, cells)
        return total

    def marginals(self, weights: torch.Tensor) -> torch.Tensor:
        """Return the weighted sum of rows in each cell, float32 (cells,)."""
        found = [torch.bincount(cells, weights, place.stop - place.start) for place, cells in self._cells()]
        return torch.cat(found) if found else weights[:0]
