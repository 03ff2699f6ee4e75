"""Frozen, serialisable facts that an accountant needs: which mechanism ran, with which public parameters.

An event holds no data and no cost. It wraps `dp_accounting.DpEvent`, which has no serial form of its own, and adds two
events that library lacks: the discrete Gaussian, and thresholding, which costs only delta. All that accounting must ask
of a kind of event is a method here, so that a new kind is one new class.

To replace a privacy unit is to remove one and to add another, so what one unit can move is at most doubled: a
sensitivity, a threshold's delta, a pure epsilon.

References:
    Mironov 2017, "Rényi Differential Privacy", Corollary 4 (the weak triangle inequality).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dp_synth_pipeline.errors import InvalidInput

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


@dataclass(frozen=True)
class Event(ABC):
    """One mechanism that was, or will be, run on private data."""

    kind: ClassVar[str] = "event"
    in_steps: ClassVar[bool] = False
    """Whether it runs step by step on Poisson samples, so that it can be charged for the steps that ran."""
    has_pld: ClassVar[bool] = True
    """Whether `pld` covers it. Without, whatever it is composed with is converted from Rényi curves."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready form that `from_dict` reads back unchanged."""
        return {"kind": self.kind, **asdict(self)}

    @abstractmethod
    def to_dp_event(self) -> DpEvent:
        """Return the event in dp_accounting's own terms, for re-verification with that library alone."""

    @property
    def own_delta(self) -> float:
        """Delta spent by this mechanism itself, to be taken from the account's delta as a sum."""
        return 0.0

    @property
    def pure_epsilon(self) -> float:
        """Its epsilon at a delta of 0; 0.0 for a mechanism that has none."""
        return 0.0

    @property
    def size(self) -> int:
        """How many alike steps or releases it consists of."""
        return 1

    @property
    def amount(self) -> Fraction:
        """How much of it there is, exactly, in what adds up over events of its kind: steps or releases, or as it says."""
        return Fraction(self.size)

    @property
    @abstractmethod
    def noise(self) -> float:
        """How noisy it is, in a unit of its own kind: more protects better."""

    @property
    def combined_noise_multiplier(self) -> float:
        """Noise multiplier of the one unsampled Gaussian mechanism that its releases amount to; infinite for none."""
        return math.inf

    @abstractmethod
    def with_noise(self, noise: float) -> Event:
        """Return this event with another `noise`; a threshold has none to change, and stays."""

    def with_steps(self, steps: int) -> Event:
        """Return this event with so many steps; what does not run in steps stays."""
        return self

    def repeated(self, times: int) -> tuple[Event, ...]:
        """Return `times` repetitions of this event, in as few events as they can be written."""
        return (self,) * times

    def pays_for(self, other: Event) -> bool:
        """Say whether `other` costs at most as much as an equal `amount` of this event, under every accountant.

        Example:
            >>> DiscreteLaplace(2.0).pays_for(DiscreteLaplace(2.5)), DiscreteLaplace(2.0).pays_for(DiscreteLaplace(1.5))
            (True, False)
        """
        return type(self) is type(other) and other.noise >= self.noise

    def pld(self, interval: float) -> PrivacyLossDistribution | None:
        """Return its privacy loss distribution on a grid of width `interval`; None if it has no loss but its own delta."""
        return None

    def as_add_remove(self) -> Event:
        """Return an event that costs by adding or removing a unit at least what this costs by replacing one."""
        return self.with_noise(self.noise / 2)

    def rdp_when_replaced(self, order: float, add_remove: Callable[[Event, float], float]) -> float:
        """Return an upper bound of its Rényi divergence at `order` > 1 when one unit is replaced.

        Args:
            add_remove: gives the Rényi divergence of an event at an order when a unit is added or removed.
        """
        return add_remove(self.as_add_remove(), order)


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
    def pure_epsilon(self) -> float:
        return self.sensitivity / self.scale

    @property
    def noise(self) -> float:
        return self.scale

    def with_noise(self, noise: float) -> Self:
        return replace(self, scale=noise)

    def pays_for(self, other: Event) -> bool:
        return isinstance(other, DiscreteLaplace) and super().pays_for(other) and other.sensitivity == self.sensitivity

    def to_dp_event(self) -> DpEvent:
        import dp_accounting as dpa

        return dpa.dp_event.DiscreteLaplaceDpEvent(noise_parameter=1.0 / self.scale, sensitivity=self.sensitivity)

    def pld(self, interval: float) -> PrivacyLossDistribution:
        from dp_accounting.pld import privacy_loss_distribution as pld_lib

        return pld_lib.from_discrete_laplace_mechanism(
            1 / self.scale, self.sensitivity, value_discretization_interval=interval
        )

    def as_add_remove(self) -> Self:
        return replace(self, sensitivity=2 * self.sensitivity)


