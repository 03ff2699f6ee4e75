"""A killed training resumes: it never runs a step twice, never repeats noise, and goes on from the checkpoint's weights."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dp_synth_pipeline.errors import TrainingError
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd import checkpoint, descent, training
from dp_synth_pipeline.model.dpsgd.optimization import Average, Flat, inner_optimizer
from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan
from dp_synth_pipeline.model.dpsgd.work import Hooks, Training

pytestmark = pytest.mark.slow

CARDS = (5, 4, 6)
SPEC = GeneratorSpec(hidden=6, embedding=3, learning_rate=0.016)
PLAN = TrainingPlan(0.1, 230, 4.0, 1.0)


class Killed(BaseException):
    pass


def codes(rows: int = 40) -> np.ndarray:
    rng = np.random.default_rng()
    return np.stack([rng.integers(0, c, rows) for c in CARDS], 1).astype(np.int16)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the steps that ran, whichever call ran them."""
    steps: list[int] = []
    honest = descent.Descent._step

    def step(self: descent.Descent, number: int) -> None:
        honest(self, number)
        steps.append(number)

    monkeypatch.setattr(descent.Descent, "_step", step)
    return steps


def attempt(
    folder: Path, resume_from: int = 0, die_at: int | None = None, spec: GeneratorSpec = SPEC, rows: int = 40
) -> Any:
    """Train; with `die_at`, die in that step. Return what was trained, or the last mark."""
    marks: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        if die_at is not None:
            honest = descent.Descent._sample

            def sample(self: descent.Descent) -> Any:
                sample.taken += 1  # type: ignore[attr-defined]
                if resume_from + sample.taken > die_at:  # type: ignore[attr-defined]
                    raise Killed
                return honest(self)

            sample.taken = 0  # type: ignore[attr-defined]
            patch.setattr(descent.Descent, "_sample", sample)
        try:
            return training.train(
                AutoregressiveNetwork(CARDS, spec),
                Training(codes(rows), PLAN, spec, resume_from=resume_from, checkpoints=folder),
                Hooks(mark=marks.append),
            )
        except Killed:
            return marks[-1]


def test_a_training_that_is_killed_twice_runs_each_step_at_most_once(tmp_path: Path, told: list[int]) -> None:
    first = attempt(tmp_path, die_at=120)
    assert first == 150, "what was marked is charged"
    second = attempt(tmp_path, first, die_at=161)
    assert second == 200
    trained = attempt(tmp_path, second)
    assert told == [*range(120), *range(150, 161), *range(200, 230)]
    assert trained.event.steps == 30
    assert first + (second - first) + trained.event.steps == PLAN.steps


def test_a_training_killed_in_its_last_steps_ends_with_its_last_checkpoint(tmp_path: Path, told: list[int]) -> None:
    assert attempt(tmp_path, die_at=215) == PLAN.steps
    trained = attempt(tmp_path, PLAN.steps)
    assert told == [*range(215)], "all steps are charged, so no more are run"
    assert trained.event is None
    assert trained.audit.steps == 200
    assert trained.audit.passed
    network, (_, taken) = AutoregressiveNetwork(CARDS, SPEC), weights(tmp_path)
    flat = Flat(network)
    average = Average(flat, SPEC, PLAN.steps)
    checkpoint.load(tmp_path, flat, inner_optimizer(flat, SPEC), average)
    average.copy_to(flat)
    network.forget_unused()
    assert taken == 200
    assert all(torch.equal(p, q) for p, q in zip(trained.network.parameters(), network.parameters(), strict=True))


def test_without_a_checkpoint_nothing_is_left_of_a_training_whose_steps_all_started(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="no checkpoint was kept"):
        attempt(tmp_path, PLAN.steps)


