"""Why a request was refused, in words that say what was asked, what is left, what would fit and what to do next."""

from __future__ import annotations

from collections.abc import Sequence

from dp_synth_pipeline.errors import AccountMismatch, BudgetExceeded, InvalidInput, ReleaseStateError
from dp_synth_pipeline.ledger import advice, costs
from dp_synth_pipeline.ledger.entry import PLAN, RESERVED, SETTLED, STARTED, VOIDED, Account, Plan, Release
from dp_synth_pipeline.ledger.rows import Tally
from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.privacy.filter import ATTO, NANO

UNTOUCHED = "Nothing was read and nothing was changed."


def over_budget(
    account: Account,
    tally: Tally,
    *,
    epsilon: float,
    delta: float,
    own_delta: float,
    blocks: Sequence[str] = (),
    nominal: Sequence[Event] = (),
) -> BudgetExceeded:
    """Return the refusal of a release that does not fit what is left of its account.

    Args:
        blocks: the blocks that the release names; the fullest of them is what `tally` holds.
        nominal: the mechanisms that the release would run, for advice in steps and noise.
    """
    cost, delta_units = tally.left(account)
    asked = f"epsilon={epsilon:g} at delta={delta:g}" + (f", {own_delta:g} of it for thresholds" if own_delta else "")
    fits = costs.epsilon_left(account, cost, delta_units, delta, own_delta)
    where = f" over the fullest of the blocks {', '.join(blocks)}" if blocks else ""
    lines = [
        f"Account {account.name!r} refuses this release{where}: it asks for {asked}.",
        _state(account, tally),
        *advice.lines(account, cost, fits, delta, nominal),
        f"{_advice(account, fits, delta, own_delta, delta_units / ATTO)} {UNTOUCHED}",
    ]
    return BudgetExceeded("\n".join(lines))


def over_budget_plan(account: Account, tally: Tally, plan: Plan) -> BudgetExceeded:
    """Return the refusal of a plan that takes more than is left of its account."""
    return BudgetExceeded(
        f"Plan {plan.name!r} is refused: {plan.times} releases take {plan.cost / NANO:.4g} and delta="
        f"{plan.cost_delta / ATTO:.4g} of account {account.name!r}.\n{_state(account, tally)}\n"
        f"Declare fewer releases, more noise or a smaller share. {UNTOUCHED}"
    )


def no_use_left(plan: Plan) -> BudgetExceeded:
    """Return the refusal of a release whose plan has run as often as it was declared to."""
    return BudgetExceeded(
        f"Plan {plan.name!r} of account {plan.account!r} refuses this release: it was declared to run {plan.times} "
        f"times, and all of them are taken.\n"
        f"Void a release of it that never started, or have a person declare another plan. {UNTOUCHED}"
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


def _advice(account: Account, fits: float, delta: float, own_delta: float, delta_left: float) -> str:
    if fits > 0:
        return f"What fits now: epsilon <= {fits:g} at this delta; ask for that, or void a release that never started."
    short = delta if account.rule == PLAN else own_delta
    if delta_left < short:
        kind = "delta" if account.rule == PLAN else "threshold delta"
        if delta_left > 0:
            return f"What fits now: at most {delta_left:.4g} of {kind}; ask for no more of it, or use another account."
        return f"No {kind} is left: ask for none of it, or have a person open another account."
    return "Nothing fits any more: settle or void unfinished releases, or have a person open another account."


def over_reservation(release: Release, mechanism: str, cost: str, held: str) -> BudgetExceeded:
    """Return the refusal of a mechanism that would take its release over what was reserved."""
    return BudgetExceeded(
        f"Mechanism {mechanism!r} is refused: with it, release {release.id} for table {release.table!r} would cost "
        f"{cost}, and it reserved {held}.\n"
        f"Use more noise or fewer steps; or materialize again from `ingested` with a larger epsilon, which is a new "
        f"charge. {UNTOUCHED}"
    )


def mismatch(account: Account, unit: str, max_rows: int, delta: float) -> AccountMismatch | None:
    """Return why a release does not belong to this account, or None if it does."""
    for what, have, got in (("unit", account.unit, unit), ("max_rows", account.max_rows, max_rows)):
        if have != got:
            return AccountMismatch(
                f"account {account.name!r} protects {what}={have!r}, got {what}={got!r}: another privacy unit is "
                f"another promise. Change the request, or open an account for that unit. {UNTOUCHED}"
            )
    if delta > account.delta:
        return AccountMismatch(
            f"account {account.name!r} promises delta={account.delta:g}, got delta={delta:g}. Ask for at most the "
            f"account's delta. {UNTOUCHED}"
        )
    return None


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
