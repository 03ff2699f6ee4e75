from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from dp_synth_pipeline.model.autoregressive import layers
from dp_synth_pipeline.model.autoregressive.generation import Drawing
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.base import Before

CARDINALITIES = (3, 2, 4, 1, 5)


MOVING = {2: Before(0, (1, 0)), 4: Before(2, (2, 0, 1, 4))}
"""Of column 4, column 2 tells 0 where there is no row before, and else one more than its code there."""

APART = {2: Before(0, (0, 1)), 4: Before(0, (3, 1))}
"""Column 0 tells likewise what the code of others is in the row beside."""


def network(activation: str = "tanh") -> AutoregressiveNetwork:
    spec = GeneratorSpec(hidden=6, embedding=3, activation=activation)
    made = AutoregressiveNetwork(CARDINALITIES, spec, moving=MOVING, apart=APART)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_()  # also where the mask forbids, as training noise does
    return made


def every_row() -> torch.Tensor:
    return torch.tensor(list(itertools.product(*map(range, CARDINALITIES))))


def test_a_worker_makes_a_network_that_takes_the_same_weights_and_says_the_same_of_rows() -> None:
    net = network()
    worker = net.blueprint()()
    worker.load_state_dict(net.state_dict())
    assert worker.given == net.given
    with torch.no_grad():
        assert torch.equal(worker(every_row()), net(every_row()))


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("column", range(len(CARDINALITIES)))
def test_a_column_depends_on_earlier_columns_only(column: int, activation: str) -> None:
    net, codes = network(activation), every_row()
    changed = codes.clone()
    for later in range(column, len(CARDINALITIES)):
        changed[:, later] = (codes[:, later] + 1) % CARDINALITIES[later]
    with torch.no_grad():
        before, after = net(codes), net(changed)
    assert torch.equal(before[:, : column + 1], after[:, : column + 1])
    if column + 1 < len(CARDINALITIES):
        assert not torch.allclose(before[:, -1], after[:, -1]) or CARDINALITIES[column] == 1


def test_the_probabilities_of_all_rows_sum_to_one() -> None:
    with torch.no_grad():
        p = (-network().losses(every_row()).double()).exp()
    assert float(p.sum()) == pytest.approx(1, abs=1e-5)


def test_losses_do_not_depend_on_how_rows_are_grouped() -> None:
    net, codes = network(), every_row()
    with torch.no_grad():
        assert torch.allclose(net.losses(codes.view(24, 5, 5)), net.losses(codes).view(24, 5), atol=1e-5)
        assert net.losses(codes[:0]).shape == (0,)


def test_a_code_that_a_column_does_not_have_has_probability_zero() -> None:
    with torch.no_grad():
        p = network()(every_row()).softmax(-1)
    for i, cardinality in enumerate(CARDINALITIES):
        assert float(p[:, i, cardinality:].sum()) == 0


def test_training_starts_at_the_released_marginals() -> None:
    net = AutoregressiveNetwork((3, 2), GeneratorSpec())
    net.start_from([np.array([0.7, 0.2, 0.1]), [0.5, 0.0]])
    with torch.no_grad():
        p = net(torch.tensor([[0, 0], [2, 1]])).softmax(-1)
    assert p[0, 0].numpy() == pytest.approx([0.7, 0.2, 0.1], abs=1e-6)
    assert torch.equal(p[0], p[1]), "no column knows of another yet"
    assert 0 < float(p[0, 1, 1]) < 1e-3, "what was not seen stays possible"


def test_a_fresh_network_knows_nothing_of_the_rows() -> None:
    with torch.no_grad():
        p = AutoregressiveNetwork((3, 2), GeneratorSpec())(torch.tensor([[0, 1]])).softmax(-1)
    assert p[0, 0].tolist() == pytest.approx([1 / 3] * 3)
    assert p[0, 1, :2].tolist() == pytest.approx([1 / 2] * 2)


def test_a_code_moves_by_how_far_it_lies_from_the_one_of_the_row_before_whichever_that_is() -> None:
    order, reach = tuple(range(20)), layers.REACH
    net = AutoregressiveNetwork((22, 22), GeneratorSpec(hidden=4, embedding=2), 1, moving={1: Before(0, order)})
    given = torch.arange(22)[:, None].expand(22, 2)
    with torch.no_grad():
        assert not net(given)[:, 1].any(), "nothing is known before anything is learnt"
        net.blocks[0].relative.each.weight.normal_()
        weight, logits = net.blocks[0].relative.each.weight[0], net(given)[:, 1]
    assert not logits[0].any(), "there is no row before"
    assert not logits[21].any(), "the code before, such as null, has no place in the order"
    assert not logits[:, 20:].any(), "nor have codes that are no values"
    for before in order:
        for code in order:
            step = code - before
            around = weight[abs(step) : reach + 1].sum()
            further = weight[reach + step :].sum() if step > 0 else 0.0
            expected = around + further if abs(step) <= reach else 0.0
            assert float(logits[before + 1, code]) == pytest.approx(float(expected), abs=1e-5)


