"""Shares: which groups are drawn, how many of each, and what is refused."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.synthesis.rebalancing import groups, planned


def holds(sql: str, table: pa.Table) -> np.ndarray:
    with duckdb.connect() as con:
        con.register("drawn", table)
        return con.sql(f"SELECT coalesce({sql}, false) AS held FROM drawn").fetchnumpy()["held"]


def never() -> pa.Table:
    raise AssertionError("one column needs no rows to plan with")


def test_one_column_is_divided_to_the_row() -> None:
    plan = planned({"y": {"yes": 1 / 3, None: 0.25}}, 10, never, holds)
    assert plan == [
        ("\"y\" = 'yes'", 3),
        ('"y" IS NULL', 3),
        ('("y" NOT IN (\'yes\') AND "y" IS NOT NULL)', 4),
    ]


def test_parts_that_leave_nothing_need_no_other_values() -> None:
    assert planned({"y": {"a": 0.5, "b": 0.5}}, 7, never, holds) == [("\"y\" = 'a'", 4), ("\"y\" = 'b'", 3)]
    assert planned({"y": {"a": 1.0, "b": 0.0}}, 7, never, holds) == [("\"y\" = 'a'", 7)]


def test_several_columns_keep_how_they_hang_together() -> None:
    """Iterative proportional fitting keeps the odds ratio of the rows that it starts from."""
    cells = {("a", "p"): 400, ("a", "q"): 100, ("b", "p"): 200, ("b", "q"): 300}
    drawn = pa.table({n: [c[i] for c, k in cells.items() for _ in range(k)] for i, n in enumerate(("x", "z"))})
    plan = dict(planned({"x": {"a": 0.8}, "z": {"p": 0.5}}, 100_000, lambda: drawn, holds))
    (ap, aq, bp, bq) = plan.values()
    assert ap + aq == pytest.approx(80_000, abs=50)
    assert ap + bp == pytest.approx(50_000, abs=50)
    assert ap * bq / (aq * bp) == pytest.approx(400 * 300 / (100 * 200), rel=0.02)


def test_parts_that_no_rows_can_have_at_once_are_refused() -> None:
    drawn = pa.table({"x": ["a"] * 50 + ["b"] * 50, "z": ["p"] * 50 + ["q"] * 50})
    with pytest.raises(InvalidInput, match="all these shares at once"):
        planned({"x": {"a": 0.9}, "z": {"p": 0.1}}, 100, lambda: drawn, holds)


@pytest.mark.parametrize(
    ("share", "message"),
    [
        ({"y": {"a": 0.7, "b": 0.6}}, "add up to 1.3"),
        ({"y": {"a": -0.1}}, "between 0 and 1"),
        ({"y": {"a": "half"}}, "between 0 and 1"),
        ({"y": {"a": True}}, "between 0 and 1"),
        ({"y": {}}, "parts of all rows"),
        ({}, "parts of all rows"),
        ({"y": 0.5}, "parts of all rows"),
        ({c: dict.fromkeys(range(8), 0.1) for c in "ab"}, "81 groups"),
    ],
)
def test_what_are_no_shares_is_refused(share, message) -> None:
    with pytest.raises(InvalidInput, match=message):
        groups(share)
