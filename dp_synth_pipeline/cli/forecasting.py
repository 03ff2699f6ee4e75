"""`dp-synth ledger forecast` says which scheduled refreshes would be refused, account by account and block by block."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import yaml
from rich.console import Console
from rich.text import Text

from dp_synth_pipeline.cli import expecting
from dp_synth_pipeline.cli.expecting import AskOptions, ForecastOptions
from dp_synth_pipeline.cli.terminal import standing
from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Account, Ledger, advice, journal
from dp_synth_pipeline.orchestration import forecasts
from dp_synth_pipeline.orchestration.build import current_project
from dp_synth_pipeline.orchestration.forecasts import Due, Foretold, Scheduled
from dp_synth_pipeline.orchestration.schedules import ticks
from dp_synth_pipeline.privacy.filter import NANO
from dp_synth_pipeline.reporting import wording
from dp_synth_pipeline.synthesis import expected_quality
from dp_synth_pipeline.synthesis.allocation import THRESHOLD_SHARE
from dp_synth_pipeline.synthesis.expected_quality import Shape
from dp_synth_pipeline.synthesis.horizon import best, divided

REMEMBERING = "dp-synth docs spending says what else is different; write refresh: {remember: false} to keep it so."
"""What ends the advice to remember."""

PARTED = " a tick refreshes the newest window that is over, or each listed value, once;"


@dataclass(frozen=True)
class Horizon:
    """How far ahead is looked, and at which refreshes.

    Attributes:
        account: one account; None for all that have a schedule.
        days: how many.
        every: a cron to assume in place of the project's schedules.
        epsilon: what each refresh asks for, in place of what its table says.
    """

    account: str | None
    days: int
    every: str | None = None
    epsilon: float | None = None


def divide(book: Ledger, horizon: Horizon, asked: ForecastOptions, console: Console) -> None:
    """Print the epsilons of a first refresh and of those that go on from it, which an account can pay for so many days."""
    account, days, every = horizon.account, horizon.days, horizon.every
    if account is None or every is None:
        raise InvalidInput("--remember needs an account and --every CRON; it finds the epsilons itself.")
    times, terms = len(ticks([every], datetime.now(UTC) + timedelta(days=days))), book.account(account)
    shape = asked.shape(terms)
    first, later = _split(book, account, times, shape, asked)
    own_delta = terms.delta * THRESHOLD_SHARE
    alone = book.affordable(account, times=times, own_delta=own_delta, purpose=asked.purpose)
    console.print(
        f"{account}: {times} refreshes in {days} days fit if they remember: epsilon {first:g} for the first, which measures "
        f"the profile and trains, and {later:g} for each later one, which measures pairs and triples again. Each by itself "
        f"would have {alone:.3g}.",
        soft_wrap=True,
    )
    if shape is not None:
        _say_remembered(shape, terms, (first, later), times, console, drift=asked.drift or 0.0)
        console.print(f"Each by itself: {wording.distances(expecting.one(shape, terms, alone))}", soft_wrap=True)
    plan = {"epsilon": first, "refresh": {"remember": True, "epsilon": later}, "schedule": every}
    console.print("Write:\n" + yaml.safe_dump(plan, sort_keys=False, default_flow_style=None), end="", highlight=False)


def _split(book: Ledger, account: str, times: int, shape: Shape | None, asked: ForecastOptions) -> tuple[float, float]:
    """Return the epsilons of the first and of each later refresh: the best ones, where it is said how far a table moves."""
    if asked.drift is None:
        return divided(book, account, times, purpose=asked.purpose)
    if shape is None:
        raise InvalidInput(
            "--drift says how far a table moves: say by --rows and --columns, or --like, what table it is."
        )
    return best(book, account, times, shape, asked.drift, asked.purpose)


def _say_remembered(
    shape: Shape,
    terms: Account,
    epsilons: tuple[float, float],
    times: int,
    console: Console,
    table: str = "",
    drift: float = 0.0,
) -> None:
    """Print how far off refreshes that remember are expected to be, the first and each later one of these epsilons."""
    told = expected_quality.remembered(shape, *epsilons, times, terms.delta, terms.relation, drift)
    steps = sorted({n for n in (1, 4, times // 2, times) if 1 <= n <= times})
    each = ", ".join(f"{told[n - 1].two_way:.2g} by refresh {n}" for n in steps)
    moves = f"of which pairs move by {drift:g} from each refresh to the next" if drift else "that stay as they are"
    console.print(
        f"Expected of {wording.size(shape, table)} {moves}: pairs of columns about {each}; single columns "
        f"{told[0].one_way:.2g}.",
        soft_wrap=True,
    )
    if told[0].poor:
        expecting.warn(shape, terms, epsilons[0], told[0], console)


def forecast(book: Ledger, horizon: Horizon, asked: AskOptions, console: Console) -> None:
    """Print for each scheduled account when it is exhausted, or which blocks are, and at which epsilon all would fit."""
    account, days = horizon.account, horizon.days
    known, schedules_by_account = _schedules(book, horizon, asked)
    umbrellas = _umbrellas(book, known, account)
    if not schedules_by_account and not umbrellas:
        raise InvalidInput(
            f"no table of this project has a schedule{' for that account' if horizon.account else ''}; write "
            f"`schedule: 0 3 * * 1` in its YAML, or assume one: dp-synth ledger forecast ACCOUNT "
            f"--every '0 3 * * 1' --epsilon E."
        )
    until = datetime.now(UTC) + timedelta(days=days)
    for name, schedules in schedules_by_account.items():
        console.print(Text.assemble(f"{name}: ", standing(book.share(name), console)), soft_wrap=True)
        others = forecasts.beside(book, name, known, until)
        for line in _lines(book, name, schedules, until, days, others):
            console.print(f"{name}: {line}", soft_wrap=True)
    for name in umbrellas:
        console.print(Text.assemble(f"{name}: ", standing(book.share(name), console)), soft_wrap=True)
        console.print(f"{name}: {_under(forecasts.under(book, name, known, until), days)}", soft_wrap=True)
    _say_each(book, schedules_by_account, asked, until, console)
    for name, schedules in schedules_by_account.items():
        _advise(book, name, schedules, asked, until, console)
    in_parts = any(schedule.settings for schedules in schedules_by_account.values() for schedule in schedules)
    parted = PARTED if in_parts else ""
    bounded = any(book.has_quotas(name) for name in (*schedules_by_account, *umbrellas))
    who = f" {journal.who()} asks, who counts in quotas;" if bounded else ""
    console.print(
        f"Assumed: every schedule is on;{parted}{who} a refresh costs all that it may; nothing else is charged.",
        style="dim",
        soft_wrap=True,
    )


def _schedules(book: Ledger, horizon: Horizon, asked: AskOptions) -> tuple[dict[str, list[Scheduled]], ...]:
    """Return by account all schedules that are known, and those that are asked about."""
    account, epsilon = horizon.account, horizon.epsilon
    if horizon.every:
        if account is None or epsilon is None:
            missing = "an account" if account is None else "--epsilon"
            raise InvalidInput(
                f"--every also needs {missing}: dp-synth ledger forecast ACCOUNT --every '0 3 * * 1' --epsilon E."
            )
        assumed = {account: [Scheduled("", horizon.every, epsilon, purpose=asked.purpose)]}
        return assumed, assumed
    if asked.purpose:
        raise InvalidInput(
            "--purpose goes with --every CRON; the tables of a project say themselves what they are for."
        )
    found = forecasts.scheduled(project := current_project(), account, epsilon, book)
    return {**forecasts.scheduled(project, ledger=book), **found}, found


def _say_each(
    book: Ledger, schedules: Mapping[str, list[Scheduled]], asked: AskOptions, until: datetime, console: Console
) -> None:
    """Print how far off the refreshes that schedules ask for will be: of the table asked about, or as each was released."""
    if asked.about_a_table and len(schedules) != 1:
        raise InvalidInput(
            "say which account's refreshes are of that table: dp-synth ledger forecast ACCOUNT --like TABLE."
        )
    for name, found in schedules.items():
        terms = book.account(name)
        of_all = asked.shape(terms)
        for each in found:
            shape = of_all or expecting.released_shape(each.table, terms)
            if shape is None:
                continue
            table = "" if of_all else each.table
            if each.first is not None and each.later is not None:
                times = len(ticks([each.cron], until))
                _say_remembered(shape, terms, (each.first, each.later), times, console, table)
            else:
                expecting.say(shape, terms, each.epsilon, None, console, table)


def _advise(
    book: Ledger, name: str, schedules: list[Scheduled], asked: AskOptions, until: datetime, console: Console
) -> None:
    """Print what refreshes that remember would have, where those of an account's one table are independent by default."""
    if len(schedules) != 1 or not schedules[0].independent:
        return
    (each,), terms = schedules, book.account(name)
    times, shape = len(ticks([each.cron], until)), asked.shape(terms) or expecting.released_shape(each.table, terms)
    try:
        first, later = divided(book, name, times, purpose=each.purpose)
    except InvalidInput:  # one refresh, a declared plan, or nothing left: there is nothing to divide
        return
    most = book.affordable(name, times=times, own_delta=terms.delta * THRESHOLD_SHARE, purpose=each.purpose)
    line = (
        f"{name}: each refresh of {each.table} is by itself, and all {times} would fit at epsilon {most:.3g}. With epsilon: "
        f"{first:g} and refresh: {{remember: true, epsilon: {later:g}}} they fit too, and use what was released before"
    )
    if shape is not None:
        told = expected_quality.remembered(shape, first, later, times, terms.delta, terms.relation)[-1]
        by_itself = expecting.one(shape, terms, most)
        line += (
            f": if the table stays, pairs of columns are about {told.two_way:.2g} off, and not {by_itself.two_way:.2g}"
        )
    console.print(f"{line}. {REMEMBERING}", soft_wrap=True, highlight=False, markup=False)


