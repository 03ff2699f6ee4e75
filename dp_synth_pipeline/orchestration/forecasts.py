"""Forecasts what schedules will ask of an account, tick by tick, and which of those refreshes the ledger would admit.

A refresh of a partition is charged to the block that it reads, on top of what all rows were charged. Any other refresh is
charged to all rows. So each is asked about in the order in which it is due. A forecast assumes, and says so where it is
printed, that every schedule is on, a refresh costs all that it may, and nothing else is charged meanwhile.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import dagster as dg

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Account, Ask, Ledger
from dp_synth_pipeline.orchestration import partitions
from dp_synth_pipeline.orchestration.preflight import ASKS, asked_of
from dp_synth_pipeline.orchestration.schedules import ACCOUNT, EPSILON, INDEPENDENT, LATER, PURPOSE, due, ticks
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.synthesis import blocks
from dp_synth_pipeline.synthesis.allocation import THRESHOLD_SHARE, BudgetRequest

LEAST = 1e-3
"""No smaller epsilon is worth naming."""


@dataclass(frozen=True)
class Scheduled:
    """One schedule: when it ticks, and what one tick refreshes.

    Attributes:
        epsilon: the most that one refresh costs; the next one, if later ones cost less.
        settings: what is known of a partitioned table; None for one that is refreshed as a whole.
        later: the most that a refresh after the next one costs, if it goes on from that; None if all cost the same.
        first: the most that the release costs, or did, from which refreshes that remember go on; None if none does.
        purpose: what its refreshes are for, as the table says.
        independent: no refresh uses what was released before, though it could, and nobody said that it should not.
    """

    table: str
    cron: str
    epsilon: float
    settings: TableSettings | None = None
    later: float | None = None
    purpose: str = ""
    first: float | None = None
    independent: bool = False

    @property
    def asks(self) -> str:
        """What its refreshes ask for, in words."""
        each = f"epsilon {self.epsilon:g}"
        return each if self.later in (None, self.epsilon) else f"{each} at first and {self.later:g} from then on"

    @property
    def plan(self) -> str | None:
        """The declared plan of which each refresh of a partition is a use."""
        return None if self.settings is None else self.settings.plan

    @property
    def in_blocks(self) -> bool:
        """Whether each refresh is charged to the block that it reads."""
        return self.settings is not None and self.settings.charges_blocks


@dataclass(frozen=True)
class Due:
    """One refresh that a schedule will ask for.

    Attributes:
        key: its partition; empty for a table that is refreshed as a whole.
        ask: what it asks of the account.
    """

    at: datetime
    table: str
    key: str
    ask: Ask


@dataclass(frozen=True)
class Foretold:
    """What becomes of some of the refreshes that are due.

    Attributes:
        dues: all of them, in their order.
        fits: for each of them, whether it would be admitted.
    """

    dues: tuple[Due, ...]
    fits: tuple[bool, ...]

    @property
    def first_refused(self) -> Due | None:
        """The first that would be refused; None if all fit."""
        return next((due for due, fits in zip(self.dues, self.fits, strict=True) if not fits), None)

    @property
    def blocks(self) -> Counter[str]:
        """How many of them each block would pay for."""
        return Counter(block for due in self.dues for block in due.ask.blocks)


def scheduled(
    definitions: dg.Definitions,
    account: str | None = None,
    epsilon: float | None = None,
    ledger: Ledger | None = None,
) -> dict[str, list[Scheduled]]:
    """Return the refresh schedules of a project's tables by the account that they charge.

    Args:
        account: only this one's.
        epsilon: what each refresh asks for, instead of what its table says.
        ledger: knows which tables that remember have a release to go on from; without it, none has.
    """
    by_account: dict[str, list[Scheduled]] = defaultdict(list)
    jobs = {job.name: job.metadata or {} for job in definitions.jobs or ()}
    for schedule in definitions.schedules or ():
        if not isinstance(schedule, dg.ScheduleDefinition):
            continue
        cron, tags, table = str(schedule.cron_schedule), schedule.tags, schedule.job_name.removesuffix("_refresh")
        job_metadata = jobs.get(schedule.job_name, {}) if schedule.name == f"{table}_refresh_schedule" else {}
        if ACCOUNT in tags:
            first, later = float(tags[EPSILON]), float(tags[LATER]) if LATER in tags else None
            asks = Scheduled(
                table, cron, epsilon or first, purpose=tags.get(PURPOSE, ""), independent=INDEPENDENT in tags
            )
            if later is not None and not epsilon:
                goes_on = ledger is not None and _released(ledger, tags[ACCOUNT], table)
                asks = replace(asks, epsilon=later if goes_on else first, later=later, first=first)
            by_account[tags[ACCOUNT]].append(asks)
        elif ASKS in job_metadata:
            settings = asked_of(job_metadata, table)
            paying, own = settings.charge
            assumed_settings = settings.model_copy(update={"epsilon": epsilon or own})
            by_account[paying].append(Scheduled(table, cron, epsilon or own, assumed_settings))
    return {name: schedules for name, schedules in by_account.items() if account in (None, name)}


def _released(ledger: Ledger, account: str, table: str) -> bool:
    return any(r.released and r.table == table for r in ledger.releases(account))


def dues(account: Account, schedules: Iterable[Scheduled], until: datetime) -> list[Due]:
    """Return every refresh that some schedules ask an account for between now and `until`, in their order."""
    refreshes: list[Due] = []
    for schedule in schedules:
        cut = None if schedule.settings is None else schedule.settings.partitions
        if schedule.settings is None or cut is None:
            own_delta = account.delta * THRESHOLD_SHARE
            ask = Ask(schedule.epsilon, account.delta, own_delta, purpose=schedule.purpose)
            then = replace(ask, epsilon=schedule.later or schedule.epsilon)
            dates = ticks([schedule.cron], until)
            refreshes += [Due(at, schedule.table, "", then if number else ask) for number, at in enumerate(dates)]
            continue
        ask, parts = Ask(**BudgetRequest.of(schedule.settings, account.delta).costs()), partitions.definition(cut)
        for at in ticks([schedule.cron], until):
            for key in due(parts, at):
                charged_blocks = blocks.charged_blocks(cut, [key]) if schedule.in_blocks else ()
                refreshes.append(Due(at, schedule.table, key, replace(ask, blocks=charged_blocks)))
    return sorted(refreshes, key=lambda d: d.at)


def foretell(ledger: Ledger, account: str, refreshes: Sequence[Due], beside: Sequence[Due] = ()) -> Foretold:
    """Return which refreshes would be admitted, each after those before it that were; change nothing.

    Args:
        beside: refreshes of other members of the account's umbrella, which charge that umbrella meanwhile.
    """
    queue = sorted([*refreshes, *beside], key=lambda d: d.at)
    answers = zip(queue, ledger.foretold(account, [d.ask for d in queue]), strict=True)
    own = [(due, fits) for due, fits in answers if due.ask.account in ("", account)]
    return Foretold(tuple(due for due, _ in own), tuple(fits for _, fits in own))


def beside(ledger: Ledger, account: str, schedules: Mapping[str, Sequence[Scheduled]], until: datetime) -> list[Due]:
    """Return every refresh by which other members charge the umbrella of an account; none if it is under none.

    A use of a declared plan is none of them: the umbrella was charged for it when the plan was declared.
    """
    umbrella = ledger.account(account).under
    members = [] if umbrella is None else [member for member in ledger.members(umbrella) if member.name != account]
    return [due for member in members for due in _paying(ledger, member, schedules.get(member.name, ()), until)]


def _paying(ledger: Ledger, member: Account, schedules: Iterable[Scheduled], until: datetime) -> list[Due]:
    able = [schedule for schedule in schedules if schedule.plan is None and not sound(ledger, schedule)]
    return [replace(d, ask=replace(d.ask, account=member.name)) for d in dues(member, able, until)]


def under(ledger: Ledger, umbrella: str, schedules: Mapping[str, Sequence[Scheduled]], until: datetime) -> Foretold:
    """Return what becomes of every refresh by which the members of an umbrella charge it, in the order they are due."""
    every = [
        due
        for member in ledger.members(umbrella)
        for due in _paying(ledger, member, schedules.get(member.name, ()), until)
    ]
    every.sort(key=lambda d: d.at)
    return Foretold(tuple(every), tuple(ledger.foretold(umbrella, [d.ask for d in every])))


def chosen(outcome: Foretold, predicate: Callable[[Due], bool]) -> Foretold:
    """Return what becomes of some of the refreshes, the others being due as well."""
    pairs = [(d, fits) for d, fits in zip(outcome.dues, outcome.fits, strict=True) if predicate(d)]
    return Foretold(tuple(d for d, _ in pairs), tuple(fits for _, fits in pairs))


def uses(ledger: Ledger, account: str, plan: str, refreshes: Sequence[Due]) -> tuple[Foretold, int]:
    """Return which uses of a declared plan are left for the refreshes that are due, and how many are left."""
    uses_left = next((p.times - p.used for p in ledger.plans(account) if p.name == plan), 0)
    return Foretold(tuple(refreshes), tuple(i < uses_left for i in range(len(refreshes)))), uses_left


def everything(
    ledger: Ledger, account: str, by_account: Mapping[str, Sequence[Scheduled]], until: datetime
) -> Foretold:
    """Return what becomes of every refresh that is due, whether it pays itself, uses a declared plan, or can never fit.

    Args:
        by_account: the schedules of every account: those of other members charge the same umbrella.
    """
    account_terms, schedules = ledger.account(account), by_account.get(account, ())
    if account_terms.umbrella:
        return under(ledger, account, by_account, until)
    able = [schedule for schedule in schedules if not sound(ledger, schedule)]
    paying = dues(account_terms, [schedule for schedule in able if schedule.plan is None], until)
    others = beside(ledger, account, by_account, until)
    outcomes = list(zip(paying, foretell(ledger, account, paying, others).fits, strict=True))
    for plan in sorted({schedule.plan for schedule in able if schedule.plan is not None}):
        plan_outcome, _ = uses(
            ledger, account, plan, dues(account_terms, [schedule for schedule in able if schedule.plan == plan], until)
        )
        outcomes += zip(plan_outcome.dues, plan_outcome.fits, strict=True)
    outcomes += [
        (refresh, False)
        for refresh in dues(account_terms, [schedule for schedule in schedules if schedule not in able], until)
    ]
    outcomes.sort(key=lambda pair: pair[0].at)
    return Foretold(tuple(refresh for refresh, _ in outcomes), tuple(fits for _, fits in outcomes))


def affordable(
    ledger: Ledger,
    account: str,
    refreshes: Sequence[Due],
    predicate: Callable[[Due], bool],
    others: Sequence[Due] = (),
) -> float:
    """Return the largest epsilon, to three digits, at which all wanted refreshes fit, the others as they are; 0 for none.

    What is returned was itself asked about and found to fit.

    Args:
        others: refreshes of other members of the account's umbrella.
    """

    def fits(epsilon: float) -> bool:
        requests = [replace(d, ask=replace(d.ask, epsilon=epsilon)) if predicate(d) else d for d in refreshes]
        return all(chosen(foretell(ledger, account, requests, others), predicate).fits)

    low, high = LEAST, max((d.ask.epsilon for d in refreshes if predicate(d)), default=0.0)
    if high <= low or not fits(low):
        return 0.0
    while high > low * 1.002:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if fits(middle) else (low, middle)
    rounded = float(f"{low * 0.995:.3g}")  # so that rounding takes away, and never adds
    return rounded if fits(rounded) else low


def sound(ledger: Ledger, schedule: Scheduled) -> str:
    """Return why the ledger would refuse every refresh of a partitioned table, or nothing if it would not."""
    if schedule.settings is None or not schedule.in_blocks:
        return ""
    try:
        blocks.require_blocks(ledger, schedule.settings)
    except InvalidInput as error:
        return str(error)
    return ""
