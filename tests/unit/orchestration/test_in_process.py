"""What a run came to, in the words of what stopped it."""

import signal

import dagster as dg
import pytest

from dp_synth_pipeline.orchestration.in_process import STOPPED, refresh


def definitions(severity: dg.AssetCheckSeverity, then, key=("drawn",)) -> dg.Definitions:
    """One asset whose blocking check does not pass, and one after it that does something."""

    @dg.asset(key=[*key], check_specs=[dg.AssetCheckSpec("nulls", asset=[*key], blocking=True)])
    def drawn():
        return dg.MaterializeResult(check_results=[dg.AssetCheckResult(passed=False, severity=severity)])

    @dg.asset(deps=[drawn])
    def after():
        then()

    return dg.Definitions([drawn, after], jobs=[dg.define_asset_job("t_refresh", [drawn, after])])


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))


def test_a_check_that_only_warned_is_not_why_a_run_stopped():
    pressed = definitions(dg.AssetCheckSeverity.WARN, lambda: signal.raise_signal(signal.SIGINT))
    done = refresh(pressed, "t")
    assert (done.exit_code, done.message, done.failed_checks) == (STOPPED, "interrupted.", [])


def test_a_blocking_check_that_failed_is_why_the_table_was_not_published():
    done = refresh(definitions(dg.AssetCheckSeverity.ERROR, lambda: None), "t")
    assert (done.exit_code, done.failed_checks) == (1, ["nulls"])
    assert done.message.startswith("blocking checks failed: nulls.")


def test_of_related_tables_it_is_said_whose_check_failed():
    done = refresh(definitions(dg.AssetCheckSeverity.ERROR, lambda: None, ("clinic", "visits", "synthetic")), "t")
    assert done.failed_checks == ["visits: nulls"]
