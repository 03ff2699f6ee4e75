"""`dp-synth ledger forecast`: which scheduled refreshes would be refused, account by account and block by block."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from rich.console import Console

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Ledger, advice
from dp_synth_pipeline.orchestration import forecasts
from dp_synth_pipeline.orchestration.build import current_project
from dp_synth_pipeline.orchestration.forecasts import Foretold, Scheduled
from dp_synth_pipeline.privacy.filter import NANO
from dp_synth_pipeline.synthesis.allocation import THRESHOLD_SHARE

PARTED = " a tick refreshes the newest window that is over, or each listed value, once;"


def forecast(
    book: Ledger, account: str | None, days: int, epsilon: float | None, every: str | None, console: Console
) -> None:
    """Print for each scheduled account when it is exhausted, or which blocks are, and at which epsilon all would fit."""
    planned = _assumed(account, epsilon, every) if every else forecasts.scheduled(current_project(), account, epsilon)
    if not planned:
        raise InvalidInput(
            "no table of this project has a schedule for that account; write `schedule: 0 3 * * 1` in its YAML, or "
            "assume one: dp-synth ledger forecast ACCOUNT --every '0 3 * * 1' --epsilon E."
        )
    until = datetime.now(UTC) + timedelta(days=days)
    for name, known in planned.items():
        for line in _lines(book, name, known, until, days):
            console.print(f"{name}: {line}", soft_wrap=True)
    parted = PARTED if any(one.settings for known in planned.values() for one in known) else ""
    console.print(
        f"Assumed: every schedule is on;{parted} a refresh costs all that it may; nothing else is charged.",
        style="dim",
        soft_wrap=True,
    )


def _assumed(account: str | None, epsilon: float | None, every: str) -> dict[str, list[Scheduled]]:
    if account is None or epsilon is None:
        raise InvalidInput("--every needs an account and --epsilon.")
    return {account: [Scheduled("", every, epsilon)]}


def _lines(book: Ledger, name: str, known: list[Scheduled], until: datetime, days: int) -> Iterator[str]:
    opened = book.account(name)
    unsound = {one.table: why for one in known if (why := forecasts.sound(book, one))}
    for table, why in unsound.items():
        yield f"no refresh of {table} would be admitted: {why}"
    able = [one for one in known if one.table not in unsound]
    paying = [one for one in able if one.plan is None]
    told = forecasts.foretell(book, name, forecasts.dues(opened, paying, until))
    if whole := [one for one in paying if not one.in_blocks]:
        yield _whole(book, name, whole, told, days)
    for one in paying:
        if one.in_blocks:
            yield _in_blocks(book, name, one, told, days)
    plans: dict[str, list[Scheduled]] = defaultdict(list)
    for one in able:
        if one.plan is not None:
            plans[one.plan].append(one)
    for plan, using in plans.items():
        found, left = forecasts.uses(book, name, plan, forecasts.dues(opened, using, until))
        what = f"{', '.join(one.table for one in using)}, {len(found.dues)} refreshes in {days} days, each one use of plan "
        yield f"{what}{plan}, which has {left} left; {_fit(found)}"


def _whole(book: Ledger, name: str, known: list[Scheduled], every: Foretold, days: int) -> str:
    """Tell of the refreshes that are charged to all rows."""
    told, opened = forecasts.chosen(every, lambda d: not d.ask.blocks), book.account(name)
    many, rows = len(told.dues), ", charged to all rows" if opened.unit_in_one_block else ""
    what = f"{many} refreshes of epsilon {max(one.epsilon for one in known):g} in {days} days{rows}; "
    spanning = ", ".join(one.table for one in known if one.settings is not None)
    parts = f" Each partition of {spanning} is charged to all rows: a unit may be in several." if spanning else ""
    first = told.first_refused
    if first is None:
        return f"{what}all fit.{parts}"
    if plain := told.dues == every.dues and not spanning:
        fit = book.affordable(name, times=many, own_delta=opened.delta * THRESHOLD_SHARE)
    else:
        fit = forecasts.affordable(book, name, every.dues, lambda d: not d.ask.blocks)
    noise = _noise(book, name, many) if plain else ""
    what += f"{sum(told.fits)} fit, and the account is exhausted on {first.at:%d %B %Y}."
    return f"{what} {_all(many, fit)}{noise}.{parts}"


def _in_blocks(book: Ledger, name: str, one: Scheduled, every: Foretold, days: int) -> str:
    """Tell of the refreshes of one table, each of which is charged to the block that it reads."""
    told = forecasts.chosen(every, lambda d: d.table == one.table)
    cut = one.settings.partitions if one.settings else None
    if cut is None:
        return ""
    many, most, column = len(told.dues), max(told.blocks.values(), default=0), cut.column
    what = f"{one.table}, {many} refreshes of epsilon {one.epsilon:g} in {days} days, "
    if cut.values is not None:
        what += f"each value of {column} {most} times, charged to its own block each time; "
    else:
        what += f"of {len(told.blocks)} {cut.cadence} windows of {column}, {_times(most)}; "
    what += _fit(told)
    if told.first_refused is not None:
        fit = forecasts.affordable(book, name, every.dues, lambda d: d.table == one.table)
        what += f" {_all(many, fit)}."
    return f"{what}{_fresh(book, name, told, 'value' if cut.values else 'window')}"


def _fresh(book: Ledger, name: str, told: Foretold, noun: str) -> str:
    """Say what a block that was never charged has room for: what was charged to all rows counts in it too."""
    known, most = set(book.blocks(name)), max(told.blocks.values(), default=0)
    new = next((d.ask for d in told.dues if not known.intersection(d.ask.blocks)), None)
    if new is None:
        return ""
    fit, balance = sum(book.foretold(name, [new] * most)), book.fresh_balance(name)
    one = f"One refresh of a fresh {noun} {'fits' if fit else 'does not fit'}"
    left = f"epsilon {balance.epsilon_left:.4g} is left in it at the account's delta"
    taken = (
        f", since releases of all rows took {balance.epsilon_spent:.4g}"
        if balance.cost_left < balance.cost_limit
        else ""
    )
    return f" {one if most < 2 else f'Of {most} refreshes of a fresh {noun} {fit} fit'}: {left}{taken}."


def _all(many: int, fit: float) -> str:
    return f"All {many} would fit at epsilon {fit:.4g} each" if fit else f"At no epsilon would all {many} fit"


def _times(most: int) -> str:
    return "each once, charged to its own block" if most < 2 else f"each up to {most} times, charged to its own block"


def _fit(told: Foretold) -> str:
    first = told.first_refused
    if first is None:
        return "all fit."
    return f"{sum(told.fits)} fit, and the first that does not is {first.key} on {first.at:%d %B %Y}."


def _noise(book: Ledger, account: str, times: int) -> str:
    """Say how much more noise than the last settled release's would let `times` more of it fit; nothing without one."""
    opened, balance = book.account(account), book.balance(account)
    settled = [r for r in book.releases(account) if r.state == "settled"]
    if opened.order is None or not settled:
        return ""
    events = [e for entry in book.entries(release_id=settled[-1].id) for e in entry.events]
    factor = advice.noise_factor(events, times, opened.order, balance.cost_left / NANO, opened.relation)
    return "" if factor is None else f", or with {factor:.3g} times the noise of the last release"
