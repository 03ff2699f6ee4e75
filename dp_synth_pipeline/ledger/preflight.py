"""Which of several releases would be admitted, one after the other: a question, which changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dp_synth_pipeline.ledger import decide
from dp_synth_pipeline.ledger.entry import Account
from dp_synth_pipeline.ledger.rows import Tally


def admitted(
    account: Account,
    own: Tally,
    blocks: Mapping[str, Tally],
    cost: int,
    delta: int,
    each: Sequence[Sequence[str]],
) -> list[bool]:
    """Return for every release whether it would be admitted after those before it that were.

    Args:
        own: the balance of the account's own row.
        blocks: the balances of its blocks; one that is not there has spent nothing.
        cost, delta: what one of them reserves, in stored units.
        each: the blocks that each reads; none: the account's own row is charged.
    """
    taken, told = dict(blocks), []
    for names in each:
        touched = names or taken
        fits = all(decide.admits(account, own.plus(taken.get(n, Tally())), cost, delta) for n in touched)
        fits = fits and (bool(touched) or decide.admits(account, own, cost, delta))
        told.append(fits)
        if not fits:
            continue
        if not names:
            own = own.hold(cost, delta)
        taken |= {n: taken.get(n, Tally()).hold(cost, delta) for n in names}
    return told
