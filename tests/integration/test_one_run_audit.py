"""`dp-synth audit` and its asset: a released generator's plan, run on a made-up table and attacked; nothing is charged."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from dp_synth_pipeline import cli
from dp_synth_pipeline.model import artifact
from dp_synth_pipeline.model.autoregressive.generator import Generator
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd import descent, one_run_attack
from dp_synth_pipeline.orchestration.assets import one_run_audit
from dp_synth_pipeline.synthesis import generator_files
from tests.unit.model.dpsgd.test_canaries import quieter
from tests.unit.model.dpsgd.test_one_run_attack import two_steps_for_one

CARDS = (4, 3)
SPEC = GeneratorSpec(hidden=4, embedding=2)
FACTS = {"noise_multiplier": 2.0, "sample_rate": 0.125, "steps": 48, "release": "r1"}


@pytest.fixture(autouse=True)
def _few_canaries(monkeypatch: pytest.MonkeyPatch):
    honest = one_run_attack.attack
    monkeypatch.setattr(one_run_attack, "attack", lambda *plan, device: honest(*plan, device="cpu"))
    monkeypatch.setattr(one_run_attack, "canaries", lambda plan: 20_000)


def released(store: Path, partition: str = "", **facts: float) -> Path:
    """Put a generator in a table's folder that says it was trained by `FACTS`."""
    folder = store / "releasable/people" / partition
    network = Generator(AutoregressiveNetwork(CARDS, SPEC).eval(), None)
    artifact.save(folder / "generator", network, FACTS | facts)
    return folder


def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *args: str) -> int:
    monkeypatch.setenv("DP_SYNTH_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["dp-synth", *args])
    try:
        return cli.main() or 0
    except SystemExit as stop:
        return int(stop.code or 0)


def test_the_command_proves_at_least_half_of_what_is_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = released(tmp_path / "store")
    assert shell(monkeypatch, tmp_path, "audit", "people", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["passed"]
    assert 0.5 < told["ratio"] == told["epsilon"] / told["claimed"]
    assert told["epsilon_of_any_mechanism"] < told["epsilon"]
    assert (told["confidence"], told["sums"], told["release"]) == (0.95, 48, "r1")
    assert "Cannot show" in told["meaning"]
    assert json.loads((folder / "one_run_audit.json").read_text()) == told
    assert generator_files.last_attack(folder) == {fact: told[fact] for fact in generator_files.PROVED}


@pytest.mark.parametrize(
    ("install", "told_of"),
    [(quieter(0.5), ["refuted", "audit_noise"]), (two_steps_for_one, ["refuted", "96 noisy sums, where 48"])],
    ids=["half of the noise", "two steps for one"],
)
def test_the_command_fails_on_a_training_that_breaks_its_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], install, told_of: list[str]
) -> None:
    folder = released(tmp_path / "store")
    install(monkeypatch)
    assert shell(monkeypatch, tmp_path, "audit", "people") == 1
    told = " ".join(capsys.readouterr().out.split())
    assert all(words in told for words in ["FAILED", *told_of])
    outcome = json.loads((folder / "one_run_audit.json").read_text())
    assert not outcome["passed"]
    assert outcome["epsilon"] > outcome["claimed"]


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
    assert "saw all noisy sums" in check.description
    assert bench.ledger.head() == head
    assert (folder / "one_run_audit.json").exists()
