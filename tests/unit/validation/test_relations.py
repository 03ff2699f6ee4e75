"""Relations of pairs of columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dp_synth_pipeline.tabular.schema import build
from dp_synth_pipeline.validation import relations as module
from dp_synth_pipeline.validation.relations import contingency, relations
from tests.unit.validation.tables import good, schema

COLUMNS = build({"x": pa.float64(), "y": pa.float64(), "a": pa.string(), "b": pa.string()})


def table(rows: int = 4000) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    x, a = rng.normal(size=rows), rng.choice(["p", "q"], rows)
    return pd.DataFrame({"x": x, "y": -2 * x, "a": a, "b": np.where(a == "p", "s", "t")})


def test_one_measure_covers_columns_of_every_kind() -> None:
    mixed = table().assign(a=np.where(table()["x"] > 0, "p", "q"))
    found = relations(mixed, table(), COLUMNS)
    assert found.of("x", "y") == (pytest.approx(1, abs=0.001), pytest.approx(1, abs=0.001))
    assert found.of("a", "b")[1] == 1
    assert found.of("x", "a")[0] == pytest.approx(1, abs=0.02), "a number decides a category"
    assert (found.of("x", "a")[1] or 0) < 0.1
    assert found.of("x", "x") == found.of("x", "nowhere") == (None, None)


def test_equal_tables_do_not_differ_and_shuffled_ones_do() -> None:
    real, shuffled = table(), table()
    for seed, name in enumerate(["y", "b"]):
        shuffled[name] = shuffled[name].sample(frac=1, random_state=seed).to_numpy()
    same, other = relations(real, real, COLUMNS), relations(real, shuffled, COLUMNS)
    assert same.mean_difference == 0
    assert (other.difference[1][0] or 0) < -0.9
    assert (other.difference[3][2] or 0) < -0.9
    assert 2 / 6 * 0.9 < (other.mean_difference or 0) < 2 / 6 * 1.3


@pytest.mark.parametrize("r", [0.0, 0.3, 0.6, 0.9])
def test_of_two_numbers_it_is_about_as_large_as_pearsons_r(r: float) -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=20_000)
    frame = pd.DataFrame({"x": x, "y": r * x + np.sqrt(1 - r * r) * rng.normal(size=20_000)})
    found = relations(frame, frame, build({"x": pa.float64(), "y": pa.float64()})).of("x", "y")[0]
    assert found == pytest.approx(r, abs=0.08)


def test_the_coefficient_is_that_of_the_textbook_but_for_chance() -> None:
    counts = np.array([[30_000, 10_000], [10_000, 30_000]])  # phi2 = 0.25, and at most 0.5 ** 0.5 for two values
    assert contingency(counts) == pytest.approx(np.sqrt(0.2 / 0.5), abs=0.001)
    assert contingency(np.eye(3) * 50) == pytest.approx(1)


def test_chance_is_taken_off_relations_of_many_values() -> None:
    rng = np.random.default_rng(3)
    codes, others = rng.integers(0, 50, 2000), rng.integers(0, 50, 2000)
    assert (contingency(np.bincount(codes * 50 + others, minlength=2500).reshape(50, 50)) or 0) < 0.25


def test_what_does_not_vary_has_no_relation() -> None:
    assert contingency(np.array([[20, 30]])) is None
    assert contingency(np.array([[20, 30], [0, 0]])) is None
    frame = table().assign(x=1.0)
    assert relations(frame, frame, COLUMNS).of("x", "y") == (None, None)


def test_nulls_are_a_value_of_their_own() -> None:
    real = table().assign(a=None)
    real.loc[real["x"] > 1, "a"] = "p"
    assert (relations(real, real, COLUMNS).of("x", "a")[0] or 0) > 0.9


def test_values_beyond_the_commonest_are_counted_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = relations(table(), table(), COLUMNS)
    monkeypatch.setattr(module, "MOST_VALUES", 4)
    fewer = relations(table(), table(), COLUMNS)
    assert fewer.of("a", "b") == whole.of("a", "b")
    assert 0.5 < (fewer.of("x", "y")[0] or 0) <= 1


def test_every_kind_of_column_has_relations() -> None:
    found = relations(good().to_pandas(), good(1).to_pandas(), schema())
    assert len(found.real) == len(schema().learned)
