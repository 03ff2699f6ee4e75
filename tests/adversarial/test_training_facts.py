"""What is seen of training from outside: plan, marks, progress, weights. Nothing else, and nothing that rows change."""

from __future__ import annotations

import json
import logging
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dp_synth_pipeline.errors import InvalidInput, TrainingError
from dp_synth_pipeline.model import artifact
from dp_synth_pipeline.model.autoregressive.generator import Generator
from dp_synth_pipeline.model.autoregressive.initialization import begin
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.base import Released
from dp_synth_pipeline.model.dpsgd import descent, training
from dp_synth_pipeline.model.dpsgd.batches import UnitRows
from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan, plan_training
from dp_synth_pipeline.model.dpsgd.poisson_sampling import PoissonSampler
from dp_synth_pipeline.model.dpsgd.work import Hooks, Training
from dp_synth_pipeline.privacy.events import SubsampledGaussian

SPEC = GeneratorSpec(hidden=8, embedding=4)
CARDINALITIES = (5, 4, 6)


def codes(rows: int) -> np.ndarray:
    rng = np.random.default_rng()
    return np.stack([rng.integers(0, c, rows) for c in CARDINALITIES], 1).astype(np.int16)


@pytest.mark.parametrize("noise", [0.0, -1.0, float("nan")])
def test_a_plan_without_noise_is_refused_before_a_row_is_read(noise: float) -> None:
    with pytest.raises(TrainingError, match="no noise; calibrate it"):
        training.train(
            AutoregressiveNetwork(CARDINALITIES, SPEC), Training(None, TrainingPlan(0.1, 10, 5.0, noise), SPEC)
        )  # type: ignore[arg-type]


def test_the_event_is_the_plan_that_was_performed() -> None:
    plan = TrainingPlan(0.2, 7, 20.0, 1.3)
    assert (
        training.train(AutoregressiveNetwork(CARDINALITIES, SPEC), Training(codes(100), plan, SPEC)).event
        == SubsampledGaussian(1.3, 0.2, 7)
        == plan.event
    )


