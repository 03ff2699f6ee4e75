"""Sensors that say when an account is low, a check or an audit failed, or the ledger is broken."""

import json
import sqlite3
from types import SimpleNamespace

import dagster as dg
import pytest

from dp_synth_pipeline.errors import BudgetExceeded, LedgerCorrupted
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration import accounts
from dp_synth_pipeline.orchestration.alerts import FILE, AlertResource, alerts, calling
from dp_synth_pipeline.orchestration.resources import LedgerResource
from dp_synth_pipeline.privacy.events import SubsampledGaussian

KEY = dg.AssetKey(["people", "synthetic"])


class Watch:
    """Ticks one sensor after another, as the daemon does, and keeps what was told."""

    def __init__(self, folder):
        self.url = f"sqlite:///{folder / 'ledger.db'}"
        self.ledger, self.told, self.cursors = Ledger.open(self.url), [], {}
        self.instance = dg.DagsterInstance.ephemeral()

    def context(self, notify, name):
        """What a sensor sees of a project with its own ledger and alerts, under keys of its own choosing."""
        own = {"budget": LedgerResource(url=self.url), "pager": calling(notify, 0.5), "ledger": "an accountant's"}
        defs = dg.Definitions(sensors=alerts(), resources=own)
        sensor = defs.get_sensor_def(f"dp_synth_{name}_alert")
        return sensor, dg.build_sensor_context(
            self.instance, self.cursors.get(name), repository_def=defs.get_repository_def()
        )

    def tick(self, name):
        before = len(self.told)
        sensor, context = self.context(self.told.append, name)
        ran = sensor.evaluate_tick(context)
        assert not ran.run_requests
        self.cursors[name] = ran.cursor
        return self.told[before:]

    def check(self, name, passed, blocking=True):
        severity = dg.AssetCheckSeverity.ERROR if blocking else dg.AssetCheckSeverity.WARN

        @dg.asset_check(asset=KEY, name=name, blocking=blocking)
        def evaluated():
            return dg.AssetCheckResult(passed=passed, severity=severity, metadata={"exact": "CANARY"})

        asset = dg.AssetSpec(KEY)
        defs = dg.Definitions(assets=[asset], asset_checks=[evaluated])
        job = defs.resolve_implicit_global_asset_job_def()
        job.execute_in_process(instance=self.instance, raise_on_error=False)


@pytest.fixture
def watch(tmp_path, monkeypatch):
    monkeypatch.setenv("DP_SYNTH_HOME", str(tmp_path))
    return Watch(tmp_path)


def spend(ledger, account, epsilon, key="k"):
    held = {"table": "t", "run_id": key, "code_version": "c"}
    release = ledger.reserve(account, key=key, epsilon=epsilon, delta=1e-5, **held)
    ledger.start(release.id, "training", [SubsampledGaussian(4.0, 0.01, 10)])


def test_an_account_below_the_threshold_is_told_once_and_again_after_a_raise_was_used_up(watch):
    watch.ledger.open_account("people", epsilon=3.0, delta=1e-5)
    assert watch.tick("account") == []
    spend(watch.ledger, "people", 2.2)
    (alert,) = watch.tick("account")
    assert (alert.kind, alert.subject) == ("account_low", "people")
    assert alert.facts["share_left"] < 0.5
    assert watch.tick("account") == []
    watch.ledger.raise_account("people", epsilon=8.0, why="w", who="ana")
    assert watch.tick("account") == []
    spend(watch.ledger, "people", 4.5, "again")
    assert [a.subject for a in watch.tick("account")] == ["people"]


def test_a_check_that_fails_is_told_once_and_again_after_it_passed(watch):
    watch.check("row_count", True)
    assert watch.tick("check") == []
    watch.check("row_count", False)
    (alert,) = watch.tick("check")
    assert (alert.kind, alert.subject) == ("check_failed", "people/synthetic: row_count")
    assert alert.facts["run_id"] in alert.message
    assert "CANARY" not in json.dumps(alert.__dict__)
    watch.check("row_count", False)
    assert watch.tick("check") == []
    watch.check("row_count", True)
    assert watch.tick("check") == []
    watch.check("row_count", False)
    assert len(watch.tick("check")) == 1


