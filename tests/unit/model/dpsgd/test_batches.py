"""Groups of units that are clipped as one: a unit changes one group only, and the sum by two clips at most."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from dp_synth_pipeline.errors import TrainingError
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd import batches, descent, training
from dp_synth_pipeline.model.dpsgd.batches import UnitRows, parts
from dp_synth_pipeline.model.dpsgd.clipping import OnePassClipping
from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan
from dp_synth_pipeline.model.dpsgd.work import Training

CARDS = (5, 4, 6)
SPEC = GeneratorSpec(hidden=6, embedding=3, microbatch=4, max_grad_norm=0.3)


def codes(rows: int) -> np.ndarray:
    rng = np.random.default_rng()
    return np.stack([rng.integers(0, c, rows) for c in CARDS], 1).astype(np.int16)


def loud() -> AutoregressiveNetwork:
    """A network whose gradients are over the clip."""
    made = AutoregressiveNetwork(CARDS, SPEC)
    with torch.no_grad():
        for p in made.parameters():
            p.normal_(std=2)
    return made


def test_groups_hold_every_chosen_unit_once_with_one_weight() -> None:
    held = np.arange(900).reshape(300, 3)
    chosen = np.random.default_rng().choice(300, 57, replace=False)
    seen: list[int] = []
    for batch, weight in UnitRows(held, None).take_groups(chosen, size=4, groups=9):
        assert weight is not None
        assert batch.shape[:2] == weight.shape
        assert set(weight.unique().tolist()) <= {0.0, 0.25}
        assert (weight > 0).any(1).all(), "groups of nobody add nothing"
        seen += batch[weight > 0][:, 0].tolist()
    assert sorted(seen) == sorted((3 * chosen).tolist())


def test_each_unit_joins_a_group_by_itself_and_each_group_with_the_same_chance() -> None:
    held, together, alone = np.arange(30).reshape(10, 3), 0, np.zeros(10)
    for _ in range(4000):
        for batch, weight in UnitRows(held, None).take_groups(np.arange(10), size=2, groups=5):
            assert weight is not None
            for codes, there in zip(batch[:, :, 0].numpy() // 3, weight.numpy() > 0, strict=True):
                alone[codes[there]] += there.sum() == 1
                together += {0, 1} <= set(codes[there].tolist())
    # 6.5 deviations, 11 comparisons: 1e-9. A unit is alone if the nine others are in the four other groups.
    share = 0.8**9
    assert np.abs(alone / 4000 - share).max() < 6.5 * math.sqrt(share * (1 - share) / 4000)
    assert together / 4000 == pytest.approx(0.2, abs=6.5 * math.sqrt(0.16 / 4000))


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_an_empty_sample_gives_no_group_even_of_an_empty_table(rows: int) -> None:
    ((batch, weight),) = UnitRows(codes(rows), None).take_groups(np.zeros(0, np.int64), size=4, groups=3)
    assert batch.shape == (0, 1, 3)
    assert weight is not None
    assert weight.shape == (0, 1)


def test_groups_never_have_more_rows_than_are_allowed_for() -> None:
    most = batches.group_rows(4)
    with pytest.raises(TrainingError, match="more rows than chance"):
        UnitRows(codes(200), None).take_groups(np.arange(200), size=4, groups=1)
    assert 4 + 8 * math.sqrt(4) < most < 40


@pytest.mark.parametrize("most", [1, 2, 3, 5, 6, 30, 1000])
def test_classes_hold_units_of_all_lengths_and_pad_them_little(most: int) -> None:
    classes = batches.row_classes(most)
    assert classes[0] == 1
    assert max(2, most) <= classes[-1] < 1.5 * max(2, most)
    assert all(above <= 1.5 * below or below == 1 for below, above in itertools.pairwise(classes))
    padded = [classes[np.searchsorted(classes, n)] for n in range(1, most + 1)]
    assert sum(padded) <= 1.25 * sum(range(1, most + 1))


@pytest.mark.parametrize("rows", [0, 1])
def test_an_empty_table_trains_in_groups_like_any_other(rows: int) -> None:
    assert (
        training.train(
            AutoregressiveNetwork(CARDS, SPEC), Training(codes(rows), TrainingPlan(0.5, 3, 10.0, 1.0), SPEC)
        ).event.steps
        == 3
    )


def test_groups_of_units_with_several_rows_are_refused() -> None:
    with pytest.raises(TrainingError, match="set microbatch to 1"):
        UnitRows(codes(4), np.array([0, 0, 1, 1])).take_groups(np.array([0]), size=2, groups=1)


def clipped_sum(net: AutoregressiveNetwork, batch: torch.Tensor, weight: torch.Tensor, clip: float) -> torch.Tensor:
    clipping = OnePassClipping(net, clip)
    clipping.backward((net.losses(batch) * weight).sum(1))
    clipping.close()
    return clipping.lattice.values(clipping.take())


def with_one_more(batch: torch.Tensor, weight: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Put one unit into group 0."""
    wider = torch.cat([batch, torch.zeros_like(batch[:, :1])], 1)
    weights = torch.cat([weight, torch.zeros_like(weight[:, :1])], 1)
    wider[0, -1], weights[0, -1] = row, 1 / SPEC.microbatch
    return wider, weights


