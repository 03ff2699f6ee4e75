"""Draws given what is known follow the network's own conditional distribution. Thresholds give a false alarm under 1e-7."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from dp_synth_pipeline.model.autoregressive import particles
from dp_synth_pipeline.model.autoregressive.generator import PARTICLES, Generator
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.base import Allowed, GenerativeModel
from dp_synth_pipeline.model.marginals.measuring import Layout
from dp_synth_pipeline.model.marginals.raking import Tilt

CARDINALITIES = (2, 3, 2, 4)
ROWS = np.array(list(itertools.product(*map(range, CARDINALITIES))))
DEVIATIONS = 6.0

Judge = Callable[[np.ndarray], np.ndarray]


def network() -> AutoregressiveNetwork:
    made = AutoregressiveNetwork(CARDINALITIES, GeneratorSpec(hidden=5, embedding=3))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(std=0.8)
    return made.eval()


def tilted() -> Tilt:
    layout = Layout(CARDINALITIES, ((0, 1), (1, 3), (0, 2, 3)))
    return Tilt(layout, np.random.default_rng().normal(0, 0.4, layout.cells).astype(np.float32))


def probabilities(net: AutoregressiveNetwork, tilt: Tilt | None, judge: Judge) -> tuple[np.ndarray, float]:
    """Return the exact probability of every row given the event, and the sum of weights that the event has."""
    with torch.no_grad():
        p = np.exp(-net.losses(torch.from_numpy(ROWS)).double().numpy())
    weights = p * judge(ROWS) * (1 if tilt is None else np.exp(tilt.log_weights(ROWS).astype(float)))
    return weights / weights.sum(), float(weights.sum())


def of_each(sets: dict[int, list[int]]) -> tuple[Judge, Allowed]:
    """Return a conjunction of sets of codes: as a judge of whole rows, and as what may follow."""

    def judge(rows: np.ndarray) -> np.ndarray:
        return np.all([np.isin(rows[:, c], codes) for c, codes in sets.items()], axis=0)

    def allowed(column: int, before: np.ndarray) -> np.ndarray | None:
        return np.isin(np.arange(CARDINALITIES[column]), sets[column])[None] if column in sets else None

    return judge, allowed


def either() -> tuple[Judge, Allowed]:
    """(a = 1 and d = 3) or (a = 0 and b = 2): what may stand in a column depends on what came before."""

    def judge(rows: np.ndarray) -> np.ndarray:
        a, b, _, d = rows.T
        return ((a == 1) & (d == 3)) | ((a == 0) & (b == 2))

    def allowed(column: int, before: np.ndarray) -> np.ndarray | None:
        if column == 1:
            return (before[:, :1] == 1) | (np.arange(3) == 2)
        return (before[:, :1] == 0) | (np.arange(4) == 3) if column == 3 else None

    return judge, allowed


EVENTS = [of_each({3: [1]}), of_each({0: [1], 2: [0], 3: [0, 2]}), of_each({1: [0, 2]}), either()]


@pytest.mark.parametrize("event", range(len(EVENTS)))
@pytest.mark.parametrize("rakes", [False, True])
def test_rows_are_drawn_with_the_exact_conditional_probabilities(event: int, rakes: bool) -> None:
    judge, allowed = EVENTS[event]
    net, tilt = network(), tilted() if rakes else None
    expected, _ = probabilities(net, tilt, judge)
    generator, rng = Generator(net, tilt), np.random.default_rng()
    codes, effective = generator.draw_given(8_000, 40_000, allowed, rng=rng)
    assert judge(codes).all()
    assert len(codes) <= effective
    seen = np.bincount(np.ravel_multi_index(codes.T, CARDINALITIES), minlength=len(ROWS))
    common = expected * len(codes) > 10
    wanted = expected[common] * len(codes)
    # Chosen rows vary by their own number and by the number of weighted rows that they are chosen from.
    wider = 1 + len(codes) / effective
    statistic = ((seen[common] - wanted) ** 2 / wanted).sum() / wider
    assert statistic < chi2.isf(1e-7, common.sum())


@pytest.mark.parametrize("event", range(len(EVENTS)))
def test_weights_are_unbiased_however_often_rows_were_resampled(event: int, monkeypatch: pytest.MonkeyPatch) -> None:
    judge, allowed = EVENTS[event]
    net, rng = network(), np.random.default_rng()
    _, exact = probabilities(net, None, judge)
    monkeypatch.setattr(particles, "ENOUGH", 1.0)  # resample whenever weights differ at all
    found = [np.exp(particles.particles(net, allowed, 1, 200, rng).logs).mean() for _ in range(300)]
    assert abs(np.mean(found) - exact) < DEVIATIONS * np.std(found) / math.sqrt(len(found)) + 1e-6


def test_copies_of_one_row_count_as_one() -> None:
    codes = np.zeros((6, 1), np.int64)
    each = particles.Particles(codes, np.zeros(6), np.arange(6))
    copies = particles.Particles(codes, np.zeros(6), np.array([0, 0, 0, 1, 1, 1]))
    none = particles.Particles(codes, np.full(6, -np.inf), np.arange(6))
    assert (each.effective, copies.effective, none.effective) == pytest.approx((6, 2, 0))


def test_rows_are_resampled_when_few_of_them_count() -> None:
    net = network()
    rare = int(np.argmin(np.bincount(Generator(net).sample(4_000)[:, 0], minlength=2)))

    def allowed(column: int, before: np.ndarray) -> np.ndarray | None:
        return (before[:, :1] == rare) & np.ones((1, 3), bool) if column == 1 else None

    found = particles.particles(net, allowed, 1, 4_000, np.random.default_rng())
    assert (found.codes[:, 0] == rare).all()
    assert np.isfinite(found.logs).all()
    assert len(np.unique(found.begun)) <= 2_100


def test_what_is_impossible_gives_no_row() -> None:
    codes, effective = Generator(network(), tilted()).draw_given(
        10, 500, lambda column, before: np.zeros((1, CARDINALITIES[column]), bool), rng=np.random.default_rng()
    )
    assert (codes.shape, effective) == ((0, 4), 0.0)


def test_each_row_is_completed_by_its_own_conditional_distribution() -> None:
    net, tilt, rng = network(), tilted(), np.random.default_rng()
    known = np.array([[-1, 1, -1, 2], [1, -1, -1, -1], [-1, -1, -1, -1]])
    codes = np.repeat(known, 3_000, axis=0)
    done = Generator(net, tilt).complete(codes, lambda column, before: None, rng=rng)
    assert ((codes < 0) | (done == codes)).all()
    for row in known:
        mine = done[(codes == row).all(1)]
        judge = of_each({c: [v] for c, v in enumerate(row) if v >= 0} or {0: [0, 1]})[0]
        expected, _ = probabilities(net, tilt, judge)
        seen = np.bincount(np.ravel_multi_index(mine.T, CARDINALITIES), minlength=len(ROWS))
        # 64 particles are many, not infinitely many: a bias of a few hundredths of a cell's share is left.
        slack = DEVIATIONS * np.sqrt(expected * (1 - expected) / len(mine)) + 0.15 * expected + 2e-3
        assert (np.abs(seen / len(mine) - expected) < slack).all()
    assert PARTICLES == 64


def test_the_likelihood_is_that_of_the_raked_network() -> None:
    net, tilt = network(), tilted()
    exact, _ = probabilities(net, tilt, lambda rows: np.ones(len(rows)))
    assert Generator(net, tilt).log_likelihood(ROWS) == pytest.approx(np.log(exact), abs=0.05)
    assert np.exp(Generator(net).log_likelihood(ROWS)).sum() == pytest.approx(1, abs=1e-5)


def test_a_seed_draws_the_same_rows_and_another_one_others() -> None:
    generator, allowed = Generator(network(), tilted()), of_each({3: [1]})[1]

    def drawn(seed: int) -> list[np.ndarray]:
        rng = np.random.default_rng(seed)
        return [generator.sample(3_000, rng=rng), generator.draw_given(200, 2_000, allowed, rng=rng)[0]]

    assert all(np.array_equal(a, b) for a, b in zip(drawn(4), drawn(4), strict=True))
    assert not any(np.array_equal(a, b) for a, b in zip(drawn(4), drawn(5), strict=True))


def test_a_model_that_knows_no_conditions_says_so() -> None:
    class Plain(Generator):
        kind = "plain"
        draw_given, complete, log_likelihood = (
            GenerativeModel.draw_given,
            GenerativeModel.complete,
            GenerativeModel.log_likelihood,
        )

    plain, rng, anything = Plain(network()), np.random.default_rng(), lambda column, before: None
    for call in (
        lambda: plain.draw_given(1, 1, anything, rng=rng),
        lambda: plain.complete(ROWS, anything, rng=rng),
        lambda: plain.log_likelihood(ROWS),
    ):
        with pytest.raises(ValueError, match="kind 'plain'"):
            call()
