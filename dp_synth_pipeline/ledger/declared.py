"""Declared plans: one release, declared to run at most so many times, and what counts as running no more than that.

A plan is accounted once, for all its repetitions, by one privacy loss distribution. That is sound although its uses
are chosen as one goes, interleave and stop short, since every mechanism of every use is dominated by the one that was
declared for it: what is chosen later is only which of them are left out.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

from dp_synth_pipeline.errors import BudgetExceeded, InvalidInput
from dp_synth_pipeline.ledger import costs, journal
from dp_synth_pipeline.ledger.entry import Account, Plan
from dp_synth_pipeline.ledger.terms import PlanTerms
from dp_synth_pipeline.privacy import accountant, filter
from dp_synth_pipeline.privacy.budget import check_delta, check_epsilon
from dp_synth_pipeline.privacy.events import DiscreteGaussian, repeated
from dp_synth_pipeline.privacy.filter import ATTO

WHOLE, SHARE, RENYI = "account", "share", "renyi"

SPLITTING_SLACK = 1e-6
"""Part of epsilon by which a use may exceed its declared events: the last digits of a sum that was split."""


def plan(account: Account, untouched: bool, terms: PlanTerms, *, why: str, who: str) -> Plan:
    """Return the plan and what it takes of the account, priced once for all its repetitions.

    Args:
        untouched: nothing was ever reserved or declared in the account.

    Raises:
        BudgetExceeded: if so many repetitions cost more than the share or the account.
        InvalidInput: if a share is needed and missing, or is no (epsilon, delta).
    """
    takes = _takes(account, untouched, terms)
    epsilon, delta = terms.share if terms.share is not None else (account.epsilon, account.delta)
    check_epsilon(epsilon)
    check_delta(delta)
    draft = Plan(
        id=uuid.uuid4().hex,
        account=account.name,
        name=terms.name,
        events=tuple(terms.events),
        times=terms.times,
        used=0,
        takes=takes,
        epsilon=0.0,
        delta=float(delta),
        cost=0,
        cost_delta=0,
        relation=account.relation,
        declared_at=journal.now(),
        who=who,
        why=why,
        mechanisms=tuple(terms.mechanisms),
    )
    check_noise(draft)
    made = replace(draft, epsilon=whole_epsilon(draft))
    if takes != RENYI and not made.epsilon <= epsilon:
        raise _too_many(made, epsilon)
    cost, cost_delta = charged(account, made, (epsilon, delta))
    return replace(made, cost=cost, cost_delta=cost_delta)


def _takes(account: Account, untouched: bool, terms: PlanTerms) -> str:
    if terms.share is not None:
        return SHARE
    if account.order is not None:
        return RENYI
    if not untouched:
        raise InvalidInput(
            f"account {account.name!r} is in use, so a plan cannot be the whole of it. Give the plan a share of it, "
            f"(epsilon, delta), or open an account for the plan."
        )
    return WHOLE


def check_noise(plan: Plan) -> None:
    """Refuse a plan whose price is not proved: discrete noise for several rows of one unit, by loss distributions.

    Plans of earlier versions may be such. Under a Rényi filter a plan is priced by its Rényi curve, which is proved.

    Raises:
        InvalidInput: saying what to declare instead; nothing was read or changed.
    """
    several = any(isinstance(e, DiscreteGaussian) and e.sensitivity > 1 for e in plan.events)
    if several and plan.takes != RENYI:
        raise InvalidInput(
            f"plan {plan.name!r} has discrete_gaussian events for several rows of a unit, whose price is proved for one row "
            f"alone. Declare it anew, with gaussian events (noise_multiplier = scale / sensitivity) in their place."
        )


def whole_epsilon(plan: Plan, times: int | None = None) -> float:
    """Return the epsilon of all repetitions of a plan, or of so many of them, at its delta."""
    every = repeated(plan.events, times or plan.times)
    return accountant.epsilon(every, plan.delta, plan.relation, fixed=True)


def charged(account: Account, plan: Plan, share: tuple[float, float]) -> tuple[int, int]:
    """Return the (cost, delta) units that a plan takes of its account when it is declared.

    Under a Rényi filter a share of epsilon takes as many Rényi units, since the limit is epsilon less a constant; its delta
    comes from the part that was set aside.
    """
    if plan.takes == WHOLE:
        return account.cost_limit, account.delta_limit
    if plan.takes == SHARE:
        return costs.share_units(share[0], filter.NANO), costs.share_units(share[1], ATTO)
    assert account.order is not None
    every = repeated(plan.events, plan.times)
    own = costs.share_units(accountant.own_delta(every, plan.relation), ATTO)
    return filter.charge_units(accountant.rdp(every, account.order, plan.relation)), own


def mirrored(umbrella: Account, plan: Plan) -> Plan:
    """Return the plan that charges an umbrella for a member's: by its Rényi divergence, for all its repetitions at once.

    That is sound whatever the member takes for it: each use is dominated by what was declared, and what was declared is a
    part of the umbrella's limit from then on, whether it runs or not.
    """
    draft = replace(plan, id=uuid.uuid4().hex, account=umbrella.name, name=plan.id, takes=RENYI, mirrors=plan.id)
    cost, cost_delta = charged(umbrella, draft, (0.0, 0.0))
    return replace(draft, cost=cost, cost_delta=cost_delta)


def one_use(plan: Plan) -> tuple[float, float, float]:
    """Return the (epsilon, delta, own delta) that one use of a plan may cost."""
    once = accountant.epsilon(plan.events, plan.delta, plan.relation, fixed=True)
    return once * (1 + SPLITTING_SLACK), plan.delta, accountant.own_delta(plan.events, plan.relation)


def _too_many(plan: Plan, epsilon: float) -> BudgetExceeded:
    low, high = 0, plan.times
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if whole_epsilon(plan, middle) <= epsilon else (low, middle)
    advice = f"at most {low} fit" if low else "not one fits"
    return BudgetExceeded(
        f"Plan {plan.name!r} is refused: {plan.times} releases cost epsilon={plan.epsilon:.4g} at "
        f"delta={plan.delta:g}, and it may take {epsilon:g}.\n"
        f"With this noise {advice}; declare fewer, or more noise. Nothing was read and nothing was changed."
    )
