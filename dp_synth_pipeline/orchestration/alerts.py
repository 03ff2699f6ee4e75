"""Alerts are sensors that say when something is wrong with an account, a check or the ledger. A person starts them.

Each alerts once when its condition becomes true, and again only after it was false in between. No alert holds a private
value, only names, shares of a budget and our own texts.
"""

import hashlib
import json
import logging
import smtplib
import ssl
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from email.message import EmailMessage
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
from filelock import FileLock
from pydantic import field_validator

from dp_synth_pipeline.errors import InvalidInput, LedgerCorrupted
from dp_synth_pipeline.home import home
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration.accounts import WAITS, Refusal, refusals
from dp_synth_pipeline.orchestration.failures import short
from dp_synth_pipeline.orchestration.resources import LedgerResource, of_location
from dp_synth_pipeline.targets import sink

AUDIT = "audit"
"""How the name of every check that audits the noise, the sampling or the claim begins."""

FILE = "alerts.jsonl"
"""Where alerts are kept, at home, one JSON object a line."""

EVERY_SECONDS = 300
"""How often a sensor looks; the ledger is verified at most once an hour."""

TIMEOUT = 20
"""How many seconds a mail server or a webhook may take."""

AT_ONCE = 2000
"""How many check results one tick looks through; the next tick goes on after them."""


FOLDER = "alerts_waiting"
"""At home: a file for each recipient that did not take an alert, with a line for each."""

Facts = dict[str, Any]
"""An alert's fields."""


@dataclass(frozen=True)
class Alert:
    """One thing that a person should look at.

    Attributes:
        kind: 'account_low', 'release_refused', 'approval_needed', 'check_failed', 'audit_failed' or 'ledger_broken'.
        subject: the account, the asset and check, or the ledger.
        message: what happened and what to do, in words.
        at: when it was noticed, ISO text.
        facts: numbers and names behind it; none of them private.
    """

    kind: str
    subject: str
    message: str
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    facts: dict[str, Any] = field(default_factory=dict)


Notify = Callable[[Alert], None]


