"""An account as an asset: one for all its tables, kept up to date by what happens to it, and its refusals."""

import dagster as dg
import pytest

from dp_synth_pipeline.errors import BudgetExceeded
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration import accounts, governance
from dp_synth_pipeline.orchestration.alerts import alerts, calling
from dp_synth_pipeline.orchestration.build import build_defs, build_synthetic_table
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.privacy.events import Gaussian

WHY = BudgetExceeded("Account 'clinic' refuses this release.\nIt asks for too much.")


def table(name: str = "visits", **changes) -> TableSettings:
    return TableSettings(**{"table": name, "source": "v.parquet", "account": "clinic", "epsilon": 1.0, **changes})


@pytest.fixture
def ledger(tmp_path):
    found = Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    found.open_account("clinic", epsilon=6.0, delta=1e-5)
    return found


def release(ledger, key: str, epsilon: float = 2.0, multiplier: float = 4.0) -> None:
    made = ledger.reserve("clinic", key=key, table="visits", run_id=key, code_version="c", epsilon=epsilon, delta=1e-5)
    ledger.start(made.id, "training", [Gaussian(multiplier)])
    ledger.settle(made.id)


def test_two_components_with_one_account_share_its_asset_and_each_other_account_has_its_own():
    parts = [table(), table("stays"), table("rooms", account="ward/2:b.c")]
    merged = dg.Definitions.merge(*map(build_synthetic_table, parts))
    found = [k for k in merged.resolve_asset_graph().get_all_asset_keys() if k.path[0] == accounts.GROUP]
    assert sorted(k.path[1] for k in found) == ["clinic", "ward/2:b.c"]


def test_a_public_table_has_no_account():
    public = table(account=None, epsilon=None, privacy="none", public={"by": "Ana", "why": "open data"})
    assert accounts.assets(public) == []


def test_nobody_materializes_an_account_and_no_refresh_waits_for_it():
    definitions = build_defs([table()])
    (spec,) = (s for s in definitions.resolve_all_asset_specs() if s.key == accounts.key("clinic"))
    assert (spec.group_name, list(spec.deps)) == (accounts.GROUP, [])
    node = definitions.resolve_asset_graph().get(spec.key)
    assert not node.is_executable
    assert not node.child_keys


def test_a_new_account_says_what_fits(ledger):
    told = accounts.facts(ledger, "clinic")
    assert (told["share_used"], told["releases"]) == (0.0, 0)
    assert told["in_words"].startswith(f"{'░' * 20} 0 % used; no release yet, ε ≤ ")
    assert told["limit"] == "ε 6 at δ 10⁻⁵"
    assert told["epsilon_left_for_one_release"] <= ledger.balance("clinic").epsilon_left
    assert "burn_down" not in told


def test_the_page_says_the_share_used_and_how_many_more_like_the_last_the_ledger_would_admit(ledger):
    release(ledger, "a")
    told, balance = accounts.facts(ledger, "clinic"), ledger.balance("clinic")
    assert (
        balance.cost_spent / balance.cost_limit <= told["share_used"] <= 1.01 * balance.cost_spent / balance.cost_limit
    )
    fits = ledger.admitted("clinic", epsilon=2.0, delta=1e-5, each=[()] * 100)
    assert f"fits {sum(fits)} more like the last" in told["in_words"]
    assert (told["in_words"].count("█") - 1) / 20 < told["share_used"] <= told["in_words"].count("█") / 20
    assert "](data:image/svg+xml;base64," in told["burn_down"].value
    assert "| visits | settled |" in told["newest_releases"].value


def test_the_page_of_an_account_without_room_says_what_still_fits(ledger):
    release(ledger, "a", epsilon=5.0, multiplier=1.0)
    assert "fits none like the last, ε ≤ " in accounts.facts(ledger, "clinic")["in_words"]


def test_what_is_held_by_a_release_that_did_not_end_counts_as_used(ledger):
    ledger.reserve("clinic", key="a", table="visits", run_id="a", code_version="c", epsilon=2.0, delta=1e-5)
    told = accounts.facts(ledger, "clinic")
    assert 0 < told["share_used"] == told["share_held_by_unfinished_releases"]


def test_a_refusal_is_shown_on_the_page_listed_in_the_review_and_told_once(ledger, tmp_path, monkeypatch):
    monkeypatch.setenv("DP_SYNTH_HOME", str(tmp_path))
    told: list = []
    defs = dg.Definitions(sensors=alerts(), resources={"pager": calling(told.append, 0.2)})
    sensor, project = defs.get_sensor_def("dp_synth_refusal_alert"), defs.get_repository_def()
    with dg.DagsterInstance.ephemeral() as instance:

        def tick(cursor):
            return sensor.evaluate_tick(dg.build_sensor_context(instance, cursor, repository_def=project)).cursor

        accounts.show_refusal(instance, ledger, table(), WHY)
        cursor = tick(None)
        assert told == []  # refused before a person started the sensor
        accounts.show_refusal(instance, ledger, table("stays"), WHY, "run-7")
        tick(tick(cursor))
        assert [r.table for r in accounts.refusals(instance)] == ["stays", "visits"]
        assert [(r["table"], r["run_id"]) for r in governance.refusals(instance)] == [("visits", "")]
    (alert,) = told
    assert (alert.kind, alert.subject, alert.facts["run_id"]) == ("release_refused", "clinic", "run-7")
    assert "A release of stays on account clinic was refused in run run-7" in alert.message
    assert "It asks for too much" not in alert.message, "the first line is short enough to post"


def test_a_ledger_that_cannot_be_read_now_ends_no_release(ledger, tmp_path):
    with dg.DagsterInstance.ephemeral() as instance:
        accounts.show_refusal(instance, ledger, table(account="nobody"), WHY)
        assert list(accounts.refusals(instance)) == []
