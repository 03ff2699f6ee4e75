"""Imputes suppressed categories: a code that must not be published gives way to one that fits the row. Costs nothing.

The network draws rows as it learnt them, codes of suppressed categories included, so that all other columns keep their
distribution. Then each such code is replaced by a draw from its column given all the others, were it a released category.
With few of those each is tried and one kept in proportion to the row's probability, tilt included; with many, `TRIES`
candidates are drawn given the columns before, and what those say is divided out (sampling-importance-resampling, Rubin
1987).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.base import AllowedUpon, Forbidden, Possible
from dp_synth_pipeline.model.marginals.raking import NEVER, Tilt
from dp_synth_pipeline.model.threads import few_threads

TRIES = 8
"""Candidates for each row; each costs about as much as drawing the row once more."""

MOST_TRIED = 64
"""Codes that are all tried where only some are allowed: among a few candidates, there may be none of these."""

AT_ONCE = 1 << 13
"""Candidates weighed at a time: few enough to stay in a processor's cache."""


@dataclass(frozen=True)
class Fitting:
    """What makes some codes fit a row better than others, beside what the network says.

    Attributes:
        tilt: what draws are raked by, if any.
        allowed: own codes that may be drawn upon rows that are given, if not all are.
        given: how many of the columns are given.
    """

    tilt: Tilt | None = None
    allowed: AllowedUpon | None = None
    given: int = 0

    @property
    def tried(self) -> int:
        """The most codes that are all tried."""
        return TRIES if self.allowed is None else MOST_TRIED

    def before(self, numbers: np.ndarray, codes: np.ndarray, column: int) -> np.ndarray:
        """Return what is added to the log-odds of a column's codes by those before it, float (rows or 1, codes or 1)."""
        found = None if self.allowed is None else self._possible(self.allowed, numbers, codes, column)
        return np.zeros((1, 1)) if found is None else np.where(found.may, 0.0, NEVER) + _leaning(found)

    def whole(self, numbers: np.ndarray, codes: np.ndarray, forbidden: Forbidden) -> np.ndarray:
        """Return what is added to the log-weights of rows, float64 (rows,).

        A code that is still to be imputed fits any other one: what will stand for it is not known yet.
        """
        found, rows = np.zeros(len(codes)) if self.tilt is None else self.tilt.log_weights(codes), np.arange(len(codes))
        for column in range(self.given, codes.shape[1] if self.allowed is not None else 0):
            assert self.allowed is not None
            possible = self._possible(self.allowed, numbers, codes, column)
            if possible is not None:
                later = np.isin(codes[:, column], forbidden.get(column, ((), ()))[0])
                fits = np.where(possible.may, 0.0, NEVER) + _leaning(possible)
                found = found + np.where(later, 0.0, fits[rows, codes[:, column]])
        return found

    def _possible(self, allowed: AllowedUpon, numbers: np.ndarray, codes: np.ndarray, column: int) -> Possible | None:
        return allowed(numbers, column - self.given, codes[:, self.given : column])


def _leaning(possible: Possible) -> np.ndarray | float:
    return 0.0 if possible.leaning is None else possible.leaning


@torch.no_grad()
def impute(
    network: AutoregressiveNetwork,
    fitting: Fitting,
    codes: np.ndarray,
    forbidden: Forbidden,
    rng: np.random.Generator | None = None,
) -> np.ndarray:
    """Return int64 codes (rows, columns) without the forbidden ones; rows that held none stay as they are.

    Args:
        rng: decides; a fresh one by default.
    """
    codes, rng = codes.copy(), rng or np.random.default_rng()
    with few_threads():
        for column, (banned, _) in sorted(forbidden.items()):
            rows = np.flatnonzero(np.isin(codes[:, column], banned))
            for at in range(0, len(rows), AT_ONCE // fitting.tried):
                some = rows[at : at + AT_ONCE // fitting.tried]
                codes[some, column] = _imputed(network, fitting, (some, codes[some]), column, forbidden, rng)
    return codes


def _imputed(
    network: AutoregressiveNetwork,
    fitting: Fitting,
    rows: tuple[np.ndarray, np.ndarray],
    column: int,
    forbidden: Forbidden,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return a code that may stand in a column of each row, int64 (rows,).

    Args:
        rows: their numbers, and their codes.
    """
    (numbers, codes), instead = rows, list(forbidden[column][1])
    held = torch.from_numpy(codes).to(network.embed.weight.device)
    if len(instead) <= fitting.tried:
        tried = torch.tensor(instead, device=held.device).repeat(len(held), 1)
        said = torch.zeros(tried.shape, device=held.device)
    else:
        shares = network.given_earlier(held, column)
        shares = (shares + torch.from_numpy(fitting.before(numbers, codes, column)).to(shares))[:, instead]
        picked = _picked(shares, TRIES, rng)
        tried, said = torch.tensor(instead, device=held.device)[picked], shares.gather(1, picked)
    each = held[:, None].repeat(1, tried.shape[1], 1)  # (rows, tries, columns)
    each[..., column] = tried
    fits = -network.losses(each.flatten(0, 1)).unflatten(0, tried.shape) - said
    leaning = fitting.whole(np.repeat(numbers, tried.shape[1]), each.flatten(0, 1).cpu().numpy(), forbidden)
    fits += torch.from_numpy(leaning).to(fits).unflatten(0, tried.shape)
    return tried.gather(1, _picked(fits, 1, rng))[:, 0].cpu().numpy()


def _picked(logits: torch.Tensor, times: int, rng: np.random.Generator) -> torch.Tensor:
    """Return places (rows, times) drawn with the probabilities of logits (rows, places), by the inverse of their sums."""
    upto = logits.double().softmax(1).cumsum(1)
    at = torch.from_numpy(rng.random((len(logits), times))).to(upto.device) * upto[:, -1:]
    return torch.searchsorted(upto, at, right=True).clamp(max=upto.shape[1] - 1)