@dataclass(frozen=True)
class Outbox:
    """One way to one recipient, with the alerts that it did not take, which are sent there again, and nowhere else.

    So a mail server that is down has nothing posted twice to a webhook that is up. What waits was recorded already; the
    file's name has its recipient as a hash only, since an address may be secret.

    Attributes:
        way: what takes alerts there, in words.
        recipient: who that is; two projects of one home may have several.
        deliver: sends one alert, or raises OSError, ValueError or SMTPException.
    """

    way: str
    recipient: str
    deliver: Callable[[Facts], None]

    @property
    def path(self) -> Path:
        """The file of what waits; there is none where nothing does."""
        name = hashlib.sha256(f"{self.way} {self.recipient}".encode()).hexdigest()[:16]
        return home() / FOLDER / f"{name}.jsonl"

    def send(self, alert: Facts) -> None:
        """Send an alert, or let it wait: untried behind others that do, so that a server that is down is asked once."""
        with self._waiting() as queue:
            queue.append(alert)
            if len(queue) == 1:
                self._deliver(queue)

    def retry(self) -> str:
        """Send what waits, up to the first that is not taken; return the name of its error, or nothing if none waits."""
        if not self.path.exists():
            return ""
        with self._waiting() as queue:
            return self._deliver(queue)

    def _deliver(self, queue: list[Facts]) -> str:
        while queue:
            try:
                self.deliver(queue[0])
            except (OSError, ValueError, smtplib.SMTPException) as error:
                return type(error).__name__  # without its own words, which may hold the address or a password
            queue.pop(0)
        return ""

    @contextmanager
    def _waiting(self) -> Iterator[list[Facts]]:
        """Yield what waits, which nobody else sends meanwhile; keep what is left of it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path.with_suffix(".lock")):
            text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
            queue = [json.loads(line) for line in text.splitlines()]
            try:
                yield queue
            finally:
                if queue:
                    sink.write_text("".join(json.dumps(alert) + "\n" for alert in queue), self.path)
                else:
                    self.path.unlink(missing_ok=True)


class AlertResource(dg.ConfigurableResource):
    """What a project does with an alert beyond recording it. Put one among its resources, under any key.

    It sends mail if `mail_to` names anybody, and posts to a webhook if there is one; or it does what your `notify` does.
    What is secret comes from the environment, by `dg.EnvVar`.

    Example:
        ```python
        alerts = AlertResource(mail_to="data-office@clinic.example", smtp_host="mail.clinic.example", smtp_user="etl",
                               smtp_password=dg.EnvVar("SMTP_PASSWORD"), webhook=dg.EnvVar("ALERT_WEBHOOK"))

        class Chat(AlertResource):
            def notify(self, alert: Alert) -> None:
                post_to_chat(alert.message)

        defs = dg.Definitions(resources={"alerts": Chat(below=0.25)})
        ```
    """

    below: float = 0.2
    """The share of an account's limit, above 0 and at most 1, under which it is called low."""

    mail_to: str = ""
    """Who gets each alert by mail: addresses, with commas between them."""

    mail_from: str = ""
    """The sender of a mail; by default those who get it."""

    smtp_host: str = "localhost"
    smtp_port: int = 587
    smtp_user: str = ""
    smtp_password: str = ""
    """The server that sends the mail. It is given a password only after TLS began."""

    webhook: str = ""
    """An address that each alert is posted to, as JSON: its fields, and `text`, which chats show."""

    @field_validator("below")
    @classmethod
    def _share(cls, value: float) -> float:
        if not 0 < value <= 1:
            raise InvalidInput(f"below: expected a share above 0 and at most 1, such as 0.2; got {value}.")
        return value

    def notify(self, alert: Alert) -> None:
        """Send one alert, which was recorded already, by mail and to the webhook, if they are given.

        Each way is tried by itself, and what it does not take waits for it alone. If one of your own raises, the tick fails
        and is tried again, so an alert may then come twice and is never lost.
        """
        for outbox in self._ways():
            outbox.send(asdict(alert))

    def _ways(self) -> list[Outbox]:
        ways = (("webhook", self.webhook, self._post), ("mail server", self.mail_to, self._mail))
        return [Outbox(way, recipient, deliver) for way, recipient, deliver in ways if recipient]

    def _post(self, alert: Facts) -> None:
        body = json.dumps({"text": alert["message"], **alert}).encode()
        asked = urllib.request.Request(self.webhook, body, {"Content-Type": "application/json"})
        urllib.request.urlopen(asked, timeout=TIMEOUT).close()

    def _mail(self, alert: Facts) -> None:
        mail = EmailMessage()
        mail["Subject"] = f"dp_synth: {alert['kind'].replace('_', ' ')}, {alert['subject']}"
        mail["From"], mail["To"] = self.mail_from or self.mail_to, self.mail_to
        mail.set_content(alert["message"])
        with smtplib.SMTP(self.smtp_host, self.smtp_port, timeout=TIMEOUT) as server:
            server.ehlo()
            if self.smtp_user or server.has_extn("starttls"):
                server.starttls(context=ssl.create_default_context())
            if self.smtp_user:
                server.login(self.smtp_user, self.smtp_password)
            server.send_message(mail)

    def tell(self, alerts: Iterable[Alert]) -> str:
        """Send what waits, record and send some alerts more, and return their messages.

        Raises:
            InvalidInput: if there is nothing new, and something still waits, so that the tick shows it.
        """
        ways, messages = self._ways(), []
        failed = [f"the {outbox.way} ({why})" for outbox in ways if (why := outbox.retry())]
        for alert in alerts:
            record(alert)
            self.notify(alert)
            messages.append(alert.message)
        if failed and not messages:
            raise InvalidInput(
                f"an alert was not taken by {' and '.join(failed)}; it is in {FILE}, and is tried there again at the next "
                f"tick. Look at the address, the user and the password that AlertResource has."
            )
        waits = [f"An alert waits for the {outbox.way}." for outbox in ways if outbox.path.exists()]
        return " ".join([*messages, *waits])


