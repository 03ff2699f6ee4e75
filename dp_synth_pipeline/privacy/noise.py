"""Gaussian noise that is exactly what it is priced as: a real normal variate, rounded to a whole number.

For whole v, `v + round(N)` equals `round(v + N)`. So adding this noise to a vector of whole numbers is a post-processing
of the Gaussian mechanism on that vector, in any dimension and for any L2 sensitivity, and it costs what the Gaussian
mechanism costs, with nothing to add for the rounding. More of it always protects better. Neither holds for the discrete
Gaussian, whose cost jumps with its scale and depends on the direction in which a vector moves.

A variate is drawn by rejection from a staircase that lies above its density (von Neumann 1951; Devroye 1986, "Non-Uniform
Random Variate Generation", chapter VIII). Every step's area is a whole multiple of one area, so 12 bits choose a step with
exactly its probability. Double precision decides nearly all comparisons. Where its error could matter, further random bits
and exact arithmetic decide, so every probability is the true one, at any distance. All bits are AES-256 in counter mode
under a key that the operating system draws anew for each call: nothing can be seeded, and no two calls, threads or
processes share a stream.
"""

from __future__ import annotations

import math
import os
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from dp_synth_pipeline.errors import InvalidInput

LARGEST_SCALE = 2.0**40
"""Beyond this, double precision would decide too little for the sampler to be of use."""

DOUBT = 2.0**-44
"""More than the error of an acceptance probability in double precision, which stays under 2**-46."""

ROUNDING_DOUBT = 2.0**-50
"""More than the relative error of a magnitude in double precision."""

_ENTRIES, _COIN_BITS, _PLACE_BITS = 2**12, 51, 53
"""A word holds the step's entry, a sign and a coin; a second one the place on the step."""

_WIDTH = Fraction(1, 16)
"""Of a step, in deviations."""

_REACH = 6
"""Where steps end, in deviations. The last entries lead beyond: to intervals of length 1, each chosen half as often."""

_AT_ONCE = 2**14
"""Proposals, whose numbers stay at hand: with all of a step's, half of the time went into fetching memory."""

_AREA = Fraction(1, 3138)
"""What an entry is worth: the least of 1/n for which all steps fit into the entries."""


def secure_bytes(count: int) -> bytes:
    """Return `count` bytes that nobody can predict or repeat."""
    encryptor = Cipher(AES(os.urandom(32)), CTR(bytes(16))).encryptor()
    return encryptor.update(bytes(count))


def secure_words(count: int) -> np.ndarray:
    """Return uniform random words, uint64 (count,)."""
    return np.frombuffer(secure_bytes(8 * count), dtype=np.uint64)


def rounded_gaussian(scale: float, size: int) -> np.ndarray:
    """Return independent samples of exactly `round(scale * Z)` for standard normal Z, int64 (size,).

    Args:
        scale: standard deviation before the rounding, in units of what is rounded to; above 0, at most 2**40.
        size: how many; at least 0.

    Raises:
        InvalidInput: for a scale out of its range.
    """
    if not 0 < scale <= LARGEST_SCALE:
        raise InvalidInput(f"the noise must have a scale above 0 and of at most 2**40, got {scale}.")
    samples, filled = np.empty(size, dtype=np.int64), 0
    while filled < size:
        proposals = min(_AT_ONCE, math.ceil(1.06 * (size - filled)) + 32)
        accepted = _accepted(float(scale), proposals)[: size - filled]
        samples[filled : filled + len(accepted)] = accepted
        filled += len(accepted)
    return samples


class _Uniform(NamedTuple):
    """A uniform real number in [0, 1) of which `bits` bits are drawn so far: it lies in [drawn, drawn + 1] / 2**bits."""

    drawn: int
    bits: int

    def refined(self) -> _Uniform:
        return _Uniform((self.drawn << 64) | int.from_bytes(os.urandom(8), "big"), self.bits + 64)

    @property
    def least(self) -> Fraction:
        return Fraction(self.drawn, 1 << self.bits)

    @property
    def most(self) -> Fraction:
        return Fraction(self.drawn + 1, 1 << self.bits)


class _Step(NamedTuple):
    """Magnitudes from `left` to `left + width` are proposed evenly, under a density of `height`."""

    left: Fraction
    width: Fraction
    height: Fraction


class _Staircase(NamedTuple):
    """What each entry leads to, (entries,).

    Attributes:
        left, height: those of its step.
        surely: a coin below this accepts wherever the proposal lies on its step, in 2**-51.
        possibly: a coin from this on rejects it wherever it lies.
    """

    left: np.ndarray
    height: np.ndarray
    surely: np.ndarray
    possibly: np.ndarray