@dataclass(frozen=True)
class DiscreteGaussian(Event):
    """`count` integer histograms, each moved by at most `sensitivity` (L2) by one unit, with noise of `scale` rows.

    Earlier versions charged their profiles so, and declared plans of theirs still do; everything new is a `Gaussian`. Its
    privacy loss distribution is that of a shift along one axis, which one row of a unit makes. Of several rows, which may
    move a histogram in other directions, it is not known to be the worst (the Rényi curve holds for all).

    To replace a unit moves a histogram by at most sqrt(2) times its sensitivity, since what is taken from some cells and
    what is added to others have no negative inner product.
    """

    scale: float
    sensitivity: int = 1
    count: int = 1
    kind: ClassVar[str] = "discrete_gaussian"

    def __post_init__(self) -> None:
        _positive("scale", self.scale)
        _whole("sensitivity", self.sensitivity)
        _whole("count", self.count)

    @property
    def size(self) -> int:
        return self.count

    @property
    def noise(self) -> float:
        return self.scale

    @property
    def combined_noise_multiplier(self) -> float:
        return self.scale / self.sensitivity / math.sqrt(self.count)

    def with_noise(self, noise: float) -> Self:
        return replace(self, scale=noise)

    def repeated(self, times: int) -> tuple[Event, ...]:
        return (replace(self, count=self.count * times),)

    def pays_for(self, other: Event) -> bool:
        # More noise may cost more: at an epsilon of 2.6, delta is 4.5 % higher at a scale of 2.02 than at 2.01.
        return isinstance(other, DiscreteGaussian) and (other.scale, other.sensitivity) == (
            self.scale,
            self.sensitivity,
        )

    def to_dp_event(self) -> DpEvent:
        import dp_accounting as dpa

        # The discrete Gaussian satisfies the RDP curve of the continuous one (Canonne, Kamath & Steinke 2020, Thm 4).
        return dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(self.scale / self.sensitivity), self.count)

    def pld(self, interval: float) -> PrivacyLossDistribution:
        from dp_accounting.pld import privacy_loss_distribution as pld_lib

        one = pld_lib.from_discrete_gaussian_mechanism(
            self.scale, self.sensitivity, value_discretization_interval=interval, use_connect_dots=True
        )
        return one.self_compose(self.count)

    def as_gaussian(self) -> Gaussian:
        """Return the event of Gaussian noise of the same scale, which everything new draws."""
        return Gaussian(self.scale / self.sensitivity, self.count)

    def as_add_remove(self) -> Self:
        return replace(self, count=2 * self.count)  # cells that lose and cells that gain, as two releases