def test_steps_learn_by_the_gradients_of_the_logits_that_they_add_up_to() -> None:
    net, codes = network(), every_row()
    for block in net.blocks:
        if (bias := block.relative) is None:
            continue
        logits, before = bias(codes), codes[:, bias.read] * bias.known
        loud = torch.randn(logits.shape)
        looked_up = bias.table()[torch.arange(len(block.columns)), before]
        (found,) = torch.autograd.grad((logits * loud).sum(), bias.each.weight)
        (expected,) = torch.autograd.grad((looked_up * loud).sum(), bias.each.weight)
        assert torch.allclose(logits, looked_up, atol=1e-5)
        assert torch.allclose(found, expected, atol=1e-3)
        assert found[bias.known].abs().min() > 0


def test_a_column_that_does_not_move_knows_nothing_of_steps_whatever_the_first_column_holds() -> None:
    net = AutoregressiveNetwork((30, 3, 3), GeneratorSpec(hidden=4, embedding=2), 1, moving={2: Before(1, (0, 1))})
    (block,) = net.blocks
    assert block.columns == (1, 2)
    with torch.no_grad():
        block.relative.each.weight.normal_()
        logits = net(torch.tensor([[first, 1, 1] for first in range(30)]))
    assert not logits[:, 1, :3].any()
    assert logits[:, 2, :2].all()


def test_a_code_is_moved_by_that_of_the_row_beside_as_well_as_by_that_of_the_row_before() -> None:
    spec, told = GeneratorSpec(hidden=4, embedding=2), [{2: Before(column, (0, 1))} for column in (0, 1)]
    net = AutoregressiveNetwork((3, 3, 2), spec, 2, moving=told[0], apart=told[1])
    (block,) = net.blocks
    codes = torch.cartesian_prod(torch.arange(3), torch.arange(3), torch.arange(1))
    with torch.no_grad():
        block.relative.each.weight.normal_()
        before = net(codes)[:, 2, :2]
        block.beside.each.weight.copy_(block.relative.each.weight)
        both = net(codes)[:, 2, :2]
    swapped = before.view(3, 3, 2).transpose(0, 1).reshape(-1, 2)
    assert torch.allclose(both, before + swapped, atol=1e-6), "the same steps, from either code"


def test_each_way_to_a_column_s_probabilities_knows_how_far_codes_move() -> None:
    net, codes = network(), every_row()
    drawing = Drawing(net, len(codes))
    with torch.no_grad():
        logits = net(codes)
        for column, cardinality in enumerate(CARDINALITIES):
            expected = logits[:, column, :cardinality].softmax(-1)
            assert torch.allclose(net.given_earlier(codes, column).exp(), expected, atol=1e-5)
            assert torch.allclose(drawing.shares(column).T, expected, atol=1e-5)
            drawing.put(column, codes[:, column])


def test_weights_that_no_output_depends_on_are_zeroed_and_nothing_else_changes():
    network = AutoregressiveNetwork((3, 5), GeneratorSpec(hidden=4, embedding=2))
    with torch.no_grad():
        for p in network.parameters():
            p.normal_()
        codes = torch.tensor([[0, 4], [2, 1]])
        before = network.losses(codes)
        network.forget_unused()
        assert torch.allclose(network.losses(codes), before)
    for block in network.blocks:
        heads, causal = block.heads, block.causal
        for i, cardinality in enumerate(heads.cardinalities):
            assert not heads.weight[i, cardinality:].any()
            assert not heads.bias[i, cardinality:].any()
        assert not (causal.weight * (1 - causal.mask)).any()


def test_of_columns_that_do_not_move_no_noise_of_steps_is_kept() -> None:
    net, codes = network(), every_row()
    with torch.no_grad():
        before = net.losses(codes)
        net.forget_unused()
        assert torch.allclose(net.losses(codes), before)
    for kept, told in (("relative", MOVING), ("beside", APART)):
        blocks = [(b.columns, getattr(b, kept)) for b in net.blocks]
        moved = {c: w.any() for columns, bias in blocks if bias for c, w in zip(columns, bias.each.weight, strict=True)}
        assert {c for c, any_left in moved.items() if any_left} == set(told)
        assert set(moved) > set(told), "a block holds others, too"
