"""Divides what is left of an account over refreshes that remember: much to the first, little to each that goes on."""

from __future__ import annotations

import math
from dataclasses import replace

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Ask, Ledger
from dp_synth_pipeline.privacy import accountant, calibration
from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.synthesis.allocation import THRESHOLD_SHARE

FIRST = 0.6
"""Part of the squared signal to noise that the first release takes. Of 0.5 to 0.8 the first is best where the table drifts,
and the last where it stays (the Adult census in 52 weeks)."""

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


def _down(epsilon: float) -> float:
    """Return an epsilon with three digits, none of them rounded up."""
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return float(f"{math.floor(epsilon / unit) * unit:.6g}")
