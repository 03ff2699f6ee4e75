"""Draws code rows from a released generator: post-processing, so it costs nothing, however many rows are drawn."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import numpy as np
import torch

from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.suppressed_categories import Fitting, impute
from dp_synth_pipeline.model.base import AllowedUpon, Forbidden, Possible
from dp_synth_pipeline.model.marginals.balanced_sampling import CLIQUES
from dp_synth_pipeline.model.marginals.raking import Tilt
from dp_synth_pipeline.model.threads import few_threads

BATCH = 1 << 15
"""Rows yielded at a time."""

LEAST = 1e-30
"""What a sum of shares is divided by, at least: it is 0 where no code is left."""

AT_ONCE = 1 << 13
"""Rows drawn at a time: few enough to stay in a processor's cache."""

FEW = 1 << 21
"""Codes (rows x columns) of a table of which chance spoils much, so that its draws are chosen with more care."""

CARE, HASTE = (4, CLIQUES), (2, 64)
"""Rows drawn for each row kept, when draws are raked, and cliques balanced at a time: up to `FEW` codes, and beyond."""

TRIES = 8
"""Rows that are drawn upon what is given for each one that is kept, where draws are raked."""

MOST_WORKERS = 4
"""Batches drawn at once, at most."""


def draw(
    proposal: AutoregressiveNetwork,
    tilt: Tilt | None,
    rows: int,
    *,
    forbidden: Forbidden | None = None,
    batch: int = BATCH,
    rng: np.random.Generator | None = None,
) -> Iterator[np.ndarray]:
    """Yield int64 code matrices (up to `batch`, columns) until `rows` rows were drawn, in threads on several cores.

    Args:
        tilt: what draws are raked by, if any.
        forbidden: by column, codes that must not be drawn, and those that may stand for them; a row that would hold one gets
            another that fits the rest of it, and the other columns keep their distribution.
        rng: decides, a child of it for each batch, so that threads change nothing; a fresh one by default.
    """
    sizes = [min(batch, rows - at) for at in range(0, rows, batch)]
    care = HASTE if rows * len(proposal.cardinalities) > FEW else CARE
    workers, drawn = _workers(proposal, len(sizes)), partial(_drawn, proposal, tilt, care=care, forbidden=forbidden)
    chances = (rng or np.random.default_rng()).spawn(len(sizes))
    if workers == 1:
        for size, chance in zip(sizes, chances, strict=True):
            yield drawn(size, rng=chance)
        return
    ahead: deque[Future[np.ndarray]] = deque()
    with few_threads(workers), ThreadPoolExecutor(workers) as pool:
        for size, chance in zip(sizes, chances, strict=True):
            ahead.append(pool.submit(drawn, size, rng=chance))
            if len(ahead) > workers:  # no more than these are held, however slowly they are taken
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def _workers(proposal: AutoregressiveNetwork, batches: int) -> int:
    """Return how many batches are drawn at once: one on a GPU, which a batch fills; else one for each core of a few."""
    on_cpu = next(proposal.parameters()).device.type == "cpu"
    return max(1, min(torch.get_num_threads(), MOST_WORKERS, batches)) if on_cpu else 1


def _drawn(
    proposal: AutoregressiveNetwork,
    tilt: Tilt | None,
    rows: int,
    *,
    care: tuple[int, int],
    forbidden: Forbidden | None,
    rng: np.random.Generator,
) -> np.ndarray:
    times, cliques = care
    wide = rows if tilt is None else max(times * rows, 1 << 10)
    drawn = propose(proposal, wide, rng)
    if tilt is not None:
        drawn = tilt.resample(drawn, rows, cliques=cliques, rng=rng)
    return impute(proposal, Fitting(tilt), drawn, forbidden, rng) if forbidden else drawn


@torch.no_grad()
def propose(proposal: AutoregressiveNetwork, rows: int, rng: np.random.Generator | None = None) -> np.ndarray:
    """Return int64 codes (rows, columns) as the network draws them, before raking and imputation."""
    rng = rng or np.random.default_rng()
    with few_threads():
        parts = [_ancestral(proposal, min(AT_ONCE, rows - at), rng) for at in range(0, rows, AT_ONCE)]
    return np.concatenate(parts) if parts else np.zeros((0, len(proposal.cardinalities)), np.int64)