def test_resumed_weights_are_those_of_the_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    last = attempt(tmp_path, die_at=120)
    kept, taken = weights(tmp_path)
    begun: list[list[torch.Tensor]] = []
    averages: list[int] = []
    honest = descent.Descent._step

    def step(self: descent.Descent, number: int) -> None:
        begun.append([p.detach().clone() for p in self.network.parameters()])
        averages.append(self.average.taken)
        honest(self, number)

    monkeypatch.setattr(descent.Descent, "_step", step)
    attempt(tmp_path, last)
    assert all(torch.equal(p, q) for p, q in zip(begun[0], kept, strict=True))
    assert averages[0] == taken == 100, "steps 100 to 120 were lost with the process"


def weights(folder: Path) -> tuple[list[torch.Tensor], int]:
    network = AutoregressiveNetwork(CARDS, SPEC)
    flat = Flat(network)
    average = Average(flat, SPEC, 230)
    checkpoint.load(folder, flat, inner_optimizer(flat, SPEC), average)
    return [p.detach().clone() for p in network.parameters()], average.taken


def test_a_resumed_training_draws_fresh_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an empty table, so that nothing but noise moves the weights."""
    last = attempt(tmp_path, die_at=120, rows=0)
    saved = (tmp_path / checkpoint.FILE).read_bytes()
    ends = []
    for _ in range(2):
        torch.manual_seed(1)
        (tmp_path / checkpoint.FILE).write_bytes(saved)
        ends.append(attempt(tmp_path, last, rows=0).network.state_dict())
    assert not any(torch.equal(ends[0][k], ends[1][k]) for k in ends[0] if "bias" in k)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_everything_comes_back_as_it_was_saved(tmp_path: Path, optimizer: str) -> None:
    spec = SPEC.with_(optimizer=optimizer)
    network = AutoregressiveNetwork(CARDS, spec)
    flat = Flat(network)
    inner, average = inner_optimizer(flat, spec), Average(flat, spec, 50)
    for _ in range(3):
        network.losses(torch.from_numpy(codes().astype(np.int64))).sum().backward()
        flat.gather()
        inner.step()
        average.update()
    checkpoint.save(tmp_path, flat, inner, average, redrawn=True)
    again = AutoregressiveNetwork(CARDS, spec)
    other_flat = Flat(again)
    other, mean = inner_optimizer(other_flat, spec), Average(other_flat, spec, 50)
    state = checkpoint.load(tmp_path, other_flat, other, mean)
    assert state.redrawn
    assert mean.taken == 3
    assert all(torch.equal(p, q) for p, q in zip(network.parameters(), again.parameters(), strict=True))
    moments, found = inner.state[flat.vector], other.state[other_flat.vector]
    assert moments.keys() == found.keys()
    assert all(torch.equal(torch.as_tensor(value), torch.as_tensor(found[name])) for name, value in moments.items())
    assert torch.equal(average.weights[0], mean.weights[0])
    again.losses(torch.from_numpy(codes().astype(np.int64))).sum().backward()
    other_flat.gather()
    other.step()  # the moments fit the optimizer


def test_a_checkpoint_of_another_network_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    attempt(tmp_path, die_at=120)
    with pytest.raises(TrainingError, match=r"does not fit this training.*new charge"):
        attempt(tmp_path, 150, spec=SPEC.with_(hidden=7))
    flat = Flat(AutoregressiveNetwork((5, 4), SPEC))
    before = flat.vector.detach().clone()
    average = Average(flat, SPEC, 5)
    with pytest.raises(TrainingError, match="does not fit"):
        checkpoint.load(tmp_path, flat, inner_optimizer(flat, SPEC), average)
    assert torch.equal(flat.vector, before)
    assert average.taken == 0


def test_codes_that_learn_with_their_neighbours_go_on_doing_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fixed, orders = np.full((40, 1), 7, np.int16), (range(20),)
    job = Training(fixed, TrainingPlan(0.5, 120, 20.0, 0.01), SPEC, checkpoints=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(descent.Descent, "_redraw", die_at_step_100)
        with pytest.raises(Killed):
            training.train(AutoregressiveNetwork((20,), SPEC, orders=orders), job)
    again = AutoregressiveNetwork((20,), SPEC, orders=orders)
    trained = training.train(again, replace(job, resume_from=100)).network
    p = trained(torch.zeros(1, 1, dtype=torch.int64))[0, 0].softmax(-1)
    assert p.argmax() == 7
    assert p[6] > p[2]


def die_at_step_100(_: descent.Descent, step: int) -> None:
    if step == 100:
        raise Killed


def test_a_training_whose_weights_an_earlier_version_kept_otherwise_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    attempt(tmp_path, die_at=120)
    kept = load_file(tmp_path / checkpoint.FILE)
    del kept["version"]  # as version 1 wrote it
    save_file(kept, tmp_path / checkpoint.FILE)
    with pytest.raises(TrainingError, match="another version"):
        attempt(tmp_path, resume_from=150)


def test_a_training_that_an_earlier_version_began_with_other_noise_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    last = attempt(tmp_path, die_at=120)
    kept = load_file(tmp_path / checkpoint.FILE)
    del kept["noise"]  # as version 1 wrote it
    save_file(kept, tmp_path / checkpoint.FILE)
    with pytest.raises(TrainingError, match=r"earlier version began this training.*start a new release"):
        attempt(tmp_path, last)


def test_a_folder_without_a_checkpoint_changes_nothing(tmp_path: Path) -> None:
    assert not checkpoint.exists(tmp_path)
    network = AutoregressiveNetwork(CARDS, SPEC)
    before = [p.detach().clone() for p in network.parameters()]
    flat = Flat(network)
    state = checkpoint.load(tmp_path / "none", flat, inner_optimizer(flat, SPEC), Average(flat, SPEC, 5))
    assert not state.redrawn
    assert all(torch.equal(p, q) for p, q in zip(network.parameters(), before, strict=True))


def test_a_checkpoint_is_safetensors_for_its_owner_alone_and_never_pickle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("pickle was used")

    for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler"):
        monkeypatch.setattr(pickle, name, never)
    monkeypatch.setattr(torch, "load", never)
    monkeypatch.setattr(torch, "save", never)
    folder = tmp_path / "checkpoint"
    attempt(folder, attempt(folder, die_at=120))
    assert [p.name for p in folder.iterdir()] == [checkpoint.FILE]
    assert folder.stat().st_mode & 0o077 == 0


def test_a_checkpoint_that_is_cut_short_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt(tmp_path, die_at=120)
    before = (tmp_path / checkpoint.FILE).read_bytes()
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(Killed()))
    with pytest.raises(Killed):
        checkpoint.save(
            tmp_path,
            made := Flat(AutoregressiveNetwork(CARDS, SPEC)),
            inner_optimizer(made, SPEC),
            Average(made, SPEC, 5),
        )
    assert (tmp_path / checkpoint.FILE).read_bytes() == before


@pytest.mark.parametrize(("die_at", "again"), [(None, 0), (20, 1), (48, 1), (120, 0)])
def test_weights_are_redrawn_exactly_once_however_often_a_training_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, die_at: int | None, again: int
) -> None:
    """After step 46 of 230. An attempt that died at 48 had redrawn, but its checkpoint, of which there was none, had not."""
    redrawn: list[int] = []
    honest = descent.redraw
    monkeypatch.setattr(descent, "redraw", lambda network: (redrawn.append(1), honest(network))[1])
    spec = SPEC.with_(start="mean_var")
    if die_at is not None:
        last = attempt(tmp_path, die_at=die_at, spec=spec)
        redrawn.clear()
        assert attempt(tmp_path, last, spec=spec).event.steps == PLAN.steps - last
        assert len(redrawn) == again
    else:
        assert attempt(tmp_path, spec=spec).event.steps == PLAN.steps
        assert len(redrawn) == 1
