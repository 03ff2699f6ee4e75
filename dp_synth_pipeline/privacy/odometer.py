"""An odometer says what one entry paid for, and refuses the release that nobody paid for, before its noise is drawn.

Whoever charges an entry opens its odometer, and every function of `mechanisms` takes one. Each release presents its event
first. So a count too many, or one with less noise or a greater sensitivity than was charged, raises an error where it
would have gone unpaid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction

from dp_synth_pipeline.errors import NotCharged
from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.privacy.tagged import TaggedEvent, tagged

ROUNDING = 1e-12
"""What is derived from a charge in double precision is planned with more noise, or less delta, by this part. That is more
than its rounding, so its exact amounts never exceed the charge."""


def covers(allowed: Iterable[Event | tuple[str, Event]], ran: Iterable[Event | tuple[str, Event]]) -> bool:
    """Say whether `ran` costs at most what `allowed` does, mechanism by mechanism.

    Every mechanism that ran takes its amount from those that were declared for its kind: from training, steps with at
    least its noise and at most its sampling rate; from Gaussian releases, their squared ratios of sensitivity to noise;
    from thresholds, their delta. Where both name a mechanism of a release, it is the same one. Amounts are compared
    exactly. A "no" may be too strict, a "yes" is not.

    Gaussian amounts may be divided at will, also between releases that were chosen one after the other: all of them
    together are a function of one Brownian motion, stopped at the declared amount.

    Args:
        allowed, ran: events, or (mechanism, event) pairs.

    Example:
        >>> from dp_synth_pipeline.privacy.events import SubsampledGaussian
        >>> declared = [SubsampledGaussian(2.0, 0.01, 1000)]
        >>> halves = [SubsampledGaussian(2.0, 0.01, 700), SubsampledGaussian(2.5, 0.01, 300)]
        >>> covers(declared, halves), covers(declared, [*halves, halves[0]])
        (True, False)
    """
    return _pay(tagged(allowed), ((one, one.event.amount) for one in tagged(ran)))


def _pay(allowed: Sequence[TaggedEvent], amounts: Iterable[tuple[TaggedEvent, Fraction]]) -> bool:
    """Say whether what is allowed pays so much of each event."""
    # What has the most noise pays first, and what has less is left for what needs it.
    sources = sorted(allowed, key=lambda source: -source.event.noise)
    left = [source.event.amount for source in sources]
    for one, owed in amounts:
        for i, source in enumerate(sources):
            if source.agrees(one) and source.event.pays_for(one.event):
                paid = min(owed, left[i])
                owed, left[i] = owed - paid, left[i] - paid
        if owed:
            return False
    return True


class Odometer:
    """What an entry was charged for, less what its mechanisms have used so far.

    Example:
        >>> from dp_synth_pipeline.privacy.events import Gaussian
        >>> odometer = Odometer([Gaussian(2.0)])
        >>> for release in range(4):
        ...     odometer.spend(Gaussian(4.0))
        >>> odometer.used  # that is all of it: another one, however noisy, raises NotCharged
        (Gaussian(noise_multiplier=4.0, count=4),)
    """

    def __init__(self, charged: Iterable[Event]) -> None:
        """Open the odometer of an entry.

        Args:
            charged: the entry's events, as its ledger keeps them.
        """
        self._charged, self._used = tagged(charged), Counter[Event]()

    @property
    def used(self) -> tuple[Event, ...]:
        """What was released so far, in as few events as it can be written."""
        return tuple(again for event, times in self._used.items() for again in event.repeated(times))

    def spend(self, event: Event) -> None:
        """Take note of a release that is about to be made.

        Raises:
            NotCharged: if the entry did not pay for it, given what was released before; then nothing may be drawn.
        """
        used = self._used + Counter([event])
        if not self._pays(used):
            raise NotCharged(event.kind)
        self._used = used

    def pays_in(self, kind: type[Event]) -> bool:
        """Say whether the entry was charged for any event of a kind."""
        return any(isinstance(one.event, kind) for one in self._charged)

    def _pays(self, used: Counter[Event]) -> bool:
        return _pay(self._charged, ((TaggedEvent("", e), times * e.amount) for e, times in used.items()))


class Unmetered(Odometer):
    """An odometer that pays for everything, of rows that a person declared public."""

    def __init__(self) -> None:
        super().__init__(())

    def _pays(self, used: Counter[Event]) -> bool:
        return True
