"""Counts of nulls and released values are right in the mean, whatever chance released them."""

from __future__ import annotations

import numpy as np
import pytest

from dp_synth_pipeline.tabular.profiling.special_values import SpecialValues


@pytest.mark.parametrize(
    ("first", "later", "count", "noise"),
    [
        (500.0, 380.0, 476.0, 80**0.5),  # sure: the later count is low by chance, and counts with the first
        (390.0, 380.0, 380.0, 20.0),  # released by luck, perhaps: the later count alone
        (390.0, 450.0, 450.0, 20.0),  # so, too, if it is high: it was not chosen by what it says
    ],
)
def test_the_count_that_released_a_value_is_left_out_unless_it_was_sure(
    first: float, later: float, count: float, noise: float
) -> None:
    special = SpecialValues([7], None, np.array([100.0, first]), 10.0, 400.0)
    special.again.append((np.array([80.0, later]), 20.0))
    counts, noises = special.counts()
    # Nulls are chosen by nothing: both of their counts, weighted by 1/100 and 1/400.
    assert counts == pytest.approx([96.0, count])
    assert noises == pytest.approx([80**0.5, noise])
