"""What may be asked of a ledger: well-formed accounts, releases and mechanisms, or a refusal by name."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import costs, declared, journal, quota, refusal
from dp_synth_pipeline.ledger.entry import FILTER, RESERVED, Account, Plan, Release, dump_events
from dp_synth_pipeline.ledger.terms import AccountTerms, BudgetRequest, PlanTerms
from dp_synth_pipeline.privacy.budget import ADD_REMOVE, check_delta, check_epsilon, check_relation
from dp_synth_pipeline.privacy.events import Event

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,199}")
_TAG = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:/ -]{0,98}[A-Za-z0-9])?")


def check_name(name: str, whose: str = "an account's") -> None:
    """Accept a name of letters, digits and _ . : / -; refuse all else."""
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise InvalidInput(
            f"{whose} name is 1 to 200 letters, digits or _ . : / -, the first a letter or digit; got {name!r}."
        )


def check_unit(unit: str, max_rows: int) -> None:
    """Accept 'row' with one row, or a column with at least one; refuse all else."""
    if not (isinstance(unit, str) and unit):
        raise InvalidInput(f"unit must be 'row' or a column's name, got {unit!r}.")
    if not isinstance(max_rows, int) or max_rows < 1 or (unit == "row" and max_rows != 1):
        raise InvalidInput(f"max_rows must be at least 1, and 1 for unit 'row'; got {max_rows} for unit {unit!r}.")


def check_word(what: str, text: str) -> None:
    """Accept a text that says something; refuse an empty one."""
    if not (isinstance(text, str) and text.strip()):
        raise InvalidInput(f"{what} is needed, and it goes on record: give a text that is not empty.")


def checked_share(approve_above: float) -> float:
    """Return the share above which a charge needs a second person; refuse what is none."""
    if isinstance(approve_above, bool) or not isinstance(approve_above, int | float) or not 0 <= approve_above <= 1:
        raise InvalidInput(
            f"approve_above is a share of the account from 0 (every charge needs a second person) to 1 (none does), such as "
            f"0.25; got {approve_above!r}."
        )
    return float(approve_above)


def check_blocks(names: Iterable[str]) -> tuple[str, ...]:
    """Return blocks in order, each once, each with a name that can be kept."""
    if isinstance(names, str):
        raise InvalidInput(f"blocks are a list of names, got the text {names!r}; write [{names!r}].")
    blocks = tuple(sorted(set(names)))
    for name in blocks:
        check_name(name, "a block's")
    return blocks


def check_tags(mechanisms: Sequence[str], events: int) -> tuple[str, ...]:
    """Return the mechanisms that `events` events were declared for: a plain word beside each of them, or none at all."""
    if isinstance(mechanisms, str):
        raise InvalidInput(f"mechanisms are a list of names, got the text {mechanisms!r}; name one beside each event.")
    if mechanisms and len(mechanisms) != events:
        raise InvalidInput(
            f"expected a mechanism beside each of {events} events, or none at all; got {len(mechanisms)} mechanisms."
        )
    for name in mechanisms:
        if not (isinstance(name, str) and _TAG.fullmatch(name)):
            raise InvalidInput(
                f"a mechanism beside an event is 1 to 100 letters, digits, spaces or _ . : / -, such as 'training' or "
                f"'row count'; got {name!r}."
            )
    return tuple(mechanisms)


def opened(name: str, terms: AccountTerms, umbrella: Account | None = None) -> Account:
    """Return the account that a person may open with these terms, or raise why there is none.

    Args:
        umbrella: the one that `terms.under` names, if they name one.
    """
    check_name(name)
    same = {"unit": "row", "relation": ADD_REMOVE} if umbrella is None else vars(umbrella)
    unit = same["unit"] if terms.unit is None else terms.unit
    relation = same["relation"] if terms.relation is None else terms.relation
    check_unit(unit, terms.max_rows)
    check_relation(relation)
    _check_blocks_relation(terms, relation)
    if terms.umbrella:
        _check_umbrella(name, unit, terms)
    fixed = costs.terms(terms.rule, terms.epsilon, terms.delta, terms.own_delta_share)
    account = Account(
        name=name,
        unit=unit,
        max_rows=0 if terms.umbrella else terms.max_rows,
        relation=relation,
        epsilon=float(terms.epsilon),
        delta=float(terms.delta),
        rule=terms.rule,
        order=fixed.order,
        cost_limit=fixed.cost_limit,
        delta_limit=fixed.delta_limit,
        opened_at=journal.now(),
        who=journal.who(),
        why=terms.why,
        unit_in_one_block=terms.unit_in_one_block,
        umbrella=terms.umbrella,
        under=terms.under,
        approve_above=None if terms.approve_above is None else checked_share(terms.approve_above),
        quotas=quota.checked(terms.quotas),
    )
    if umbrella is not None and (wrong := not_under(account, umbrella)):
        raise InvalidInput(wrong)
    return account


def _check_blocks_relation(terms: AccountTerms, relation: str) -> None:
    if terms.unit_in_one_block and relation != ADD_REMOVE:
        raise InvalidInput(
            "blocks need relation 'add-remove': a unit that is replaced may come back in another block, so both of "
            "them would show. Leave the blocks away, or open the account for add-remove."
        )


def _check_umbrella(name: str, unit: str, terms: AccountTerms) -> None:
    """Accept the terms of an umbrella: a person's id, a Rényi filter, and nothing that only one table has."""
    if unit == "row":
        raise InvalidInput(
            f"umbrella {name!r} protects persons, whose rows lie in several tables, and needs the column that names a "
            f"person in all of them: unit, such as patient_id (--unit patient_id). A row is in one table."
        )
    if terms.rule != FILTER:
        raise InvalidInput(
            f"umbrella {name!r} needs rule {FILTER!r}, got {terms.rule!r}: its members release as they go, and their "
            f"declared plans enter it by their Rényi divergence."
        )
    unfit = {"max_rows": terms.max_rows > 1, "blocks": terms.unit_in_one_block, "under": terms.under is not None}
    if any(unfit.values()):
        raise InvalidInput(
            f"umbrella {name!r} takes no {', '.join(n for n, given in unfit.items() if given)}: rows and blocks are "
            f"those of each member, and an umbrella is under no other. Leave them away here; say them when a member is "
            f"opened."
        )


