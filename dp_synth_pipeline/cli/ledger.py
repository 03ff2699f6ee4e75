"""`dp-synth ledger` records what a person decides about privacy accounts, and prints what the ledger answers."""

from __future__ import annotations

import getpass
import json
from typing import Annotated, Any

import typer
from pydantic import Field
from rich.text import Text

from dp_synth_pipeline.cli import answers
from dp_synth_pipeline.cli.expecting import AskOptions, ForecastOptions
from dp_synth_pipeline.cli.options import Options, opened, takes_options
from dp_synth_pipeline.cli.terminal import VERBOSE, Verbose, console, on_terminal, say_large, say_more, standing
from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Balance, Ledger, Share, anchors, roles
from dp_synth_pipeline.privacy import events
from dp_synth_pipeline.privacy.tagged import TaggedEvent
from dp_synth_pipeline.reporting import wording

app = typer.Typer(
    help="Open, raise, approve, plan, charge, settle, show, forecast, export, anchor and verify privacy accounts.",
    no_args_is_help=True,
)

Url = Annotated[str, typer.Option("--ledger", help="SQLite path or PostgreSQL URL; default: $DP_SYNTH_LEDGER.")]
Why = Annotated[str, typer.Option(help="The reason, for the record.")]
Who = Annotated[str, typer.Option(help="Who decides; default: the user of this machine.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else, on standard output.")]


class AccountTerms(Options):
    """What an account promises, for ever."""

    epsilon: float = Field(description="The most that all releases together may ever cost.")
    delta: float = Field(default=1e-5, description="The delta of that guarantee; below one over the number of people.")
    unit: str = Field(
        default="",
        description="Whose presence is hidden: row, or a column such as patient_id. Default: the umbrella's, or row.",
    )
    max_rows: int = Field(default=0, description="Rows kept per unit; 1 when the unit is a row, else 4.")
    relation: str = Field(
        default="", description="Neighbouring tables: add-remove (the default, or the umbrella's), or replace-one."
    )
    rule: str = Field(default="filter", description="filter (any number of releases), or plan (declared ones).")
    blocks: list[str] | None = Field(default=None, description="A block with a balance of its own; may be repeated.")
    unit_in_one_block: bool = Field(default=False, description="Confirm that no unit has rows in two blocks.")
    umbrella: bool = Field(
        default=False, description="Bound what several accounts release of one person together; needs --unit."
    )
    under: str = Field(
        default="", description="The umbrella that each release of this account also charges. Fixed for ever."
    )
    approve_above: float | None = Field(
        default=None,
        description="A share of the account, such as 0.25: a charge of more of it needs a second person's approval.",
    )
    quota: list[str] | None = Field(
        default=None,
        description="requester=NAME:SHARE or purpose=TEXT:SHARE, such as requester=ana:0.25: the most of the account that "
        "one may take; NAME * is each that has none of its own. May be repeated.",
    )


@app.command("open")
@takes_options
def open_account(
    account: Annotated[str, typer.Argument(help="A name for the protected data set.")],
    terms: AccountTerms,
    why: Why = "",
    anew: Annotated[bool, typer.Option("--anew", help="Replace its terms, if nothing was ever charged to it.")] = False,
    ledger: Url = "",
) -> None:
    """Open a privacy account. Only a person does this; a pipeline never opens or raises one.

    Where one person is in several tables, bound what all of them tell together: open an umbrella, and an account for each
    table under it. Each release of a member charges both, or is refused by the one that cannot pay, by name.

    dp-synth ledger open clinic --umbrella --unit patient_id --epsilon 10

    dp-synth ledger open visits --under clinic --epsilon 3 --max-rows 30
    """
    book = opened(ledger, create=True)
    unit = terms.unit or (book.account(terms.under).unit if terms.under else "row")
    max_rows = terms.max_rows or (1 if unit == "row" or terms.umbrella else 4)
    facts: dict[str, Any] = {**terms.model_dump(exclude={"quota"}), "max_rows": max_rows, "blocks": terms.blocks or ()}
    facts |= {"unit": unit, "relation": terms.relation or None, "under": terms.under or None}
    facts |= {"quotas": terms.quota or ()}
    record = book.open_account(account, **facts, why=why, anew=anew)
    order = f", Rényi order {record.order:g}" if record.order else ""
    kind = "umbrella " if record.umbrella else ""
    under = f", under umbrella {record.under}" if record.under else ""
    console().print(
        f"Opened {kind}{record.name}: epsilon {record.epsilon:g}, delta {record.delta:g}, unit {record.unit}, "
        f"{record.relation}{order}{under}.",
        soft_wrap=True,
    )
    say_large(f"Account {record.name}", record.epsilon, record.delta, console())
    _say(book, record.name)


