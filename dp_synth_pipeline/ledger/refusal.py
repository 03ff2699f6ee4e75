"""Why a request was refused, in words that say what was asked, what is used, what would fit and what to do next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context

from dp_synth_pipeline.errors import AccountMismatch, ApprovalNeeded, BudgetExceeded, InvalidInput, ReleaseStateError
from dp_synth_pipeline.ledger import advice, costs
from dp_synth_pipeline.ledger.balance import Share
from dp_synth_pipeline.ledger.entry import (
    PLAN,
    REQUESTER,
    RESERVED,
    SETTLED,
    STARTED,
    VOIDED,
    Account,
    Claim,
    Plan,
    Quota,
    Release,
    Request,
)
from dp_synth_pipeline.ledger.rows import Payers, Tally
from dp_synth_pipeline.privacy.budget import ADD_REMOVE
from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.privacy.filter import ATTO, NANO

DOWN = Context(prec=3, rounding=ROUND_FLOOR)
"""How a delta that would fit is written, so that what is written fits."""

UNTOUCHED = "Nothing was read and nothing was changed."

NAMED = 3
"""Blocks without room that a refusal names; of more it says how many."""


@dataclass(frozen=True)
class Asked:
    """What a release that was refused had asked for.

    Attributes:
        own_delta: the part of delta for mechanisms with a delta of their own.
        blocks: the blocks that it names.
        full: those of them that have no room for it.
        nominal: the mechanisms that it would run, for advice in steps and noise.
    """

    epsilon: float
    delta: float
    own_delta: float = 0.0
    blocks: Sequence[str] = ()
    full: Sequence[str] = ()
    nominal: Sequence[Event] = ()


def _kind(account: Account) -> str:
    return "umbrella" if account.umbrella else "account"


def over_budget(payers: Payers, at: int, asked: Asked, used: Share, waiting: Sequence[Release] = ()) -> BudgetExceeded:
    """Return the refusal of a release that does not fit what is left of its account or umbrella, for whoever asked.

    The rule and its units are in `details` of the error, and what was asked and would fit is in `facts`.

    Args:
        payers: what it would be charged to, with the balance of the fullest of its blocks, if it names any.
        at: the place of the one that refuses.
        used: how much of that one is used.
        waiting: releases that hold a reservation in it of which nothing has started.
    """
    account, tally = payers[at]
    cost, delta_units = tally.left(account)
    fits = min(costs.epsilon_left(a, *t.left(a), asked.delta, asked.own_delta) for a, t in payers)
    whose = f" of its member {payers[0][0].name!r}" if at else without_room(asked.full)
    held = ", with what unfinished releases hold" if tally.cost_held else ""
    message = (
        f"{_kind(account).capitalize()} {account.name!r} refuses this release{whose}: it asks for epsilon="
        f"{asked.epsilon:g} at delta={asked.delta:g}, and {used.percent} of the {_kind(account)} is used{held}.\n"
        f"{_what_fits(account, tally, asked, fits)}{_voidable(waiting)} {UNTOUCHED}"
    )
    rdp_left = {a.order: t.left(a)[0] / NANO for a, t in payers if a.order is not None}
    details = [
        *([f"Of the delta asked, {asked.own_delta:g} is for thresholds."] if asked.own_delta else []),
        _state(account, tally),
        *advice.lines(rdp_left, account.relation, fits, asked.delta, asked.nominal),
    ]
    facts = {
        "account": account.name,
        **({"member": payers[0][0].name} if at else {}),
        "asked": {"epsilon": asked.epsilon, "delta": asked.delta, "own_delta": asked.own_delta},
        "blocks": list(asked.blocks),
        "used": used.used,
        "epsilon_that_fits": fits,
        "rule": account.rule,
        "order": account.order,
        "cost_left": cost / NANO,
        "delta_left": delta_units / ATTO,
    }
    return BudgetExceeded(message, details="\n".join(details), facts=facts)


def without_room(blocks: Sequence[str]) -> str:
    """Name the blocks that have no room for a release, the first of many; nothing if there are none."""
    if not blocks:
        return ""
    more = f" and {len(blocks) - NAMED} more" if len(blocks) > NAMED else ""
    return f" for want of room in block{'' if len(blocks) == 1 else 's'} {', '.join(blocks[:NAMED])}{more}"


def over_quota(
    account: Account, told: Quota, tally: Tally, asks: tuple[int, int], claim: Claim, fits: str = ""
) -> BudgetExceeded:
    """Return the refusal of what would take one requester, or one purpose, above their quota of an account or umbrella.

    Args:
        tally: what counts against the quota.
        asks: what is asked for, in the account's units of cost and delta.
        fits: a sentence that says what would fit.
    """
    whole, name = f"{_kind(account)} {account.name!r}", claim.named(told.by)
    exceeds = tally.taken[0] + asks[0] > math.floor(account.cost_limit * told.part)
    taken, takes = (
        account.part(*units) if exceeds else units[1] / (account.delta_limit or 1) for units in (tally.taken, asks)
    )
    of = "it" if exceeds else "its delta"
    purpose = f"what is for {name!r}" if name.strip() else "what names no purpose"
    whose = name if told.by == REQUESTER else purpose
    more = f"asks for {100 * takes:.3g} % more"
    return BudgetExceeded(
        f"Quota {told} of {whole} refuses this: {whose} may take at most {100 * told.share:g} % of {of} and has "
        f"{100 * taken:.3g} %, and {claim.who} {more}.\n"
        f"{fits}Ask for less; or a person decides on record that {whose} may take more: dp-synth ledger amend "
        f"{account.name} --quota '{told.by}={name or told.name}:SHARE' --why REASON. {UNTOUCHED}",
        facts={
            "account": account.name,
            "quota": str(told),
            "who": claim.who,
            "purpose": claim.purpose,
            "takes": takes,
            "taken": taken,
        },
    )


def over_budget_plan(account: Account, tally: Tally, plan: Plan, name: str) -> BudgetExceeded:
    """Return the refusal of a plan that takes more than is left of its account, or of the umbrella above it.

    Args:
        name: the plan's name, which the plan that an umbrella is charged for does not have.
    """
    cost, delta = tally.left(account)
    wanted = max(plan.cost / account.cost_limit, plan.cost_delta / (account.delta_limit or 1))
    free = min(cost / account.cost_limit, delta / (account.delta_limit or 1))
    whole = f"{_kind(account)} {account.name!r}"
    takes = f"The plan takes {plan.cost / NANO:.4g} and delta={plan.cost_delta / ATTO:.4g} of {whole}."
    return BudgetExceeded(
        f"Plan {name!r} is refused: {plan.times} releases take {math.ceil(100 * wanted)} % of {whole}, and "
        f"{math.floor(100 * max(free, 0))} % of it is free.\n"
        f"Declare fewer releases, more noise or a smaller share. {UNTOUCHED}",
        details=f"{takes}\n{_state(account, tally)}",
        facts={"account": account.name, "plan": name, "times": plan.times, "takes": wanted, "free": free},
    )


def over_budget_by_hand(account: Account, tally: Tally, charge: Release) -> BudgetExceeded:
    """Return the refusal of a charge by hand that is more than is left of its account, or of the umbrella above it."""
    cost, delta = tally.left(account)
    whole = f"{_kind(account)} {account.name!r}"
    parts = [(charge.reserved_cost, cost, account.cost_limit)]
    parts += [(charge.reserved_delta, delta, account.delta_limit)] if charge.reserved_delta else []
    takes = max(taken / (limit or 1) for taken, _, limit in parts)
    free = min(max(left, 0) / (limit or 1) for _, left, limit in parts)
    return BudgetExceeded(
        f"This charge by hand is refused: it takes {100 * takes:.3g} % of {whole}, and {100 * free:.3g} % of it is free.\n"
        f"If it has not run yet, do not run it. If it has, more was released than was promised: have a person raise the "
        f"limit on record, which says so (dp-synth ledger raise {account.name}), and enter the charge again. Nothing was "
        f"changed.",
        details=_state(account, tally),
        facts={"account": account.name, "takes": takes, "free": free},
    )


def needs_approval(asked: Request, guard: Account) -> ApprovalNeeded:
    """Return the refusal of what a second person has not approved yet, which its request waits for.

    Args:
        guard: the account, or the umbrella above it, whose terms want a second person.
    """
    whole, alone = f"{_kind(guard)} {guard.name!r}", guard.approve_above or 0.0
    takes = f"it takes {100 * asked.share:.3g} % of" if asked.share else "it loosens the terms of"
    why = f"{takes} {whole}, where one person alone decides at most {100 * alone:.3g} %"
    return ApprovalNeeded(
        f"Request {asked.id[:12]} waits for a second person: {why}.\n"
        f"Somebody other than {asked.who} looks at it (dp-synth ledger requests) and approves it: dp-synth ledger approve "
        f"{asked.id[:12]} --why REASON. Then ask for the same again, once: run it again, or wait for the next refresh. "
        f"{UNTOUCHED}",
        facts={"account": guard.name, "request": asked.id, "share": asked.share, "approve_above": alone},
    )


def no_use_left(plan: Plan) -> BudgetExceeded:
    """Return the refusal of a release whose plan has run as often as it was declared to."""
    return BudgetExceeded(
        f"Plan {plan.name!r} of account {plan.account!r} refuses this release: it was declared to run {plan.times} "
        f"times, and all of them are taken.\n"
        f"Have a person declare another plan. {UNTOUCHED}"
    )


def not_declared(plan: Plan, mechanism: str) -> BudgetExceeded:
    """Return the refusal of a mechanism that the plan of its release does not cover."""
    return BudgetExceeded(
        f"Mechanism {mechanism!r} is refused: plan {plan.name!r} was accounted for other events.\n"
        f"Run the kinds that were declared, with at least their noise and at most their sampling rate, steps and "
        f"counts; or reserve without the plan. {UNTOUCHED}"
    )


def other_source(release: Release) -> ReleaseStateError:
    """Return the refusal to put another source on a release's record."""
    return ReleaseStateError(
        f"release {release.id} has another source on record, so this one was not read under it. Materialize again "
        f"from `ingested`: a new release is a new charge."
    )