@pytest.mark.parametrize("steps", [1, 49, 50, 51, 120])
def test_each_chunk_is_marked_before_its_first_sample_is_drawn(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    seen: list[int] = []
    honest = PoissonSampler.draw

    def draw(self: PoissonSampler) -> np.ndarray:
        seen.append(0)
        return honest(self)

    monkeypatch.setattr(PoissonSampler, "draw", draw)
    training.train(
        AutoregressiveNetwork(CARDINALITIES, SPEC),
        Training(codes(60), TrainingPlan(0.1, steps, 6.0, 1.0), SPEC),
        Hooks(mark=seen.append),
    )
    drawn, marked = 0, 0
    for entry in seen:
        if entry:
            assert entry > marked, "marks grow"
            marked = entry
        else:
            drawn += 1
            assert drawn <= marked, "no step starts that was not marked"
    assert drawn == marked == steps
    assert len([e for e in seen if e]) == -(-steps // descent.CHUNK)


def test_a_mark_that_cannot_be_made_durable_stops_training(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    honest = PoissonSampler.draw
    monkeypatch.setattr(PoissonSampler, "draw", lambda self: (drawn.append(1), honest(self))[1])

    def mark(steps: int) -> None:
        if steps > descent.CHUNK:
            raise OSError("the ledger is gone")

    with pytest.raises(OSError, match="ledger"):
        training.train(
            AutoregressiveNetwork(CARDINALITIES, SPEC),
            Training(codes(60), TrainingPlan(0.1, 120, 6.0, 1.0), SPEC),
            Hooks(mark=mark),
        )
    assert len(drawn) == descent.CHUNK


def outside(rows: np.ndarray, units: np.ndarray | None, folder: Path, plan: TrainingPlan) -> dict[str, Any]:
    """Everything that a run lets out, but for the weights themselves."""
    marks: list[int] = []
    progress: list[tuple[int, int]] = []
    trained = training.train(
        AutoregressiveNetwork(CARDINALITIES, SPEC),
        Training(rows, plan, SPEC, units=units),
        Hooks(mark=marks.append, progress=lambda done, steps: progress.append((done, steps))),
    )
    artifact.save(folder, Generator(trained.network), {"event": trained.event.to_dict()})
    return {
        "marks": marks,
        "progress": progress,
        "event": trained.event,
        "json": (folder / "generator.json").read_text(),
        "size": (folder / "generator.safetensors").stat().st_size,
        "files": sorted(p.name for p in folder.iterdir()),
        "shapes": {k: tuple(v.shape) for k, v in trained.network.state_dict().items()},
    }


@pytest.mark.parametrize("grouped", [False, True], ids=["rows", "units"])
def test_one_unit_more_changes_nothing_that_is_seen_from_outside(
    tmp_path: Path, grouped: bool, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    plan = plan_training(90, GeneratorSpec(max_epochs=4))
    plan = TrainingPlan(plan.sample_rate, plan.steps, plan.expected_batch, 1.0)
    held = codes(300)
    more = np.concatenate([held, codes(3)])
    units = np.arange(300) // 3 if grouped else None
    more_units = np.arange(303) // 3 if grouped else None
    with caplog.at_level(logging.DEBUG):
        first = outside(held, units, tmp_path / "n", plan)
        words = (capfd.readouterr(), [r.getMessage() for r in caplog.records])
        caplog.clear()
        second = outside(more, more_units, tmp_path / "n+1", plan)
    assert first == second
    assert words == (capfd.readouterr(), [r.getMessage() for r in caplog.records])


@pytest.mark.parametrize("rows", [0, 1])
def test_an_empty_table_trains_like_any_other(rows: int) -> None:
    plan = TrainingPlan(0.5, 3, 10.0, 1.0)
    assert (
        training.train(AutoregressiveNetwork(CARDINALITIES, SPEC), Training(codes(rows), plan, SPEC)).event.steps == 3
    )
    assert (
        training.train(
            AutoregressiveNetwork(CARDINALITIES, SPEC), Training(codes(rows), plan, SPEC, units=np.arange(rows))
        ).event.steps
        == 3
    )


def test_the_artifact_holds_no_row(tmp_path: Path) -> None:
    canary = np.array([4013, 2971, 3559], dtype=np.int16)
    rows = np.tile(canary, (400, 1))
    trained = training.train(
        AutoregressiveNetwork((4096,) * 3, SPEC.with_(hidden=2, embedding=2)),
        Training(rows, TrainingPlan(0.1, 20, 40.0, 0.5), SPEC.with_(hidden=2, embedding=2)),
    )
    folder = artifact.save(tmp_path, Generator(trained.network), {"event": trained.event.to_dict()})
    for file in folder.iterdir():
        content = file.read_bytes()
        for kind in (np.int16, np.int32, np.int64, np.float32, np.float64):
            assert canary.astype(kind).tobytes() not in content
        assert str(canary.tolist()).encode() not in content
        assert b"4013" not in content or file.suffix != ".json"


def test_what_training_returns_has_no_place_for_private_numbers() -> None:
    assert set(training.Trained.__dataclass_fields__) == {"network", "event", "audit", "stopped_at", "looks"}
    trained = training.train(
        AutoregressiveNetwork(CARDINALITIES, SPEC), Training(codes(50), TrainingPlan(0.2, 3, 10.0, 1.0), SPEC)
    )
    assert trained.looks == (), "the loss is answered where a query of it was charged, with noise, and nowhere else"
    layers = ("causal.weight", "causal.bias", "heads.weight", "heads.bias")
    assert set(trained.network.state_dict()) == {"embed.weight", *(f"blocks.0.{layer}" for layer in layers)}
    assert all(p.grad is None for p in trained.network.parameters()), "no gradient is left behind"


def test_a_setting_that_would_repeat_noise_does_not_exist() -> None:
    import inspect

    assert not {"seed", "generator", "noise"} & {
        *inspect.signature(training.train).parameters,
        *(f.name for f in fields(Training)),
    }
    with pytest.raises(InvalidInput, match="unknown setting 'seed'"):
        SPEC.with_(seed=1)
    assert "seed" not in json.dumps(SPEC.to_dict())


@pytest.mark.parametrize("units", [[0, 1, 0, 1], [1, 0, 0, 0], [0, 0, 1]], ids=["mixed", "falling", "short"])
def test_units_whose_rows_do_not_lie_together_are_refused(units: list[int]) -> None:
    with pytest.raises(TrainingError, match="unit numbers must ascend"):
        training.train(
            AutoregressiveNetwork(CARDINALITIES, SPEC),
            Training(codes(4), TrainingPlan(0.5, 2, 2.0, 1.0), SPEC, units=np.array(units)),
        )


def test_the_rows_of_a_unit_are_taken_whole() -> None:
    held, units = codes(9), np.array([0, 0, 0, 3, 4, 4, 4, 4, 9])
    rows = UnitRows(held, units)
    assert len(rows) == 4
    batches = rows.take(np.array([3, 2, 1]))
    assert [codes.shape for codes, _ in batches] == [(2, 1, 3), (1, 4, 3)], "one for units of as many rows"
    assert all(present is not None and present.all() for _, present in batches)
    assert batches[0][0][:, 0].tolist() == [held[8].tolist(), held[3].tolist()]
    assert batches[1][0][0].tolist() == held[4:8].tolist()
    ((empty, nobody),) = rows.take(np.zeros(0, dtype=np.int64))
    assert nobody is not None
    assert (len(empty), len(nobody)) == (0, 0)


def test_units_are_padded_to_the_rows_of_their_class_whoever_else_there_is() -> None:
    held, units = codes(40), np.repeat([0, 1, 2], [5, 30, 5])
    (few, present), *_ = UnitRows(held, units).take(np.arange(3))
    assert few.shape == (2, 6, 3)
    assert present is not None
    assert present.tolist() == [[1.0] * 5 + [0.0]] * 2
    assert few[1, :5].tolist() == held[35:].tolist()
    alone, _ = UnitRows(held[:5], units[:5]).take(np.array([0]))[0]
    assert torch.equal(alone[0, :5], few[0, :5])


def loss(network: torch.nn.Module, rows: np.ndarray) -> float:
    with torch.no_grad():
        return float(network.losses(torch.from_numpy(rows.astype(np.int64))).mean())


@pytest.mark.parametrize("rows_each", [1, 4])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_training_learns_an_easy_table_at_a_generous_epsilon(rows_each: int, optimizer: str) -> None:
    rng = np.random.default_rng()
    first = rng.integers(0, 4, 2000)
    easy = np.stack([first, first, (first + 1) % 4], 1).astype(np.int16)
    units = None if rows_each == 1 else np.arange(2000) // rows_each
    plan = TrainingPlan(0.25, 120, 0.25 * 2000 / rows_each, 0.4)
    spec = SPEC.with_(optimizer=optimizer, learning_rate=0.03 if optimizer == "adam" else 0.5)
    uniform = [np.full(4, 0.25)] * 3
    network = begin((4, 4, 4), spec, Released(uniform))
    trained = training.train(network, Training(easy, plan, spec, units=units))
    # Three independent columns cost 3 log 4 = 4.16 nats a row, this table log 4 = 1.39, and training gets to 1.40.
    assert loss(trained.network, easy) < 2.0


def test_training_that_diverges_releases_nothing() -> None:
    spec = SPEC.with_(optimizer="sgd", learning_rate=1e30, activation="relu")
    with pytest.raises(TrainingError, match=r"diverged: .* Lower training\.learning_rate first"):
        training.train(
            AutoregressiveNetwork(CARDINALITIES, spec), Training(codes(100), TrainingPlan(0.5, 30, 50.0, 1.0), spec)
        )
