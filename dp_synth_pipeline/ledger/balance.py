"""What an account has left, and how much of a ledger was verified: answers, which are not kept."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from dp_synth_pipeline.ledger.entry import Plan, Release, Rule
from dp_synth_pipeline.privacy.filter import ATTO, NANO

LAST_BUT_ONE = math.nextafter(1.0, 0.0)
"""The largest share under 1."""


@dataclass(frozen=True)
class Balance:
    """What an account has left, in stored units and in plain numbers.

    Attributes:
        cost_limit, cost_spent, cost_held: nano units; held is reserved and not settled.
        delta_limit, delta_spent, delta_held: units of 1e-18.
        epsilon_left: the largest epsilon that one further release at the account's delta would be admitted with.
        epsilon_spent: an upper bound of the epsilon of everything admitted so far, at the account's delta.
    """

    account: str
    rule: Rule
    order: float | None
    cost_limit: int
    cost_spent: int
    cost_held: int
    delta_limit: int
    delta_spent: int
    delta_held: int
    epsilon_left: float
    epsilon_spent: float

    @property
    def cost_left(self) -> int:
        """Nano units that no release has taken."""
        return self.cost_limit - self.cost_spent - self.cost_held

    @property
    def limit(self) -> float:
        """The cost limit as a plain number."""
        return self.cost_limit / NANO

    @property
    def spent(self) -> float:
        """The cost settled as a plain number."""
        return self.cost_spent / NANO

    @property
    def held(self) -> float:
        """The cost reserved and not settled as a plain number."""
        return self.cost_held / NANO

    @property
    def left(self) -> float:
        """The cost left as a plain number."""
        return self.cost_left / NANO

    @property
    def delta_left(self) -> float:
        """The shared delta that no release has taken."""
        return (self.delta_limit - self.delta_spent - self.delta_held) / ATTO


@dataclass(frozen=True)
class Share:
    """How much of an account is used, in parts of its limit: the one figure of a balance that adds up.

    What an account counts adds up, and its epsilon does not: Rényi divergence at a fixed order under a Rényi filter, shares
    of epsilon under declared plans, and delta beside either. Whichever of them is used most counts here, since it is the one
    that stops releases. An unfinished release counts with all that it holds, and a declared plan with the uses taken of it.

    Attributes:
        used: 0 for an account that nothing was charged to, 1 if and only if nothing fits any more: no release of the least
            epsilon, with a delta of its own for thresholds as every table has, and no use of a plan.
        set_aside: what is left to uses of declared plans, and to no other release.
        last: the release that was admitted last, if there is one that was not voided or entered by hand.
        more: how many more releases of the same terms as `last` would be admitted now; None without `last`.
    """

    used: float
    set_aside: float = 0.0
    last: Release | None = None
    more: int | None = None

    @property
    def percent(self) -> str:
        """The used share in whole percent, rounded up; `100 %` if and only if nothing fits any more."""
        whole = math.ceil(100 * self.used)
        return "over 99 %" if whole == 100 and self.used < 1 else f"{whole} %"

    def __str__(self) -> str:
        """The used share, and how often the last release would fit again."""
        aside = f", {math.floor(100 * self.set_aside)} % set aside for declared plans" if self.set_aside > 0.01 else ""
        head = f"{self.percent} used{aside}"
        if self.used >= 1:
            return f"{head}; nothing fits any more"
        if self.last is None:
            return f"{head}; {'no release of its own yet' if self.used > 0 else 'nothing was released yet'}"
        where = " over the same block" if self.last.blocks else ""
        again = f"{self.more} more" if self.more else "no other"
        return f"{head}; fits {again} like the last (ε {self.last.epsilon:.3g}){where}"


def share(balance: Balance, plans: Iterable[Plan], last: Release | None = None, more: int | None = None) -> Share:
    """Return how much of an account is used: of its cost or its delta, whichever is used more.

    Args:
        plans: the plans declared in it.
        last, more: as in `Share`.
    """
    untaken = [(p, Fraction(p.times - p.used, p.times)) for p in plans if p.used < p.times]
    delta_left = balance.delta_limit - balance.delta_spent - balance.delta_held
    amounts = [
        (balance.cost_limit, balance.cost_left, sum(p.cost * part for p, part in untaken)),
        (balance.delta_limit, delta_left, sum(p.cost_delta * part for p, part in untaken)),
    ]
    used = max(1 - Fraction(left + aside, limit) for limit, left, aside in amounts if limit)
    free = min(Fraction(left, limit) for limit, left, _ in amounts if limit)
    if balance.epsilon_left <= 0:  # what is left is less than any release may ask
        free = Fraction(0)
    if not untaken:
        return Share(1.0 if free <= 0 else min(float(used), LAST_BUT_ONE), 0.0, last, more)
    return Share(min(float(used), LAST_BUT_ONE), float(max(1 - used - free, 0)), last, more)


@dataclass(frozen=True)
class Verification:
    """How much was verified, and the chain head it holds for."""

    accounts: int
    releases: int
    entries: int
    head: str
