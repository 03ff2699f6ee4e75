"""Codes in an order learn with their neighbours while a network learns, and each by itself again when it draws."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dp_synth_pipeline.model.autoregressive import initialization, smoothing
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd import training
from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan
from dp_synth_pipeline.model.dpsgd.work import Training

CARDINALITIES = (4, 21, 12, 9)
ORDERS = ((), (20, *range(19)), tuple(range(12)), ())
"""The second column's codes begin with their largest value; code 19 has no place."""

SPEC = GeneratorSpec(hidden=6, embedding=3)

pytestmark = pytest.mark.usefixtures("one_thread")


def network() -> AutoregressiveNetwork:
    made = AutoregressiveNetwork(CARDINALITIES, SPEC, orders=ORDERS)
    with torch.no_grad():
        for block in made.blocks:
            block.heads.weight.normal_()
            block.heads.bias.normal_()
    return made


def rows(count: int = 50) -> torch.Tensor:
    return torch.stack([torch.randint(0, c, (count,)) for c in CARDINALITIES], 1)


def test_a_mix_leaves_logits_their_length_and_can_be_undone():
    made = smoothing.mix(ORDERS[1], 21)
    assert np.linalg.norm(made, axis=1) == pytest.approx(np.ones(21))
    assert np.linalg.cond(made) < 20
    assert made[19].tolist() == np.eye(21)[19].tolist(), "a code without a place learns by itself"
    assert not made[:19, 19].any()


def test_a_code_learns_with_its_neighbours_by_their_order_and_not_by_their_numbers():
    together = smoothing.mix(ORDERS[1], 21)
    alike = together @ together.T  # how far the logit of one code moves with that of another
    assert alike[20, 0] > 0.5 > 0.1 > alike[20, 18]
    assert alike[5, 6] > alike[5, 7] > alike[5, 10]


def test_codes_in_an_order_are_described_alike_where_training_begins_and_others_by_chance():
    made = AutoregressiveNetwork((60, 60), SPEC.with_(embedding=64), orders=(range(60), ()))
    ordered, others = made.embed.weight.detach().split(60)
    near, far, chance = (
        float((a[i:] - a[:-i]).square().sum(1).mean()) for a, i in ((ordered, 1), (ordered, 30), (others, 1))
    )
    assert near == pytest.approx(1, abs=0.3), "what a code has of its own, half of what it would be by chance"
    assert chance == pytest.approx(2, abs=0.4)
    assert far > 1.4 * near
    assert float(ordered.square().sum(1).mean()) == pytest.approx(1, abs=0.3)


def test_a_network_says_the_same_while_it_learns_and_when_it_is_settled_again():
    made, codes = network(), rows()
    with torch.no_grad():
        before = made.losses(codes)
        plain = made.column(1)[2].clone()
        made.mix()
        assert made.blocks[0].mixed is not None
        assert torch.allclose(made.losses(codes), before, atol=1e-4)
        made.settle()
        assert torch.allclose(made.losses(codes), before, atol=1e-4)
        assert torch.allclose(made.column(1)[2], plain, atol=1e-4)


def test_a_code_that_a_column_does_not_have_stays_impossible_while_it_learns():
    made = network()
    made.mix()
    with torch.no_grad():
        p = made(rows()).softmax(-1)
    for i, cardinality in enumerate(CARDINALITIES):
        assert float(p[:, i, cardinality:].sum()) == 0


def test_what_is_drawn_from_is_never_a_network_that_still_mixes():
    made = network()
    made.mix()
    with pytest.raises(AssertionError, match="settle"):
        made.column(1)


@pytest.mark.parametrize("private", [True, False])
def test_training_ends_with_weights_as_they_are_drawn_by(private):
    made, codes = network(), rows().numpy().astype(np.int16)
    job = Training(codes, TrainingPlan(0.2, 5, 10.0, 1.0), SPEC.with_(learning_rate=0.01))
    trained = training.train(made, job).network if private else training.train_public(made, job)
    assert all(block.mixed is None for block in trained.blocks)
    same = AutoregressiveNetwork(CARDINALITIES, SPEC)  # as a released generator is restored: without orders
    same.load_state_dict(trained.state_dict())
    there = rows()
    with torch.no_grad():
        assert torch.equal(same.losses(there), trained.losses(there))


def test_what_few_rows_say_of_one_cell_is_learnt_of_its_neighbours_too():
    """Taught the even cells of a line alone, it takes the odd ones for likelier than cells far away."""
    n = 40
    made = {}
    for name, orders in (("together", (range(n),)), ("alone", ())):
        net = AutoregressiveNetwork((n,), SPEC, orders=orders)
        net.start_from([np.full(n, 1 / n)])
        initialization.teach(net, lambda count: 2 * torch.randint(0, 5, (count, 1)), steps=30)
        with torch.no_grad():
            made[name] = net(torch.zeros(1, 1, dtype=torch.int64))[0, 0].softmax(-1)
    assert made["together"][1:8:2].sum() > 1.5 * made["alone"][1:8:2].sum()


@pytest.mark.parametrize("private", [True, False])
def test_training_learns_of_the_neighbours_of_a_cell_what_rows_say_of_it(private):
    """Trained on even cells of a line alone, it takes the odd ones between them for likelier than without an order."""
    n = 40
    codes = (2 * np.arange(400) % 10)[:, None].astype(np.int16)
    job = Training(codes, TrainingPlan(1.0, 30, 400.0, 1e-3), SPEC.with_(learning_rate=0.05))
    made = {}
    for name, orders in (("together", (range(n),)), ("alone", ())):
        net = AutoregressiveNetwork((n,), SPEC, orders=orders)
        net.start_from([np.full(n, 1 / n)])
        trained = training.train(net, job).network if private else training.train_public(net, job)
        with torch.no_grad():
            made[name] = trained(torch.zeros(1, 1, dtype=torch.int64))[0, 0].softmax(-1)
    for p in made.values():
        assert p[:9:2].sum() > 1.5 * 5 / n, "the cells of the rows are learnt by either"
    assert made["together"][1:8:2].sum() > 1.5 * made["alone"][1:8:2].sum()
