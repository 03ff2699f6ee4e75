"""A plan lists a release's mechanisms in order, each with the privacy events that it may run. A declared plan is this."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    SelectedTraining,
    SubsampledGaussian,
    Threshold,
    from_dict,
)

STATIC, ROW_COUNT, TYPES, ORDERED_DATES, PROFILE = "static columns", "row count", "types", "ordered dates", "profile"
FORMULAS = "formulas"
TEXT, NOTE_WORDS, NOTES, VOTES = "text", "words of notes", "notes", "votes"
HISTORY_COUNTS, MARGINALS, TRAINING, LOSS_QUERIES = "history counts", "marginals", "training", "looks"
STUDY, ACCURACY = "study", "headline figures"
"""Names of mechanisms, as ledgers keep them."""

_OF_KIND: dict[type[Event], str] = {
    DiscreteLaplace: ROW_COUNT,
    DiscreteGaussian: PROFILE,
    Threshold: PROFILE,
    Gaussian: MARGINALS,
    SubsampledGaussian: TRAINING,
    SelectedTraining: STUDY,
}


@dataclass(frozen=True)
class PlannedMechanism:
    """One mechanism of a release and the events that it may run at most."""

    mechanism: str
    events: tuple[Event, ...]


@dataclass(frozen=True)
class ReleasePlan:
    """What one release may run at most, mechanism by mechanism."""

    mechanisms: tuple[PlannedMechanism, ...]

    @classmethod
    def of(cls, events: Sequence[Event], tags: Sequence[str] = ()) -> Self:
        """Return the plan that declared events amount to.

        Args:
            events: what one release may run at most.
            tags: the mechanism of each event. Without them, as in plans declared before there were tags, each kind of event
                belongs to the one mechanism that ran such events then.
        """
        names = tags or [_OF_KIND[type(event)] for event in events]
        order = dict.fromkeys(names)
        return cls(
            tuple(
                PlannedMechanism(name, tuple(e for e, tag in zip(events, names, strict=True) if tag == name))
                for name in order
            )
        )

    def events(self, mechanism: str) -> tuple[Event, ...]:
        """Return what one mechanism may run; nothing if the plan does not have it."""
        return tuple(e for item in self.mechanisms if item.mechanism == mechanism for e in item.events)

    def flat(self) -> tuple[tuple[Event, ...], tuple[str, ...]]:
        """Return all events in order, and the mechanism of each: what a ledger keeps."""
        pairs = [(event, item.mechanism) for item in self.mechanisms for event in item.events]
        return tuple(event for event, _ in pairs), tuple(tag for _, tag in pairs)

    @property
    def count_epsilons(self) -> list[float]:
        """The pure epsilon of each noisy row count."""
        return [1 / e.scale for e in self.events(ROW_COUNT) if isinstance(e, DiscreteLaplace)]

    @property
    def types_noise(self) -> Gaussian | None:
        """The noise of the classes of cells, and of how many columns; None without."""
        return next((e for e in self.events(TYPES) if isinstance(e, Gaussian)), None)

    @property
    def threshold_deltas(self) -> list[float]:
        """The delta of each threshold."""
        return [e.delta for e in self.events(PROFILE) if isinstance(e, Threshold)]

    @property
    def texts(self) -> tuple[float, float] | None:
        """The noise multiplier that all counts of texts amount to, and the delta of their thresholds; None without."""
        amount = sum(e.amount for e in self.events(TEXT) if isinstance(e, Gaussian))
        delta = sum(e.delta for e in self.events(TEXT) if isinstance(e, Threshold))
        return (float(amount) ** -0.5, delta) if amount and delta else None

    @property
    def marginals_noise(self) -> float | None:
        """The noise multiplier of the marginals; None without."""
        return next((e.noise_multiplier for e in self.events(MARGINALS) if isinstance(e, Gaussian)), None)

    @property
    def training(self) -> SubsampledGaussian | None:
        """The training; None without."""
        return self._steps(TRAINING)

    @property
    def note_words_noise(self) -> float | None:
        """The noise multiplier of the words that a language model's texts lean to; None without."""
        return next((e.noise_multiplier for e in self.events(NOTE_WORDS) if isinstance(e, Gaussian)), None)

    @property
    def notes(self) -> SubsampledGaussian | None:
        """The training of the language model that writes a text column; None without."""
        return self._steps(NOTES)

    @property
    def votes(self) -> Gaussian | None:
        """The rounds in which texts vote for what a language model wrote; None without."""
        return next((e for e in self.events(VOTES) if isinstance(e, Gaussian)), None)

    def _steps(self, mechanism: str) -> SubsampledGaussian | None:
        return next((e for e in self.events(mechanism) if isinstance(e, SubsampledGaussian)), None)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the plan JSON-ready, as `dp-synth ledger plan` takes it: one object for each event."""
        events, tags = self.flat()
        return [{"mechanism": tag, **event.to_dict()} for event, tag in zip(events, tags, strict=True)]

    @classmethod
    def from_json(cls, facts: Iterable[Mapping[str, Any]]) -> Self:
        """Read back what `to_json` wrote, or a list of bare events.

        Raises:
            InvalidInput: if only some events name their mechanism, or one is unknown.
        """
        entries = [dict(fact) for fact in facts]
        tags = [tag for fact in entries if (tag := fact.pop("mechanism", None))]
        if tags and len(tags) < len(entries):
            raise InvalidInput("a plan names the mechanism of each of its events, or of none; complete the list.")
        return cls.of([from_dict(fact) for fact in entries], tags)

    def __iter__(self) -> Iterator[PlannedMechanism]:
        return iter(self.mechanisms)
