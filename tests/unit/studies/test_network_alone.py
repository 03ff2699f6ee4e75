"""One training of the network alone: what it is, and what it costs."""

from __future__ import annotations

import math

from benchmarks.studies import network_alone as alone
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.events import SubsampledGaussian


def test_rows_that_are_held_out_are_not_learnt_from() -> None:
    whole = alone.coded("fair")
    rows, held_out = alone.split("fair", len(whole.codes) - 1000, 1000)
    together = sorted(map(tuple, [*rows.codes.tolist(), *held_out.tolist()]))
    assert together == sorted(map(tuple, whole.codes.tolist()))


def test_noise_costs_what_is_said_and_fits_what_was_asked() -> None:
    rows, held_out = alone.split("fair", 1000, 500)
    found = alone.learn(rows, held_out, alone.spec(max_epochs=2, hidden=2), epsilon=2.0)
    assert found.epsilon == accountant.epsilon(SubsampledGaussian(found.noise, 64 / 1000, found.steps), alone.DELTA)
    assert 1.9 < found.epsilon <= 2.0
    assert found.loss < found.nothing


def test_without_privacy_there_is_no_noise_and_no_epsilon() -> None:
    rows, held_out = alone.split("fair", 1000, 500)
    found = alone.learn(rows, held_out, alone.spec(max_epochs=2, hidden=2))
    assert (found.noise, found.epsilon) == (0.0, math.inf)
    assert found.loss < found.nothing - 1


def test_a_training_that_diverges_has_an_infinite_loss() -> None:
    rows, held_out = alone.split("fair", 1000, 500)
    how = alone.spec(optimizer="sgd", learning_rate=1e8, max_epochs=2, hidden=2)
    assert alone.learn(rows, held_out, how, noise=1.0).loss == math.inf
