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
    """

    epsilon: float
    delta: float
    own_delta: float = 0.0
    blocks: tuple[str, ...] = ()


def admitted(
    account: Account, own: Tally, blocks: Mapping[str, Tally], asks: Iterable[tuple[int, int, Sequence[str]]]
) -> list[bool]:
    """Return for every release whether it would be admitted after those before it that were.

    Args:
        own: the balance of the account's own row.
        blocks: the balances of its blocks; one that is not there has spent nothing.
        asks: what each of them reserves, cost and delta in stored units, and the blocks that it reads; none: the
            account's own row is charged, which counts on top of every block.
    """
    taken, fullest, answers = dict(blocks), _fullest(blocks.values()), []
    for cost, delta, names in asks:
        before = [taken.get(n, Tally()) for n in names] or [fullest]
        fits = all(decide.admits(account, own.plus(tally), cost, delta) for tally in before)
        answers.append(fits)
        if not fits:
            continue
        if not names:
            own = own.hold(cost, delta)
            continue
        after = [tally.hold(cost, delta) for tally in before]
        taken.update(zip(names, after, strict=True))
        fullest = _fullest([fullest, *after])
    return answers


def _fullest(tallies: Iterable[Tally]) -> Tally:
    """Return the most cost and the most delta that any of them takes, since both must fit."""
    balances = list(tallies)
    costly = max(balances, key=lambda t: t.cost_spent + t.cost_held, default=Tally())
    loose = max(balances, key=lambda t: t.delta_spent + t.delta_held, default=Tally())
    return Tally(costly.cost_spent, costly.cost_held, loose.delta_spent, loose.delta_held)