def _state(account: Account, tally: Tally) -> str:
    cost, delta_units = tally.left(account)
    spent = costs.epsilon_spent(account, tally.cost_spent + tally.cost_held)
    held = f", of which {tally.cost_held / NANO:.4g} held by unfinished releases" if tally.cost_held else ""
    whole = f"Of epsilon={account.epsilon:g} at delta={account.delta:g}, epsilon={spent:.4g} is taken; "
    if account.rule == PLAN:
        remaining = f"epsilon={cost / NANO:.4g} and delta={delta_units / ATTO:.4g} are left"
        return f"{whole}{remaining} (declared plan: shares add up{held})."
    return (
        f"{whole}{cost / NANO:.4g} of {account.cost_limit / NANO:.4g} Rényi units at order {account.order:g} and "
        f"{delta_units / ATTO:.4g} of threshold delta are left (Rényi filter{held})."
    )


def _what_fits(account: Account, tally: Tally, asked: Asked, fits: float) -> str:
    if fits > 0:
        return f"What fits now: epsilon <= {fits:g} at this delta. Ask for at most that.{_alone(account, tally, asked)}"
    delta_left = tally.left(account)[1] / ATTO
    needed = asked.delta if account.rule == PLAN else asked.own_delta
    if 0 < delta_left < needed:
        fitting = DOWN.create_decimal_from_float(asked.delta * delta_left / needed)
        return (
            f"What fits now: a delta of at most {float(fitting):g}, since no more of it is left. Ask for at most that."
        )
    gone = "No delta is left, so nothing" if delta_left < needed else "Nothing"
    return (
        f"{gone} fits any more. A person may raise the limit, which weakens what was promised; dp-synth ledger raise "
        f"{account.name} says first whether that helps."
    )