@dataclass(frozen=True)
class Gaussian(Event):
    """`count` releases, each with Gaussian noise, rounded or not, of `noise_multiplier` times its L2 sensitivity.

    Its amount is the sum of the squared ratios of sensitivity to noise. Releases of the same amount cost the same, however
    many there are and however each was chosen after the ones before it (Smith & Thakurta 2022, "Fully Adaptive Composition
    for Gaussian Differential Privacy").

    Example:
        >>> Gaussian(2.0).amount == Gaussian(4.0, count=4).amount
        True
    """

    noise_multiplier: float
    count: int = 1
    kind: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        _positive("noise_multiplier", self.noise_multiplier)
        _whole("count", self.count)

    @property
    def size(self) -> int:
        return self.count

    @property
    def amount(self) -> Fraction:
        return self.count / Fraction(self.noise_multiplier) ** 2

    @property
    def noise(self) -> float:
        return self.noise_multiplier

    @property
    def combined_noise_multiplier(self) -> float:
        return self.noise_multiplier / math.sqrt(self.count)

    def with_noise(self, noise: float) -> Self:
        return replace(self, noise_multiplier=noise)

    def pays_for(self, other: Event) -> bool:
        return isinstance(other, Gaussian)  # its amount says all

    def repeated(self, times: int) -> tuple[Event, ...]:
        return (replace(self, count=self.count * times),)

    def to_dp_event(self) -> DpEvent:
        import dp_accounting as dpa

        return dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(self.noise_multiplier), self.count)

    def pld(self, interval: float) -> PrivacyLossDistribution:
        from dp_synth_pipeline.privacy.gaussian_loss import gaussian_loss

        return gaussian_loss(self.combined_noise_multiplier, 1.0, interval)


@dataclass(frozen=True)
class SubsampledGaussian(Event):
    """DP-SGD: `steps` Gaussian sums, each over a Poisson sample that holds every unit with probability `sample_rate`."""

    noise_multiplier: float
    sample_rate: float
    steps: int
    kind: ClassVar[str] = "subsampled_gaussian"
    in_steps: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _positive("noise_multiplier", self.noise_multiplier)
        if not 0 < self.sample_rate <= 1:
            raise InvalidInput(f"sample_rate must lie in (0, 1], got {self.sample_rate}.")
        _whole("steps", self.steps)

    @property
    def size(self) -> int:
        return self.steps

    @property
    def noise(self) -> float:
        return self.noise_multiplier

    @property
    def combined_noise_multiplier(self) -> float:
        return self.noise_multiplier

    def with_noise(self, noise: float) -> Self:
        return replace(self, noise_multiplier=noise)

    def with_steps(self, steps: int) -> Self:
        return replace(self, steps=steps)

    def repeated(self, times: int) -> tuple[Event, ...]:
        return (self.with_steps(self.steps * times),)

    def pays_for(self, other: Event) -> bool:
        return (
            isinstance(other, SubsampledGaussian) and super().pays_for(other) and other.sample_rate <= self.sample_rate
        )

    def to_dp_event(self) -> DpEvent:
        import dp_accounting as dpa

        one = dpa.PoissonSampledDpEvent(self.sample_rate, dpa.GaussianDpEvent(self.noise_multiplier))
        return dpa.SelfComposedDpEvent(one, self.steps)

    def pld(self, interval: float) -> PrivacyLossDistribution:
        from dp_synth_pipeline.privacy.gaussian_loss import gaussian_loss

        return gaussian_loss(self.noise_multiplier, self.sample_rate, interval).self_compose(self.steps)

    def rdp_when_replaced(self, order: float, add_remove: Callable[[Event, float], float]) -> float:
        # With both units in every sample the clipped sum moves by twice the clip; sampling only mixes that with nothing.
        full = add_remove(Gaussian(self.noise_multiplier / 2, self.steps), order)
        if self.sample_rate == 1:
            return full
        there, back = add_remove(self, 2 * order), add_remove(self, 2 * order - 1)
        return min(full, (order - 0.5) / (order - 1) * there + back)