def _say(book: Ledger, account: str) -> None:
    """Print how much of an account is used, and of its umbrella."""
    to, under = console(), book.account(account).under
    to.print(standing(book.share(account), to), soft_wrap=True)
    if under is not None:
        answers.under(book, under, to)


@app.command("raise")
def raise_account(
    account: Annotated[str, typer.Argument(help="The account.")],
    why: Why,
    epsilon: Annotated[float | None, typer.Option(help="The new limit; never below the old one.")] = None,
    delta: Annotated[float | None, typer.Option(help="The new delta; never below the old one.")] = None,
    who: Who = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask on a terminal whether to go on.")] = False,
    ledger: Url = "",
) -> None:
    """Raise an account's limit, on record with a reason and a name. What was promised to people before is then weaker.

    It says first what would fit, and refuses a raise after which nothing more would: nothing is recorded then.
    """
    book = opened(ledger)
    _say_what_a_raise_gives(book, account, epsilon, delta)
    if not yes and on_terminal():
        typer.confirm("A limit is never lowered again. Record this raise?", abort=True, err=True)
    raised = book.raise_account(account, epsilon=epsilon, delta=delta, why=why, who=who or getpass.getuser())
    console().print(f"Raised {raised.name} to epsilon {raised.epsilon:g}, delta {raised.delta:g}.")
    say_large(f"Account {raised.name}", raised.epsilon, raised.delta, console())


@app.command("amend")
def amend(
    account: Annotated[str, typer.Argument(help="The account.")],
    why: Why,
    approve_above: Annotated[
        float | None,
        typer.Option(help="The share above which a charge needs a second person; 0: each does, 1: none does."),
    ] = None,
    quota: Annotated[
        list[str] | None,
        typer.Option(
            help="requester=NAME:SHARE or purpose=TEXT:SHARE: the most of the account that one may take, in place of what "
            "was said of that name; NAME * is each that has none of its own, and a SHARE of 1 bounds nothing."
        ),
    ] = None,
    who: Who = "",
    ledger: Url = "",
) -> None:
    """Let an account need a second person for large charges, or bound one requester or purpose, on record.

    Where an account needs a second person, to need one for fewer charges or to let anybody take more takes one, too.

    dp-synth ledger amend patients --quota requester=ana:0.25 --quota 'purpose=*:0.5' --why "decided by the board"
    """
    if approve_above is None and not quota:
        raise InvalidInput("say what to amend: --approve-above SHARE, or --quota requester=NAME:SHARE.")
    book, decides = opened(ledger), who or getpass.getuser()
    after = book.amend_account(account, approve_above=approve_above, quotas=quota or (), why=why, who=decides)
    if approve_above is not None:
        console().print(
            f"Amended {account}: one person alone decides at most {100 * approve_above:g} % of it at a time."
        )
    if quota:
        told = ", ".join(map(str, after.quotas))
        console().print(f"Amended {account}: quotas {told}.", soft_wrap=True, markup=False, highlight=False)


@app.command("requests")
def requests(
    account: Annotated[str | None, typer.Argument(help="One account; all of them without it.")] = None,
    used: Annotated[bool, typer.Option("--all", help="Also those that were approved and done.")] = False,
    as_json: Json = False,
    ledger: Url = "",
) -> None:
    """Show what waits for a second person, and what was approved and is not done yet: who asks, for what, and how much."""
    answers.requests(opened(ledger), account, used, console(), as_json)


