"""How much of an account one requester, or one purpose, may take: counted in the account's own units, as all that it counts.

Under a Rényi filter that is divergence at the account's order, which adds up over a requester's releases as over all of
them. So a quota is a Rényi filter of its own, at the same order and with a part of the limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from dp_synth_pipeline.errors import BudgetExceeded, InvalidInput
from dp_synth_pipeline.ledger import costs, refusal, rows
from dp_synth_pipeline.ledger.entry import EVERY, PURPOSE, REQUESTER, Account, Claim, Quota, folded
from dp_synth_pipeline.ledger.preflight import Payer
from dp_synth_pipeline.ledger.rows import Payers, Taken, Tally


@dataclass(frozen=True)
class Bound:
    """A quota as it bounds one claim.

    Attributes:
        account: whose quota it is.
        quota: the claim's own, or the one of each that has none.
        payer: the account with the quota's part of its limits, and with what counts against it.
        blocks: the blocks that the claim is charged to.
    """

    account: Account
    quota: Quota
    payer: Payer
    blocks: tuple[str, ...] = ()

    def refusal(self, asks: tuple[int, int], claim: Claim, fits: str = "") -> BudgetExceeded:
        """Return the refusal of a claim that would exceed the quota."""
        return refusal.over_quota(self.account, self.quota, self.standing[1], asks, claim, fits)

    @property
    def standing(self) -> tuple[Account, Tally]:
        """The account with the quota's part of its limits, and what counts against that where the claim is charged."""
        return self.payer.standing(self.blocks)


@dataclass(frozen=True)
class Use:
    """How much of a quota is taken.

    Attributes:
        epsilon: what all of the quota amounts to, at the account's delta, as the account counts.
        taken: the part of the account that each whom it bounds took of it, where they took most.
    """

    quota: Quota
    epsilon: float
    taken: dict[str, float]

    @property
    def facts(self) -> dict[str, Any]:
        """The same as plain values."""
        own = {"quota": str(self.quota), "by": self.quota.by, "name": self.quota.name, "share": self.quota.share}
        return {**own, "epsilon": self.epsilon, "taken": self.taken}


def uses(account: Account, taken: Taken) -> list[Use]:
    """Return how much of each quota of an account is taken."""
    found = []
    for quota in account.quotas:
        names = {folded(name): name.strip() for place in taken for name in [Claim(*place[:2]).named(quota.by)]}
        bounded = sorted(name for name in names if own(account.quotas, quota.by, name) == quota)
        standings = {names[n]: Payer(account, *_counted(taken, quota.by, n)).standing(())[1] for n in bounded}
        epsilon = costs.epsilon_spent(account, math.floor(account.cost_limit * quota.part))
        found.append(Use(quota, epsilon, {name: account.part(*t.taken) for name, t in standings.items()}))
    return found


def checked(texts: Iterable[str], known: Sequence[Quota] = ()) -> tuple[Quota, ...]:
    """Return quotas that a person wrote, in place of those known by the same name.

    Raises:
        InvalidInput: if one is no quota, or two are of one name.
    """
    new = [Quota.parsed(text) for text in texts]
    quotas, written = ({(q.by, folded(q.name)): q for q in some} for some in (known, new))
    if len(written) < len(new):
        raise InvalidInput("two quotas are of one name; give each requester and each purpose one.")
    return tuple(quota for _, quota in sorted((quotas | written).items()))


def own(quotas: Sequence[Quota], by: str, name: str) -> Quota | None:
    """Return the quota that bounds a requester or a purpose, if one does."""
    here = [q for q in quotas if q.by == by]
    return next((q for q in here if q.is_of(name)), next((q for q in here if q.name == EVERY), None))


def loosened(before: Sequence[Quota], after: Sequence[Quota]) -> bool:
    """Whether anybody may take more than before."""

    def most(quotas: Sequence[Quota], by: str, name: str) -> float:
        found = own(quotas, by, name)
        return 1.0 if found is None else found.share

    anybody = {(by, EVERY) for by in (REQUESTER, PURPOSE)} | {(q.by, q.name) for q in (*before, *after)}
    return any(most(after, *one) > most(before, *one) for one in anybody)


def bounds(account: Account, taken: Taken, claim: Claim) -> list[Bound]:
    """Return the quotas of an account that bound a claim, with what counts against each of them."""
    every = (bound(account, taken, by, claim.named(by)) for by in (REQUESTER, PURPOSE))
    return [replace(found, blocks=claim.blocks) for found in every if found is not None]


def bound(account: Account, taken: Taken, by: str, name: str) -> Bound | None:
    """Return the quota of an account that bounds one requester or purpose, with what counts against it, if one does."""
    quota = own(account.quotas, by, name)
    if quota is None:
        return None
    cost, delta = (math.floor(limit * quota.part) for limit in (account.cost_limit, account.delta_limit))
    part = replace(account, cost_limit=cost, delta_limit=delta)
    return Bound(account, quota, Payer(part, *_counted(taken, by, name)))


def _counted(taken: Taken, by: str, name: str) -> tuple[Tally, dict[str, Tally]]:
    """Return what one requester or purpose took of an account's own row, and of its blocks."""
    blocks: dict[str, Tally] = {"": Tally()}
    for (who, purpose, block), tally in taken.items():
        if folded(Claim(who, purpose).named(by)) == folded(name):
            blocks[block] = blocks.get(block, Tally()).plus(tally)
    return blocks.pop(""), blocks


def bounding(conn: sa.Connection, payers: Payers, claim: Claim) -> list[list[Bound]]:
    """Return the quotas that bound a claim in each of what it would be charged to: its account, and then its umbrella."""
    return [bounds(a, rows.taken(conn, a.name), claim) if a.quotas else [] for a, _ in payers]


def exceeded(every: Sequence[Sequence[Bound]], asks: Sequence[tuple[int, int]]) -> Bound | None:
    """Return the first quota that a charge would exceed; None if it exceeds none.

    A use of a declared plan costs nothing more, and exceeds none: the plan counts for whoever declared it.
    """
    each = ((bound, ask) for found, ask in zip(every, asks, strict=True) for bound in found if any(ask))
    return next((bound for bound, ask in each if not bound.payer.admits(*ask, bound.blocks)), None)


def bounded(conn: sa.Connection, payers: Payers, claim: Claim) -> Payers:
    """Return what a claim would be charged to, and beside it each quota as if it were an account of its own."""
    return [*payers, *(bound.standing for found in bounding(conn, payers, claim) for bound in found)]
