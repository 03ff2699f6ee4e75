"""All that one release is a function of: its own entries, and those of earlier releases that it builds upon.

A release that reuses a profile, or begins at released weights, tells what earlier entries paid for. Whoever reads its
table reads them too, so what the table promises is the promise of all of them together. The account needs no such
sum: it counted each entry once, when it was started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

from dp_synth_pipeline.ledger import costs
from dp_synth_pipeline.ledger.entry import Entry, Release
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.privacy.tradeoff import TradeOff


@dataclass(frozen=True)
class Lineage:
    """The entries that a settled release is a function of, each once.

    Attributes:
        release: the release itself.
        own: its own entries, in the order in which they were started.
        earlier: the entries of other releases that it builds upon, directly or through others, oldest first.
        declared: every release among them was a use of a declared plan, whose parameters were fixed beforehand.
    """

    release: Release
    own: tuple[Entry, ...]
    earlier: tuple[Entry, ...] = ()
    declared: bool = False

    @property
    def recorded(self) -> bool:
        """Whether its own entries say what they build upon; those of older versions do not."""
        return all(entry.upon is not None for entry in self.own)

    @property
    def events(self) -> tuple[Event, ...]:
        """The events of all of them, as they were planned."""
        by_release = sorted(self.earlier, key=lambda e: e.release_id)
        groups = [list(group) for _, group in groupby(by_release, key=lambda e: e.release_id)]
        return tuple(event for group in (list(self.own), *groups) for event in costs.planned_events(group))

    @property
    def delta(self) -> float:
        """The release's own delta, or twice what thresholds took of it if that is more, as one release ends too."""
        own = self.release.delta if self.release.final_delta is None else self.release.final_delta
        return max(own, 2 * accountant.own_delta(self.events, self.release.relation))

    @cached_property
    def epsilon(self) -> float:
        """An epsilon, never too small, such that everything here together is (epsilon, delta)-DP, by one PLD."""
        if not self.events:
            return 0.0
        return accountant.epsilon(self.events, self.delta, self.release.relation, fixed=self.declared)

    @property
    def trade_off(self) -> dict[str, Any]:
        """What it promises beyond one (epsilon, delta), as `TradeOff.figures` gives it, with delta for a slack."""
        curve = TradeOff.of(self.events, self.epsilon, self.release.relation, fixed=self.declared)
        return curve.figures(self.delta)


def upwards(
    own: Iterable[Entry], also: Iterable[str], find: Callable[[set[str]], Iterable[Entry]]
) -> tuple[Entry, ...]:
    """Return the entries that `own` ones build upon, and those that they build upon in turn, each once, oldest first.

    Args:
        also: ids of entries beyond those that `own` entries record.
        find: returns the entries of some ids.
    """
    mine = {e.id for e in own}
    found: dict[str, Entry] = {}
    wanted = {*also, *(i for e in own for i in e.upon or ())} - mine
    while wanted:
        new = {e.id: e for e in find(wanted)}
        found |= new
        wanted = {i for e in new.values() for i in e.upon or ()} - mine - found.keys()
    return tuple(sorted(found.values(), key=lambda e: (e.started_at, e.position)))