def not_under(account: Account, umbrella: Account) -> str:
    """Return why an account cannot be a member of an umbrella, or nothing if it can.

    Members may differ in `max_rows`: what each event costs is what all rows of one person move, within the member's own
    bound, so costs of members add up person by person.
    """
    member = f"account {account.name!r} cannot be under {umbrella.name!r}"
    if not umbrella.umbrella or account.umbrella:
        what = "is itself an umbrella" if account.umbrella else "would be under an account that is no umbrella"
        return f"{member}, since it {what}. Open an umbrella on purpose: dp-synth ledger open NAME --umbrella --unit COLUMN."
    for what in ("unit", "relation"):
        have, got = getattr(umbrella, what), getattr(account, what)
        if have != got:
            return (
                f"{member}: the umbrella protects {what}={have!r}, got {what}={got!r}, and what is promised of one does not "
                f"add to what is promised of another. Open it with the umbrella's {what}."
            )
    for what in ("epsilon", "delta"):
        most, got = getattr(umbrella, what), getattr(account, what)
        if got > most:
            return (
                f"{member}: it would allow {what}={got:g}, and the umbrella allows all its members together {what}="
                f"{most:g}. Ask for at most that."
            )
    return ""


def planned(terms: PlanTerms) -> PlanTerms:
    """Return the terms of a plan that may be declared, or raise why it may not."""
    events = check_events(f"plan {terms.name}", terms.events)
    check_name(terms.name, "a plan's")
    if not isinstance(terms.times, int) or isinstance(terms.times, bool) or terms.times < 1:
        raise InvalidInput(f"times must be a whole number of at least 1, got {terms.times}.")
    return replace(terms, events=events, mechanisms=check_tags(terms.mechanisms, len(events)))


def raised(account: Account, epsilon: float | None, delta: float | None, umbrella: Account | None = None) -> Account:
    """Return the account at a larger limit, or raise why it is not one.

    Args:
        umbrella: the one that the account is under, if it is under one.

    Raises:
        InvalidInput: if a limit would fall or exceed the umbrella's, or nothing would change.
    """
    more_epsilon = account.epsilon if epsilon is None else float(epsilon)
    more_delta = account.delta if delta is None else float(delta)
    check_epsilon(more_epsilon)
    check_delta(more_delta)
    before, after = (account.epsilon, account.delta), (more_epsilon, more_delta)
    if after == before or more_epsilon < account.epsilon or more_delta < account.delta:
        raise InvalidInput(
            f"account {account.name!r} is at epsilon={account.epsilon:g}, delta={account.delta:g} and a limit only "
            f"rises; got epsilon={more_epsilon:g}, delta={more_delta:g}. To allow less, stop releasing."
        )
    more = costs.raised(account, more_epsilon, more_delta)
    after_raise = replace(
        account, epsilon=more_epsilon, delta=more_delta, cost_limit=more.cost_limit, delta_limit=more.delta_limit
    )
    if umbrella is not None and (wrong := not_under(after_raise, umbrella)):
        raise InvalidInput(wrong)
    return after_raise


def amended(account: Account, approve_above: float | None, quotas: Iterable[str] = ()) -> Account:
    """Return the account with another share that one person decides, or with other quotas; refuse what changes nothing.

    Args:
        approve_above: the share above which a charge needs a second person; None to leave it as it is.
        quotas: those that are new or have another share; the others stay.
    """
    alone = 1.0 if account.approve_above is None else account.approve_above
    share = alone if approve_above is None else checked_share(approve_above)
    after = quota.checked(quotas, account.quotas)
    if (share, after) == (alone, account.quotas):
        told = ", ".join([f"approve_above={alone:g}", *(f"quota {q}" for q in account.quotas)])
        raise InvalidInput(f"account {account.name!r} has {told} already; nothing would change.")
    return replace(account, approve_above=account.approve_above if share == alone else share, quotas=after)


