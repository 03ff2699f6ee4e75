"""`dp-synth audit` and its asset: a released generator's plan, run on a made-up table and attacked; nothing is charged."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from opacus.optimizers.optimizer_fast_gradient_clipping import DPOptimizerFastGradientClipping

from dp_synth_pipeline import cli
from dp_synth_pipeline.model import artifact
from dp_synth_pipeline.model.autoregressive.generator import Generator
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd import descent, one_run_attack
from dp_synth_pipeline.orchestration.assets import one_run_audit

CARDS = (4, 3)
SPEC = GeneratorSpec(hidden=4, embedding=2)
FACTS = {"noise_multiplier": 2.0, "sample_rate": 0.125, "steps": 48}


@pytest.fixture(autouse=True)
def _few_canaries(monkeypatch: pytest.MonkeyPatch):
    honest = one_run_attack.attack
    monkeypatch.setattr(one_run_attack, "attack", lambda *plan, device: honest(*plan, canaries=400, device="cpu"))


def released(store: Path, partition: str = "", **facts: float) -> Path:
    """Put a generator in a table's folder that says it was trained by `FACTS`."""
    folder = store / "releasable/people" / partition
    network = Generator(AutoregressiveNetwork(CARDS, SPEC).eval(), None)
    artifact.save(folder / "generator", network, FACTS | facts)
    return folder


def half_a_step_of_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(DPOptimizerFastGradientClipping):
        def add_noise(self) -> None:
            kept, self.noise_multiplier = self.noise_multiplier, 1e-6
            super().add_noise()
            self.noise_multiplier = kept

    monkeypatch.setattr(descent, "DPOptimizerFastGradientClipping", Silent)


def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *args: str) -> int:
    monkeypatch.setenv("DP_SYNTH_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["dp-synth", *args])
    try:
        return cli.main() or 0
    except SystemExit as stop:
        return int(stop.code or 0)


@pytest.mark.parametrize("silent", [False, True], ids=["honest", "without noise"])
def test_the_command_says_what_is_proved_and_fails_if_it_is_more_than_was_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], silent: bool
) -> None:
    folder = released(tmp_path / "store")
    if silent:
        half_a_step_of_noise(monkeypatch)
    code = shell(monkeypatch, tmp_path, "audit", "people", "--json")
    told = json.loads(capsys.readouterr().out)
    assert (code, told["passed"]) == ((1, False) if silent else (0, True))
    assert (told["epsilon"] > told["claimed"]) == silent
    assert "Cannot show" in told["meaning"]
    assert json.loads((folder / "one_run_audit.json").read_text()) == told


def test_a_table_without_a_generator_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shell(monkeypatch, tmp_path, "audit", "nobody") == 2
    assert "no claim to audit" in " ".join(capsys.readouterr().err.split())


def test_the_attacked_training_takes_the_learning_rate_that_the_released_one_took(tmp_path: Path, monkeypatch) -> None:
    took, inner = [], descent.inner_optimizer
    monkeypatch.setattr(
        descent, "inner_optimizer", lambda w, spec, r: took.append(spec.learning_rate) or inner(w, spec, r)
    )
    one_run_audit.audit(released(tmp_path, learning_rate=0.0123) / "generator", "cpu")
    assert took == [0.0123]


def test_of_a_partitioned_table_the_named_partition_is_audited_or_the_one_released_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    named = [(f"2026-0{i}-01", released(tmp_path / "store", f"partition=2026-0{i}-01", steps=8 * i)) for i in (3, 1, 2)]
    for age, (_, folder) in enumerate(reversed(named)):
        os.utime(folder / "generator", (1e9 - age, 1e9 - age))
    claimed = {}
    for key in ("", *(k for k, _ in named)):
        assert shell(monkeypatch, tmp_path, "audit", "people", "--json", *(["--partition", key] if key else [])) == 0
        claimed[key] = json.loads(capsys.readouterr().out)["claimed"]
    assert claimed[""] == claimed["2026-02-01"]
    assert claimed["2026-01-01"] < claimed["2026-02-01"] < claimed["2026-03-01"]
    assert all((folder / "one_run_audit.json").exists() for _, folder in named)
    assert shell(monkeypatch, tmp_path, "audit", "people", "--partition", "2026-09-01") == 2


def test_the_job_is_there_only_if_asked_for_and_runs_without_a_charge(bench) -> None:
    assert "people_audit" not in {j.name for j in bench.definitions().jobs or []}
    folder = released(bench.store)
    definitions = bench.definitions(validation={"one_run_audit": True})
    schedule = definitions.resolve_schedule_def("people_audit_schedule")
    assert schedule.default_status.value == "STOPPED"
    head = bench.ledger.head()
    job = definitions.resolve_job_def("people_audit")
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    result = job.execute_in_process(instance=bench.instance, raise_on_error=False, run_config=quiet)
    assert result.success
    (check,) = result.get_asset_check_evaluations()
    assert check.passed
    assert "guesses were right" in check.description
    assert bench.ledger.head() == head
    assert (folder / "one_run_audit.json").exists()