def _accepted(scale: float, proposals: int) -> np.ndarray:
    """Propose `proposals` magnitudes y, and return the rounded variates that were accepted.

    A proposal is accepted if a fair coin in [0, 1) lies below exp(-y**2 / 2) / height, which leaves the density of a
    half-normal variate. Its sign is another fair coin.
    """
    word, place = secure_words(2 * proposals).reshape(2, proposals)
    steps = _staircase()
    entry, coin = (word >> np.uint64(52)).astype(np.intp), word & np.uint64((1 << _COIN_BITS) - 1)
    place = place >> np.uint64(64 - _PLACE_BITS)
    y = steps.left[entry] + place * (float(_WIDTH) * 2.0**-_PLACE_BITS)
    accepted = coin < steps.surely[entry]
    unsure = np.flatnonzero(~accepted & (coin < steps.possibly[entry]))
    margin = np.exp(-0.5 * y[unsure] ** 2) / steps.height[entry[unsure]] - coin[unsure] * 2.0**-_COIN_BITS
    accepted[unsure] = margin > 0
    magnitude = scale * y
    whole = np.floor(magnitude + 0.5)
    near = accepted & (np.abs(magnitude - whole) > 0.5 - (magnitude + scale + 1) * ROUNDING_DOUBT)
    near[unsure] |= (np.abs(margin) <= DOUBT) | (entry[unsure] >= _beyond())
    values = whole.astype(np.int64)
    for i in np.flatnonzero(near):
        x, u = _Uniform(int(place[i]), _PLACE_BITS), _Uniform(int(coin[i]), _COIN_BITS)
        exact = _decided(scale, _step(int(entry[i])), x, u)
        accepted[i], values[i] = exact is not None, exact or 0
    negative = (word & np.uint64(1 << _COIN_BITS)) != 0
    return np.where(negative, -values, values)[accepted]


def _decided(scale: float, step: _Step, x: _Uniform, u: _Uniform) -> int | None:
    """Return the rounded magnitude of one proposal, or None if it is rejected, by exact arithmetic."""
    digits = 60
    while True:
        low, high = (step.left + step.width * place for place in (x.least, x.most))
        surely, possibly = _density(high, digits)[0] / step.height, _density(low, digits)[1] / step.height
        if u.most <= surely:
            return _rounded(scale, step, x)
        if u.least >= possibly:
            return None
        u, x, digits = u.refined(), x.refined(), digits + 20


def _rounded(scale: float, step: _Step, x: _Uniform) -> int:
    """Return the whole number nearest to scale * (left + width * x)."""
    exact, half = Fraction(scale), Fraction(1, 2)
    while True:
        low, high = (math.floor(exact * (step.left + step.width * place) + half) for place in (x.least, x.most))
        if low == high:
            return low
        x = x.refined()


def _density(y: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Return bounds of exp(-y**2 / 2)."""
    found, error = Fraction(_exp(-y * y / 2, digits)), Fraction(1, 10 ** (digits - 5))
    return found - error, found + error


def _exp(exponent: Fraction, digits: int) -> Decimal:
    context = Context(prec=digits)
    return context.exp(context.divide(Decimal(exponent.numerator), Decimal(exponent.denominator)))


@cache
def _counts() -> tuple[int, ...]:
    """Return how many entries lead to each step, the least that hold the density; the last to all beyond the steps."""
    steps = [k * _WIDTH for k in range(int(_REACH / _WIDTH))]
    beyond = 2 * _density(Fraction(_REACH), 60)[1]  # the first interval beyond has half of the area
    return tuple(math.ceil(area / _AREA) for area in (*(_WIDTH * _density(left, 60)[1] for left in steps), beyond))


@cache
def _beyond() -> int:
    """Return the first entry that leads beyond the steps; those after the last are rejected."""
    return sum(_counts()[:-1])


def _step(entry: int) -> _Step:
    """Return an entry's step; beyond them, one that further bits choose."""
    counts = _counts()
    if entry >= _beyond():
        away, word = 0, 0
        while word == 0:
            word = int.from_bytes(os.urandom(8), "big")
            away += (word & -word).bit_length() - 1 if word else 64
        one = Fraction(1)
        return _Step(_REACH + away * one, one, counts[-1] * _AREA / 2 ** (away + 1))
    number = 0
    while entry >= counts[number]:
        entry, number = entry - counts[number], number + 1
    return _Step(number * _WIDTH, _WIDTH, counts[number] * _AREA / _WIDTH)


@cache
def _staircase() -> _Staircase:
    rows: list[tuple[float, float, int, int]] = []
    for count in _counts()[:-1]:
        left, width, height = _step(len(rows))
        surely, possibly = _density(left + width, 60)[0] / height, _density(left, 60)[1] / height
        coins = math.floor(surely * 2**_COIN_BITS), math.ceil(possibly * 2**_COIN_BITS)
        rows += [(float(left), float(height), *coins)] * count
    first = 2 * _density(Fraction(_REACH), 60)[1] / (_counts()[-1] * _AREA)  # no further interval accepts more often
    rows += [(float(_REACH), 1.0, 0, math.ceil(first * 2**_COIN_BITS))] * _counts()[-1]
    rows += [(0.0, 1.0, 0, 0)] * (_ENTRIES - len(rows))
    left, height, surely, possibly = zip(*rows, strict=True)
    words = (np.array(each, dtype=np.uint64) for each in (surely, possibly))
    return _Staircase(np.array(left), np.array(height), *words)