def calling(notify: Notify | None, below: float) -> AlertResource:
    """Return the resource that calls a function with each alert."""

    class Calling(AlertResource):
        def notify(self, alert: Alert) -> None:
            if notify is not None:
                notify(alert)

    return Calling(below=below)


def record(alert: Alert) -> None:
    """Write an alert into the daemon's log, and as one line into `alerts.jsonl` at home."""
    logging.getLogger(__name__).warning("%s: %s", alert.kind, alert.message)
    folder = home()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / FILE).open("a", encoding="utf-8") as log_file:
        log_file.write(json.dumps(asdict(alert)) + "\n")


class AlertSensor(dg.SensorDefinition):
    """A sensor that every table brings and a project has once."""

    def with_attributes(self, **changes: Any) -> dg.SensorDefinition:
        """Return itself: Dagster copies what a YAML file declares, to note the file; these belong to none.

        Dagster drops the second of two sensors that are the same object, and refuses two copies of one name.
        """
        return self


@cache
def alerts() -> tuple[AlertSensor, ...]:
    """Return the five sensors, the same ones for every table of this process. A person starts them."""
    checks = [_check_sensor(audits) for audits in (False, True)]
    return (
        AlertSensor(
            name="dp_synth_account_alert",
            evaluation_fn=_account_alert,
            minimum_interval_seconds=EVERY_SECONDS,
            description="Tells when little of a privacy account is left: less than a fifth, or than `AlertResource` says.",
        ),
        AlertSensor(
            name="dp_synth_refusal_alert",
            evaluation_fn=_refusals_alert,
            minimum_interval_seconds=EVERY_SECONDS,
            description="Tells when the ledger refused a release, or one waits for a second person; also before any run.",
        ),
        *checks,
        AlertSensor(
            name="dp_synth_ledger_alert",
            evaluation_fn=_ledger_alert,
            minimum_interval_seconds=max(EVERY_SECONDS, 3600),
            description="Tells when the privacy ledger no longer verifies, or lacks what it held before.",
        ),
    )


def _account_alert(context: dg.SensorEvaluationContext) -> dg.SkipReason:
    own = of_location(AlertResource, context)
    low = low_accounts(of_location(LedgerResource, context).get(), own.below)
    previous_names = set(json.loads(context.cursor or "[]"))
    summary = own.tell(alert for name, alert in low.items() if name not in previous_names)
    context.update_cursor(json.dumps(sorted(low)))
    return dg.SkipReason(summary or f"{len(low)} accounts are low; nothing new.")


def _ledger_alert(context: dg.SensorEvaluationContext) -> dg.SkipReason:
    cursor, ledger = json.loads(context.cursor or "{}"), of_location(LedgerResource, context)
    alert = broken_ledger(ledger, cursor.get("head"))
    head = cursor.get("head") if alert else ledger.get().head()
    summary = of_location(AlertResource, context).tell([] if alert is None or cursor.get("broken") else [alert])
    context.update_cursor(json.dumps({"head": head, "broken": alert is not None}))
    return dg.SkipReason(summary or ("It still does not verify." if alert else "The ledger verifies."))


def _refusals_alert(context: dg.SensorEvaluationContext) -> dg.SkipReason:
    seen = None if context.cursor is None else int(context.cursor)
    new = sorted(refusals(context.instance, seen), key=lambda r: r.id)
    told = [] if seen is None else map(_refusal_alert, new)  # those before a person started it are no news
    summary = of_location(AlertResource, context).tell(told)
    context.update_cursor(str(new[-1].id if new else seen or 0))
    return dg.SkipReason(summary or "Nothing new was refused.")


