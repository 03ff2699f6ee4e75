"""After enforcement every rule holds, whatever was drawn."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_synth_pipeline.tabular.constraints import enforced, holds, parse

SMALL = st.integers(-20, 20)
MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2029, 12, 31))
COLUMNS = {
    "a": (pa.int32(), SMALL),
    "b": (pa.int64(), SMALL),
    "c": (pa.int16(), SMALL),
    "x": (pa.float64(), st.floats(-50, 50).map(lambda v: round(v, 2))),
    "y": (pa.float64(), st.floats(-50, 50).map(lambda v: round(v, 2)) | st.just(float("nan"))),
    "total": (pa.float64(), st.floats(-50, 50)),
    "whole": (pa.int64(), SMALL),
    "key": (pa.string(), st.sampled_from("pqrs")),
    "value": (pa.string(), st.sampled_from("uvw")),
    "start": (pa.timestamp("us"), MOMENTS),
    "end": (pa.timestamp("us"), MOMENTS),
}
SOLUBLE = [
    "a <= b",
    "b <= c",
    "x <= y",
    "start <= end",
    "total = x + y",
    "whole = a - b",
    "key -> value",
    "a, b -> value",
]
SOLUBLE += ["c >= 3", "x < 7.5"]
DIGITS = {"x": 2, "y": 2, "total": 2}


@st.composite
def tables(draw) -> pa.Table:
    rows = draw(st.integers(1, 12))
    cells = {n: draw(st.lists(values | st.none(), min_size=rows, max_size=rows)) for n, (_, values) in COLUMNS.items()}
    return pa.table({n: pa.array(v, COLUMNS[n][0], from_pandas=False) for n, v in cells.items()})


def source(whole: pa.Table):
    def draw(rows: int) -> pa.Table:
        return whole.take(pa.array(np.random.default_rng().integers(0, whole.num_rows, rows)))

    return draw


@settings(max_examples=40)
@given(tables(), st.lists(st.sampled_from(SOLUBLE), min_size=1, max_size=4, unique=True), st.integers(1, 60))
def test_every_rule_holds_on_every_row_and_the_row_count_is_the_one_asked_for(whole, texts, rows) -> None:
    rules = [parse(t) for t in texts]
    found = pa.concat_tables(enforced(source(whole), rows, rules, digits=DIGITS))
    assert found.num_rows == rows
    assert found.schema == whole.schema
    for rule in rules:
        assert holds(rule, found, DIGITS).all(), rule.text


@settings(max_examples=40)
@given(tables(), st.sampled_from(SOLUBLE))
def test_nulls_stay_nulls_and_come_from_nowhere(whole, text) -> None:
    def draw(rows: int) -> pa.Table:
        return whole.take(pa.array(np.arange(rows) % whole.num_rows))

    found = pa.concat_tables(enforced(draw, whole.num_rows, [parse(text)], digits=DIGITS))
    full = {n for n in whole.schema.names if whole[n].null_count == 0}
    assert {n for n in whole.schema.names if found[n].null_count == 0} >= full


@pytest.mark.parametrize("text", SOLUBLE)
def test_rows_that_keep_the_rule_already_pass_unchanged(text) -> None:
    columns = {"a": [1], "b": [2], "c": [3], "x": [0.5], "y": [1.0], "total": [1.5], "whole": [-1], "key": ["p"]}
    moment = np.array(["2020-01-01"], dtype="datetime64[us]")
    whole = pa.table({**columns, "value": ["u"], "start": pa.array(moment), "end": pa.array(moment)})
    assert pa.concat_tables(enforced(source(whole), 1, [parse(text)], digits=DIGITS)).equals(whole)


def test_rejection_leaves_null_rates_as_they_were_drawn() -> None:
    """Only rows without nulls can break a comparison: were they simply drawn again, nulls would take their places."""
    rng = np.random.default_rng()

    def draw(rows: int) -> pa.Table:
        return pa.table({n: pa.array(rng.integers(0, 100, rows), mask=rng.random(rows) < 0.2) for n in ("a", "b")})

    found = pa.concat_tables(enforced(draw, 40_000, [parse("a < b")]))
    for name in ("a", "b"):
        assert abs(found[name].null_count / 40_000 - 0.2) < 0.02
