"""Accuracy of one, two and three columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dp_synth_pipeline.tabular.schema import build
from dp_synth_pipeline.validation import accuracy as module
from dp_synth_pipeline.validation.accuracy import Accuracy, accuracy
from tests.unit.validation.tables import good, schema

ABX = build({"a": pa.string(), "b": pa.string(), "x": pa.float64()})


def table(seed: int, rows: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    a = rng.choice(["p", "q"], rows)
    return pd.DataFrame({"a": a, "b": a, "x": np.where(a == "p", rng.normal(-3, 1, rows), rng.normal(3, 1, rows))})


def measured(real: pd.DataFrame, synthetic: pd.DataFrame, columns=ABX) -> Accuracy:
    return accuracy(real, synthetic, columns, np.random.default_rng())


def test_a_table_agrees_fully_with_itself() -> None:
    found = measured(good().to_pandas(), good().to_pandas(), schema())
    assert (found.one, found.two, found.three, found.overall) == (1, 1, 1, 1)


def test_a_fresh_sample_reaches_what_chance_allows() -> None:
    found = measured(table(1), table(2))
    assert found.overall == pytest.approx(found.best, abs=0.01)


def test_columns_drawn_by_themselves_are_right_one_at_a_time_and_wrong_together() -> None:
    synthetic = table(2)
    for seed, name in enumerate(synthetic):
        synthetic[name] = synthetic[name].sample(frac=1, random_state=seed).to_numpy()
    found = measured(table(1), synthetic)
    assert found.one > 0.97
    assert found.two == pytest.approx(0.5, abs=0.03)  # half of the cells' rows are in the wrong ones
    assert (found.three or 1) < 0.35
    assert found.overall == pytest.approx(np.mean([found.one, found.two or 0, found.three or 0]))


def test_one_column_is_one_minus_half_the_sum_of_differences() -> None:
    columns = build({"a": pa.string()})
    real, synthetic = pd.DataFrame({"a": ["p"] * 60 + ["q"] * 40}), pd.DataFrame({"a": ["p"] * 3 + ["q"] * 6 + [None]})
    found = measured(real, synthetic, columns)
    assert found.one == found.overall == pytest.approx(0.7)
    assert found.two is None
    assert found.three is None


def test_only_the_ten_commonest_values_are_told_apart_and_rare_ones_count_as_others() -> None:
    columns = build({"a": pa.string()})
    real = pd.DataFrame({"a": [f"v{i}" for i in range(20) for _ in range(40 - i)] + ["lone"] * 4})
    tail = pd.DataFrame({"a": [v if int(v.strip("vlone") or 15) < 10 else "v19" for v in real["a"]]})
    assert measured(real, tail, columns).one == 1
    few = pd.DataFrame({"a": ["p"] * 96 + ["q"] * 4})
    assert measured(few, few.replace("q", "z"), columns).one == 1


def test_a_spike_is_one_cell_and_the_rest_is_still_cut() -> None:
    columns = build({"x": pa.int64()})
    real = pd.DataFrame({"x": [0] * 9000 + list(range(1, 1001))})
    synthetic = pd.DataFrame({"x": [0] * 9000 + [1000] * 1000})
    assert measured(real, synthetic, columns).one < 0.95
    assert len(module._breaks(np.sort(real["x"].to_numpy(float)))) >= module.BINS


def test_numbers_beyond_the_real_ones_join_the_end_cells() -> None:
    columns = build({"x": pa.float64()})
    real = pd.DataFrame({"x": np.arange(1000.0)})
    assert measured(real, real.where(real < 999, 1e9).where(real > 0, -1e9), columns).one == 1


def test_many_pairs_and_triples_are_sampled(monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_SETS", 5)
    names = {f"c{i}": pa.int64() for i in range(8)}
    real = pd.DataFrame(np.random.default_rng(1).integers(0, 3, (200, 8)), columns=list(names))
    found = measured(real, real, build(names))
    assert found.triples == 5
    assert found.overall == 1


@pytest.mark.parametrize("column", ["age", "sector", "joined", "member"])
def test_a_column_of_nulls_alone_is_counted(column: str) -> None:
    real = good().to_pandas()
    real[column] = None
    assert measured(real, good().to_pandas(), schema()).one < 1
