"""Several processes train as one: the same sum, the same noise, the same event, and equal weights. Two Gloo processes."""

from __future__ import annotations

import copy
import math
import multiprocessing
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

from dp_synth_pipeline.errors import TrainingError
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd import checkpoint, distributed, training
from dp_synth_pipeline.model.dpsgd.distributed import Team, team
from dp_synth_pipeline.model.dpsgd.plan import LossQueriesPlan, TrainingPlan
from dp_synth_pipeline.model.dpsgd.work import Hooks, Training

pytestmark = pytest.mark.slow
CARDS = (4, 4, 4)
SGD = GeneratorSpec(hidden=8, embedding=4, optimizer="sgd", learning_rate=1.0, max_grad_norm=0.5, averaging=0.0)
CPU = torch.device("cpu")


def codes(rows: int = 301) -> np.ndarray:
    first = np.random.default_rng().integers(0, 4, rows)
    return np.stack([first, first, (first + 1) % 4], 1).astype(np.int16)


def network(cards: tuple[int, ...] = CARDS, spec: GeneratorSpec = SGD) -> AutoregressiveNetwork:
    made = AutoregressiveNetwork(cards, spec)
    with torch.no_grad():
        for p in made.parameters():
            p.normal_()
    made.forget_unused()
    return made


def flat(net: AutoregressiveNetwork) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in net.parameters()])


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("units", [0, 1, 6, 7, 100])
def test_workers_share_all_units_and_none_belongs_to_two(size: int, units: int) -> None:
    shares = [Team(r, size).own(np.arange(Team(r, size).count(units))) for r in range(size)]
    assert sorted(np.concatenate(shares)) == list(range(units))


@pytest.mark.parametrize(
    ("grouped", "private"),
    [(True, True), *(pytest.param(*of, marks=pytest.mark.nightly) for of in ((False, True), (False, False)))],
)
def test_two_processes_that_see_everybody_move_as_one_does(tmp_path: Path, grouped: bool, private: bool) -> None:
    """Everybody is in every sample, and next to no noise: the clipped sums must agree but for the order of addition."""
    np.save(tmp_path / "codes.npy", codes())
    table = np.load(tmp_path / "codes.npy", mmap_mode="r")
    units = np.arange(301) // 3 if grouped else None
    plan = TrainingPlan(1.0, 3, 101.0 if grouped else 301.0, 1e-9 if private else 0.0)
    start, ends = network(), []
    for workers in (1, 2):
        mine = copy.deepcopy(start)
        if private:
            found = training.train(mine, Training(table, plan, SGD, units=units, workers=workers, device="cpu"))
            assert found.event == plan.event
            ends.append(flat(found.network))
        else:  # nothing bounds these gradients, so a large rate would make much of what rounding differs in
            slow = replace(SGD, learning_rate=0.02)
            ends.append(flat(training.train_public(mine, Training(table, plan, slow, workers=workers, device="cpu"))))
    moved = float((ends[0] - flat(start)).norm())
    assert moved > 0.1
    assert float((ends[0] - ends[1]).norm()) < 1e-5 * moved


def test_two_processes_learn_the_heads_upon_the_same_frozen_weights() -> None:
    table, plan, spec = codes(), TrainingPlan(1.0, 3, 301.0, 1e-9), SGD.with_(train_only="heads")
    start, ends = network(spec=spec), []
    for workers in (1, 2):
        mine = copy.deepcopy(start)
        ends.append(flat(training.train(mine, Training(table, plan, spec, workers=workers, device="cpu")).network))
    moved = float((ends[0] - flat(start)).norm())
    assert moved > 0.1
    assert float((ends[0] - ends[1]).norm()) < 1e-5 * moved


def test_noise_is_added_once_and_divided_by_the_plans_batch() -> None:
    cards, spec = (40,) * 6, SGD.with_(hidden=48, embedding=8)
    net, plan = network(cards, spec), TrainingPlan(1e-12, 2, 32.0, 3.0)
    start = flat(net)
    net.forget_unused = lambda: None  # type: ignore[method-assign]
    end = flat(training.train(net, Training(np.zeros((50, 6), np.int16), plan, spec, workers=2, device="cpu")).network)
    # Momentum 0.9: the second step moves by 1.9 times the first noise, added to its own.
    expected = (spec.learning_rate / 0.5) * 3.0 * 0.5 / 32 * math.sqrt(1.9**2 + 1)
    found = float((end - start).double().square().mean().sqrt())
    assert found == pytest.approx(expected, rel=7 / math.sqrt(2 * 20_000))


