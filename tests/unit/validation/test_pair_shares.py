"""Cells of two columns together."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa

from dp_synth_pipeline.tabular.schema import build
from dp_synth_pipeline.validation.pair_shares import MOST_CELLS, pair_shares

COLUMNS = build({"x": pa.float64(), "a": pa.string(), "n": pa.int64()})


def frame(rows: int = 1000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    names = rng.choice([f"name {i}" for i in range(20)], rows, p=[0.2, *[0.8 / 19] * 19])
    return pd.DataFrame({"x": rng.normal(size=rows), "a": names, "n": np.full(rows, 3)})


def test_the_shares_of_each_table_sum_to_one() -> None:
    (one,) = pair_shares(frame(), frame(300), COLUMNS, [("x", "a")])
    for table in (one.real, one.synthetic):
        assert np.sum(table) == 1 or abs(np.sum(table) - 1) < 1e-9
        assert np.shape(table) == (len(one.left_labels), len(one.right_labels))
    assert one.largest == max(np.max(one.real), np.max(one.synthetic))


def test_there_are_few_cells_and_the_commonest_names_are_kept() -> None:
    (one,) = pair_shares(frame(), frame(), COLUMNS, [("x", "a")])
    assert len(one.left_labels) == MOST_CELLS
    assert len(one.right_labels) == MOST_CELLS
    assert "name 0" in one.right_labels
    assert one.right_labels[-1] == "13 more"


def test_parts_of_a_number_line_are_written_in_signs_and_names_are_left_alone() -> None:
    real = frame().assign(a="over the way to Rome")
    (one,) = pair_shares(real, real, COLUMNS, [("x", "a")])
    assert one.left_labels[0].startswith("≤ ")
    assert one.left_labels[-1].startswith("> ")
    assert all(" \u2013 " in label for label in one.left_labels[1:-1])
    assert one.right_labels == ["over the way to Rome"]


def test_nulls_have_a_cell_only_where_there_are_some() -> None:
    some = frame()
    some.loc[:99, "a"] = None
    (one,) = pair_shares(frame(), some, COLUMNS, [("n", "a")])
    assert one.right_labels[-1] == "missing"
    assert "missing" not in one.left_labels
    assert np.sum([line[-1] for line in one.synthetic]) == 0.1
    assert np.sum([line[-1] for line in one.real]) == 0
