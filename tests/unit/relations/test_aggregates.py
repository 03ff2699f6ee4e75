"""Rules may speak of what the rows below a row come to: what that is, and which table's rows they judge."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.relations import aggregates, ruling
from dp_synth_pipeline.relations.structure import Related, Relations
from dp_synth_pipeline.tabular.constraints import parse
from dp_synth_pipeline.tabular.schema import build

RELATIONS = Relations(
    [
        Related("customers", key="customer_id"),
        Related("orders", key="order_id", parent="customers", reference="customer_id", order="day", max_rows=5),
        Related("items", parent="orders", reference="order_id", max_rows=9),
        Related("calls", parent="customers", reference="customer_id", max_rows=9),
    ]
)
SOURCES = {
    "customers": build({"customer_id": pa.int64(), "n": pa.int64(), "spent": pa.float64()}, {}),
    "orders": build({"order_id": pa.int64(), "customer_id": pa.int64(), "day": pa.date32(), "total": pa.float64()}, {}),
    "items": build({"order_id": pa.int64(), "amount": pa.float64(), "pieces": pa.int32(), "title": pa.string()}, {}),
    "calls": build({"customer_id": pa.int64(), "seconds": pa.int64()}, {}),
}


@pytest.mark.parametrize(
    ("rule", "table"),
    [
        ("orders.total = sum(items.amount)", "orders"),
        ("customers.spent = sum(items.amount)", "customers"),
        ("customers.n = count(orders)", "customers"),
        ("sum(items.amount) <= 1000", "orders"),
        ("sum(items.amount) <= customers.spent", "customers"),
        ("orders.total >= max(items.amount)", "orders"),
    ],
)
def test_a_rule_judges_the_rows_that_others_come_to(rule, table):
    assert ruling.judged(parse(rule), RELATIONS).name == table
    ruling.check([parse(rule)], SOURCES)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("items.amount = sum(items.amount)", "no row of items hangs on one of items"),
        ("orders.total = sum(calls.seconds)", "no row of calls hangs on one of orders"),
        ("orders.total = sum(nowhere.amount)", "'nowhere' is no table with a parent"),
        ("orders.total = sum(customers.spent)", "'customers' is no table with a parent"),
        ("orders.total = sum(items)", "name a column"),
        ("sum(items.amount) <= count(calls)", "no row of calls hangs on one of orders"),
        ("customers.n = count(orders.total)", r"as count\(orders\)"),
    ],
)
def test_rows_that_hang_on_none_that_a_rule_judges_come_to_nothing(rule, said):
    with pytest.raises(InvalidInput, match=said):
        ruling.judged(parse(rule), RELATIONS)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("orders.total = sum(items.price)", "there is no column 'price'"),
        ("orders.total = sum(items.title)", "sum takes numbers, but title is category"),
        ("orders.total = max(items.title)", "max takes numbers or times"),
        ("customers.n = sum(orders.day)", "sum takes numbers, but day is date"),
    ],
)
def test_what_cannot_be_added_is_refused_before_anything_is_read(rule, said):
    with pytest.raises(InvalidInput, match=said):
        ruling.check([parse(rule)], SOURCES)


def test_a_column_whose_type_is_measured_later_cannot_be_added_yet():
    with pytest.raises(InvalidInput, match=r"the type of items\.amount is measured"):
        ruling.check([parse("orders.total = sum(items.amount)")], SOURCES, {"items": ["amount"]})


OWNER = np.array([0, 2, 2, -1, 2])
CELLS = pa.array([1.25, 0.1, 0.2, 99.0, None])


@pytest.mark.parametrize(
    ("name", "cells", "come_to"),
    [
        ("sum(items.amount)", CELLS, [1.25, 0.0, 0.3, 0.0]),
        ("min(items.amount)", CELLS, [1.25, None, 0.1, None]),
        ("max(items.amount)", CELLS, [1.25, None, 0.2, None]),
        ("count(items)", None, [1, 0, 3, 0]),
        ("sum(items.pieces)", pa.array([1, 2, 3, 9, None], pa.int32()), [1, 0, 5, 0]),
        ("max(items.amount)", pa.array([1e-12, 2e-12, 0, 9, None]), [1e-12, None, 2e-12, None]),
    ],
)
def test_rows_come_to_what_they_add_up_to_and_rows_of_nobody_to_nothing(name, cells, come_to):
    (one,) = aggregates.of_rule(parse(f"orders.total = {name}"))
    assert aggregates.values(one, cells, OWNER, 4, None).to_pylist() == come_to


def test_a_sum_has_the_digits_of_what_is_added():
    (one,) = aggregates.of_rule(parse("orders.total = sum(items.amount)"))
    assert sum([0.1] * 3) != 0.3, "else this shows nothing"
    for digits in (None, 2):
        assert aggregates.values(one, pa.array([0.1] * 3), np.zeros(3, int), 1, digits).to_pylist() == [0.3]
    assert aggregates.values(one, pa.array([0.333] * 2), np.zeros(2, int), 1, 2).to_pylist() == [0.67]


def test_what_a_rule_computes_of_a_tables_own_columns_is_told_without_what_lies_elsewhere():
    rules = [parse("customers.n = count(orders)"), parse("customers.spent = sum(items.amount) - customers.n")]
    assert ruling.computed(rules, "customers") == {"n": (), "spent": ("n",)}
    assert ruling.computed(rules, "orders") == {}
    assert ruling.tables_of(rules) == {"customers", "orders", "items"}


def test_a_sum_of_decimals_holds_more_than_each_of_them():
    (one,) = aggregates.of_rule(parse("orders.total = sum(items.amount)"))
    cells = pa.array([Decimal("9.99")] * 30, pa.decimal128(3, 2))
    assert aggregates.values(one, cells, np.zeros(30, int), 1, 2).to_pylist() == [Decimal("299.70")]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("sum(items.amount) = orders.total", "orders.total"),
        ("orders.total == sum(items.amount)", "orders.total"),
        ("customers.spent == orders.total", "orders.total"),
        ("customers.spent >= orders.total", "customers.spent"),
    ],
)
def test_an_equality_is_read_so_that_the_column_of_the_judged_row_follows(text, left):
    rule = ruling.read(text, RELATIONS)
    assert (rule.left, rule.text) == (left, text)