def test_an_audit_that_fails_is_told_apart_from_other_checks(watch):
    watch.check("audit_noise", False)
    assert watch.tick("check") == []
    assert [a.kind for a in watch.tick("audit")] == ["audit_failed"]


def test_what_failed_and_was_mended_before_the_first_look_is_no_news(watch):
    watch.check("row_count", False)
    watch.check("row_count", True)
    assert watch.tick("check") == []


def test_an_edited_ledger_is_told_once(watch, tmp_path):
    watch.ledger.open_account("people", epsilon=3.0, delta=1e-5)
    assert watch.tick("ledger") == []
    with sqlite3.connect(tmp_path / "ledger.db") as db:
        db.execute("UPDATE dp_account SET epsilon = 30.0")
    (alert,) = watch.tick("ledger")
    assert alert.kind == "ledger_broken"
    assert watch.tick("ledger") == []


def test_a_ledger_that_was_rolled_back_is_noticed(watch, tmp_path):
    watch.ledger.open_account("people", epsilon=3.0, delta=1e-5)
    with sqlite3.connect(tmp_path / "ledger.db") as db, sqlite3.connect(tmp_path / "backup.db") as copy:
        db.backup(copy)
    spend(watch.ledger, "people", 1.0)
    assert watch.tick("ledger") == []
    with sqlite3.connect(tmp_path / "backup.db") as copy, sqlite3.connect(tmp_path / "ledger.db") as db:
        copy.backup(db)
    with pytest.raises(LedgerCorrupted, match="rolled back"):
        Ledger.open(watch.url).verify()
    assert [a.kind for a in watch.tick("ledger")] == ["ledger_broken"]


def test_every_alert_is_a_line_in_the_file_at_home(watch, tmp_path):
    watch.ledger.open_account("people", epsilon=3.0, delta=1e-5)
    spend(watch.ledger, "people", 2.5)
    watch.tick("account")
    lines = [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines()]
    assert [(a["kind"], a["subject"]) for a in lines] == [("account_low", "people")]


def test_an_alert_whose_message_could_not_be_sent_is_tried_again(watch, tmp_path):
    watch.ledger.open_account("people", epsilon=3.0, delta=1e-5)
    spend(watch.ledger, "people", 2.5)

    def down(alert):
        raise ConnectionError

    sensor, context = watch.context(down, "account")
    with pytest.raises(ConnectionError):
        sensor.evaluate_tick(context)
    assert context.cursor is None
    assert len(watch.tick("account")) == 1


def test_every_sensor_is_off_until_a_person_starts_it():
    assert {s.default_status for s in alerts()} == {dg.DefaultSensorStatus.STOPPED}
    assert len(alerts()) == 5


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5])
def test_a_threshold_that_is_no_share_is_refused(share):
    with pytest.raises(ValueError, match="below: expected a share"):
        AlertResource(below=share)


def test_a_request_that_waits_and_a_quota_that_refuses_are_told_once_each(watch):
    watch.ledger.open_account("people", epsilon=3.0, delta=1e-5, approve_above=0.25, quotas=["purpose=testing:0"])
    settings = SimpleNamespace(name="people", charge=SimpleNamespace(account="people"))
    asked = {"table": "people", "run_id": "r", "code_version": "c", "delta": 1e-6}
    watch.tick("refusal")
    for purpose, epsilon in (("waiting times", 2.0), ("testing", 0.5)):
        with pytest.raises(BudgetExceeded) as refused:
            watch.ledger.reserve("people", key=purpose, purpose=purpose, epsilon=epsilon, **asked)
        accounts.show_refusal(watch.instance, watch.ledger, settings, refused.value)
    waits, bounded = watch.tick("refusal")
    assert [waits.kind, bounded.kind] == ["approval_needed", "release_refused"]
    assert waits.message.startswith("A release of people on account people waits for a second person before any run.")
    assert bounded.message.startswith("A release of people on account people was refused before any run.")
    assert f"Request {watch.ledger.requests()[0].id[:12]} waits for a second person" in waits.message
    assert "Quota purpose=testing:0.0 of account 'people' refuses this" in bounded.message
    assert watch.tick("refusal") == []