@app.command("approve")
def approve(
    request: Annotated[
        str, typer.Argument(help="Its id, or the beginning of it, as dp-synth ledger requests shows it.")
    ],
    why: Why,
    by: Annotated[
        str, typer.Option(help="Who approves, not the one who asks; default: the user of this machine.")
    ] = "",
    ledger: Url = "",
) -> None:
    """Approve one charge that somebody else asks for: with exactly these terms, and once.

    It charges nothing by itself, and what no longer fits is refused all the same. Who asked runs the same again.

    dp-synth ledger approve 3f9c2b71d004 --by "Ana Officer" --why "the board agreed on 3 May"
    """
    book = opened(ledger)
    found = [r.id for r in book.requests(used=True) if r.id.startswith(request)]
    if len(found) != 1:
        how = "no request" if not found else f"{len(found)} requests"
        raise InvalidInput(f"{how} begins with {request!r}; dp-synth ledger requests lists them.")
    approved = book.approve(found[0], why=why, who=by or getpass.getuser())
    console().print(f"Approved by {approved.approved_by}: {wording.request(approved)}", soft_wrap=True)


def _say_what_a_raise_gives(book: Ledger, account: str, epsilon: float | None, delta: float | None) -> None:
    """Print what fits before and after a raise; raise InvalidInput, with the way out, if no more would fit than now."""
    now = book.balance(account), book.share(account)
    after = book.if_raised(account, epsilon, delta)
    if not _helps(now, after):
        why = (
            "its delta is used up, and without delta no epsilon fits"
            if after[0].delta_left <= 0
            else "no more would fit"
        )
        raise InvalidInput(
            f"this raise of {account!r} would help nothing, so it was not recorded: {why}. "
            f"{_way_out(book, account, epsilon, delta)}"
        )
    to = console()
    for when, (balance, share) in (("Now:  ", now), ("After:", after)):
        fits = f"; alone, one release of ε {_fitting(balance):.4g} fits"
        to.print(Text.assemble(f"{when} ", standing(share, to), fits), soft_wrap=True)


def _way_out(book: Ledger, account: str, epsilon: float | None, delta: float | None) -> str:
    """Say which raise would help instead: one of delta, if that does."""
    terms, now = book.account(account), (book.balance(account), book.share(account))
    more = 2 * (terms.delta if delta is None else delta)
    if more >= 1 or not _helps(now, book.if_raised(account, epsilon, more)):
        return "Open another account, for other data."
    ask = f", and ask of each release at most what is new of it: --delta {more - terms.delta:g}"
    return f"Raise the delta too, such as to --delta {more:g}{'' if terms.order else ask}."


def _fitting(balance: Balance) -> float:
    """Return the largest epsilon of one more release: none if there is no delta for its thresholds."""
    return balance.epsilon_left if balance.delta_left > 0 else 0.0


def _helps(now: tuple[Balance, Share], after: tuple[Balance, Share]) -> bool:
    return _fitting(after[0]) > _fitting(now[0]) or (after[1].more or 0) > (now[1].more or 0)


class PlanOptions(Options):
    """What one release of a plan may run, and how much is said if it does not fit."""

    event: list[str] | None = Field(
        default=None,
        description="kind:key=value,...: subsampled_gaussian:noise_multiplier=2,sample_rate=0.01,steps=800; "
        "mechanism=training among them says which mechanism of a release may take from it.",
    )
    like: str | None = Field(default=None, description="Take the events of this release instead.")
    share: str | None = Field(default=None, description="EPSILON,DELTA of the account that the plan takes.")
    verbose: bool = Field(default=False, description=VERBOSE)


@app.command("plan")
@takes_options
def declare_plan(
    account: Annotated[str, typer.Argument(help="The account.")],
    times: Annotated[int, typer.Option(help="How often it may run.", min=1)],
    why: Why,
    plan: PlanOptions,
    name: Annotated[str, typer.Option(help="A name, for `plan: NAME` in a table's YAML.")] = "refresh",
    who: Who = "",
    ledger: Url = "",
) -> None:
    """Declare that a release will run at most so often: accounted once for all, by the tightest accountant there is."""
    say_more(plan.verbose)
    book = opened(ledger)
    if bool(plan.event) == bool(plan.like):
        raise InvalidInput("give the events of one release with --event, or a release to copy with --like.")
    entries = book.entries(release_id=_release(book, plan.like)) if plan.like else []
    tagged_events = [_renewed(e) for entry in entries for e in entry.tagged] or [_event(e) for e in plan.event or ()]
    record = book.declare_plan(
        account,
        name=name,
        events=[event.event for event in tagged_events],
        mechanisms=[event.mechanism for event in tagged_events]
        if any(event.mechanism for event in tagged_events)
        else (),
        times=times,
        why=why,
        who=who or getpass.getuser(),
        share=_share(plan.share),
    )
    console().print(
        f"Declared {record.name} on {account}: at most {record.times} times, together epsilon {record.epsilon:.4g} at "
        f"delta {record.delta:.2g}. Name it in the table's YAML: plan: {record.name}.",
        soft_wrap=True,
    )
    _say(book, account)


