"""Alerts are sensors that say when something is wrong with an account, a check or the ledger. A person starts them.

Each alerts once when its condition becomes true, and again only after it was false in between. No alert holds a private
value, only names, shares of a budget and our own texts.
"""

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from dp_synth_pipeline.errors import InvalidInput, LedgerCorrupted
from dp_synth_pipeline.home import home
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration.resources import LedgerResource

AUDIT = "audit"
"""How the name of every check that audits the noise, the sampling or the claim begins."""

FILE = "alerts.jsonl"
"""Where alerts are kept, at home, one JSON object a line."""

AT_ONCE = 2000
"""How many check results one tick looks through; the next tick goes on after them."""


@dataclass(frozen=True)
class Alert:
    """One thing that a person should look at.

    Attributes:
        kind: 'account_low', 'check_failed', 'audit_failed' or 'ledger_broken'.
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


def record(alert: Alert) -> None:
    """Write an alert into the daemon's log, and as one line into `alerts.jsonl` at home."""
    logging.getLogger(__name__).warning("%s: %s", alert.kind, alert.message)
    folder = home()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / FILE).open("a", encoding="utf-8") as log_file:
        log_file.write(json.dumps(asdict(alert)) + "\n")


def build_alerts(
    notify: Notify | None = None, *, alert_below: float = 0.2, every_seconds: int = 300
) -> list[dg.SensorDefinition]:
    """Return the four sensors; give them to `Definitions(sensors=...)`, or let `build_defs` do so.

    Args:
        notify: called with each alert after it was recorded, to send a mail or a message; if it raises, the tick fails
            and is tried again, so an alert may come twice and is never lost.
        alert_below: the share of an account's limit, between 0 and 1, under which it is called low.
        every_seconds: how often they look; the ledger is verified at most once an hour.

    Raises:
        InvalidInput: if `alert_below` is no share.
    """
    if not 0 < alert_below <= 1:
        raise InvalidInput(f"alert_below: expected a share above 0 and at most 1, such as 0.2; got {alert_below}.")

    def tell(alerts: Iterable[Alert]) -> str:
        messages = []
        for alert in alerts:
            record(alert)
            if notify is not None:
                notify(alert)
            messages.append(alert.message)
        return " ".join(messages)

    checks = [_check_sensor(audits, tell, every_seconds) for audits in (False, True)]
    return [_account_sensor(alert_below, tell, every_seconds), *checks, _ledger_sensor(tell, every_seconds)]


Tell = Callable[[Iterable[Alert]], str]


def _account_sensor(alert_below: float, tell: Tell, every_seconds: int) -> dg.SensorDefinition:
    @dg.sensor(
        name="dp_synth_account_alert",
        minimum_interval_seconds=every_seconds,
        description=f"Tells when less than {alert_below:.0%} of a privacy account is left.",
    )
    def account_alert(context: dg.SensorEvaluationContext, ledger: LedgerResource):
        low = low_accounts(ledger.get(), alert_below)
        previous_names = set(json.loads(context.cursor or "[]"))
        summary = tell(alert for name, alert in low.items() if name not in previous_names)
        context.update_cursor(json.dumps(sorted(low)))
        return dg.SkipReason(summary or f"{len(low)} accounts are low; nothing new.")

    return account_alert


def _ledger_sensor(tell: Tell, every_seconds: int) -> dg.SensorDefinition:
    @dg.sensor(
        name="dp_synth_ledger_alert",
        minimum_interval_seconds=max(every_seconds, 3600),
        description="Tells when the privacy ledger no longer verifies, or lacks what it held before.",
    )
    def ledger_alert(context: dg.SensorEvaluationContext, ledger: LedgerResource):
        cursor = json.loads(context.cursor or "{}")
        alert = broken_ledger(ledger, cursor.get("head"))
        head = cursor.get("head") if alert else ledger.get().head()
        summary = tell([] if alert is None or cursor.get("broken") else [alert])
        context.update_cursor(json.dumps({"head": head, "broken": alert is not None}))
        return dg.SkipReason(summary or ("It still does not verify." if alert else "The ledger verifies."))

    return ledger_alert


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


def _check_sensor(audits: bool, tell: Callable[[Iterable[Alert]], str], every_seconds: int) -> dg.SensorDefinition:
    kind = "audit" if audits else "check"

    @dg.sensor(
        name=f"dp_synth_{kind}_alert",
        minimum_interval_seconds=every_seconds,
        description=f"Tells when {'an audit' if audits else 'a check'} of a synthetic table failed.",
    )
    def check_alert(context: dg.SensorEvaluationContext):
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
        summary = tell(_failure_alert(f"{kind}_failed", name, *runs[name]) for name in new_failures)
        newest_id = records[-1].storage_id if records else cursor.get("seen")
        context.update_cursor(json.dumps({"seen": newest_id, "failing": sorted(failing_names)}))
        return dg.SkipReason(summary or f"{len(failing_names)} {kind}s are failing; nothing new.")

    return check_alert


def _failure_alert(kind: str, name: str, run: str, blocking: bool) -> Alert:
    consequence = "The table was not published; the one before is intact." if blocking else "It is a warning."
    message = f"{name} failed in run {run}. {consequence} Its result is with the asset in the Dagster UI."
    return Alert(kind, name, message, facts={"run_id": run, "blocking": blocking})
