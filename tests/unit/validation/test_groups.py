"""Groups of sensitive columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.schema import build
from dp_synth_pipeline.validation.groups import SMALLEST, Groups, by_group
from dp_synth_pipeline.validation.learners import Prediction

COLUMNS = build({"sex": pa.string(), "age": pa.int64(), "x": pa.float64()})


def table(seed: int, few: int = 50) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    sex = np.array(["f"] * 1000 + ["m"] * 1000 + ["z"] * few)
    return pd.DataFrame({"sex": sex, "age": rng.integers(20, 80, len(sex)), "x": rng.normal(size=len(sex))})


def grouped(
    real: pd.DataFrame, synthetic: pd.DataFrame, names: list[str], prediction: Prediction | None = None
) -> Groups:
    found = by_group(real, synthetic, COLUMNS, names, prediction)
    assert found is not None
    return found


def test_a_group_that_is_served_worse_shows() -> None:
    synthetic = table(2)
    synthetic.loc[synthetic["sex"] == "m", "x"] += 2
    found = {g.value: g for g in grouped(table(1), synthetic, ["sex"]).groups}
    assert (found["m"].distance or 0) > 0.2
    assert found["f"].distance == pytest.approx(found["f"].baseline, abs=0.03)


def test_small_groups_are_hidden_and_counted() -> None:
    found = grouped(table(1, SMALLEST - 1), table(2), ["sex"])
    assert {g.value for g in found.groups} == {"f", "m"}
    assert found.hidden == 1
    assert {g.value for g in grouped(table(1, SMALLEST), table(2), ["sex"]).groups} == {"f", "m", "z"}


def test_a_group_without_synthetic_rows_has_no_distance() -> None:
    synthetic = table(2)
    synthetic["sex"] = "f"
    found = {g.value: g for g in grouped(table(1), synthetic, ["sex"]).groups}
    assert found["m"].distance is None
    assert found["m"].share_synthetic == 0


def test_numbers_are_grouped_by_quarters_and_nulls_by_themselves() -> None:
    real = table(1).assign(x=np.where(np.arange(2050) < 500, np.nan, np.arange(2050.0)))
    values = [g.value for g in grouped(real, real, ["x"]).groups]
    assert len(values) == 5
    assert "missing" in values


def test_errors_are_those_of_the_groups_tested_rows() -> None:
    tested = np.concatenate([np.arange(100), np.arange(1000, 1100), [2001, 2002]])
    of_women = np.arange(len(tested)) < 100
    prediction = Prediction("x", "AUC", 0.9, 0.8, "wrong", tested, np.where(of_women, 0.1, 0.2), of_women * 0.5)
    found = {g.value: g for g in grouped(table(1, 200), table(2, 200), ["sex"], prediction).groups}
    assert (found["f"].error_real, found["f"].error_synthetic) == (pytest.approx(0.1), pytest.approx(0.5))
    assert (found["m"].error_real, found["m"].error_synthetic) == (pytest.approx(0.2), 0)
    assert found["z"].error_real is None  # two tested rows only


def test_no_sensitive_columns_no_groups_and_unknown_ones_are_refused() -> None:
    assert by_group(table(1), table(2), COLUMNS, [], None) is None
    with pytest.raises(InvalidInput, match="'race'"):
        by_group(table(1), table(2), COLUMNS, ["race"], None)