def test_one_unit_more_turns_one_groups_gradient_by_two_clips_at_most_and_by_more_than_one() -> None:
    """More than one: that is why the noise of groups is doubled."""
    net, most = loud(), 0.0
    for _ in range(600):  # of a hundred, one run in some thousands had no such unit among them
        ((batch, weight),) = UnitRows(codes(12), None).take_groups(np.arange(2), size=SPEC.microbatch, groups=1)
        assert weight is not None
        more = with_one_more(batch, weight, torch.from_numpy(codes(1)[0].astype(np.int64)))
        moved = clipped_sum(net, *more, SPEC.max_grad_norm) - clipped_sum(net, batch, weight, SPEC.max_grad_norm)
        most = max(most, float(moved.norm()))
    assert SPEC.max_grad_norm < most <= 2 * SPEC.max_grad_norm * (1 + 1e-5)


def noise(spec: GeneratorSpec, plan: TrainingPlan) -> float:
    """The deviation of one step's noise, from what empty samples do to the weights."""
    net = AutoregressiveNetwork((40,) * 6, spec)
    net.forget_unused = lambda: None  # type: ignore[method-assign]
    first = torch.cat([p.detach().flatten().clone() for p in net.parameters()])
    trained = training.train(net, Training(np.zeros((50, 6), np.int16), plan, spec)).network
    last = torch.cat([p.detach().flatten() for p in trained.parameters()])
    return float((last - first).double().square().mean().sqrt())


@pytest.mark.parametrize(("microbatch", "factor"), [(1, 1), (4, 2)])
def test_groups_get_twice_the_noise_over_the_public_number_of_groups(microbatch: int, factor: int) -> None:
    spec = GeneratorSpec(optimizer="sgd", learning_rate=1.0, hidden=48, max_grad_norm=0.5, microbatch=microbatch)
    found = noise(spec, TrainingPlan(1e-12, 1, 64.0, 3.0))
    rate = spec.learning_rate / spec.max_grad_norm
    expected = rate * factor * 3.0 * 0.5 / (64 / microbatch)
    assert found == pytest.approx(expected, rel=7 / math.sqrt(2 * 15_000))


def test_groups_with_the_noise_of_single_units_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = descent.Descent._begin

    def careless(self: descent.Descent) -> None:
        self.sensitivity = 1
        honest(self)

    monkeypatch.setattr(descent.Descent, "_begin", careless)
    with pytest.raises(AssertionError):
        test_groups_get_twice_the_noise_over_the_public_number_of_groups(4, 2)


def test_a_batch_in_parts_has_the_same_clipped_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    net, units = loud(), np.repeat(np.arange(300), 3)
    ((batch, weight),) = UnitRows(codes(900), units).take(np.arange(300))
    assert weight is not None
    whole = clipped_sum(net, *next(parts(batch, weight, sum(CARDS))), 0.3)
    monkeypatch.setattr(batches, "AT_ONCE", 64 * (3 * sum(CARDS) + 9 * 3))
    pieces = list(parts(batch, weight, sum(CARDS)))
    assert len(pieces) > 3
    clipping = OnePassClipping(net, 0.3)
    for piece, share in pieces:
        clipping.backward((net.losses(piece) * share).sum(1))
    found = clipping.lattice.values(clipping.take())
    assert torch.equal(found, whole), "whole numbers add up exactly, in any parts"


def test_an_empty_batch_is_one_part_in_which_nothing_weighs() -> None:
    ((codes, weight),) = parts(torch.zeros(0, 3, dtype=torch.int64), None, 9)
    assert len(codes) == batches.TOGETHER
    assert not weight.any()
