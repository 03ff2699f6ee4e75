"""A chain of log-linear conditionals with the measured marginals, drawn column by column: post-processing, so free.

P(code | earlier columns) is proportional to `share[code] * exp(sum over cliques that end in this column of
theta[cell of the earlier ones, code])`. Of all conditionals that give drawn rows the measured marginals, this one adds
least of its own (maximum entropy: Berger, Della Pietra & Della Pietra 1996): where a mixture of products is free to join
columns in ways that nobody measured, this says no more than the pairs and triples do.

The theta of a pair of which codes have an order is the sum of what each cell says and of what they say together, a few
numbers that weigh `waves`: noise that hides the one leaves the other.

Noise: each theta has a Gaussian prior, as wide as the clique's distance from what is expected without it, beyond its
noise, makes most likely (empirical Bayes). So cliques that tell nothing stay at nothing, and cells of few rows near it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from dp_synth_pipeline.model.marginals import waves
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


class _Together(NamedTuple):
    """What the cells of a pair say together.

    Attributes:
        first: what is weighed along the codes of the first column, (cells, weights of it).
        last: along those of the last column, (K, weights of it).
        penalty: pull of each weight to 0, (weights of the first, of the last), in shares of rows.
    """

    first: np.ndarray
    last: np.ndarray
    penalty: np.ndarray


@dataclass(frozen=True)
class _Term:
    """What one clique says of its last column, of K codes.

    Attributes:
        clique: its columns.
        rest: probability of each cell of the earlier columns, (cells,).
        target: measured P(code | cell), (cells, K); noise may take it below 0.
        penalty: pull of each theta to 0, (cells, K), in shares of rows.
        evidence: log-likelihood ratio of its spread against none.
        together: what its cells say together, if codes of a pair have an order.
    """

    clique: Clique
    rest: np.ndarray
    target: np.ndarray
    penalty: np.ndarray
    evidence: float
    together: _Together | None = None


def draw(
    measured: Marginals,
    shares: Sequence[np.ndarray],
    orders: Sequence[Sequence[int]] = (),
    *,
    rows: int = ROWS,
    steps: int = STEPS,
) -> np.ndarray:
    """Return int64 codes (rows, columns) that have the measured marginals, as far as noise lets one know them.

    Args:
        shares: released 1-way probabilities of each column's codes.
        orders: for each column its codes that have an order, in that order; none: no column has codes in an order.
        steps: of the descent to each column's conditional.
    """
    known = _Known(measured, shares, orders)
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

    def __init__(self, measured: Marginals, shares: Sequence[np.ndarray], orders: Sequence[Sequence[int]] = ()) -> None:
        floored = [np.maximum(np.asarray(s, dtype=np.float64), LEAST) for s in shares]
        self.shares = [s / s.sum() for s in floored]
        self.cliques = dict(measured.layout.blocks(measured.counts / measured.rows))
        self.noise = measured.scale / measured.rows
        self.orders = orders or [()] * len(shares)

    def terms(self, column: int) -> Iterator[_Term]:
        """Yield what each clique that ends in `column` says of it."""
        for clique, found in self.cliques.items():
            if clique[-1] != column:
                continue
            rest, expected = self._without(clique)
            cells = found.reshape(expected.shape)
            moves = np.maximum(expected * (1 - expected / rest[:, None]), LEAST**2)  # of a cell, for each unit of theta
            together, missed, told = self._together(clique, expected, cells - expected)
            spread, evidence = _spread(missed, moves, self.noise)
            penalty = self.noise**2 / (DIRECT * spread) ** 2 / np.maximum(moves, RARE)
            yield _Term(clique, rest, cells / rest[:, None], penalty, evidence + told, together)

    def _together(
        self, clique: Clique, expected: np.ndarray, missed: np.ndarray
    ) -> tuple[_Together | None, np.ndarray, float]:
        """Return what a pair's cells say together, what each says beyond it, and the evidence; of no order, nothing."""
        if len(clique) > 2 or not any(waves.smooth(self.orders[c]) for c in clique):
            return None, missed, 0.0
        (first, near), (last, far) = (waves.along(self.shares[c], self.orders[c]) for c in clique)
        noise = self.noise * np.outer(np.linalg.norm(first, axis=0), np.linalg.norm(last, axis=0))
        moves = np.maximum((first**2).T @ expected @ last**2, LEAST)  # of a projection, for each unit of its weight
        found, prior = first.T @ missed @ last, np.outer(near, far)
        spread, evidence = _spread(found, moves * prior, noise)
        penalty = noise**2 / (spread * prior) ** 2 / moves
        told = expected * (first @ (found / (moves + penalty)) @ last.T)
        return _Together(first, last, penalty), missed - told, evidence

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