@dataclass(frozen=True)
class SelectedTraining(Event):
    """The best of a secret number of trainings, a Poisson one of `mean`, judged by one noisy loss each; or none of them.

    A run is DP-SGD of `steps` at `noise_multiplier` and `sample_rate`, then the mean loss of a Poisson sample of units. All
    runs are alike and independent of one another, and what is released is one of them, with its loss. Its Rényi curve is
    known for adding or removing a unit (Papernot & Steinke 2022, "Hyperparameter Tuning with Renyi Differential Privacy",
    Theorem 6); no privacy loss distribution of it is, nor its cost by replacing one, which is infinite here.

    Args:
        mean: expected number of runs, at least 1.
    """

    noise_multiplier: float
    sample_rate: float
    steps: int
    score_noise_multiplier: float
    score_sample_rate: float
    mean: float
    kind: ClassVar[str] = "selected_training"
    has_pld: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self.run  # noqa: B018 - its own events check their numbers
        if not (math.isfinite(self.mean) and self.mean >= 1):
            raise InvalidInput(f"mean must be finite and at least 1, got {self.mean}.")

    @property
    def run(self) -> tuple[SubsampledGaussian, SubsampledGaussian]:
        """What one run alone would cost: its training and its noisy loss."""
        return (
            SubsampledGaussian(self.noise_multiplier, self.sample_rate, self.steps),
            SubsampledGaussian(self.score_noise_multiplier, self.score_sample_rate, 1),
        )

    @property
    def noise(self) -> float:
        return self.noise_multiplier

    @property
    def combined_noise_multiplier(self) -> float:
        return min(self.noise_multiplier, self.score_noise_multiplier)

    def with_noise(self, noise: float) -> Self:
        """Return this event with another noise of its training, and its loss as much noisier or less noisy."""
        louder = self.score_noise_multiplier * noise / self.noise_multiplier
        return replace(self, noise_multiplier=noise, score_noise_multiplier=louder)

    def pays_for(self, other: Event) -> bool:
        return (
            isinstance(other, SelectedTraining)
            and (other.mean, other.steps) == (self.mean, self.steps)
            and all(own.pays_for(theirs) for own, theirs in zip(self.run, other.run, strict=True))
        )

    def to_dp_event(self) -> DpEvent:
        import dp_accounting as dpa

        run = dpa.ComposedDpEvent([event.to_dp_event() for event in self.run])
        return dpa.dp_event.RepeatAndSelectDpEvent(run, mean=self.mean, shape=math.inf)

    def pld(self, interval: float) -> PrivacyLossDistribution:
        raise TypeError("no privacy loss distribution of a selected training is known; convert its Rényi curve.")

    def rdp_when_replaced(self, order: float, add_remove: Callable[[Event, float], float]) -> float:
        return math.inf


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

    @property
    def own_delta(self) -> float:
        return self.delta

    @property
    def amount(self) -> Fraction:
        return Fraction(self.delta)

    def pays_for(self, other: Event) -> bool:
        return isinstance(other, Threshold)  # its amount says all

    @property
    def noise(self) -> float:
        return -self.delta

    def with_noise(self, noise: float) -> Self:
        return self

    def to_dp_event(self) -> DpEvent:
        import dp_accounting as dpa

        return dpa.NoOpDpEvent()

    def as_add_remove(self) -> Self:
        return replace(self, delta=2 * self.delta)  # the unit that leaves and the one that comes may both show

    def rdp_when_replaced(self, order: float, add_remove: Callable[[Event, float], float]) -> float:
        return 0.0


def repeated(events: Iterable[Event], times: int) -> tuple[Event, ...]:
    """Return the events of `times` repetitions, in as few events as they can be written.

    Example:
        >>> repeated([Gaussian(2.0), SubsampledGaussian(1.0, 0.1, 10), Threshold(1e-9)], 2)[:2]
        (Gaussian(noise_multiplier=2.0, count=2), SubsampledGaussian(noise_multiplier=1.0, sample_rate=0.1, steps=20))
    """
    _whole("times", times)
    return tuple(again for event in events for again in event.repeated(times))


_KINDS = {
    c.kind: c for c in (DiscreteLaplace, DiscreteGaussian, Gaussian, SubsampledGaussian, SelectedTraining, Threshold)
}


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
