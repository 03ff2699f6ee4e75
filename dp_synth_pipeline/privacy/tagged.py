"""Events beside the mechanisms that they belong to, so that nobody guesses a mechanism back from its numbers.

A tag stands beside its event, never in it: the hash chain of a ledger covers its events as they were always written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dp_synth_pipeline.privacy.events import Event


class TaggedEvent(NamedTuple):
    """An event of one mechanism of a release; a plain pair (mechanism, event) serves as well.

    Attributes:
        mechanism: the mechanism's tag, such as 'training'; '' where nobody named one.
    """

    mechanism: str
    event: Event

    def agrees(self, other: TaggedEvent) -> bool:
        """Say whether both may be of one mechanism: they name the same, or one of them names none."""
        return not (self.mechanism and other.mechanism) or self.mechanism == other.mechanism

    def __str__(self) -> str:
        """The event, after its mechanism if it names one."""
        return f"{self.mechanism}: {self.event}" if self.mechanism else str(self.event)


def tag(mechanism: str) -> str:
    """Return the tag of a mechanism as an entry names it; what follows a comma says which attempt at it this was.

    Example:
        >>> tag("training, resumed at 500"), tag("row count")
        ('training', 'row count')
    """
    return mechanism.partition(",")[0].strip()


def tagged(events: Iterable[Event | tuple[str, Event]]) -> tuple[TaggedEvent, ...]:
    """Return events and (mechanism, event) pairs alike as tagged events.

    Example:
        >>> from dp_synth_pipeline.privacy.events import Gaussian
        >>> [t.mechanism for t in tagged([Gaussian(2.0), ("marginals", Gaussian(3.0))])]
        ['', 'marginals']
    """
    return tuple(TaggedEvent("", e) if isinstance(e, Event) else TaggedEvent(tag(e[0]), e[1]) for e in events)
