"""What an account has left, and how much of a ledger was verified: answers, which are not kept."""

from __future__ import annotations

from dataclasses import dataclass

from dp_synth_pipeline.ledger.entry import Rule
from dp_synth_pipeline.privacy.filter import ATTO, NANO


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
    def delta_used(self) -> float:
        """The shared delta that is spent or held."""
        return (self.delta_spent + self.delta_held) / ATTO

    @property
    def delta_left(self) -> float:
        """The shared delta that no release has taken."""
        return (self.delta_limit - self.delta_spent - self.delta_held) / ATTO


@dataclass(frozen=True)
class Verification:
    """How much was verified, and the chain head it holds for."""

    accounts: int
    releases: int
    entries: int
    head: str