def check_events(mechanism: str, events: Iterable[Event]) -> tuple[Event, ...]:
    """Return the events of a named mechanism, known to be writable and readable again."""
    facts = tuple(events)
    if not mechanism:
        raise InvalidInput("a mechanism needs a name, such as 'profile' or 'training'.")
    if not facts or not all(isinstance(e, Event) for e in facts):
        raise InvalidInput(f"mechanism {mechanism!r} needs at least one privacy event, and nothing else, to be priced.")
    dump_events(facts)
    return facts


def priced(
    account: Account, epsilon: float, delta: float, own_delta: float, unit: str, max_rows: int
) -> tuple[int, int]:
    """Return the (cost, delta) units that a well-formed request for this account reserves; raise if it is not one."""
    check_epsilon(epsilon)
    check_delta(delta)
    costs.check_own_delta(own_delta, delta)
    wrong = refusal.mismatch(account, unit, max_rows, delta)
    if wrong is not None:
        raise wrong
    return costs.reservation(account, epsilon, delta, own_delta)


def release(account: Account, asked: BudgetRequest, plan: Plan | None = None) -> Release:
    """Return the release that a request would become if it is admitted.

    Args:
        plan: the declared plan that the request names, if it names one.
    """
    check_payer(account)
    epsilon, delta, own_delta = _budget(asked, plan)
    blocks = check_blocks(asked.blocks)
    for what, text in (("key", asked.key), ("table", asked.table), ("run_id", asked.run_id)):
        if not (isinstance(text, str) and text):
            raise InvalidInput(f"a release needs a {what}: a text that is not empty.")
    cost, delta_units = priced(account, epsilon, delta, own_delta, asked.unit, asked.max_rows)
    if plan is not None:
        declared.check_noise(plan)
        if blocks:
            raise InvalidInput("a use of a plan names no blocks: the plan was charged to the account's own row.")
        cost, delta_units = 0, 0
    return Release(
        id=uuid.uuid4().hex,
        account=account.name,
        key=asked.key,
        table=asked.table,
        run_id=asked.run_id,
        code_version=asked.code_version,
        epsilon=float(epsilon),
        delta=float(delta),
        own_delta=float(own_delta),
        order=account.order if plan is None else None,
        reserved_cost=cost,
        reserved_delta=delta_units,
        state=RESERVED,
        who=journal.who(),
        reserved_at=journal.now(),
        plan=None if plan is None else plan.id,
        blocks=blocks,
        relation=account.relation,
        purpose=asked.purpose,
    )


def check_payer(account: Account) -> None:
    """Accept an account that releases may be charged to; refuse an umbrella, which its members charge."""
    if account.umbrella:
        raise InvalidInput(
            f"account {account.name!r} is an umbrella and has no releases or plans of its own. Name the member that "
            f"protects this table; open one with dp-synth ledger open NAME --epsilon E --under {account.name}. "
            f"{refusal.UNTOUCHED}"
        )


def mirrored(ask: Release, umbrella: Account, plan: Plan | None = None) -> tuple[Release, Release]:
    """Return a release that would be admitted with its mirror, which charges the umbrella in the umbrella's own units.

    Args:
        plan: the umbrella's mirror of the declared plan of which the release is a use.
    """
    cost, delta_units = (0, 0) if plan else costs.reservation(umbrella, ask.epsilon, ask.delta, ask.own_delta)
    above = {"reserved_cost": cost, "reserved_delta": delta_units, "order": None if plan else umbrella.order}
    mirror = replace(
        ask,
        id=uuid.uuid4().hex,
        account=umbrella.name,
        key=f"mirror of {ask.id}",
        plan=plan and plan.id,
        blocks=(),
        mirrors=ask.id,
        **above,
    )
    own = ask if plan else replace(ask, umbrella_order=umbrella.order, umbrella_cost=cost)
    return own, mirror


def _budget(asked: BudgetRequest, plan: Plan | None) -> tuple[float, float, float]:
    """Return the (epsilon, delta, own delta) that was asked for, or left to the plan of which the release is a use."""
    epsilon, delta, own_delta = asked.epsilon, asked.delta, asked.own_delta
    if plan is not None and None in (epsilon, delta, own_delta):
        once = declared.one_use(plan)
        epsilon, delta, own_delta = (
            a if a is not None else p for a, p in zip((epsilon, delta, own_delta), once, strict=True)
        )
    if epsilon is None or delta is None:
        raise InvalidInput("a release needs an epsilon and a delta, or a plan that has them.")
    return epsilon, delta, own_delta or 0.0


def same(earlier: Release, ask: Release) -> Release:
    """Return the release that a key already names; refuse the key for another request."""
    fields = ("account", "table", "run_id", "epsilon", "delta", "own_delta", "plan", "blocks")
    differing = [f for f in fields if getattr(earlier, f) != getattr(ask, f)]
    if differing:
        raise refusal.other_request(earlier, differing)
    return earlier
