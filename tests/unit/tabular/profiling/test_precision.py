"""Which steps numbers are rounded to is told by counts of multiples beyond those that chance explains."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.tabular.profiling.precision import (
    MINUTE,
    RESOLUTIONS,
    STEPS,
    count_resolutions,
    count_steps,
    digits,
    rounded_to,
)

ROWS = 40_000


def told(x: np.ndarray, own: float = 1.0, noise: float = 1e-9) -> dict[float, float]:
    low, high = np.quantile(x, [0.05, 0.95])
    return dict(rounded_to(STEPS, count_steps(x, single=False), noise, own=own, spread=high - low))


@pytest.mark.parametrize(
    ("value", "step"),
    [
        (41_237, 1), (40_000, 10_000), (-250, 50), (35, 5), (12.5, 0.5), (0.1 + 0.2, 0.1), (7.25, 0.01), (1e-6, 1e-6),
        (3e9, 5e8), (123_456_789_012_345, 5), (2.0**52 + 1, 1),
    ],
)  # fmt: skip
def test_a_number_counts_for_the_coarsest_step_that_writes_it(value: float, step: float) -> None:
    counts = count_steps(np.array([value], dtype=float), single=False)
    assert counts[STEPS.index(step)] == counts.sum() == 1


def test_numbers_of_single_precision_are_read_as_they_are_written() -> None:
    x = np.array([0.1, 12.5, 40_000, 1 / 3], dtype=np.float32).astype(float)
    counts = count_steps(x, single=True)
    assert [counts[i] for i in (STEPS.index(0.1), STEPS.index(0.5), STEPS.index(10_000), len(STEPS))] == [1] * 4


def test_each_step_divides_the_next_coarser_one() -> None:
    for ladder in (STEPS, RESOLUTIONS):
        ratios = [a / b for a, b in pairwise(ladder)]
        assert [round(r) for r in ratios] == pytest.approx(ratios)
        assert min(ratios) > 1
    assert [digits(i) for i in (0, STEPS.index(1), STEPS.index(0.5), STEPS.index(0.01))] == [0, 0, 1, 2]
    assert digits(len(STEPS)) is None


@given(st.lists(st.floats(allow_nan=False), max_size=20), st.floats(allow_nan=False))
def test_one_value_more_moves_one_count(values: list[float], more: float) -> None:
    for count in (
        lambda x: count_steps(x, single=False),
        lambda x: count_resolutions(np.rint(np.clip(x, -1e15, 1e15))),
    ):
        fewer, all_of_them = count(np.array(values, dtype=float)), count(np.array([*values, more], dtype=float))
        moved = all_of_them - fewer
        assert moved.min() >= 0
        assert moved.sum() <= 1


def test_steps_that_people_round_to_are_found_with_their_shares() -> None:
    rng = np.random.default_rng()
    meant, income = rng.choice([1, 100, 1_000, 5_000], ROWS, p=[0.2, 0.1, 0.4, 0.3]), rng.lognormal(11, 0.6, ROWS)
    found = told(np.rint(income / meant) * meant)
    assert found == pytest.approx({100: 0.1, 1_000: 0.4, 5_000: 0.3}, abs=0.02)


def test_prices_that_end_with_whole_units_are_found() -> None:
    rng = np.random.default_rng()
    price, whole = rng.lognormal(4, 0.5, ROWS), rng.random(ROWS) < 0.6
    assert told(np.round(np.where(whole, np.rint(price), price), 2), own=0.01) == pytest.approx({1: 0.6}, abs=0.02)


def test_times_of_whole_quarters_are_found() -> None:
    rng = np.random.default_rng()
    when, quarter = rng.integers(0, 1440, ROWS), rng.random(ROWS) < 0.5
    counts = count_resolutions(np.where(quarter, when // 15 * 15, when) * float(MINUTE))
    found = dict(rounded_to(RESOLUTIONS, counts, 1e-9, own=MINUTE, spread=1296 * MINUTE))
    assert found == pytest.approx({15 * MINUTE: 0.5}, abs=0.02)


@pytest.mark.parametrize(
    "x",
    [
        np.arange(ROWS),
        np.random.default_rng().integers(1990, 2021, ROWS),
        np.random.default_rng().integers(17, 91, ROWS),
        np.rint(np.random.default_rng().lognormal(11, 0.6, ROWS)),
        np.zeros(ROWS),
    ],
    ids=["running", "years", "ages", "incomes", "zeros"],
)
def test_multiples_that_chance_explains_are_no_rounding(x: np.ndarray) -> None:
    assert told(x) == {}


def test_noise_alone_finds_nothing() -> None:
    """Noise is a little less than is told, so that five of its deviations are allowed and no run fails."""
    rng, counts = np.random.default_rng(), count_steps(np.arange(ROWS), single=False)
    for _ in range(50):
        assert rounded_to(STEPS, counts + rng.normal(0, 700, len(counts)), 900, own=1, spread=ROWS) == ()
        assert rounded_to(STEPS, rng.normal(0, 700, len(counts)), 900, own=1, spread=ROWS) == ()
