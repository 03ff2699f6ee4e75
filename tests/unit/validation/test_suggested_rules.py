"""Columns that hang on each other in real rows, and not in synthetic ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml

from dp_synth_pipeline.tabular.schema import build
from dp_synth_pipeline.validation import suggested_rules as module
from dp_synth_pipeline.validation.suggested_rules import SuggestedRule, suggested_rules

COLUMNS = build(
    {"came in": pa.date32(), "left": pa.date32(), "cost": pa.float64(), "age": pa.int64(), "a": pa.string()}
)


def stays(rows: int = 500, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    came = pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, rows), "D")
    left = (came + pd.to_timedelta(rng.integers(0, 9, rows), "D")).to_series().dt.date.to_numpy()
    cost, age = 1000 + rng.gamma(2, 50, rows), rng.integers(0, 90, rows)
    return pd.DataFrame({"came in": came.date, "left": left, "cost": cost, "age": age, "a": "x"})


def broken(seed: int = 1) -> pd.DataFrame:
    frame = stays(seed=seed)
    return frame.assign(left=frame["left"].sample(frac=1, random_state=0).to_numpy())


def found(real: pd.DataFrame, synthetic: pd.DataFrame) -> list[SuggestedRule]:
    return suggested_rules(real, synthetic, COLUMNS, np.random.default_rng(5))


def test_an_order_that_synthetic_rows_break_is_suggested_as_a_line_of_yaml() -> None:
    (rule,) = found(stays(), broken())
    assert yaml.safe_load(rule.line) == {"left": {"after": "came in"}}
    assert rule.rows == 500
    assert 0.3 < rule.broken < 0.6
    assert 0.3 < rule.by_chance < 0.6
    assert rule.off > 0.4


def test_an_order_that_a_rule_keeps_with_other_gaps_is_suggested_too() -> None:
    swapped = broken()
    keep = swapped["came in"] <= swapped["left"]
    synthetic = swapped.assign(
        **{
            "came in": swapped["came in"].where(keep, swapped["left"]),
            "left": swapped["left"].where(keep, swapped["came in"]),
        }
    )
    (rule,) = found(stays(), synthetic)
    assert (rule.line, rule.broken) == ("left: {after: came in}", 0.0)
    assert rule.off > 0.5


def test_a_day_that_is_always_that_of_a_moment_is_the_same_and_the_nearest_column_is_what_one_comes_after() -> None:
    rng = np.random.default_rng(2)
    columns = build({"at": pa.timestamp("us"), "day": pa.date32(), "end": pa.date32(), "paid": pa.date32()})
    at = pd.to_datetime("2024-01-01") + pd.to_timedelta(rng.integers(0, 300 * 1440, 800), "m")
    end = at.normalize() + pd.to_timedelta(rng.integers(0, 9, 800), "D")
    paid = end + pd.to_timedelta(rng.integers(1, 30, 800), "D")
    real = pd.DataFrame({"at": at, "day": at.date, "end": end.date, "paid": paid.date})
    synthetic = pd.DataFrame({c: rng.permutation(real[c].to_numpy()) for c in real})
    rules = {r.line for r in suggested_rules(real, synthetic, columns, rng)}
    assert rules == {"day: {same_as: at}", "end: {after: at}", "paid: {after: end}"}
    declared = build({c.name: c.arrow_type for c in columns}, {"day": {"same_as": "at"}, "end": {"after": "day"}})
    assert {r.line for r in suggested_rules(real, synthetic, declared, rng)} == {"paid: {after: end}"}


def test_nothing_is_suggested_where_both_tables_keep_it_or_a_real_row_breaks_it() -> None:
    assert found(stays(), stays(seed=1)) == []
    real = stays()
    real.loc[0, ["came in", "left"]] = real.loc[0, ["left", "came in"]].to_numpy()
    real.loc[0, "came in"] = real["left"].max()
    real.loc[0, "left"] = real["came in"].min()
    assert found(real, broken()) == []


def test_what_chance_would_keep_too_is_no_rule() -> None:
    synthetic = stays(seed=1)
    synthetic.loc[:99, "cost"] = 1.0
    assert found(stays(), synthetic) == [], "every age lies below every cost"


def test_few_rows_prove_no_rule_and_nulls_are_not_judged() -> None:
    real = stays()
    real.loc[50:, "left"] = None
    assert found(real, broken()) == []
    real = stays()
    real.loc[200:, "left"] = None
    assert [r.rows for r in found(real, broken())] == [200]


def test_there_are_at_most_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_RULES", 0)
    assert found(stays(), broken()) == []
