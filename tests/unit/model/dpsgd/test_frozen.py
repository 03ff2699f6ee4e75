"""Where only the heads learn, all else stays as it was: it is not clipped, gets no noise, and moves by no bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd import descent, training
from dp_synth_pipeline.model.dpsgd.clipping import OnePassClipping
from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan
from dp_synth_pipeline.model.dpsgd.trainable import frozen
from dp_synth_pipeline.model.dpsgd.work import Training

CARDS = (5, 4, 6)
SPEC = GeneratorSpec(hidden=6, embedding=3, learning_rate=0.05, train_only="heads", start="public")
PLAN = TrainingPlan(0.25, 110, 50.0, 2.0)


def codes(rows: int = 200) -> np.ndarray:
    return np.stack([np.random.default_rng().integers(0, c, rows) for c in CARDS], 1).astype(np.int16)


def made(spec: GeneratorSpec = SPEC, std: float = 0.5) -> AutoregressiveNetwork:
    network = AutoregressiveNetwork(CARDS, spec)
    with torch.no_grad():
        for p in network.parameters():
            p.normal_(std=std)
    network.forget_unused()
    return network


def moved(network: AutoregressiveNetwork, start: dict[str, torch.Tensor]) -> set[bool]:
    """Whether heads, and whether others, are what they were; checks that each group is of one mind."""
    same = {name: torch.equal(p, start[name]) for name, p in network.state_dict().items()}
    assert all(equal != ("heads" in name) for name, equal in same.items()), same
    return set(same.values())


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize(("rows", "rows_each"), [(0, 1), (200, 1), (200, 4)])
def test_weights_before_the_heads_stay_bit_for_bit_and_heads_move(optimizer: str, rows: int, rows_each: int) -> None:
    """Of an empty table, too: then noise alone moves what moves."""
    network = made()
    start = {name: p.clone() for name, p in network.state_dict().items()}
    units = None if rows_each == 1 else np.arange(rows) // rows_each
    found = training.train(network, Training(codes(rows), PLAN, SPEC.with_(optimizer=optimizer), units=units))
    assert found.audit.passed
    assert moved(found.network, start) == {True, False}
    assert all(p.requires_grad for p in found.network.parameters()), "a later training may learn all"


def test_training_without_privacy_leaves_them_too() -> None:
    network = made()
    start = {name: p.clone() for name, p in network.state_dict().items()}
    assert moved(training.train_public(network, Training(codes(), PLAN, SPEC)), start) == {True, False}


def test_the_clip_is_of_what_learns_alone(one_thread: None) -> None:
    network, rows = made(), torch.from_numpy(codes(40).astype(np.int64))
    heads = network.learnt()
    assert sum(p.numel() for p in heads) < sum(p.numel() for p in network.parameters())
    each = torch.stack([_gradient(network, row, heads) for row in rows])
    bound = float(each.norm(dim=1).median())
    wanted = (each * (bound / each.norm(dim=1)).clamp(max=1)[:, None]).sum(0)
    with frozen(network):
        clipping = OnePassClipping(network, bound)
        clipping.backward(network.losses(rows))
        found = clipping.lattice.values(clipping.take())
        clipping.close()
    torch.testing.assert_close(found.float(), wanted, rtol=1e-4, atol=1e-4 * bound)


def _gradient(network: AutoregressiveNetwork, row: torch.Tensor, weights: list[nn.Parameter]) -> torch.Tensor:
    return torch.cat([g.flatten() for g in torch.autograd.grad(network.losses(row[None]).sum(), weights)])


class Killed(BaseException):
    pass


@pytest.mark.slow
def test_a_resumed_training_goes_on_with_the_frozen_weights_of_its_first_attempt(tmp_path: Path) -> None:
    """A start that was taught by a public table is another one each time."""

    def die(_: descent.Descent, step: int) -> None:
        if step == 100:
            raise Killed

    first, job = made(), Training(codes(), PLAN, SPEC, checkpoints=tmp_path)
    kept = {name: p.clone() for name, p in first.state_dict().items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(descent.Descent, "_redraw", die)
        with pytest.raises(Killed):
            training.train(first, job)
    again = training.train(made(), replace(job, resume_from=100)).network
    assert moved(again, kept) == {True, False}
