"""Relations of pairs of columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dp_synth_pipeline.tabular.schema import build
from dp_synth_pipeline.validation.relations import CRAMER, PEARSON, RATIO, cramer, pearson, ratio, relations
from tests.unit.validation.tables import good, schema

COLUMNS = build({"x": pa.float64(), "y": pa.float64(), "a": pa.string(), "b": pa.string()})


def table(rows: int = 4000) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    x, a = rng.normal(size=rows), rng.choice(["p", "q"], rows)
    return pd.DataFrame({"x": x, "y": -2 * x, "a": a, "b": np.where(a == "p", "s", "t")})


def test_each_pair_has_the_measure_that_its_kinds_ask_for() -> None:
    found = relations(table(), table(), COLUMNS)
    assert found.measures[1][0] == PEARSON
    assert found.measures[2][0] == found.measures[0][2] == RATIO
    assert found.measures[3][2] == CRAMER
    assert found.real[1][0] == found.real[0][1] == -1
    assert found.real[3][2] == 1
    assert abs(found.real[2][0] or 0) < 0.06
    assert found.real[0][0] is None


def test_equal_tables_do_not_differ_and_shuffled_ones_do() -> None:
    real, shuffled = table(), table()
    for seed, name in enumerate(["y", "b"]):
        shuffled[name] = shuffled[name].sample(frac=1, random_state=seed).to_numpy()
    same, other = relations(real, real, COLUMNS), relations(real, shuffled, COLUMNS)
    assert all(same.mean_difference(m) == 0 for m in (PEARSON, CRAMER, RATIO))
    assert other.mean_difference(PEARSON) == pytest.approx(1, abs=0.06)
    assert other.mean_difference(CRAMER) == pytest.approx(1, abs=0.06)
    assert (other.difference[1][0] or 0) > 0.9  # from -1 to about 0: less negative


def test_the_correlation_ratio_is_the_root_of_the_variance_between_groups() -> None:
    codes = np.repeat([0, 1], 5000)
    numbers = codes * 2.0 + np.random.default_rng(2).normal(size=10_000)
    assert ratio(codes, numbers) == pytest.approx(np.sqrt(0.5), abs=0.02)
    assert ratio(codes, codes * 3.0) == pytest.approx(1)


def test_chance_is_taken_off_relations_of_many_groups() -> None:
    rng = np.random.default_rng(3)
    codes, others, numbers = rng.integers(0, 50, 2000), rng.integers(0, 50, 2000), rng.normal(size=2000)
    assert (ratio(codes, numbers) or 0) < 0.12
    assert (cramer(codes, others) or 0) < 0.08


def test_what_does_not_vary_has_no_relation() -> None:
    one, many = np.zeros(50), np.arange(50.0)
    assert pearson(one, many) is None
    assert pearson(np.full(50, np.nan), many) is None
    assert ratio(np.zeros(50, np.int64), many) is None
    assert cramer(np.zeros(50, np.int64), np.arange(50)) is None


def test_nulls_are_a_value_of_categories_and_left_out_of_numbers() -> None:
    real = table()
    real.loc[:1999, "a"] = None
    real.loc[2000:2999, "x"] = np.nan
    found = relations(real, real, COLUMNS)
    assert found.real[1][0] == -1
    assert 0 < (found.real[3][2] or 0) < 1


def test_every_kind_of_column_has_relations() -> None:
    found = relations(good().to_pandas(), good(1).to_pandas(), schema())
    assert len(found.real) == len(schema().learned)
