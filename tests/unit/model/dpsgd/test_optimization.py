"""The average of weights, and the schedule of rates. That noise never repeats is in tests/adversarial."""

from __future__ import annotations

import copy

import pytest
import torch

from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd.optimization import Average, Flat, decay, inner_optimizer
from dp_synth_pipeline.model.threads import few_threads


def scalar(value: float) -> torch.nn.Module:
    made = torch.nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        made.weight.fill_(value)
    return made


def followed(values: list[float], averaging: float, steps: int) -> float:
    network = scalar(1e9)  # where the weights start must not be seen in the average
    average = Average(network, GeneratorSpec(averaging=averaging), steps)
    for value in values:
        with torch.no_grad():
            network.weight.fill_(value)  # type: ignore[operator]
        average.update()
    target = scalar(0)
    average.copy_to(target)
    return float(target.weight)  # type: ignore[arg-type]


@pytest.mark.parametrize("averaging", [0.0, 0.02, 0.1, 1.0])
@pytest.mark.parametrize("steps", [1, 2, 15, 300])
def test_the_average_of_weights_that_stand_still_is_where_they_stand(averaging: float, steps: int) -> None:
    assert followed([3.0] * steps, averaging, steps) == pytest.approx(3.0, rel=1e-5)


def test_the_average_weighs_all_by_one_together_and_late_ones_most() -> None:
    steps = 200
    weights = [followed([float(i == at) for i in range(steps)], 0.1, steps) for at in range(steps)]
    assert sum(weights) == pytest.approx(1, abs=1e-4)
    assert all(w >= -1e-9 for w in weights)
    assert weights[-1] == max(weights)
    # A tenth of 200 steps: the mean age of what it averages is about 20 steps.
    assert sum(w * (steps - 1 - i) for i, w in enumerate(weights)) == pytest.approx(19, rel=0.15)


def test_without_averaging_the_last_weights_are_released() -> None:
    assert followed([1.0, 2.0, 5.0], 0.0, 3) == 5.0


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_weights_as_one_vector_are_trained_as_they_are_one_by_one(optimizer: str) -> None:
    spec = GeneratorSpec(hidden=6, embedding=3, optimizer=optimizer, learning_rate=0.01)
    apart = AutoregressiveNetwork((3, 5, 2), spec)
    together = copy.deepcopy(apart)
    flat = Flat(together)
    first, second = inner_optimizer(apart, spec), inner_optimizer(flat, spec)
    for _ in range(5):
        codes = torch.stack([torch.randint(0, c, (16,)) for c in (3, 5, 2)], 1)
        first.zero_grad()
        apart.losses(codes).mean().backward()
        first.step()
        together.losses(codes).mean().backward()
        flat.gather()
        assert all(p.grad is None for p in together.parameters()), "what was moved must not be added again"
        second.step()
    for p, q in zip(apart.parameters(), together.parameters(), strict=True):
        assert torch.allclose(p, q, atol=1e-6)
        assert not torch.equal(p, torch.zeros_like(p))


def test_weights_are_views_of_the_vector_until_they_are_released() -> None:
    network = AutoregressiveNetwork((3, 5, 2), GeneratorSpec(hidden=6, embedding=3))
    flat = Flat(network)
    with torch.no_grad():
        flat.vector.fill_(3.0)
        assert all((p == 3).all() for p in network.parameters())
        flat.release()
        flat.vector.fill_(4.0)
    assert all((p == 3).all() for p in network.parameters())
    assert len({p.untyped_storage().data_ptr() for p in network.parameters()}) == len(list(network.parameters()))
    assert [name for name, _ in flat.named_parameters()] == ["vector"]


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_rates_are_full_for_half_the_way_and_end_at_a_tenth(optimizer: str) -> None:
    spec = GeneratorSpec(optimizer=optimizer, learning_rate=0.5, max_grad_norm=4.0)
    full = 0.5 if optimizer == "adam" else 0.125  # only SGD's rate is tied to the clip
    made = inner_optimizer(scalar(1), spec)
    for done, share in ((0.0, 1.0), (0.5, 1.0), (0.75, 0.55), (1.0, 0.1)):
        decay(made, spec, done)
        assert made.param_groups[0]["lr"] == pytest.approx(full * share)


def test_threads_are_given_back() -> None:
    before = torch.get_num_threads()
    with few_threads(2):
        assert 1 <= torch.get_num_threads() <= before
    assert torch.get_num_threads() == before
