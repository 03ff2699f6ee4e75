"""How many rows a unit has."""

from __future__ import annotations

import pandas as pd
import pytest

from dp_synth_pipeline.validation.rows_per_unit import MOST_LINES, rows_per_unit


def test_the_units_are_spread_over_numbers_of_rows() -> None:
    found = rows_per_unit("patient", pd.Series([1, 1, 1, 2, 3, 3]), pd.Series([1, 2, 3, 4]))
    assert found is not None
    assert found.labels == ["1", "2", "3"]
    assert found.real == pytest.approx([1 / 3, 1 / 3, 1 / 3])
    assert found.synthetic == [1, 0, 0]
    assert (found.mean_real, found.mean_synthetic) == (2, 1)
    assert (found.units_real, found.units_synthetic) == (3, 4)


def test_many_rows_are_told_together() -> None:
    units = pd.Series([0] * 40 + [1])
    found = rows_per_unit("patient", units, units)
    assert found is not None
    assert found.labels[-1] == f"more than {MOST_LINES}"
    assert found.real == found.synthetic == [0.5, *[0] * (MOST_LINES - 1), 0.5]


def test_a_synthetic_table_may_name_no_unit_and_a_real_one_none_at_all() -> None:
    found = rows_per_unit("patient", pd.Series([1, 1]), None)
    assert found is not None
    assert found.synthetic is found.mean_synthetic is found.units_synthetic is None
    assert rows_per_unit("patient", pd.Series([None, None]), None) is None
