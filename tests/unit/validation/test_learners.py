"""What models make of two tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.schema import build
from dp_synth_pipeline.validation.learners import Prediction, ToldApart, auc, features, predict, tell_apart

COLUMNS = build({"x": pa.float64(), "y": pa.float64(), "a": pa.string(), "label": pa.string()})
SEED = 4
"""Of the parts that rows are cut into: by chance, a part that misleads would fail a test once in some hundred runs."""


def table(seed: int, rows: int = 1500) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, a = rng.normal(size=rows), rng.choice(["p", "q", "r"], rows)
    label = np.where(x + (a == "p") + 0.3 * rng.normal(size=rows) > 0.5, "yes", "no")
    return pd.DataFrame({"x": x, "y": 3 * x + 0.1 * rng.normal(size=rows), "a": a, "label": label})


def predicted(real: pd.DataFrame, synthetic: pd.DataFrame, target: str) -> Prediction:
    found = predict(real, synthetic, COLUMNS, target, np.random.default_rng(SEED))
    assert found is not None
    return found


def told(real: pd.DataFrame, synthetic: pd.DataFrame) -> ToldApart:
    found = tell_apart(features(real, synthetic, COLUMNS), np.random.default_rng(SEED))
    assert found is not None
    return found


def test_giveaways_are_looked_for_among_the_named_columns_alone() -> None:
    real, synthetic = table(1), table(2)
    wrong = {name: synthetic[name].sample(frac=1, random_state=3).to_numpy() for name in synthetic.columns}
    both = features(real, pd.DataFrame(wrong), COLUMNS)
    every = tell_apart(both, np.random.default_rng(SEED))
    assert every is not None
    worst = every.giveaways[0][0]
    named = tell_apart(both, np.random.default_rng(SEED), [n for n in both.names if n != worst])
    assert named is not None
    assert named.auc == every.auc
    assert worst not in [n for n, _ in named.giveaways]
    assert tell_apart(both, np.random.default_rng(SEED), both.names) == every


def test_a_fresh_sample_cannot_be_told_apart() -> None:
    found = told(table(1), table(2))
    assert found.auc == pytest.approx(0.5, abs=4 * found.spread)


def test_copies_of_the_real_rows_cannot_be_told_apart_either() -> None:
    found = told(table(1), table(1))
    assert found.auc == pytest.approx(0.5, abs=3 * found.spread)


def test_a_table_whose_columns_were_drawn_by_themselves_is_told_apart_by_those_columns() -> None:
    synthetic = table(2)
    synthetic["y"] = synthetic["y"].sample(frac=1, random_state=1).to_numpy()
    found = told(table(1), synthetic)
    assert found.auc > 0.9
    assert {name for name, _ in found.giveaways[:2]} == {"x", "y"}


def test_a_fresh_sample_teaches_as_well_as_real_rows() -> None:
    found = predicted(table(1), table(2), "label")
    assert found.score == "AUC"
    assert (found.real or 0) > 0.95
    assert found.synthetic == pytest.approx(found.real, abs=0.03)


def test_labels_drawn_by_themselves_teach_nothing() -> None:
    synthetic = table(2)
    synthetic["label"] = synthetic["label"].sample(frac=1, random_state=1).to_numpy()
    found = predicted(table(1), synthetic, "label")
    assert (found.synthetic or 0) == pytest.approx(0.5, abs=0.12)
    assert found.errors_synthetic.mean() > found.errors_real.mean() + 0.2


def test_a_number_is_predicted_by_its_share_of_variance() -> None:
    found = predicted(table(1), table(2), "y")
    assert found.score == "R²"
    assert (found.real or 0) > 0.95
    assert (found.synthetic or 0) > 0.95
    assert found.errors_real.mean() < 0.2


@pytest.mark.parametrize(
    ("two", "drawn"),
    [((0.5, 1.5), (0.5, 1.5)), ((0.0, 1.0), (0.2, 0.9)), ((-1.7e308, 1.7e308), (-5.0, 3.0)), ((1.0, 2.0), (1.0, 2.0))],
    ids=["halves", "fractions", "huge", "one or two"],
)
def test_a_number_of_two_values_is_predicted_as_two_classes(
    two: tuple[float, float], drawn: tuple[float, float]
) -> None:
    """A synthetic value counts as the real one that it lies nearest to."""
    real, synthetic = table(1, 600), table(2, 600)
    for one, (low, high) in ((real, two), (synthetic, drawn)):
        one["y"] = np.where(one["label"] == "yes", high, low)
    found = predicted(real, synthetic, "y")
    assert (found.score, found.error) == ("AUC", "rows predicted wrong")
    assert min(found.real or 0, found.synthetic or 0) > 0.99, "the label tells which"
    assert max(found.errors_real.mean(), found.errors_synthetic.mean()) < 0.01


def test_tested_rows_are_real_rows_that_no_model_learnt_from() -> None:
    real = table(1)
    real.loc[::3, "label"] = None
    found = predicted(real, table(2), "label")
    assert len(found.tested) == len(found.errors_real) == len(found.errors_synthetic)
    assert real["label"].iloc[found.tested].notna().all()
    assert len(set(found.tested)) == len(found.tested) == int(0.3 * real["label"].notna().sum())


def test_synthetic_rows_of_one_class_have_no_score() -> None:
    found = predicted(table(1), table(2).assign(label="yes"), "label")
    assert found.synthetic is None
    assert found.errors_synthetic.mean() == pytest.approx((table(1)["label"] == "no").mean(), abs=0.06)


def test_more_than_two_classes_are_each_told_from_the_rest() -> None:
    real, synthetic = table(1), table(2)
    for t in (real, synthetic):
        t["a"] = np.select([t["x"] < -0.5, t["x"] < 0.5], ["low", "middle"], "high")
    found = predicted(real, synthetic, "a")
    assert (found.synthetic or 0) > 0.95


def test_small_tables_and_constant_targets_teach_nothing() -> None:
    rng = np.random.default_rng()
    assert predict(table(1, 50), table(2), COLUMNS, "label", rng) is None
    assert predict(table(1).assign(label="yes"), table(2), COLUMNS, "label", rng) is None
    assert tell_apart(features(table(1, 50), table(2), COLUMNS), rng) is None


def test_a_column_of_nulls_alone_is_no_lesson_and_breaks_none() -> None:
    schema = build({"x": pa.float64(), "y": pa.float64(), "hole": pa.float64()})
    rng = np.random.default_rng(SEED)
    real, synthetic = (pd.DataFrame({"x": rng.normal(size=600), "hole": np.nan}) for _ in range(2))
    for one in (real, synthetic):
        one["y"] = one["x"] + rng.normal(size=600)
    assert tell_apart(features(real, synthetic, schema), rng) is not None
    found = predict(real, synthetic, schema, "y", rng)
    assert found is not None
    assert found.real is not None


@pytest.mark.parametrize("values", [1, 2])
def test_tables_of_so_few_different_rows_that_one_part_holds_them_all_break_nothing(values: int) -> None:
    schema, rng = build({"x": pa.float64()}), np.random.default_rng(SEED)
    made = [[pd.DataFrame({"x": rng.integers(0, values, 300) * 1.0}) for _ in range(2)] for _ in range(20)]
    told_apart = [tell_apart(features(*both, schema), rng) for both in made]
    assert None in told_apart


def test_an_unknown_target_is_refused() -> None:
    with pytest.raises(InvalidInput, match="'income'"):
        predict(table(1), table(2), COLUMNS, "income", np.random.default_rng())


def test_categories_mean_the_same_in_both_tables() -> None:
    both = features(table(1).assign(a="p"), table(2).assign(a="q"), COLUMNS)
    at = both.names.index("a")
    assert both.categorical[at]
    assert set(both.real[:, at]).isdisjoint(both.synthetic[:, at])


def test_the_auc_counts_ties_half() -> None:
    assert auc(np.array([1.0, 2.0, 2.0, 3.0]), np.array([False, False, True, True])) == pytest.approx(0.875)
    assert auc(np.zeros(4), np.array([True, False, True, False])) == 0.5
    assert auc(np.zeros(2), np.array([True, True])) == 0.5