def _umbrellas(book: Ledger, known: Mapping[str, list[Scheduled]], account: str | None) -> list[str]:
    """Return the umbrellas that a forecast tells of: the one that is asked for, or all that some schedule charges."""
    accounts = {a.name: a for a in book.accounts()}
    charged = {a.under for name in known if (a := accounts.get(name)) is not None and a.under is not None}
    return sorted(name for name in charged if account in (None, name))


def _under(outcome: Foretold, days: int) -> str:
    """Tell of the refreshes of all members of an umbrella."""
    refusal, count = outcome.first_refused, len(outcome.dues)
    sentence = f"{count} refreshes of its members in {days} days"
    if refusal is None:
        return f"{sentence}; all fit."
    return (
        f"{sentence}; {sum(outcome.fits)} fit, and the first that does not, in the umbrella or in its own account, is one "
        f"of {refusal.table} on {refusal.at:%d %B %Y}, which account {refusal.ask.account} pays for."
    )


def _lines(
    book: Ledger, name: str, schedules: list[Scheduled], until: datetime, days: int, others: Sequence[Due]
) -> Iterator[str]:
    account = book.account(name)
    unsound = {schedule.table: why for schedule in schedules if (why := forecasts.sound(book, schedule))}
    for table, why in unsound.items():
        yield f"no refresh of {table} would be admitted: {why}"
    able = [schedule for schedule in schedules if schedule.table not in unsound]
    paying = [schedule for schedule in able if schedule.plan is None]
    outcome = forecasts.foretell(book, name, forecasts.dues(account, paying, until), others)
    if whole := [schedule for schedule in paying if not schedule.in_blocks]:
        yield _whole(book, name, whole, outcome, days, others)
    for schedule in paying:
        if schedule.in_blocks:
            yield _in_blocks(book, name, schedule, outcome, days, others)
    plans: dict[str, list[Scheduled]] = defaultdict(list)
    for schedule in able:
        if schedule.plan is not None:
            plans[schedule.plan].append(schedule)
    for plan, using in plans.items():
        plan_outcome, uses_left = forecasts.uses(book, name, plan, forecasts.dues(account, using, until))
        tables, count = ", ".join(schedule.table for schedule in using), len(plan_outcome.dues)
        yield (
            f"{tables}, {count} refreshes in {days} days, each one use of plan {plan}, which has {uses_left} left; "
            f"{_fit(plan_outcome)}"
        )


