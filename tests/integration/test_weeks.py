"""Dagster's scheduler, driven through simulated weeks, until an account is exhausted: exactly when the forecast said."""

import io
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.scheduler.instigation import TickStatus
from dagster._core.test_utils import create_test_daemon_workspace_context, freeze_time, instance_for_test
from dagster._core.workspace.load_target import PythonFileTarget
from dagster._scheduler.scheduler import launch_scheduled_runs
from rich.console import Console

from dp_synth_pipeline.cli import forecasting
from dp_synth_pipeline.cli.expecting import AskOptions
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration import accounts
from dp_synth_pipeline.orchestration.schedules import ticks
from tests.integration.conftest import people

CRON = "0 3 * * 1"
IN_PROCESS = {
    "run_coordinator": {"module": "dagster._core.run_coordinator", "class": "DefaultRunCoordinator"},
    "run_launcher": {
        "module": "dagster._core.launcher.sync_in_memory_run_launcher",
        "class": "SyncInMemoryRunLauncher",
    },
}


@pytest.fixture
def weekly(tmp_path, monkeypatch):
    """The daemon's view of one scheduled table, an account with room for a few refreshes, and its schedule started."""
    people(2000).to_parquet(tmp_path / "people.parquet")
    ledger = Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.open_account("people", epsilon=2.3, delta=1e-4, why="test")
    monkeypatch.setenv("DP_SYNTH_TEST_WEEKLY", str(tmp_path))
    target = PythonFileTarget(
        python_file=str(Path(__file__).with_name("weekly_table.py")),
        attribute="defs",
        working_directory=str(Path(__file__).parents[2]),
        location_name="dp_synth_pipeline",
    )
    with (
        instance_for_test(overrides=IN_PROCESS) as instance,
        create_test_daemon_workspace_context(target, instance) as workspace,
    ):
        location = workspace.create_request_context().get_code_location("dp_synth_pipeline")
        (repository,) = location.get_repositories().values()
        instance.start_schedule(repository.get_schedule("people_refresh_schedule"))
        yield ledger, instance, workspace


def tick(workspace, at: datetime) -> None:
    with freeze_time(at + timedelta(seconds=5)):
        list(launch_scheduled_runs(workspace, logging.getLogger("test"), at + timedelta(seconds=5), iteration_times={}))


def test_refusals_come_exactly_where_the_forecast_said(weekly, tmp_path):
    ledger, instance, workspace = weekly
    mondays = ticks([CRON], datetime.now(UTC) + timedelta(days=200))
    told = io.StringIO()
    horizon = forecasting.Horizon("people", 200, CRON, 1.0)
    forecasting.forecast(ledger, horizon, AskOptions(), Console(file=told, width=400))
    fits = next(n for n, day in enumerate(mondays) if f"exhausted on {day:%d %B %Y}" in told.getvalue())
    assert 2 <= fits <= 12
    assert f"; {fits} fit" in told.getvalue()

    published = []
    for monday in mondays[: fits + 2]:
        tick(workspace, monday)
        published.append((tmp_path / "synthetic.parquet").stat().st_mtime_ns)
    assert [run.status for run in instance.get_runs()] == [dg.DagsterRunStatus.SUCCESS] * fits
    assert len(set(published)) == fits, "each refresh published, and a refused one left the last table alone"

    assert len([r for r in ledger.releases("people") if r.state == "settled"]) == fits
    (state,) = instance.all_instigator_state()
    ticks_seen = list(reversed(instance.get_ticks(state.instigator_origin_id, state.selector_id)))
    assert [t.status for t in ticks_seen] == [TickStatus.SUCCESS] * fits + [TickStatus.SKIPPED] * 2
    assert "refuses this release" in ticks_seen[fits].skip_reason
    assert [(r.table, r.run_id) for r in accounts.refusals(instance)] == [("people", "")] * 2
    ledger.verify()
