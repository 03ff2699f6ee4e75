"""Divides what is left of an account over refreshes that remember: much to the first, little to each that goes on."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Ask, Ledger
from dp_synth_pipeline.privacy import accountant, calibration
from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.synthesis import expected_quality
from dp_synth_pipeline.synthesis.allocation import THRESHOLD_SHARE

FIRST = 0.6
"""Part of the squared signal to noise that the first release takes where nobody says how far the table drifts. Of 0.5 to 0.8
the first is best where it drifts, and the last where it stays (the Adult census in 52 weeks)."""

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Parts for the first release of which the best is chosen; between two of them the expected distance hardly differs."""

SMALLEST = 1e-3
"""No smaller epsilon is worth a refresh."""


def divided(ledger: Ledger, account: str, times: int, first: float = FIRST, purpose: str = "") -> tuple[float, float]:
    """Return an epsilon for the next release of a table and one for each of the `times - 1` after it, which fit together.

    They were themselves asked about, and found to fit; nothing is reserved.

    Args:
        times: refreshes in all, at least 2.
        first: part of the squared signal to noise for the first one, between 0 and 1.
        purpose: what they are for, which a quota may bound.

    Raises:
        InvalidInput: if they are fewer, nothing is left, or the account pays declared plans only.
    """
    terms = ledger.account(account)
    if times < 2:
        raise InvalidInput(f"a horizon has at least 2 refreshes, got {times}.")
    if terms.rule != "filter":
        raise InvalidInput(
            f"account {account!r} pays what was declared beforehand, so that nothing can be divided over refreshes of two "
            f"sizes; open one with --rule filter."
        )
    own_delta = terms.delta * THRESHOLD_SHARE
    whole = ledger.affordable(account, times=1, own_delta=own_delta, purpose=purpose)
    if whole <= SMALLEST:
        raise InvalidInput(f"nothing is left of account {account!r} that could be divided; raise it, or open another.")
    noise = calibration.gaussian_noise(whole, terms.delta)
    start = _down(accountant.epsilon([Gaussian(noise / math.sqrt(first))], terms.delta, terms.relation))

    def fits(later: float) -> bool:
        ask = Ask(start, terms.delta, own_delta, purpose=purpose)
        return all(ledger.foretold(account, [ask, *[replace(ask, epsilon=later)] * (times - 1)]))

    low, high = SMALLEST, start
    if not fits(low):
        raise InvalidInput(f"account {account!r}, or a quota of it, cannot pay {times} refreshes; ask for fewer.")
    while high > low * 1.002:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    later = _down(low)
    return start, later if fits(later) else low


def best(
    ledger: Ledger, account: str, times: int, shape: expected_quality.Shape, drift: float, purpose: str = ""
) -> tuple[float, float]:
    """Return that pair of epsilons whose refreshes are expected to be nearest to their table, on average over all of them.

    No other part of `SHARES` for the first release does better in this measure, which is of pairs of columns.

    Args:
        times: refreshes in all, at least 2.
        shape: of the table.
        drift: mean distance by which its pairs move from each refresh to the next, from 0 to 1.
        purpose: what they are for, which a quota may bound.

    Raises:
        InvalidInput: as `divided` does, or if there is no such drift.
    """
    if not 0 <= drift <= 1:
        raise InvalidInput(f"a drift is a distance of pairs from 0 to 1, as the check `drift` says it; got {drift:g}.")
    terms, distances = ledger.account(account), {}
    for share in SHARES:
        with suppress(InvalidInput):  # too little is left for a release
            split = divided(ledger, account, times, share, purpose)
            told = expected_quality.remembered(shape, *split, times, terms.delta, terms.relation, drift)
            distances[split] = math.fsum(quality.two_way for quality in told)
    return min(distances, key=distances.__getitem__) if distances else divided(ledger, account, times, purpose=purpose)


def _down(epsilon: float) -> float:
    """Return an epsilon with three digits, none of them rounded up."""
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return float(f"{math.floor(epsilon / unit) * unit:.6g}")