def _spread(missed: np.ndarray, moves: np.ndarray, noise: float | np.ndarray) -> tuple[float, float]:
    """Return the spread of theta under which distances `missed` are most likely, and its evidence against the least."""
    variances = [np.square(moves * spread) + np.square(noise) for spread in SPREADS]
    likely = [-0.5 * float((np.log(v) + np.square(missed) / v).sum()) for v in variances]
    best = int(np.argmax(likely))
    return float(SPREADS[best]), likely[best] - likely[0]


class _Theta:
    """What the terms of one column add to its logits, while it is found.

    Args:
        starts: first cell of each term among those of all.
    """

    def __init__(self, terms: Sequence[_Term], starts: np.ndarray) -> None:
        self._penalty = torch.from_numpy(np.concatenate([t.penalty for t in terms])).float()
        self._own = torch.zeros_like(self._penalty)
        pairs = [
            (t.together, start) for t, start in zip(terms, starts.tolist(), strict=False) if t.together is not None
        ]
        self._last = torch.from_numpy(pairs[0][0].last if pairs else np.zeros((self._own.shape[1], 0))).float()
        self._first = _side_by_side([(together.first, start) for together, start in pairs], len(self._own))
        pulls = [together.penalty for together, _ in pairs] or [np.zeros((0, 0))]
        self._pull = torch.from_numpy(np.concatenate(pulls)).float()
        self._weights = torch.zeros_like(self._pull)

    @property
    def parameters(self) -> list[torch.Tensor]:
        """What is found: what each cell says by itself, and what those of a pair say together."""
        return [self._own, self._weights]

    def whole(self) -> torch.Tensor:
        """Return what each cell adds, (cells, K)."""
        return self._own + self._first @ (self._weights @ self._last.T)

    def descend(self, gradient: torch.Tensor) -> None:
        """Set what a step follows: the gradient of each cell, (cells, K), and the pull to 0."""
        self._own.grad = gradient + self._penalty * self._own
        self._weights.grad = self._first.T @ (gradient @ self._last) + self._pull * self._weights


def _side_by_side(parts: Sequence[tuple[np.ndarray, int]], cells: int) -> torch.Tensor:
    """Return a sparse matrix (cells, all their columns) of matrices, each in columns of its own, from its first cell on."""
    placed, before = [np.zeros((3, 0))], 0
    for matrix, start in parts:
        rows, columns = np.nonzero(matrix)
        placed.append(np.array([rows + start, columns + before, matrix[rows, columns]], dtype=np.float64))
        before += matrix.shape[1]
    rows, columns, values = np.concatenate(placed, 1)
    at = torch.from_numpy(np.stack([rows, columns]).astype(np.int64))
    return torch.sparse_coo_tensor(
        at, torch.from_numpy(values).float(), (cells, before), check_invariants=True
    ).coalesce()


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
    theta = _Theta(terms, starts)
    optimizer = torch.optim.Adam(theta.parameters, lr=RATE)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1.0, 2 * (1 - step / steps) + 0.02)
        batch = cells[torch.randint(len(cells), (BATCH,))]
        p = (base + F.embedding_bag(batch, theta.whole(), mode="sum")).softmax(1)
        flat = batch.flatten()
        found = torch.zeros_like(target).index_add_(0, flat, p.repeat_interleave(len(terms), 0))
        seen = torch.bincount(flat, minlength=len(target))[:, None]
        theta.descend((found - seen * target) / len(batch))
        optimizer.step()
    whole = theta.whole()
    return torch.cat([base + F.embedding_bag(part, whole, mode="sum") for part in cells.split(1 << 13)])


def _sampled(logits: torch.Tensor) -> np.ndarray:
    """Return one code for each row of logits (rows, K), by the inverse of its distribution."""
    upto = logits.softmax(1).cumsum(1)
    at = torch.rand(len(upto), 1) * (1 - 2**-20)  # so that a code of probability 0 is never the last one left
    return (upto <= at * upto[:, -1:]).sum(1).numpy()