def _alone(account: Account, tally: Tally, asked: Asked) -> str:
    """Say how one release has all of an account that nothing was charged to yet, if it asks for no more than the limit."""
    kept = account.umbrella or account.unit_in_one_block or account.quotas or account.approve_above is not None
    if account.order is None or kept or any(tally.taken) or asked.epsilon > account.epsilon:
        return ""
    given = [f"--epsilon {account.epsilon:g} --delta {account.delta:g}"]
    given += [] if account.unit == "row" else [f"--unit {account.unit} --max-rows {account.max_rows}"]
    given += [] if account.relation == ADD_REMOVE else [f"--relation {account.relation}"]
    given += [] if account.under is None else [f"--under {account.under}"]
    return (
        f" The rest is what it costs that others may follow. For one release alone, the whole is open: dp-synth ledger open "
        f"{account.name} {' '.join(given)} --rule plan --anew."
    )


def _voidable(waiting: Sequence[Release]) -> str:
    """Say which reservation may be given back, if there is one of which nothing has started."""
    if not waiting:
        return ""
    oldest = waiting[0]
    return (
        f" Release {oldest.id[:12]} of table {oldest.table} has held its part since {oldest.reserved_at[:10]}, and nothing "
        f"of it has started: if its run is over, give it back with dp-synth ledger void {oldest.id[:12]} --why REASON."
    )


