"""Frozen, serialisable facts that an accountant needs: which mechanism ran, with which public parameters.

An event holds no data and no cost. It wraps `dp_accounting.DpEvent`, which has no serial form of its own, and adds two
events that library lacks: the discrete Gaussian, and thresholding, which costs only delta.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from numbers import Integral
from typing import Any, ClassVar

import dp_accounting as dpa
from dp_accounting import dp_event

from dp_synth_pipeline.errors import InvalidInput


@dataclass(frozen=True)
class Event(ABC):
    """One mechanism that was, or will be, run on private data."""

    kind: ClassVar[str] = "event"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form that `from_dict` reads back unchanged."""
        return {"kind": self.kind, **asdict(self)}

    @abstractmethod
    def to_dp_event(self) -> dpa.DpEvent:
        """Return the event in dp_accounting's own terms, for re-verification with that library alone."""

    @property
    def own_delta(self) -> float:
        """Delta spent by this mechanism itself, to be taken from the account's delta as a sum."""
        return 0.0


def _whole(name: str, value: float) -> None:
    if not (isinstance(value, Integral) and value >= 1):
        raise InvalidInput(f"{name} must be a whole number of at least 1, got {value}.")


def _positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise InvalidInput(f"{name} must be finite and above 0, got {value}.")


@dataclass(frozen=True)
class DiscreteLaplace(Event):
    """An integer released with two-sided geometric noise of `scale`; pure epsilon = sensitivity / scale."""

    scale: float
    sensitivity: int = 1
    kind: ClassVar[str] = "discrete_laplace"

    def __post_init__(self) -> None:
        _positive("scale", self.scale)
        _whole("sensitivity", self.sensitivity)

    @property
    def epsilon(self) -> float:
        """The pure epsilon of this event."""
        return self.sensitivity / self.scale

    def to_dp_event(self) -> dpa.DpEvent:
        return dp_event.DiscreteLaplaceDpEvent(noise_parameter=1.0 / self.scale, sensitivity=self.sensitivity)


@dataclass(frozen=True)
class DiscreteGaussian(Event):
    """`count` integer histograms, each moved by at most `sensitivity` (L2) by one unit, with noise of `scale` rows."""

    scale: float
    sensitivity: int = 1
    count: int = 1
    kind: ClassVar[str] = "discrete_gaussian"

    def __post_init__(self) -> None:
        _positive("scale", self.scale)
        _whole("sensitivity", self.sensitivity)
        _whole("count", self.count)

    def to_dp_event(self) -> dpa.DpEvent:
        # The discrete Gaussian satisfies the RDP curve of the continuous one (Canonne, Kamath & Steinke 2020, Thm 4).
        return dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(self.scale / self.sensitivity), self.count)


@dataclass(frozen=True)
class Gaussian(Event):
    """`count` releases, each with Gaussian noise, continuous or discrete, of `noise_multiplier` times its L2 sensitivity.

    Several releases whose squared ratios of sensitivity to noise add up to `1 / noise_multiplier ** 2` cost as much as one.
    """

    noise_multiplier: float
    count: int = 1
    kind: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        _positive("noise_multiplier", self.noise_multiplier)
        _whole("count", self.count)

    def to_dp_event(self) -> dpa.DpEvent:
        return dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(self.noise_multiplier), self.count)


@dataclass(frozen=True)
class SubsampledGaussian(Event):
    """DP-SGD: `steps` Gaussian sums, each over a Poisson sample that holds every unit with probability `sample_rate`."""

    noise_multiplier: float
    sample_rate: float
    steps: int
    kind: ClassVar[str] = "subsampled_gaussian"

    def __post_init__(self) -> None:
        _positive("noise_multiplier", self.noise_multiplier)
        if not 0 < self.sample_rate <= 1:
            raise InvalidInput(f"sample_rate must lie in (0, 1], got {self.sample_rate}.")
        _whole("steps", self.steps)

    def to_dp_event(self) -> dpa.DpEvent:
        one = dpa.PoissonSampledDpEvent(self.sample_rate, dpa.GaussianDpEvent(self.noise_multiplier))
        return dpa.SelfComposedDpEvent(one, self.steps)


@dataclass(frozen=True)
class Threshold(Event):
    """Keys with a noisy count under a threshold are withheld; a key held by one unit alone shows with probability delta.

    Given the common keys, what a lone unit adds is (0, delta)-DP in both directions (Korolova et al. 2009), independent
    of the noise on the common keys, so the two compose by a sum of deltas.
    """

    delta: float
    kind: ClassVar[str] = "threshold"

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise InvalidInput(f"a threshold's delta must lie in (0, 1), got {self.delta}.")

    def to_dp_event(self) -> dpa.DpEvent:
        return dpa.NoOpDpEvent()

    @property
    def own_delta(self) -> float:
        return self.delta


def repeated(events: Iterable[Event], times: int) -> tuple[Event, ...]:
    """Return the events of `times` repetitions, in as few events as they can be written.

    Example:
        >>> repeated([Gaussian(2.0), SubsampledGaussian(1.0, 0.1, 10), Threshold(1e-9)], 2)[:2]
        (Gaussian(noise_multiplier=2.0, count=2), SubsampledGaussian(noise_multiplier=1.0, sample_rate=0.1, steps=20))
    """
    _whole("times", times)
    whole: list[Event] = []
    for event in events:
        if isinstance(event, SubsampledGaussian):
            whole.append(replace(event, steps=event.steps * times))
        elif isinstance(event, (Gaussian, DiscreteGaussian)):
            whole.append(replace(event, count=event.count * times))
        else:
            whole.extend([event] * times)
    return tuple(whole)


_KINDS = {c.kind: c for c in (DiscreteLaplace, DiscreteGaussian, Gaussian, SubsampledGaussian, Threshold)}


def from_dict(fact: dict[str, Any]) -> Event:
    """Read back what `Event.to_dict` wrote.

    Example:
        >>> e = SubsampledGaussian(1.1, 0.01, 1000)
        >>> from_dict(e.to_dict()) == e
        True
    """
    rest = dict(fact)
    kind = rest.pop("kind", None)
    if kind not in _KINDS:
        raise InvalidInput(f"unknown privacy event {kind!r}; known: {', '.join(_KINDS)}.")
    return _KINDS[kind](**rest)
