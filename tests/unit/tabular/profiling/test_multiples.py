"""Which multiple one number is of another, with the fewest digits that rounding leaves open."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.tabular.profiling import multiples
from dp_synth_pipeline.tabular.profiling.multiples import NONE, OPEN


def cell(first: float, second: float, half: float = 0.005) -> int:
    return int(multiples.cells([np.array([first]), np.array([second])], [np.array([half])] * 2)[0])


def test_each_cell_is_a_multiple_of_its_own_way() -> None:
    told = [multiples.multiple(i) for i in range(OPEN)]
    assert len(set(told)) == OPEN
    assert {by for second, by in told if second} == {by for second, by in told if not second}
    assert min(by for _, by in told) == 1e-4
    assert max(by for _, by in told) == 9990.0


@given(st.integers(1, 999), st.integers(-4, 1), st.integers(10_000, 99_999))
def test_an_exact_multiple_is_told_whatever_its_size(mantissa: int, decade: int, base: int) -> None:
    by = float(f"{mantissa}e{decade}")
    if not 1e-4 <= by <= 9990:
        return
    second, found = multiples.multiple(cell(base, by * base, 0.0))
    assert found == pytest.approx(by if second else 1 / by, rel=1e-6)


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        (8.33, 1.67, (True, 0.2)),
        (100.0, 119.0, (True, 1.19)),
        (119.0, 100.0, (False, 1.19)),
        (555.5, 45.83, (True, 0.0825)),
        (5.0, 5.0, (True, 1.0)),
    ],
)
def test_rounded_values_tell_the_multiple_with_fewest_digits(
    first: float, second: float, told: tuple[bool, float]
) -> None:
    assert multiples.multiple(cell(first, second)) == told


@pytest.mark.parametrize(
    ("first", "second", "of"),
    [
        (123.457, 987.615, NONE),
        (100.0, -20.0, NONE),
        (0.0, 50.0, OPEN),
        (0.0, 0.0, OPEN),
        (0.31, 777.77, OPEN),
        (55.55, 4.58, OPEN),  # 0.0824 and 0.0825
        (5.55, 0.46, OPEN),
    ],
)
def test_what_is_no_multiple_or_too_small_to_tell(first: float, second: float, of: int) -> None:
    assert cell(first, second) == of


def test_where_both_ways_hold_the_larger_value_is_the_multiple() -> None:
    assert multiples.multiple(cell(8.35, 1.67)) == (False, 5.0)
    assert multiples.multiple(cell(1.67, 8.35)) == (True, 5.0)
    assert multiples.multiple(cell(8.33, 1.67)) == (True, 0.2)


def test_each_cell_knows_the_one_that_says_the_same_the_other_way() -> None:
    inverse = multiples.inverses()
    some = np.flatnonzero(inverse >= 0)
    assert (inverse[inverse[some]] == some).all()
    for own in some:
        (second, by), (other_second, other_by) = multiples.multiple(own), multiples.multiple(int(inverse[own]))
        assert second is not other_second
        assert by * other_by == pytest.approx(1, rel=1e-12)
    assert sum(multiples.multiple(int(c))[1] == 0.2 for c in some) == 2
    assert not any(multiples.multiple(int(c))[1] == 0.3 for c in some)


def test_rows_with_a_null_are_left_out() -> None:
    values = [np.array([1.0, np.nan, np.inf]), np.array([np.nan, 2.0, 2.0])]
    assert len(multiples.cells(values, [np.zeros(3)] * 2)) == 0
