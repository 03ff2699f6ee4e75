"""Cosines along the codes of a column: of length 1, apart from each other, and none for a code outside of an order."""

from __future__ import annotations

import numpy as np
import pytest

from dp_synth_pipeline.model.marginals import waves


def test_cosines_have_length_one_over_rows_and_tell_different_things() -> None:
    share = np.random.default_rng().dirichlet(np.full(40, 5.0))
    found, deviations = waves.along(share, range(40))
    assert found.shape == (40, waves.WAVES)
    assert found.T * share @ found == pytest.approx(np.eye(waves.WAVES), abs=0.05)
    assert deviations.tolist() == [1 / k for k in range(1, waves.WAVES + 1)]


def test_they_follow_the_order_of_the_codes() -> None:
    order = [4, 0, 5, 3, 1, 2]
    found, _ = waves.along(np.full(6, 1 / 6), order)
    assert (np.diff(found[order, 0]) < 0).all()


def test_a_code_outside_of_the_order_has_a_number_of_its_own() -> None:
    found, deviations = waves.along(np.full(9, 1 / 9), range(1, 9))
    assert not found[0, : waves.WAVES].any()
    assert found[:, waves.WAVES].tolist() == [1, *[0] * 8]
    assert deviations[-1] == 1


@pytest.mark.parametrize("order", [(), range(waves.WAVES + 1)])
def test_so_has_each_code_where_there_is_no_order_or_are_too_few(order: range) -> None:
    found, deviations = waves.along(np.full(7, 1 / 7), order)
    assert (found == np.eye(7)).all()
    assert (deviations == 1).all()


def test_codes_that_no_row_has_are_no_nonsense() -> None:
    found, _ = waves.along(np.zeros(8), range(8))
    assert np.isfinite(found).all()


def test_a_fit_takes_over_the_noise_of_few_codes_where_they_have_an_order() -> None:
    """The deviation of what `along` projects noise of one deviation to, in the L1 distance of all codes."""
    order, noise = range(30), np.random.default_rng().normal(size=(400, 30))
    found, _ = waves.along(np.full(30, 1 / 30), order)
    over = (noise @ found @ found.T / 30).round(12)
    assert np.abs(over).sum(1).mean() == pytest.approx(np.sqrt(2 / np.pi) * waves.told(30, order), rel=0.15)
    assert waves.told(30, ()) == 30
