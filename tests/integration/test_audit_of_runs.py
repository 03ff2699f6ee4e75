"""The audit of what ran, in whole runs: honest ones pass; one whose noise, sampler or clip is wrong publishes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import duckdb
import pytest
from typer.testing import CliRunner

from dp_synth_pipeline import cli
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.model.dpsgd import descent
from dp_synth_pipeline.model.dpsgd.clipping import OnePassClipping
from dp_synth_pipeline.model.dpsgd.optimization import LatticeOptimizer
from dp_synth_pipeline.model.dpsgd.poisson_sampling import PoissonSampler
from dp_synth_pipeline.orchestration import in_process
from dp_synth_pipeline.orchestration.resources import StoreResource
from dp_synth_pipeline.privacy.audit import NAMES
from dp_synth_pipeline.synthesis import retention
from tests.integration.conftest import failure, steps

Patch = pytest.MonkeyPatch
QUICK = {"training": {"method": "autoregressive", "max_epochs": 1}}


def evaluations(result) -> dict[str, object]:
    found = result.get_asset_check_evaluations()
    return {e.check_name: e for e in found if e.asset_key.path[-1] == "generator"}


def test_every_training_is_audited_and_says_what_was_measured(bench):
    result = bench.refresh(**QUICK)
    assert result.success, failure(result)
    found = evaluations(result)
    assert list(found) == list(NAMES)
    assert all(e.passed and e.blocking for e in found.values())
    generator = bench.store / "releasable/people/generator"
    claimed = json.loads((generator / "generator.json").read_text())["facts"]
    noise = found["audit_noise"].metadata
    assert noise["claimed"].value == claimed["noise_multiplier"]
    assert noise["measured"].value == pytest.approx(claimed["noise_multiplier"], rel=0.03)
    assert found["audit_sampling"].metadata["claimed"].value == claimed["sample_rate"]
    kept = json.loads((generator / "audit.json").read_text())
    assert kept["passed"]
    assert kept["steps"] == claimed["steps"]
    assert kept["release"] == bench.ledger.releases("people")[0].id


def half_the_noise(patch: Patch) -> None:
    class Halved(LatticeOptimizer):
        def add_noise(self) -> None:
            self.noise_multiplier /= 2
            super().add_noise()
            self.noise_multiplier *= 2

    patch.setattr(descent, "LatticeOptimizer", Halved)


def twice_the_rate(patch: Patch) -> None:
    honest = PoissonSampler.__init__
    patch.setattr(PoissonSampler, "__init__", lambda self, units, rate: honest(self, units, 2 * rate))


def no_clip(patch: Patch) -> None:
    class Unclipped(OnePassClipping):
        def __init__(self, module, max_grad_norm: float, lattice) -> None:
            super().__init__(module, 1e6, lattice)

    patch.setattr(descent, "OnePassClipping", Unclipped)


def test_a_run_with_half_the_noise_is_caught_and_publishes_nothing(bench, monkeypatch: Patch):
    assert bench.refresh(**QUICK).success
    folder = bench.store / "releasable/people"
    before, table = files(folder / "generator"), published(bench)
    half_the_noise(monkeypatch)
    result = bench.refresh(**QUICK)
    assert not result.success
    assert [n for n, e in evaluations(result).items() if not e.passed] == ["audit_noise"]
    assert not steps(result, "STEP_SUCCESS") & {"generator", "synthetic", "checks", "published", "release_card"}
    told = failure(result).user_failure_data
    assert told.metadata["error"].value == "AuditFailed"
    assert "audit_noise" in told.description
    assert files(folder / "generator") == before, "the weights of the last good run stay"
    assert published(bench) == table
    assert not json.loads((folder / "audit_failed.json").read_text())["passed"]
    assert_ended_and_charged(bench, told.description)


def assert_ended_and_charged(bench, told: str) -> None:
    """Nobody finds the release open: all that started is charged, the rest is given back, and the record says why."""
    release = bench.ledger.releases("people")[-1]
    entries = bench.ledger.entries(release_id=release.id)
    assert release.state == "settled"
    assert release.charged_cost == sum(e.cost for e in entries) < release.reserved_cost
    (training,) = (e for e in entries if e.mechanism == "training")
    assert training.steps_started == training.steps_paid > 0, "every step that ran is charged"
    assert bench.ledger.balance("people").cost_held == 0
    assert f"Release {release.id} is settled" in told
    assert "its weights are not released, since the audit of what ran failed (audit_noise)" in release.why
    assert bench.ledger.history("people")[-1].facts["note"] == {"why": release.why, "who": f"run {release.run_id}"}
    bench.ledger.verify()


def test_a_failed_audit_is_told_as_such_and_no_later_attempt_goes_on_with_its_training(bench, monkeypatch: Patch):
    half_the_noise(monkeypatch)
    result = bench.refresh(**QUICK)
    assert "Release" in in_process._outcome(result).message
    assert "audit_noise" in in_process._outcome(result).message
    monkeypatch.undo()
    (release,) = bench.ledger.releases("people")
    head = bench.ledger.head()
    again = only(bench, "generator")
    assert failure(again).user_failure_data.metadata["error"].value == "ReleaseStateError"
    assert "a new release is a new charge" in failure(again).user_failure_data.description
    assert bench.ledger.head() == head
    assert (bench.store / "restricted/people" / release.id / "snapshot.parquet").exists()
    assert retention.purge(StoreResource(root=str(bench.store)).get(), bench.ledger, "people")
    assert not (bench.store / "restricted/people" / release.id).exists(), "its real rows may go"
    assert bench.refresh(**QUICK).success


def test_an_audit_that_fails_while_the_ledger_is_away_names_the_command_that_ends_the_release(
    bench, monkeypatch: Patch
):
    half_the_noise(monkeypatch)
    monkeypatch.setattr(Ledger, "settle", lambda *_, **__: 1 / 0)
    told = failure(bench.refresh(**QUICK)).user_failure_data
    monkeypatch.undo()
    (release,) = bench.ledger.releases("people")
    assert (told.metadata["error"].value, release.state) == ("AuditFailed", "started")
    assert f"dp-synth ledger settle {release.id} --why REASON" in told.description
    done = CliRunner().invoke(
        cli.app, ["ledger", "settle", release.id, "--why", "its audit failed", "--who", "Ada", "--ledger", bench.url]
    )
    assert done.exit_code == 0, done.output
    assert bench.ledger.release(release.id).state == "settled"
    assert bench.ledger.history("people")[-1].facts["note"] == {"why": "its audit failed", "who": "Ada"}
    shown = CliRunner().invoke(cli.app, ["ledger", "show", "people", "--ledger", bench.url]).output
    assert f"Settled {release.id[:12]}: its audit failed." in shown
    assert "If it is dead" not in shown


@pytest.mark.parametrize(("mutant", "name"), [(twice_the_rate, "audit_sampling"), (no_clip, "audit_clipping")])
def test_a_run_that_did_not_do_what_was_charged_is_caught_and_makes_nothing(
    bench, monkeypatch: Patch, mutant: Callable[[Patch], None], name: str
):
    mutant(monkeypatch)
    result = bench.refresh(**QUICK)
    assert not result.success
    assert [n for n, e in evaluations(result).items() if not e.passed] == [name]
    monkeypatch.undo()
    assert not only(bench, "synthetic", "published").success  # nor do later links, run alone, find anything to publish
    assert not (bench.folder / "warehouse.duckdb").exists()
    assert not (bench.store / "releasable/people/generator/generator.safetensors").exists()


def only(bench, *links: str):
    """Run some links of the chain alone, on what earlier ones left."""
    return (
        bench.definitions(**QUICK)
        .resolve_job_def("people_refresh")
        .execute_in_process(
            instance=bench.instance,
            raise_on_error=False,
            asset_selection=[dg.AssetKey(["people", name]) for name in links],
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        )
    )


def files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def published(bench) -> list[tuple]:
    with duckdb.connect(str(bench.folder / "warehouse.duckdb"), read_only=True) as con:
        return con.sql("SELECT * FROM synthetic.people").fetchall()


def test_a_method_without_training_passes_as_not_applicable_and_leaves_no_earlier_audit(bench):
    stale = bench.store / "releasable/people/generator/audit.json"
    stale.parent.mkdir(parents=True)
    stale.write_text("{}")
    result = bench.refresh(training={"method": "marginals"})
    assert result.success, failure(result)
    assert list(evaluations(result)) == list(NAMES)
    assert all(e.passed and "Not applicable" in e.description for e in evaluations(result).values())
    assert not stale.exists()


def test_the_checks_are_known_before_anything_runs_and_absent_without_privacy(bench):
    def names(**changes) -> set[str]:
        keys = bench.definitions(**changes).resolve_asset_graph().asset_check_keys
        return {k.name for k in keys if k.asset_key.path[-1] == "generator"}

    public = {"privacy": "none", "public": {"why": "licence", "by": "Ada"}, "account": None, "epsilon": None}
    assert names() == set(NAMES)
    assert names(**public) == set()
