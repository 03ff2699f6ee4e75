"""A chain of log-linear conditionals with the measured marginals, drawn column by column: post-processing, so free.

P(code | earlier columns) is proportional to `share[code] * exp(sum over cliques that end in this column of
theta[cell of the earlier ones, code])`. Of all conditionals that give drawn rows the measured marginals, this one adds
least of its own (maximum entropy: Berger, Della Pietra & Della Pietra 1996): where a mixture of products is free to join
columns in ways that nobody measured, this says no more than the pairs and triples do.

Noise: each theta has a Gaussian prior, as wide as the clique's distance from what is expected without it, beyond its
noise, makes most likely (empirical Bayes). So cliques that tell nothing stay at nothing, and cells of few rows near it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from dp_synth_pipeline.model.marginals.measuring import Clique, Marginals
from dp_synth_pipeline.model.threads import few_threads

ROWS = 1 << 15
"""Rows drawn: what later columns are fitted on, and what a network is taught by."""

STEPS, BATCH, RATE = 300, 512, 0.05

MOST = 16
"""Cliques that one column may follow: those with the most evidence, so that wide tables take no hours."""

SPREADS = np.geomspace(0.01, 10.0, 31)
"""Standard deviations of theta that are tried."""

DIRECT = 0.5
"""Part of a clique's own spread that its theta gets beside others, which tell some of it too; found on the Adult census."""

RARE = 1e-7
"""Share of rows that a cell is taken to hold at least, when noise is weighed against it."""

LEAST = 1e-9
"""Share below which no code or cell is taken to be."""


@dataclass(frozen=True)
class _Term:
    """What one clique says of its last column, of K codes.

    Attributes:
        clique: its columns.
        rest: probability of each cell of the earlier columns, (cells,).
        target: measured P(code | cell), (cells, K); noise may take it below 0.
        penalty: pull of each theta to 0, (cells, K), in shares of rows.
        evidence: log-likelihood ratio of its spread against none.
    """

    clique: Clique
    rest: np.ndarray
    target: np.ndarray
    penalty: np.ndarray
    evidence: float


def draw(measured: Marginals, shares: Sequence[np.ndarray], *, rows: int = ROWS, steps: int = STEPS) -> np.ndarray:
    """Return int64 codes (rows, columns) that have the measured marginals, as far as noise lets one know them.

    Args:
        shares: released 1-way probabilities of each column's codes.
        steps: of the descent to each column's conditional.
    """
    known = _Known(measured, shares)
    drawn = np.zeros((len(shares), rows), dtype=np.int64)
    with few_threads():
        for column, share in enumerate(known.shares):
            if len(share) == 1:  # there is nothing to draw
                continue
            terms = sorted(known.terms(column), key=lambda t: -t.evidence)[:MOST]
            base = torch.from_numpy(np.log(np.maximum(share, 1e-4))).float()
            alone = base.expand(rows, -1)
            drawn[column] = _sampled(_logits(base, terms, drawn, measured, steps) if terms else alone)
    return np.ascontiguousarray(drawn.T)