@app.command("charge")
def charge(
    account: Annotated[str, typer.Argument(help="The account, or an umbrella itself.")],
    event: Annotated[
        list[str],
        typer.Option(
            help='What ran, as JSON {"kind": "gaussian", "noise_multiplier": 4} or as kind:key=value,...; may be repeated. '
            "Kinds: gaussian, discrete_laplace, subsampled_gaussian, discrete_gaussian, threshold. Noise is counted against "
            "what all rows of one unit move."
        ),
    ],
    why: Why,
    delta: Annotated[
        float | None, typer.Option(help="Delta of its epsilon: the account's; under declared plans, the part it takes.")
    ] = None,
    who: Who = "",
    verbose: Verbose = False,
    ledger: Url = "",
) -> None:
    """Charge an account for what another tool releases of its data, such as a query with OpenDP; refuse what does not fit.

    Enter it before it runs. A charge that does not fit is refused (exit code 3) and changes nothing; what has run already is
    released all the same, so that only a raise, on record, tells the truth then. A member's charge charges its umbrella too.

    dp-synth ledger charge patients --event '{"kind": "gaussian", "noise_multiplier": 4}' --why "OpenDP query, 3 May"
    """
    book = opened(ledger)
    facts = [_event(text).event for text in event]
    record = book.charge_by_hand(account, facts, delta=delta, why=why, who=who or getpass.getuser())
    under = f" and umbrella {book.account(account).under}" if record.umbrella_cost is not None else ""
    console().print(
        f"Charged {account}{under} by hand: epsilon {record.final_epsilon:.4g} at delta {record.final_delta:.2g}.",
        soft_wrap=True,
    )
    _say(book, account)


def _renewed(one: TaggedEvent) -> TaggedEvent:
    """Return what a release draws today in place of the discrete noise of an earlier version."""
    mechanism, event = one
    return TaggedEvent(mechanism, event.as_gaussian() if isinstance(event, events.DiscreteGaussian) else event)


@app.command("settle")
def settle(
    target: Annotated[str, typer.Argument(metavar="ENTRY|RELEASE", help="See dp-synth ledger show ACCOUNT.")],
    why: Why,
    at_mark: Annotated[bool, typer.Option("--at-mark", help="ENTRY: charge the steps up to its durable mark.")] = False,
    who: Who = "",
    ledger: Url = "",
) -> None:
    """Settle a crashed release: charge what started. Only a person can say that it is really dead.

    Under a Rényi filter the rest is given back: with --at-mark, a training entry is charged up to its durable mark, and for
    nothing if it has none; without it, every mechanism that started in full. Under declared plans a share of which anything
    ran is spent, since what was seen of it may have decided that it ends.
    """
    book = opened(ledger)
    who, steps = who or getpass.getuser(), ""
    if at_mark:
        entry = book.settle_at_mark(target, why=why, who=who)
        target, steps = entry.release_id, f"{entry.steps_paid} steps charged, "
    release = book.settle(_release(book, target), why=why, who=who)
    console().print(f"Settled release {release.id[:12]}: {steps}epsilon {release.final_epsilon:.4g}.")


@app.command("void")
def void(
    release: Annotated[str, typer.Argument(help="A release of which nothing has started.")],
    why: Why,
    ledger: Url = "",
) -> None:
    """Give back a reservation of which nothing has started; it costs nothing."""
    book = opened(ledger)
    voided = book.void(_release(book, release), why)
    console().print(f"Voided release {voided.id[:12]}; nothing was charged.")