def test_all_of_it_together_with_marks_looks_and_checkpoints_by_the_first_alone(tmp_path: Path) -> None:
    said: list[str] = []
    spec = GeneratorSpec(hidden=8, embedding=4, learning_rate=0.03, start="mean_var")
    plan = TrainingPlan(0.25, 160, 500.0, 0.4)
    table = codes(2000)
    trained = training.train(
        AutoregressiveNetwork(CARDS, spec),
        Training(
            table, plan, spec, queries=LossQueriesPlan(1, 1.0, 0.5), checkpoints=tmp_path, workers=2, device="cpu"
        ),
        Hooks(
            mark=lambda n: said.append(f"mark {n}"),
            mark_query=lambda n: said.append(f"look {n}"),
            progress=lambda done, steps: said.append(f"{done} of {steps}"),
        ),
    )
    assert trained.event == plan.event
    assert [s for s in said if "mark" in s] == ["mark 50", "mark 100", "mark 150", "mark 160"]
    assert said.count("look 1") == 1
    assert checkpoint.exists(tmp_path)
    with torch.no_grad():
        loss = float(trained.network.losses(torch.from_numpy(table.astype(np.int64))).mean())
    assert loss < 2.2, "three independent columns cost 4.16 nats"
    resumed = training.train(
        AutoregressiveNetwork(CARDS, spec),
        Training(table, plan, spec, resume_from=150, checkpoints=tmp_path, workers=2, device="cpu"),
    )
    assert resumed.event.steps == 10


def test_a_mark_that_fails_ends_all_of_them() -> None:
    def mark(steps: int) -> None:
        raise OSError("the ledger is gone")

    with pytest.raises(OSError, match="ledger"):
        training.train(
            AutoregressiveNetwork(CARDS, SGD),
            Training(codes(), TrainingPlan(0.5, 5, 150.0, 1.0), SGD, workers=2, device="cpu"),
            Hooks(mark=mark),
        )
    assert not dist.is_initialized()
    assert not torch.multiprocessing.active_children()


def test_a_worker_that_fails_releases_nothing_and_quotes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    bad = codes()
    bad[1] = 31_337  # the second worker's only
    with pytest.raises(TrainingError, match="a training worker failed; nothing was released"):
        training.train(
            AutoregressiveNetwork(CARDS, SGD),
            Training(bad, TrainingPlan(1.0, 3, 301.0, 1.0), SGD, workers=2, device="cpu"),
        )
    assert "31337" not in "".join(capfd.readouterr())
    assert not torch.multiprocessing.active_children()


def _own_weights(job: Any) -> None:
    distributed.current().check([torch.tensor([float(dist.get_rank())])])


class Deadly:
    """Ends the process that unpickles it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (3,)


def test_a_worker_that_dies_before_it_begins_is_not_waited_for() -> None:
    began = time.monotonic()
    with pytest.raises(TrainingError, match="worker failed"), team(2, _stay, Deadly(), device=CPU):
        raise AssertionError("nobody is there to train with")
    assert time.monotonic() - began < 120


def _leave(job: Any) -> None:
    del job


def _stay(job: Any) -> None:
    time.sleep(600)


def test_workers_stay_until_the_leader_is_done() -> None:
    """Whoever hangs up first may cut off the other's last sum."""
    with team(2, _leave, None, device=CPU) as both:
        time.sleep(2)
        (worker,) = multiprocessing.active_children()
        assert (both.size, worker.is_alive()) == (2, True)
    assert multiprocessing.active_children() == []


def test_weights_that_differ_are_refused() -> None:
    with team(2, _own_weights, None, device=CPU) as mine:
        assert mine == Team(0, 2)
        with pytest.raises(TrainingError, match="ended with different weights"):
            mine.check([torch.tensor([5.0])])


@pytest.mark.skipif(torch.cuda.device_count() > 8, reason="there are that many GPUs")
def test_more_workers_than_gpus_are_refused() -> None:
    with (
        pytest.raises(TrainingError, match="GPUs for 9 workers"),
        team(9, _own_weights, None, device=torch.device("cuda")),
    ):
        pass


def test_two_processes_are_audited_as_one_mechanism() -> None:
    plan = TrainingPlan(0.25, 40, 75.0, 1.5)
    audit = training.train(
        AutoregressiveNetwork(CARDS, SGD), Training(codes(), plan, SGD, workers=2, device="cpu")
    ).audit
    assert audit.passed, audit.failed
    assert audit.findings[0].measured == pytest.approx(1.5, rel=0.03), "noise is added once, not by each"
    assert "2,000 reserved units" in audit.findings[1].told, "1,000 of each"
