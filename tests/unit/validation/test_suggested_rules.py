"""Rules that real rows keep and synthetic rows break."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml

from dp_synth_pipeline.tabular.constraints import parse
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


def found(real: pd.DataFrame, synthetic: pd.DataFrame, *declared: str) -> list[SuggestedRule]:
    return suggested_rules(real, synthetic, COLUMNS, [parse(r) for r in declared], np.random.default_rng(5))


def test_a_rule_that_synthetic_rows_break_is_suggested_as_a_line_of_yaml() -> None:
    (rule,) = found(stays(), broken())
    (text,) = yaml.safe_load(rule.line)
    assert parse(text).columns == ("came in", "left")
    assert rule.rows == 500
    assert 0.3 < rule.broken < 0.6
    assert 0.3 < rule.by_chance < 0.6


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


def test_a_declared_rule_is_not_suggested_again() -> None:
    assert found(stays(), broken(), '"came in" < left') == []


def test_few_rows_prove_no_rule_and_nulls_are_not_judged() -> None:
    real = stays()
    real.loc[50:, "left"] = None
    assert found(real, broken()) == []
    real = stays()
    real.loc[200:, "left"] = None
    assert [r.rows for r in found(real, broken())] == [200]


def test_there_are_at_most_so_many_and_a_name_that_no_rule_can_hold_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_RULES", 0)
    assert found(stays(), broken()) == []
    monkeypatch.undo()
    columns = build({'the "day"': pa.date32(), "left": pa.date32()})
    renamed = [t[["came in", "left"]].rename(columns={"came in": 'the "day"'}) for t in (stays(), broken())]
    assert suggested_rules(*renamed, columns, [], np.random.default_rng(5)) == []