@app.command("show")
def show(
    account: Annotated[str | None, typer.Argument(help="One account; all of them without it.")] = None,
    as_json: Json = False,
    ledger: Url = "",
) -> None:
    """Show how much is used, and for one account each release, plan and block, and what is still open.

    `dp-synth ledger export` has each charge. Exit code 4, after all was shown, if the ledger was rolled back or edited.
    """
    book = opened(ledger)
    if as_json:
        typer.echo(answers.facts(book, account))
    else:
        answers.show(book, account, console())
    book.check()


@app.command("history")
def history(
    account: Annotated[str | None, typer.Argument(help="One account; all of them without it.")] = None,
    ledger: Url = "",
) -> None:
    """Show the journal: every decision, by whom, when, with its place in the hash chain."""
    answers.history(opened(ledger), account, console())


@app.command("can")
@takes_options
def can(
    account: Annotated[str, typer.Argument(help="The account.")],
    epsilon: Annotated[float, typer.Option(help="What one release would cost at most.")],
    asked: AskOptions,
    delta: Annotated[float | None, typer.Option(help="Its delta; default: the account's.")] = None,
    as_json: Json = False,
    verbose: Verbose = False,
    ledger: Url = "",
) -> None:
    """Say whether a release would be admitted now, and how many; charge nothing. Exit code 3 if not even one.

    With the rows and columns of its table, it also says how far off such a release will be, and what would help if that is
    poor. It reads no source.

    dp-synth ledger can patients --epsilon 0.5 --rows 2000 --columns 15
    """
    answers.can(opened(ledger), account, epsilon, delta, asked, console(), as_json)


@app.command("forecast")
@takes_options
def forecast(
    asked: ForecastOptions,
    account: Annotated[str | None, typer.Argument(help="One account; all that have a schedule without it.")] = None,
    days: Annotated[int, typer.Option(help="How far ahead.", min=1)] = 365,
    epsilon: Annotated[
        float | None, typer.Option(help="Ask for this epsilon each time instead of the schedules'.")
    ] = None,
    every: Annotated[str | None, typer.Option(help="A cron to assume instead of the project's schedules.")] = None,
    remember: Annotated[
        bool,
        typer.Option("--remember", help="With --every: divide what is left over refreshes that remember earlier ones."),
    ] = False,
    ledger: Url = "",
) -> None:
    """Say when the schedules exhaust an account, and the epsilon at which all their refreshes would fit.

    A refresh of a partition is charged to its own block, so of those it says which block refuses first. With --remember it
    says instead how much the first of those refreshes may take, and how little each later one, which goes on from it, needs.
    With the rows and columns of the table, it also says how far off each refresh will be; with --drift too, the division is
    the one at which refreshes are expected to be nearest to the table, on average over all of them.

    dp-synth ledger forecast patients --every '0 3 * * 1' --remember --rows 8000 --columns 15 --drift 0.003
    """
    from dp_synth_pipeline.cli import forecasting

    if remember and epsilon is not None:
        raise InvalidInput("--remember finds the epsilons itself; leave --epsilon out.")
    if asked.drift is not None and not remember:
        raise InvalidInput("--drift chooses how refreshes that remember divide an account; write --remember too.")
    book, told = opened(ledger), forecasting.divide if remember else forecasting.forecast
    told(book, forecasting.Horizon(account, days, every, epsilon), asked, console())


@app.command("export")
def export(
    account: Annotated[str | None, typer.Argument(help="One account; all of them without it.")] = None,
    format: Annotated[str, typer.Option(help="json, csv or html.")] = "json",
    out: Annotated[str, typer.Option(help="A file; default: standard output.")] = "",
    ledger: Url = "",
) -> None:
    """Write everything a governance review asks: who, when, which run and code, which mechanism, at what cost."""
    answers.export(opened(ledger), account, format, out, console(stderr=True))


@app.command("roles")
def give_roles(
    grant: Annotated[str, typer.Option(help="A role of the server that owns nothing, which a pipeline connects as.")],
    ledger: Url = "",
) -> None:
    """Let a pipeline's role on PostgreSQL reserve and settle, and not open, raise, approve, plan or edit; print the SQL.

    Connect as the owner of the ledger's tables. Run it again after an upgrade of the ledger.

    dp-synth ledger roles --grant etl --ledger postgresql://owner@db/ledger
    """
    for statement in roles.grant(opened(ledger), grant):
        console().print(f"{statement};", soft_wrap=True)


