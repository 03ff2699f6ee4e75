"""Which of several releases would be admitted, one after the other: a question, which changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dp_synth_pipeline.ledger import decide
from dp_synth_pipeline.ledger.entry import Account
from dp_synth_pipeline.ledger.rows import Tally


@dataclass(frozen=True)
class Ask:
    """What one release would ask of its account.

    Attributes:
        own_delta: the part of delta for mechanisms with a delta of their own.
        blocks: those that it reads, and is charged to; none: the account's own row is.
        account: the member that it is charged to, where an umbrella is asked; empty: the account that is asked.
        purpose: what it is for, which a quota may bound.
    """

    epsilon: float
    delta: float
    own_delta: float = 0.0
    blocks: tuple[str, ...] = ()
    account: str = ""
    purpose: str = ""


class Payer:
    """An account as it would stand after the releases that were admitted before; no ledger knows of it.

    Args:
        own: the balance of the account's own row, which counts on top of every block.
        blocks: the balances of its blocks; one that is not there has spent nothing.
    """

    def __init__(self, account: Account, own: Tally, blocks: Mapping[str, Tally]) -> None:
        self.account, self._own, self._blocks, self._fullest = account, own, dict(blocks), _fullest(blocks.values())

    def admits(self, cost: int, delta: int, names: Sequence[str]) -> bool:
        """Say whether a release over blocks, or without them over all rows, would be admitted now."""
        return decide.admits(*self.standing(names), cost, delta)

    def standing(self, names: Sequence[str]) -> tuple[Account, Tally]:
        """Return the account with what bounds a release over blocks, or without them over all rows."""
        touched = [self._blocks.get(n, Tally()) for n in names] or [self._fullest]
        return self.account, self._own.plus(_fullest(touched))

    def take(self, cost: int, delta: int, names: Sequence[str]) -> None:
        """Take what a release reserves off what is left."""
        if not names:
            self._own = self._own.hold(cost, delta)
        for name in names:
            self._blocks[name] = self._blocks.get(name, Tally()).hold(cost, delta)
        self._fullest = _fullest([self._fullest, *(self._blocks[name] for name in names)])


def admitted(asks: Iterable[Sequence[tuple[Payer, int, int, Sequence[str]]]]) -> list[bool]:
    """Return for every release whether it would be admitted after those before it that were.

    Args:
        asks: what each of them is charged to, and reserves there: cost and delta in stored units, and the blocks that it
            reads, if any.
    """
    answers = []
    for charges in asks:
        fits = all(payer.admits(cost, delta, names) for payer, cost, delta, names in charges)
        for payer, cost, delta, names in charges if fits else ():
            payer.take(cost, delta, names)
        answers.append(fits)
    return answers


def _fullest(tallies: Iterable[Tally]) -> Tally:
    """Return the most cost and the most delta that any of them takes, since both must fit."""
    balances = list(tallies)
    costly = max(balances, key=lambda t: t.cost_spent + t.cost_held, default=Tally())
    loose = max(balances, key=lambda t: t.delta_spent + t.delta_held, default=Tally())
    return Tally(costly.cost_spent, costly.cost_held, loose.delta_spent, loose.delta_held)
