"""Rare values and patterns of nulls."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dp_synth_pipeline.tabular.schema import build
from dp_synth_pipeline.validation.patterns import null_patterns, rare_values

COLUMNS = build({"a": pa.string(), "x": pa.float64()})


def table(rare: list[str]) -> pd.DataFrame:
    values = rare + ["common"] * (1000 - len(rare))
    return pd.DataFrame({"a": values, "x": np.arange(1000.0)})


def test_covered_and_unknown_values_are_counted() -> None:
    one, _ = rare_values(table(["u", "v", "v", "w"]), table(["v", "w", "z", "z", "z"]), COLUMNS)
    assert (one.values, one.covered) == (3, 2)
    assert (one.share_real, one.share_synthetic) == (pytest.approx(0.004), pytest.approx(0.002))
    assert one.unknown == pytest.approx(0.003)


def test_the_ends_of_a_number_line_are_watched() -> None:
    cut = table([])
    cut["x"] = cut["x"].clip(100, 900)
    (found,) = rare_values(table([]), cut, build({"x": pa.float64()}))
    assert found.share_real == pytest.approx(0.02)
    assert found.share_synthetic == 0
    assert found.values is None


def test_a_column_without_rare_values_is_left_out() -> None:
    frame = pd.DataFrame({"a": ["p", "q"] * 100, "x": [1.0, 2.0] * 100})
    assert rare_values(frame, frame, COLUMNS) == []


def test_values_that_are_null_together_are_a_pattern() -> None:
    real = pd.DataFrame({"a": [None] * 2 + ["p"] * 8, "x": [np.nan] * 2 + [1.0] * 8})
    apart = pd.DataFrame({"a": [None] * 2 + ["p"] * 8, "x": [1.0] * 2 + [np.nan] * 2 + [1.0] * 6})
    found = null_patterns(real, apart, COLUMNS)
    assert found is not None
    shares = {p.columns: (p.share_real, p.share_synthetic) for p in found.patterns}
    assert shares == {(): (0.8, 0.6), ("a", "x"): (0.2, 0.0), ("a",): (0.0, 0.2), ("x",): (0.0, 0.2)}
    assert found.distance == pytest.approx(0.4)
    assert null_patterns(real, real, COLUMNS).distance == 0  # type: ignore[union-attr]


def test_tables_without_nulls_have_no_patterns() -> None:
    assert null_patterns(table([]), table([]), COLUMNS) is None