@app.command("adopt")
def adopt(why: Why, who: Who = "", ledger: Url = "") -> None:
    """Accept a ledger that was restored on purpose in place of the one that was left last; the act goes on record.

    It must verify. What was spent after the backup is not in it, and must be charged again by hand.
    """
    book = opened(ledger)
    book.adopt(why=why, who=who or getpass.getuser())
    console().print(f"Adopted the ledger {book.place} as it is. Chain head {book.head()[:16]}.", soft_wrap=True)


@app.command("verify")
def verify(
    anchor_file: Annotated[
        str, typer.Option("--anchors", help="Also compare the chain with the anchors in this file.")
    ] = "",
    signers: Annotated[
        str, typer.Option(help="With --anchors: OpenSSH's file of allowed signers, one of whom must have signed each.")
    ] = "",
    ledger: Url = "",
) -> None:
    """Recompute the hash chain, every cost from its stored events and every balance; exit 4 if anything differs.

    With --anchors, a chain that was cut, rewritten or forked since is refused by the first row after the break.
    """
    book = opened(ledger)
    found = anchors.read(anchor_file) if anchor_file else []
    anchors.check(book, found, signers or None)
    totals = book.verify()
    console().print(
        f"Verified {wording.counted(totals.accounts, 'account')}, {wording.counted(totals.releases, 'release')} and "
        f"{totals.entries} {'entry' if totals.entries == 1 else 'entries'}. "
        f"Chain head {totals.head[:16]}."
    )
    if anchor_file:
        checked = "each signed as it must be" if signers else "their signatures not checked: name --signers"
        console().print(f"The chain holds all {len(found)} anchors, {checked}.", soft_wrap=True)


@app.command("anchor")
def anchor(
    to: Annotated[
        str,
        typer.Option(
            help="A file, a folder, or a git repository; where you cannot rewrite it, if it is to prove much."
        ),
    ],
    key: Annotated[str, typer.Option(help="The SSH key that signs; a public one if an agent or a token holds it.")],
    ledger: Url = "",
) -> None:
    """Sign the head of the chain and append it to a file that only grows; `verify --anchors` compares it later.

    In a git repository the line is committed, and pushed if there is a remote.

    dp-synth ledger anchor --to /mnt/archive/anchors.jsonl --key ~/.ssh/id_ed25519
    """
    made, file = anchors.write(opened(ledger), to, key)
    console().print(
        f"Anchored the chain at journal row {made.length}, head {made.head[:16]}, in {file}.", soft_wrap=True
    )


def _release(book: Ledger, start: str) -> str:
    """Complete the beginning of a release's id, as `ledger show` prints it."""
    ids = [r.id for r in book.releases() if r.id.startswith(start)]
    if len(ids) != 1:
        how = "no release" if not ids else f"{len(ids)} releases"
        raise InvalidInput(f"{how} begins with {start!r}; dp-synth ledger show ACCOUNT lists them.")
    return ids[0]


def _event(text: str) -> TaggedEvent:
    if text.lstrip().startswith("{"):
        return _json_event(text)
    kind, _, parameters = text.partition(":")
    facts = {k.strip(): v.strip() for k, _, v in (part.partition("=") for part in parameters.split(",") if part)}
    mechanism = facts.pop("mechanism", "")
    try:
        numbers = {name: json.loads(value) for name, value in facts.items()}
        return TaggedEvent(mechanism, events.from_dict({"kind": kind.strip(), **numbers}))
    except (ValueError, TypeError):
        raise InvalidInput(
            f"--event {text!r}: expected kind:key=value,..., such as subsampled_gaussian:noise_multiplier=2,"
            f"sample_rate=0.01,steps=800."
        ) from None


def _json_event(text: str) -> TaggedEvent:
    try:
        facts = json.loads(text)
        mechanism = facts.pop("mechanism", "")
        return TaggedEvent(mechanism, events.from_dict(facts))
    except (ValueError, TypeError, AttributeError):
        raise InvalidInput(
            f"--event {text!r}: expected a JSON object with a kind and its parameters, such as "
            f'{{"kind": "gaussian", "noise_multiplier": 4}}.'
        ) from None


def _share(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        epsilon, delta = (float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput(f"--share {text!r}: expected EPSILON,DELTA, such as 2,5e-6.") from None
    return epsilon, delta
