"""How large the network is, and which part of a release marginals take beside it, from public facts alone."""

from __future__ import annotations

import math

from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec, Method

SIGNAL = 26_000
"""Units per unit of noise at which marginals take a quarter: the Adult census at epsilon 2.5."""

TRIPLES = 10
"""Triples measured where there is signal enough; found on the Adult census, where 3 and 30 did about as well."""

LEAST_HIDDEN, MOST_HIDDEN = 32, 64
"""Hidden units of a column. With 16, numbers that all but tell each other are learnt worse, and so are classes that only
many columns tell; the Adult census needs no more (benchmarks/README.md)."""

MOST_WEIGHTS = 3_000_000
"""Weights between columns, of which each pair has hidden units times embedding: what teaching and training can follow in
minutes. They are reached by 108 columns with the most hidden units, and by 153 with the least."""


def marginals_share(population: int, noise_multiplier: float, spec: GeneratorSpec) -> float:
    """Return the part of the cost left after the profile that marginals take, in squared signal to noise.

    With much signal (units per unit of noise) a network learns more from the rest than marginals could tell it; with
    little, marginals are all that can be learnt.

    Args:
        noise_multiplier: of one Gaussian mechanism that would spend all that is left.
    """
    if spec.method == Method.MARGINALS:
        return 1.0
    if spec.marginals_share is not None:
        return spec.marginals_share
    return min(max(0.25 * (SIGNAL * noise_multiplier / population) ** 0.5, 0.1), 0.8)


def wanted_triples(population: int, noise_multiplier: float, spec: GeneratorSpec) -> int:
    """Return how many triples to ask for: what `spec` says, else `TRIPLES` unless noise would drown them.

    Args:
        noise_multiplier: of one Gaussian mechanism that would spend all that is left.
    """
    if spec.triples is not None:
        return spec.triples
    return TRIPLES if population >= SIGNAL * noise_multiplier / 2 else 0


def capacity(
    population: int,
    noise_multiplier: float,
    columns: int,
    embedding: int = GeneratorSpec.embedding,
    least: int = LEAST_HIDDEN,
) -> int:
    """Return how many hidden units a column gets: few where noise would drown more, from public facts alone.

    Args:
        population: released or declared number of units.
        noise_multiplier: of one Gaussian mechanism that costs as much as the whole release; 0 without privacy.
        columns: how many are learned; many leave less than `least` to each, so that wide tables take no hours.
        embedding: numbers that describe one earlier value.
        least: how many it gets where there is as much noise as on the Adult census at epsilon 2.5, or more.

    Example:
        >>> capacity(43958, 1.69, 15), capacity(43958, 0.37, 15), capacity(1_000_000, 1.69, 15), capacity(2_000, 0.0, 15)
        (32, 64, 64, 64)
        >>> capacity(200, 4.0, 300), capacity(200, 4.0, 1000)
        (8, 1)
    """
    wanted = MOST_HIDDEN
    if noise_multiplier > 0:
        ideal = least * math.sqrt(population / noise_multiplier / SIGNAL)
        wanted = int(min(max(8 * round(ideal / 8), least), MOST_HIDDEN))
    pairs = max(columns * (columns - 1) // 2, 1)
    return max(1, min(wanted, MOST_WEIGHTS // (pairs * embedding)))