def _ancestral(network: AutoregressiveNetwork, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Draw column by column, each given the ones before."""
    drawing = Drawing(network, rows)
    uniform = torch.from_numpy(_spread(len(network.cardinalities), rows, rng)).to(drawing.device)
    for column, u in enumerate(uniform):
        drawing.put(column, chosen(drawing.shares(column), u))
    return drawing.codes.T.cpu().numpy()


def follow(
    network: AutoregressiveNetwork,
    given: np.ndarray,
    rng: np.random.Generator,
    tilt: Tilt | None = None,
    allowed: AllowedUpon | None = None,
) -> np.ndarray:
    """Return int64 codes (rows, columns): what is given, and the columns that are drawn upon it.

    Args:
        given: codes of the network's given columns, int64 (rows, given).
        tilt: what draws are raked by, if any: each row is then one of `TRIES`, chosen by its weight.
        allowed: own codes that may be drawn.
    """
    numbers = np.arange(len(given))
    if tilt is None:
        return _upon(network, given, rng, allowed, numbers)
    each = AT_ONCE // TRIES
    found = [np.zeros((0, len(network.cardinalities)), np.int64)]
    for part in (numbers[at : at + each] for at in range(0, len(given), each)):
        again = np.repeat(part, TRIES)
        found.append(_one_of(tilt, _upon(network, given[again], rng, allowed, again), rng))
    return np.concatenate(found)


def tried(network: AutoregressiveNetwork, given: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return `TRIES` rows for each that is given, int64 (rows * TRIES, columns), those of one beside each other."""
    return _upon(network, np.repeat(given, TRIES, axis=0), rng)


def _one_of(tilt: Tilt, drawn: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return one row of each `TRIES`, by their weights (sampling-importance-resampling: Rubin 1987)."""
    logs = tilt.log_weights(drawn).reshape(-1, TRIES)
    kept = np.argmax(logs + rng.gumbel(size=logs.shape), axis=1)
    return drawn[np.arange(len(logs)) * TRIES + kept]


@torch.no_grad()
def _upon(
    network: AutoregressiveNetwork,
    given: np.ndarray,
    rng: np.random.Generator,
    allowed: AllowedUpon | None = None,
    numbers: np.ndarray | None = None,
) -> np.ndarray:
    """Return int64 codes (rows, columns): what is given, and what the network draws upon it.

    Args:
        allowed: own codes that may be drawn; numbers: of the rows, for it.
    """
    done, width = np.empty((len(given), len(network.cardinalities)), np.int64), given.shape[1]
    with few_threads():
        for at in range(0, len(given), AT_ONCE):
            part = given[at : at + AT_ONCE]
            drawing = Drawing(network, len(part))
            for column in range(width):
                drawing.put(column, torch.from_numpy(part[:, column]).to(drawing.device))
            uniform = torch.from_numpy(_spread(len(network.cardinalities) - width, len(part), rng)).to(drawing.device)
            for column, u in enumerate(uniform, start=width):
                shares = drawing.shares(column)
                if allowed is not None and numbers is not None:
                    before = drawing.codes[width:column].T.cpu().numpy()
                    shares = _narrowed(shares, allowed(numbers[at : at + AT_ONCE], column - width, before))
                drawing.put(column, chosen(shares, u))
            done[at : at + AT_ONCE] = drawing.codes.T.cpu().numpy()
    return done


def _narrowed(shares: torch.Tensor, possible: Possible | None) -> torch.Tensor:
    """Return the shares of codes that may be drawn; where none of those has a share, all codes keep theirs.

    What first codes may not have goes to other first codes, and so of later ones, as long as there are any: a network
    knows how often rows stay as they were before it knows where they go.
    """
    if possible is None:
        return shares
    if possible.leaning is not None:
        shares = shares * torch.from_numpy(np.ascontiguousarray(possible.leaning.T)).to(shares).exp()
        shares = shares / shares.sum(0)
    found = shares * torch.from_numpy(np.ascontiguousarray(possible.may.T)).to(shares)
    if possible.instead is not None:
        own = possible.instead.shape[1]
        parts = [(found[:own], shares[:own].sum(0)), (found[own:], shares[own:].sum(0))]
        apart = torch.cat([part * (share / part.sum(0).clamp_min(LEAST)) for part, share in parts])
        found = _told_once(apart, torch.from_numpy(np.ascontiguousarray(possible.instead.T)).to(shares.device))
    return torch.where(found.sum(0) > 0, found, shares)


def _told_once(shares: torch.Tensor, instead: torch.Tensor) -> torch.Tensor:
    """Return shares in which what a later code says is drawn as that one alone, which is as frequent in all as it was.

    A network that tells nothing of the row before gives the code there a share like any other's. If later codes got
    nothing of it, rows would leave a frequent code as often as a rare one, and frequent ones were drawn too rarely. If they
    got all of it, rows would stay too often. So they get by how much it is above its mean: what draws that are apart from
    the row before would do. A network that has learnt it all gives that code no share, and nothing changes.

    Args:
        shares: of codes, (codes, rows).
        instead: which of the first codes say what a later one says, bool (own codes, rows).
    """
    own, some = shares[: len(instead)], instead.any(0)
    if not some.any():
        return shares
    total, taken = shares.sum(0).clamp_min(LEAST), (own * instead).sum(0)
    part, all_own = taken / total, own.sum(0) / total
    mean, mean_own = part[some].mean(), all_own[some].mean().clamp_min(LEAST)
    later = 1 - all_own + torch.where(some, (part - mean) / (1 - mean / mean_own).clamp_min(0.1), 0.0)
    left, others = own * ~instead, shares[len(instead) :]
    later = later.clamp(1e-6, 1 - 1e-6)  # else nothing were left where only these, or no others, may be drawn
    both = [(left, 1 - later), (others, later)]
    return torch.cat([codes * (share / codes.sum(0).clamp_min(LEAST)) for codes, share in both])


class Drawing:
    """Rows that are drawn column by column; numbers of one row lie a column apart in memory.

    Attributes:
        codes: int64 (columns, rows); of the columns that were put so far.
    """

    def __init__(self, network: AutoregressiveNetwork, rows: int) -> None:
        self._network, weight = network, network.embed.weight
        self._size, self.device, columns = weight.shape[1], weight.device, len(network.cardinalities)
        self._embedded = weight.new_empty(columns * self._size, rows)
        self._table = weight.T.contiguous()  # (E, codes of all columns)
        self.codes = torch.empty(columns, rows, dtype=torch.int64, device=self.device)

    def shares(self, column: int) -> torch.Tensor:
        """Return the probability of each code of a column given the columns before it, (codes, rows)."""
        weight, bias, head, head_bias = self._network.column(column)
        before = self._embedded[: column * self._size]
        hidden = self._network.activation(torch.addmm(bias[:, None], weight, before))
        logits = torch.addmm(head_bias[:, None], head, hidden)
        for relative in self._network.relative(column):
            given, moved = relative
            logits += moved.T[:, self.codes[given]]
        return logits.softmax(0)

    def put(self, column: int, codes: torch.Tensor) -> None:
        """Set a column, after all before it."""
        self.codes[column] = codes
        place = slice(column * self._size, (column + 1) * self._size)
        found = self._network.embed.offsets[column] + codes
        torch.index_select(self._table, 1, found, out=self._embedded[place])

    def take(self, rows: torch.Tensor) -> None:
        """Go on with copies of these rows, int64 (rows,), in place of the present ones."""
        self.codes, self._embedded = self.codes[:, rows], self._embedded[:, rows]


def chosen(shares: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """Return the code at each row's uniform number, int64 (rows,), under shares (codes, rows) that need not sum to 1.

    A code without a share is never chosen, unless no code has one. The shares may be overwritten.
    """
    upto = _cumulate(shares)
    at = uniform * (1 - 2**-20) * upto[-1]  # so that a code of probability 0 is never the last one left
    # Added up as floats, and looked up in rows, both take a quarter of the time that they would otherwise.
    found = torch.le(upto, at, out=torch.empty_like(upto)).sum(0).long()
    return found.clamp(max=len(shares) - 1)


def _spread(columns: int, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return uniform numbers float32 (columns, rows), one of each row of equal parts: a Latin hypercube (McKay et al. 1979).

    Rows so drawn miss what a column's distribution is by less than rows drawn one by one.
    """
    part = np.array([rng.permutation(rows) for _ in range(columns)], dtype=np.float32).reshape(columns, rows)
    return (part + rng.random((columns, rows), dtype=np.float32)) / np.float32(max(rows, 1))


def _cumulate(shares: torch.Tensor) -> torch.Tensor:
    """Return running sums down the codes of `shares` (codes, rows), which it may overwrite."""
    if shares.device.type != "cpu":
        return shares.cumsum(0)
    for before, now in pairwise(shares):  # many times as fast as cumsum along that axis
        now += before
    return shares