def _whole(
    book: Ledger, name: str, schedules: list[Scheduled], all_outcomes: Foretold, days: int, others: Sequence[Due]
) -> str:
    """Tell of the refreshes that are charged to all rows."""
    outcome, account = forecasts.chosen(all_outcomes, lambda d: not d.ask.blocks), book.account(name)
    count, rows = len(outcome.dues), ", charged to all rows" if account.unit_in_one_block else ""
    dearest = max(schedules, key=lambda schedule: schedule.epsilon)
    sentence = f"{count} refreshes of {dearest.asks} in {days} days{rows}; "
    spanning = ", ".join(schedule.table for schedule in schedules if schedule.settings is not None)
    parts = f" Each partition of {spanning} is charged to all rows: a unit may be in several." if spanning else ""
    first_refusal = outcome.first_refused
    if first_refusal is None:
        return f"{sentence}all fit.{parts}"
    quotas = book.has_quotas(name)
    if only_whole := outcome.dues == all_outcomes.dues and not spanning and not others and not quotas:
        fit = book.affordable(name, times=count, own_delta=account.delta * THRESHOLD_SHARE)
    else:
        fit = forecasts.affordable(book, name, all_outcomes.dues, lambda d: not d.ask.blocks, others)
    noise = _noise(book, name, count) if only_whole else ""
    sentence += f"{sum(outcome.fits)} fit, and {_exhausted(account, quotas)} exhausted on {first_refusal.at:%d %B %Y}."
    return f"{sentence} {_all(count, fit)}{noise}.{parts}"