class _Known:
    """What was released, as shares of rows."""

    def __init__(self, measured: Marginals, shares: Sequence[np.ndarray]) -> None:
        floored = [np.maximum(np.asarray(s, dtype=np.float64), LEAST) for s in shares]
        self.shares = [s / s.sum() for s in floored]
        self.cliques = dict(measured.layout.blocks(measured.counts / measured.rows))
        self.noise = measured.scale / measured.rows

    def terms(self, column: int) -> Iterator[_Term]:
        """Yield what each clique that ends in `column` says of it."""
        for clique, found in self.cliques.items():
            if clique[-1] != column:
                continue
            rest, expected = self._without(clique)
            cells = found.reshape(expected.shape)
            moves = np.maximum(expected * (1 - expected / rest[:, None]), LEAST**2)  # of a cell, for each unit of theta
            spread, evidence = _spread(cells - expected, moves, self.noise)
            penalty = self.noise**2 / (DIRECT * spread) ** 2 / np.maximum(moves, RARE)
            yield _Term(clique, rest, cells / rest[:, None], penalty, evidence)

    def _without(self, clique: Clique) -> tuple[np.ndarray, np.ndarray]:
        """Return P(cell of the earlier columns), (cells,), and what is expected of all of them without the clique.

        Of a pair, independence; of a triple, both pairs with the last column at once, if they were measured.
        """
        *earlier, last = clique
        share = self.shares[last]
        if len(earlier) == 1:
            return self.shares[earlier[0]], np.outer(self.shares[earlier[0]], share)
        a, b = earlier
        together = self.cliques.get((a, b), np.outer(self.shares[a], self.shares[b]))
        rest = np.maximum(together, max(self.noise, LEAST)).ravel()  # of less, nothing can be told
        given = self._given(a, last)[:, None, :] * self._given(b, last)[None, :, :] / share
        given = (given / given.sum(-1, keepdims=True)).reshape(len(rest), -1)
        return rest, rest[:, None] * given

    def _given(self, column: int, last: int) -> np.ndarray:
        """Return P(code of `last` | code of `column`), or P(code of `last`) where the pair was not measured."""
        pair = self.cliques.get((column, last))
        if pair is None:
            return np.broadcast_to(self.shares[last], (len(self.shares[column]), len(self.shares[last])))
        cells = np.maximum(pair, LEAST * self.shares[last])
        return cells / cells.sum(1, keepdims=True)


def _spread(missed: np.ndarray, moves: np.ndarray, noise: float) -> tuple[float, float]:
    """Return the spread of theta under which distances `missed` are most likely, and its evidence against the least."""
    variances = [np.square(moves * spread) + noise**2 for spread in SPREADS]
    likely = [-0.5 * float((np.log(v) + np.square(missed) / v).sum()) for v in variances]
    best = int(np.argmax(likely))
    return float(SPREADS[best]), likely[best] - likely[0]


def _logits(
    base: torch.Tensor, terms: Sequence[_Term], drawn: np.ndarray, measured: Marginals, steps: int
) -> torch.Tensor:
    """Return logits (rows, K) under which the drawn rows have the terms' targets, but for the penalties."""
    starts = np.cumsum([0, *(len(t.rest) for t in terms)])
    cells = torch.from_numpy(
        np.stack(
            [start + measured.layout.within(t.clique[:-1], drawn) for t, start in zip(terms, starts, strict=False)], 1
        )
    )
    target = torch.from_numpy(np.concatenate([t.target for t in terms])).float()
    penalty = torch.from_numpy(np.concatenate([t.penalty for t in terms])).float()
    theta = torch.zeros_like(target)
    optimizer = torch.optim.Adam([theta], lr=RATE)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, 2 * (1 - step / steps) + 0.02)
        batch = cells[torch.randint(len(cells), (BATCH,))]
        p = (base + F.embedding_bag(batch, theta, mode="sum")).softmax(1)
        flat = batch.flatten()
        found = torch.zeros_like(theta).index_add_(0, flat, p.repeat_interleave(len(terms), 0))
        seen = torch.bincount(flat, minlength=len(theta))[:, None]
        theta.grad = (found - seen * target) / len(batch) + penalty * theta
        optimizer.step()
    return torch.cat([base + F.embedding_bag(part, theta, mode="sum") for part in cells.split(1 << 13)])


def _sampled(logits: torch.Tensor) -> np.ndarray:
    """Return one code for each row of logits (rows, K), by the inverse of its distribution."""
    upto = logits.softmax(1).cumsum(1)
    at = torch.rand(len(upto), 1) * (1 - 2**-20)  # so that a code of probability 0 is never the last one left
    return (upto <= at * upto[:, -1:]).sum(1).numpy()
