"""The audit of what ran: noise, sampling rate and clip norm as measured in the run itself, against what was accounted.

All is measured on coordinates, units and examples that were reserved for it and hold no data, so every number here may be
released. Each verdict is a test of the claim: an honest run fails any of them with a probability of at most `ALPHA`.

What it cannot show: that the run treated the real units as it treated the reserved ones. They go through the same calls,
side by side; a fault that singles out real units would have to be written on purpose.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

ALPHA = 1e-6
"""Probability that an honest run fails its audit."""

TESTS = 4
"""Tests that share `ALPHA`: noise, its echo, the rate, its spread. Clipping is exact and needs none."""

ROUNDING = 1e-3
"""What 32-bit arithmetic may add to a clipped norm, relative to the clip."""

NAMES = ("audit_noise", "audit_sampling", "audit_clipping")
"""The three findings of an audit, in order; also the names of the asset checks."""

TITLES = {
    "audit_noise": "that the noise which training added is the noise that was charged",
    "audit_sampling": "that units were drawn at the rate that was charged, and independently",
    "audit_clipping": "that no example moves a clipped sum by more than the clip norm",
}
"""What each finding checks, in a few words."""


@dataclass(frozen=True)
class Observed:
    """Sums over the reserved coordinates, units and examples of one training.

    Attributes:
        steps: noisy steps that were watched.
        draws: noisy coordinates that were watched, over all steps.
        squares: sum of their squares, in units of the sensitivity; so each is worth noise_multiplier ** 2.
        pairs: coordinates that were watched in two steps in a row.
        echoes: sum over pairs of the product of the two, in the same unit; 0 on average unless noise repeats.
        units: reserved units that the sampler drew from.
        inclusions: how often any of them was drawn.
        spread: sum over them of (times drawn - steps * sample_rate) ** 2.
        clipped: largest L2 norm by which one made-up example moved a clipped sum, in clip norms.
        entangled: largest L2 distance between what an example adds alone and among others, in clip norms.
    """

    steps: int
    draws: int
    squares: float
    pairs: int
    echoes: float
    units: int
    inclusions: int
    spread: float
    clipped: float
    entangled: float


@dataclass(frozen=True)
class Finding:
    """One thing that was measured.

    Attributes:
        name: of `NAMES`.
        passed: whether what was measured is consistent with what was claimed.
        claimed: what was accounted.
        measured: what ran.
        low, high: the interval in which the truth lies but with probability `ALPHA / TESTS`.
        told: one sentence for a person.
    """

    name: str
    passed: bool
    claimed: float
    measured: float
    low: float
    high: float
    told: str


@dataclass(frozen=True)
class Audit:
    """What one training was seen to do; releasable.

    Attributes:
        steps: steps that were watched; after a crash, those since the first that a checkpoint remembers.
        findings: noise, sampling and clipping, in this order.
    """

    steps: int
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, seen: Observed, noise_multiplier: float, sample_rate: float) -> Audit:
        """Compare what was seen with what was accounted."""
        findings = (_noise(seen, noise_multiplier), _sampling(seen, sample_rate), _clipping(seen))
        return cls(seen.steps, findings)

    @property
    def passed(self) -> bool:
        """Whether all findings passed."""
        return all(f.passed for f in self.findings)

    @property
    def failed(self) -> list[str]:
        """Names of the findings that did not pass."""
        return [f.name for f in self.findings if not f.passed]

    @classmethod
    def from_json(cls, text: str) -> Audit:
        """Read back what `to_json` wrote; a number that was not finite is NaN."""
        facts = json.loads(text)
        numbers = ("claimed", "measured", "low", "high")
        findings = ({**f, **{n: math.nan if f[n] is None else f[n] for n in numbers}} for f in facts["findings"])
        return cls(facts["steps"], tuple(Finding(**f) for f in findings))

    def to_json(self, **about: Any) -> str:
        """Return the audit as JSON text, after what it is about; non-finite numbers become null."""
        facts = {**about, "passed": self.passed, "alpha": ALPHA, **asdict(self)}
        return json.dumps(_finite(facts), indent=1, allow_nan=False)


def _noise(seen: Observed, claimed: float) -> Finding:
    from scipy.stats import chi2, norm

    share = ALPHA / TESTS
    measured = math.sqrt(seen.squares / max(seen.draws, 1))
    low = math.sqrt(seen.squares / chi2.isf(share / 2, max(seen.draws, 1)))
    high = math.sqrt(seen.squares / chi2.ppf(share / 2, max(seen.draws, 1)))
    echo = seen.echoes / (claimed**2 * max(seen.pairs, 1))
    # A mean of n products of two normals is all but normal with deviation 1 / sqrt(n), with tails a little heavier.
    repeats = seen.pairs > 0 and not abs(echo) <= 1.1 * norm.isf(share / 2) / math.sqrt(seen.pairs)
    fits = seen.draws > 0 and low <= claimed <= high
    sentence = (
        f"Noise multiplier {measured:.4g}, known to {1 / math.sqrt(2 * max(seen.draws, 1)):.1%} from {seen.draws:,} "
        f"reserved draws, where {claimed:.4g} was charged"
    )
    sentence += "; and noise repeats from step to step." if repeats else "."
    return Finding(NAMES[0], fits and not repeats, claimed, measured, low, high, sentence)


def _sampling(seen: Observed, claimed: float) -> Finding:
    from scipy.stats import beta

    share = ALPHA / TESTS
    trials, hits = seen.units * seen.steps, seen.inclusions
    low = float(beta.ppf(share / 2, hits, trials - hits + 1)) if hits > 0 else 0.0
    high = float(beta.isf(share / 2, hits + 1, trials - hits)) if hits < trials else 1.0
    uneven = _uneven(seen, claimed, share)
    fits = trials > 0 and hits <= trials and low <= claimed * (1 + 1e-12) and claimed <= high * (1 + 1e-12)
    measured = hits / max(trials, 1)
    sentence = (
        f"Sampling rate {measured:.4g}, between {low:.4g} and {high:.4g}, from {hits:,} draws of {seen.units:,} reserved "
        f"units in {seen.steps:,} steps, where {claimed:.4g} was charged"
    )
    sentence += f"; and units are drawn {uneven}, which is not Poisson sampling." if uneven else "."
    return Finding(NAMES[1], fits and not uneven, claimed, measured, low, high, sentence)


def _uneven(seen: Observed, rate: float, share: float) -> str:
    """Return how counts of inclusions differ from those of independent draws: too evenly, too unevenly, or not at all.

    Under Poisson sampling a unit's count is binomial; under shuffling, which costs far more privacy, it hardly varies.
    """
    from scipy.stats import norm

    variance = seen.steps * rate * (1 - rate)
    if seen.units < 2 or variance * seen.units < 500:  # too few draws for a bell curve
        return ""
    mean = seen.spread / (seen.units * variance)
    deviation = math.sqrt((2 + (1 - 6 * rate * (1 - rate)) / variance) / seen.units)
    # The tails of a chi-square are heavier above than a normal's; a fifth more covers that for 512 units or more.
    limit = 1.2 * float(norm.isf(share / 2)) * deviation
    return "" if abs(mean - 1) <= limit else "too evenly" if mean < 1 else "too unevenly"


def _clipping(seen: Observed) -> Finding:
    bounded = seen.clipped <= 1 + ROUNDING
    alone = seen.entangled <= ROUNDING
    sentence = f"No made-up example moved a clipped sum by more than {seen.clipped:.6g} clip norms"
    if seen.clipped == 0:
        sentence = "No made-up example had a gradient to clip"
    sentence += (
        "." if alone else ", but what an example adds depends on the others, so examples are not clipped one by one."
    )
    return Finding(NAMES[2], bounded and alone, 1.0, seen.clipped, 0.0, 1 + ROUNDING, sentence)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
