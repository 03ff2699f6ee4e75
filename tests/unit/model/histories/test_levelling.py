"""Drawn histories come to the released shares of codes, whatever the network made of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dp_synth_pipeline.model.autoregressive.generator import Generator
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.histories.levelling import RATE, Histories, level, moves

BEFORE = 4
"""Codes of the row before: none, or one of the first own column's three."""

SHARES = [np.array([0.7, 0.2, 0.1]), np.array([0.05, 0.15, 0.2, 0.6])]

PERSONS = 4000


def random_model() -> Generator:
    made = AutoregressiveNetwork((BEFORE, 3, 4), GeneratorSpec(hidden=5, embedding=3), 1)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(std=0.7, generator=generator)
    return Generator(made.eval())


def histories(model: Generator, rng: np.random.Generator) -> Histories:
    """Draw persons of one to four rows, of a weight of 1 in all for each person."""
    rows, before, parts, who = np.arange(PERSONS) % 4 + 1, np.zeros(PERSONS, np.int64), [], []
    for place in range(4):
        here = np.flatnonzero(rows > place)
        parts.append(model.follow(before[here, None], rng=rng))
        before[here] = parts[-1][:, 0] + 1
        who.append(here)
    codes = np.concatenate(parts)
    return Histories(codes, codes, 1 / rows[np.concatenate(who)])


def distances(drawn: Histories) -> list[float]:
    _, codes, weights = drawn
    found = [np.bincount(c, weights, minlength=len(s)) / weights.sum() for c, s in zip(codes.T, SHARES, strict=True)]
    return [float(np.abs(f - s).sum() / 2) for f, s in zip(found, SHARES, strict=True)]


def test_histories_come_to_the_released_shares_though_each_row_is_drawn_upon_the_one_before():
    model, rng = random_model(), np.random.default_rng(1)
    before = distances(histories(model, rng))
    level(model, lambda: histories(model, rng), SHARES, noise=0.0)
    after = distances(histories(model, rng))
    assert min(before) > 0.15
    assert all(a < b / 5 for a, b in zip(after, before, strict=True))


def test_a_code_that_stands_for_another_one_gives_way_where_that_one_is_too_frequent():
    """The last code of the second column is drawn most, and stands for its first one, which ought to be rare."""
    model, rng = random_model(), np.random.default_rng(1)
    model.lean([np.zeros(3), np.array([0.0, 0.0, 0.0, 2.5])])
    shares = [SHARES[0], np.array([0.1, 0.4, 0.5])]

    def draw() -> Histories:
        drawn, _, weights = histories(model, rng)
        return Histories(drawn, np.where(drawn == [-1, 3], 0, drawn), weights)

    def first() -> float:
        _, codes, weights = draw()
        return float(weights[codes[:, 1] == 0].sum() / weights.sum())

    before = first()
    level(model, draw, shares, noise=0.0, standing=[1])
    after = first()
    assert before > 0.8
    assert abs(after - 0.1) < 0.06, "with the other codes alone, it stays at 0.39"


def test_rows_agree_with_others_as_often_as_was_counted_and_their_own_codes_keep_their_shares():
    """The last code of the second column says "as in another row", which has the code 0 or 1, and is learnt too rarely."""
    model, rng, shares = random_model(), np.random.default_rng(1), [SHARES[0], np.array([0.4, 0.4, 0.2])]
    model.lean([np.zeros(3), np.array([0.0, 0.0, 0.0, -2.0])])

    def draw() -> Histories:
        drawn, _, weights = histories(model, rng)
        other = np.stack([np.zeros(len(drawn), int), rng.integers(0, 2, len(drawn))], 1)
        return Histories(drawn, np.where(drawn == [-1, 3], other, drawn), weights)

    def agreeing() -> float:
        drawn, _, weights = draw()
        return float(weights[drawn[:, 1] == 3].sum() / weights.sum())

    before = agreeing()
    level(model, draw, shares, noise=0.0, agreeing={1: np.array([0.3, 0.7])})
    assert before < 0.2
    assert abs(agreeing() - 0.7) < 0.06
    _, codes, weights = draw()
    assert np.bincount(codes[:, 1], weights, minlength=3) / weights.sum() == pytest.approx(shares[1], abs=0.06)


def test_a_column_whose_values_follow_from_other_rows_stays_as_it_was_learnt():
    model, rng = random_model(), np.random.default_rng(1)
    biases = [model.proposal.column(column)[-1].detach().clone() for column in (1, 2)]
    level(model, lambda: histories(model, rng), SHARES, noise=0.0, still=[1])
    moved = [not torch.equal(b, model.proposal.column(c)[-1]) for b, c in zip(biases, (1, 2), strict=True)]
    assert moved == [True, False]


def test_a_share_that_noise_drowns_moves_its_code_by_next_to_nothing():
    found, share = np.array([0.9, 0.099, 0.001]), np.array([0.9, 0.09, 0.01])
    assert moves(found, share, noise=0.0)[2] > 0.8 * RATE
    assert abs(moves(found, share, noise=0.05)[2]) < 0.05 * RATE


def test_a_released_share_below_none_is_taken_for_none_and_no_step_is_longer_than_the_longest():
    step = moves(np.array([0.5, 0.5]), np.array([1.02, -0.02]), noise=0.0)
    assert np.isfinite(step).all()
    assert step[1] == -RATE


def test_no_rows_drawn_leave_the_model_as_it_was():
    model = random_model()
    before = [p.detach().clone() for p in model.proposal.parameters()]
    none = np.zeros((0, 2), np.int64)
    level(model, lambda: Histories(none, none, np.zeros(0)), SHARES, noise=0.0)
    assert all(torch.equal(a, b) for a, b in zip(before, model.proposal.parameters(), strict=True))


def test_leaning_adds_to_the_log_odds_of_own_codes_whatever_is_given():
    model = random_model()
    row = torch.tensor([[2, 1, 0]])
    before = [model.proposal.given_earlier(row, column)[0] for column in (1, 2)]
    model.lean([np.array([0.5, -0.5]), np.zeros(4)])  # of the first own column, its last code is left as it is
    after = [model.proposal.given_earlier(row, column)[0] for column in (1, 2)]
    odds = (after[0] - after[0][2]) - (before[0] - before[0][2])
    assert torch.allclose(odds, torch.tensor([0.5, -0.5, 0.0]), atol=1e-5)
    assert torch.allclose(after[1], before[1])
