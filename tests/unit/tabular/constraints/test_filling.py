"""Filled cells keep rules, and known cells stay what they are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dp_synth_pipeline.tabular.constraints import filled, holds, parse

ROWS = 200


def completed(known: dict, drawn: dict, *texts: str, mapped: dict | None = None):
    """Fill the nulls of `known` from rows that are drawn from `drawn` at random."""
    rng, rules = np.random.default_rng(5), [parse(text) for text in texts]
    table, pool = pa.table(known), pa.table(drawn)
    holes = {name: np.asarray(table.column(name).is_null()) for name in table.column_names}
    rows, good = filled(
        table,
        holes,
        lambda some: pool.take(pa.array(rng.integers(0, pool.num_rows, len(some)))),
        rules,
        mapped={rule: dict(mapped or {}) for rule in rules},
    )
    for name in table.column_names:
        kept = pa.array(~holes[name])
        assert rows.column(name).filter(kept).equals(table.column(name).filter(kept)), "a known cell was changed"
    return rows, good, [holds(rule, rows) for rule in rules]


def nulls(kind: pa.DataType = pa.int64()) -> pa.Array:
    return pa.nulls(ROWS, kind)


@pytest.mark.parametrize("text", ["a <= b", "a < b", "b >= a", "b > a"])
def test_a_comparison_is_kept_on_either_side_and_where_drawing_again_helps_nothing(text: str) -> None:
    known = pa.array(range(ROWS))
    for cells in ({"a": nulls(), "b": known}, {"a": known, "b": nulls()}, {"a": nulls(), "b": nulls()}):
        _, good, kept = completed(cells, {"a": [500, 7, 9], "b": [-500, 8, 3]}, text)
        assert good.all()
        assert kept[0].all()


def test_a_sum_is_kept_by_its_total_or_by_the_last_term_that_was_filled() -> None:
    drawn = {"total": [1, 2], "price": [3, 4], "fee": [5, 6]}
    known = {"total": pa.array([100] * ROWS), "price": pa.array([60, None] * (ROWS // 2)), "fee": nulls()}
    rows, good, kept = completed(known, drawn, "total = price + fee")
    assert good.all()
    assert kept[0].all()
    assert rows.column("fee")[0].as_py() == 40
    _, good, kept = completed(
        {"total": nulls(), "price": nulls(), "fee": pa.array([9] * ROWS)}, drawn, "total = price + fee"
    )
    assert kept[0].all()


@pytest.mark.parametrize(
    "text", ["total = price * count", "total = 0.5 * price / count", "total = price * price / count"]
)
def test_a_product_is_kept_by_its_target_or_by_the_last_factor_that_was_filled(text: str) -> None:
    drawn = {"total": [8.0, 2.0], "price": [4.0, 16.0], "count": [2.0, 4.0]}
    for unknown in ({"total"}, {"price"}, {"count"}, {"total", "count"}, {"price", "count"}, set(drawn)):
        known = {name: nulls(pa.float64()) if name in unknown else pa.array([4.0] * ROWS) for name in drawn}
        _, good, kept = completed(known, drawn, text)
        assert good.all()
        assert kept[0].all()
    zero = {"total": pa.array([1.0] * ROWS), "price": pa.array([0.0] * ROWS), "count": nulls(pa.float64())}
    assert not completed(zero, drawn, "total = price * count")[1].any(), "nothing times 0 is 1"


def test_a_dependency_follows_rows_that_know_it_before_drawn_ones() -> None:
    known = {"country": ["IT", "IT", "FR", None], "money": ["LIRA", None, None, "LIRA"]}
    drawn = {"country": ["IT", "FR"], "money": ["EUR", "EUR"]}
    gives = {("IT",): "EUR", ("FR",): "EUR"}
    rows, good, _ = completed(known, drawn, "country -> money", mapped=gives)
    assert rows.column("money").to_pylist() == ["LIRA", "LIRA", "EUR", "LIRA"]
    assert rows.column("country").to_pylist() == ["IT", "IT", "FR", "IT"]
    assert good.all()


def test_a_rule_of_which_all_is_known_is_not_judged_and_one_that_nothing_keeps_is_told() -> None:
    _, good, kept = completed({"a": [5, 5], "b": [1, 1], "c": [None, 2]}, {"a": [1], "b": [9], "c": [0]}, "a <= b")
    assert good.all()
    assert not kept[0].any()
    _, good, _ = completed(
        {"a": [5], "b": pa.nulls(1, pa.int64()), "c": [1]}, {"a": [1], "b": [9], "c": [0]}, "a <= b", "b <= c"
    )
    assert not good.any()