def _exhausted(account: Account, quotas: bool) -> str:
    whole = "the account" if account.under is None else f"the account or umbrella {account.under}"
    return f"{whole}, or a quota of it, is" if quotas else f"{whole} is"


def _in_blocks(
    book: Ledger, name: str, schedule: Scheduled, all_outcomes: Foretold, days: int, others: Sequence[Due]
) -> str:
    """Tell of the refreshes of one table, each of which is charged to the block that it reads."""
    outcome = forecasts.chosen(all_outcomes, lambda d: d.table == schedule.table)
    cut = schedule.settings.partitions if schedule.settings else None
    if cut is None:
        return ""
    count, most_in_block, column = len(outcome.dues), max(outcome.blocks.values(), default=0), cut.column
    sentence = f"{schedule.table}, {count} refreshes of epsilon {schedule.epsilon:g} in {days} days, "
    if cut.values is not None:
        sentence += f"each value of {column} {most_in_block} times, charged to its own block each time; "
    elif not cut.one_block:
        sentence += f"charged to {len(outcome.blocks)} {cut.cut} blocks of {column}, each up to {most_in_block} times; "
    else:
        sentence += f"of {len(outcome.blocks)} {cut.cadence} windows of {column}, {_times(most_in_block)}; "
    sentence += _fit(outcome)
    if outcome.first_refused is not None:
        fit = forecasts.affordable(book, name, all_outcomes.dues, lambda d: d.table == schedule.table, others)
        sentence += f" {_all(count, fit)}."
    return f"{sentence}{_fresh_block(book, name, outcome, 'value' if cut.values else 'window')}"


def _fresh_block(book: Ledger, name: str, outcome: Foretold, noun: str) -> str:
    """Say what a block that was never charged has room for: what was charged to all rows counts in it too."""
    charged_blocks, most_in_block = set(book.blocks(name)), max(outcome.blocks.values(), default=0)
    request = next((d.ask for d in outcome.dues if not charged_blocks.intersection(d.ask.blocks)), None)
    if request is None:
        return ""
    fit, balance = sum(book.foretold(name, [request] * most_in_block)), book.fresh_balance(name)
    answer = f"One refresh of a fresh {noun} {'fits' if fit else 'does not fit'}"
    if most_in_block > 1:
        answer = f"Of {most_in_block} refreshes of a fresh {noun} {fit} fit"
    remainder = f"epsilon {balance.epsilon_left:.4g} is left in it at the account's delta"
    if balance.cost_left < balance.cost_limit:
        remainder += f", since releases of all rows took {balance.epsilon_spent:.4g}"
    return f" {answer}: {remainder}."


def _all(count: int, fit: float) -> str:
    return f"All {count} would fit at epsilon {fit:.4g} each" if fit else f"At no epsilon would all {count} fit"


def _times(most: int) -> str:
    return "each once, charged to its own block" if most < 2 else f"each up to {most} times, charged to its own block"


def _fit(outcome: Foretold) -> str:
    first_refusal = outcome.first_refused
    if first_refusal is None:
        return "all fit."
    return (
        f"{sum(outcome.fits)} fit, and the first that does not is {first_refusal.key} on {first_refusal.at:%d %B %Y}."
    )


def _noise(book: Ledger, account: str, times: int) -> str:
    """Say how much more noise than the last settled release's would let `times` more of it fit; nothing without one."""
    terms = book.account(account)
    settled_releases = [r for r in book.releases(account) if r.state == "settled" and not r.by_hand]
    if terms.order is None or not settled_releases:
        return ""
    events = [e for entry in book.entries(release_id=settled_releases[-1].id) for e in entry.events]
    limits = [(terms, account)] + ([(book.account(terms.under), terms.under)] if terms.under is not None else [])
    factors = [
        advice.noise_factor(events, times, paying.order, book.balance(name).cost_left / NANO, paying.relation)
        for paying, name in limits
        if paying.order is not None
    ]
    needed = [factor for factor in factors if factor is not None]
    return f", or with {max(needed):.3g} times the noise of the last release" if len(needed) == len(factors) else ""