def _refusal_alert(refusal: Refusal) -> Alert:
    where = f"in run {refusal.run_id}" if refusal.run_id else "before any run"
    told = (
        f"A release of {refusal.table} on account {refusal.account} {WAITS if refusal.waits else 'was refused'} {where}"
    )
    message = f"{told}. Nothing was read, and what was published is as it was. {short(refusal.why)}"
    facts = {"table": refusal.table, "run_id": refusal.run_id, "why": refusal.why}
    kind = "approval_needed" if refusal.waits else "release_refused"
    return Alert(kind, refusal.account, message, at=refusal.at, facts=facts)


def low_accounts(ledger: Ledger, below: float) -> dict[str, Alert]:
    """Return an alert for each account of which less than a share `below` is left, by name."""
    alerts = {}
    for account in ledger.accounts():
        balance = ledger.balance(account.name)
        share = balance.cost_left / balance.cost_limit if balance.cost_limit else 0.0
        if share < below:
            message = (
                f"Account {account.name} has {share:.1%} of its limit left, enough for one more release of at most "
                f"epsilon {balance.epsilon_left:.3g}. dp-synth ledger forecast {account.name} says how long it lasts."
            )
            facts = {"share_left": round(share, 4), "epsilon_left": balance.epsilon_left, "alert_below": below}
            alerts[account.name] = Alert("account_low", account.name, message, facts=facts)
    return alerts


def broken_ledger(ledger: LedgerResource, head: str | None) -> Alert | None:
    """Return an alert if the ledger does not verify, or no longer holds a head that was seen before."""
    try:
        ledger.get().verify(since=head)
    except LedgerCorrupted as error:
        return Alert("ledger_broken", "ledger", str(error))
    return None


def _check_sensor(audits: bool) -> AlertSensor:
    kind = "audit" if audits else "check"

    def check_alert(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        cursor = json.loads(context.cursor or "{}")
        record_filter = dg.EventRecordsFilter(
            dg.DagsterEventType.ASSET_CHECK_EVALUATION, after_cursor=cursor.get("seen")
        )
        records = context.instance.get_event_records(record_filter, limit=AT_ONCE, ascending=True)
        failing_names, runs = set(cursor.get("failing", ())), {}
        for event_record in records:
            evaluation = event_record.event_log_entry.get_dagster_event().asset_check_evaluation_data
            if evaluation.check_name.startswith(AUDIT) is not audits:
                continue
            name = f"{evaluation.asset_key.to_user_string()}: {evaluation.check_name}"
            (failing_names.discard if evaluation.passed else failing_names.add)(name)
            runs[name] = (event_record.event_log_entry.run_id, evaluation.blocking)
        new_failures = sorted(
            failing_names - set(cursor.get("failing", ()))
        )  # what failed and was mended since is no news
        own = of_location(AlertResource, context)
        summary = own.tell(_failure_alert(f"{kind}_failed", name, *runs[name]) for name in new_failures)
        newest_id = records[-1].storage_id if records else cursor.get("seen")
        context.update_cursor(json.dumps({"seen": newest_id, "failing": sorted(failing_names)}))
        return dg.SkipReason(summary or f"{len(failing_names)} {kind}s are failing; nothing new.")

    return AlertSensor(
        name=f"dp_synth_{kind}_alert",
        evaluation_fn=check_alert,
        minimum_interval_seconds=EVERY_SECONDS,
        description=f"Tells when {'an audit' if audits else 'a check'} of a synthetic table failed.",
    )


def _failure_alert(kind: str, name: str, run: str, blocking: bool) -> Alert:
    consequence = "The table was not published; the one before is intact." if blocking else "It is a warning."
    message = f"{name} failed in run {run}. {consequence} Its result is with the asset in the Dagster UI."
    return Alert(kind, name, message, facts={"run_id": run, "blocking": blocking})