def over_reservation(release: Release, mechanism: str, cost: str, held: str) -> BudgetExceeded:
    """Return the refusal of a mechanism that would take its release over what was reserved."""
    where = "" if release.mirrors is None else f" in umbrella {release.account!r}"
    return BudgetExceeded(
        f"Mechanism {mechanism!r} is refused: with it, release {release.mirrors or release.id} for table {release.table!r} "
        f"would cost {cost}{where}, and it reserved {held}.\n"
        f"Use more noise or fewer steps; or materialize again from `ingested` with a larger epsilon, which is a new "
        f"charge. {UNTOUCHED}"
    )


def mismatch(account: Account, unit: str, max_rows: int, delta: float) -> AccountMismatch | None:
    """Return why a release does not belong to this account, or None if it does."""
    more = f" --max-rows {max_rows}" if unit != "row" else ""
    for what, have, got in (("unit", account.unit, unit), ("max_rows", account.max_rows, max_rows)):
        if have != got:
            return AccountMismatch(
                f"account {account.name!r} protects {what}={have!r}, got {what}={got!r}: another privacy unit is "
                f"another promise. Change the request, or open an account for that unit (dp-synth ledger open NAME --unit "
                f"{unit}{more}) and name it as the account. {UNTOUCHED}"
            )
    if delta > account.delta:
        return AccountMismatch(
            f"account {account.name!r} promises delta={account.delta:g}, got delta={delta:g}. Ask for at most the "
            f"account's delta. {UNTOUCHED}"
        )
    return None


def exists(account: Account, unit: str, under: str | None, *, untouched: bool) -> InvalidInput:
    """Return the refusal to open an account that is there, or to put one that is in use under an umbrella.

    Args:
        unit: whom the account was to protect.
        untouched: whether nothing was ever charged to it or is held.
    """
    name = account.name
    if under is None:
        unlike = f" It protects one {account.unit}, and one {unit} was asked for." if unit != account.unit else ""
        anew = (
            f" Nothing was charged to it yet: dp-synth ledger open {name} --anew, with all of its terms, replaces them."
        )
        return InvalidInput(
            f"account {name!r} exists and its terms are fixed: it is opened once, and used from then on by its name.{unlike}"
            f"{anew if untouched else ''} dp-synth ledger show {name} says what is left of it (in Python, leave this call "
            f"out: ledger.account({name!r}) returns it), and dp-synth ledger raise {name} raises its limit. Other data "
            f"{'take' if untouched else 'and other units take'} an account of another name."
        )
    return InvalidInput(
        f"account {name!r} exists, and an account joins an umbrella when it is opened and never later: what it has "
        f"released was not bounded by {under!r} when it ran, and a limit that counts it afterwards was chosen after seeing "
        f"it. Open another account under {under}, and enter there what {name!r} was charged: dp-synth ledger charge."
    )


def opened_anew(account: Account) -> AccountMismatch:
    """Return the refusal of a release that was priced for terms which the account had until a moment ago."""
    return AccountMismatch(
        f"account {account.name!r} was opened anew, with other terms, while this release was priced. Ask again. {UNTOUCHED}"
    )


def wrong_state(release: Release, wanted: str) -> ReleaseStateError:
    """Return the refusal of a step that the release's state does not allow."""
    begin_again = "Materialize again from `ingested`: a new release is a new charge."
    next_action = {
        RESERVED: "Nothing has started yet: start a mechanism first, or void the release.",
        STARTED: "Settle it: what has started may have run, and is charged.",
        SETTLED: begin_again,
        VOIDED: begin_again,
    }[release.state]
    return ReleaseStateError(f"cannot {wanted}: release {release.id} is {release.state}. {next_action}")


def ran_twice(release: Release, mechanism: str) -> ReleaseStateError:
    """Return the refusal to run one mechanism twice for one charge."""
    return ReleaseStateError(
        f"mechanism {mechanism!r} was already started in release {release.id}; running it again would be two looks "
        f"at the data for one charge. Materialize again from `ingested`: a new release is a new charge."
    )


def other_request(release: Release, fields: list[str]) -> InvalidInput:
    """Return the refusal to answer one idempotency key with two different requests."""
    return InvalidInput(
        f"key {release.key!r} already names release {release.id}, which differs in {', '.join(fields)}. Use a new key "
        f"for a new release. {UNTOUCHED}"
    )


def unknown_lineage(release: Release) -> InvalidInput:
    """Return the refusal to build upon entries that this ledger lacks, or that protect another unit."""
    return InvalidInput(
        f"release {release.id} is said to build upon entries that this ledger lacks, or that protect another privacy unit "
        f"than account {release.account!r}, so what its table promises cannot be computed. Name entries of this ledger "
        f"with the same unit and relation. {UNTOUCHED}"
    )
