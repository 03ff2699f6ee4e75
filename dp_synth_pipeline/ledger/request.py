"""What may be asked of a ledger: well-formed accounts, releases and mechanisms, or a refusal by name."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from dataclasses import replace

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import costs, journal, refusal
from dp_synth_pipeline.ledger.entry import RESERVED, Account, Plan, Release, Rule, dump_events
from dp_synth_pipeline.privacy.budget import ADD_REMOVE, check_delta, check_epsilon, check_relation
from dp_synth_pipeline.privacy.events import Event

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,199}")


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


def check_blocks(names: Iterable[str]) -> tuple[str, ...]:
    """Return blocks in order, each once, each with a name that can be kept."""
    if isinstance(names, str):
        raise InvalidInput(f"blocks are a list of names, got the text {names!r}; write [{names!r}].")
    known = tuple(sorted(set(names)))
    for name in known:
        check_name(name, "a block's")
    return known


def opened(
    name: str,
    epsilon: float,
    delta: float,
    unit: str,
    max_rows: int,
    rule: Rule,
    own_delta_share: float,
    why: str,
    *,
    relation: str = ADD_REMOVE,
    unit_in_one_block: bool = False,
) -> Account:
    """Return the account that a person may open with these terms, or raise why there is none."""
    check_name(name)
    check_unit(unit, max_rows)
    check_relation(relation)
    if unit_in_one_block and relation != ADD_REMOVE:
        raise InvalidInput(
            "blocks need relation 'add-remove': a unit that is replaced may come back in another block, so both of "
            "them would show. Leave the blocks away, or open the account for add-remove."
        )
    fixed = costs.terms(rule, epsilon, delta, own_delta_share)
    return Account(
        name=name,
        unit=unit,
        max_rows=max_rows,
        relation=relation,
        epsilon=float(epsilon),
        delta=float(delta),
        rule=rule,
        order=fixed.order,
        cost_limit=fixed.cost_limit,
        delta_limit=fixed.delta_limit,
        opened_at=journal.now(),
        who=journal.who(),
        why=why,
        unit_in_one_block=unit_in_one_block,
    )


def raised(account: Account, epsilon: float | None, delta: float | None) -> Account:
    """Return the account at a larger limit, or raise why it is not one.

    Raises:
        InvalidInput: if a limit would fall, or nothing would change.
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
    return replace(
        account, epsilon=more_epsilon, delta=more_delta, cost_limit=more.cost_limit, delta_limit=more.delta_limit
    )


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


def release(
    account: Account,
    key: str,
    epsilon: float,
    delta: float,
    own_delta: float,
    unit: str,
    max_rows: int,
    *,
    table: str,
    run_id: str,
    code_version: str,
    plan: Plan | None = None,
    blocks: Iterable[str] = (),
) -> Release:
    """Return the release that a request would become if it is admitted."""
    named = check_blocks(blocks)
    for what, text in (("key", key), ("table", table), ("run_id", run_id)):
        if not (isinstance(text, str) and text):
            raise InvalidInput(f"a release needs a {what}: a text that is not empty.")
    cost, delta_units = priced(account, epsilon, delta, own_delta, unit, max_rows)
    if plan is not None:
        if named:
            raise InvalidInput("a use of a plan names no blocks: the plan was charged to the account's own row.")
        cost, delta_units = 0, 0
    return Release(
        id=uuid.uuid4().hex,
        account=account.name,
        key=key,
        table=table,
        run_id=run_id,
        code_version=code_version,
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
        blocks=named,
        relation=account.relation,
    )


def same(known: Release, ask: Release) -> Release:
    """Return the release that a key already names; refuse the key for another request."""
    fields = ("account", "table", "run_id", "epsilon", "delta", "own_delta", "plan", "blocks")
    differing = [f for f in fields if getattr(known, f) != getattr(ask, f)]
    if differing:
        raise refusal.other_request(known, differing)
    return known
