"""Drawn rows keep rules about what the rows below them come to, however rules hang on each other."""

import numpy as np
import pyarrow as pa
import pytest

from dp_synth_pipeline.relations.structure import PublicTable, Related, Relations
from dp_synth_pipeline.synthesis.database.drawn_rows import Rows
from dp_synth_pipeline.synthesis.database.rule_keeping import RuleKeeping
from dp_synth_pipeline.tabular.constraints import parse
from dp_synth_pipeline.tabular.schema import build

RELATIONS = Relations(
    [
        Related("customers", key="customer_id"),
        Related("orders", key="order_id", parent="customers", reference="customer_id", max_rows=5),
        Related("items", parent="orders", reference="order_id", max_rows=9, refers=(("product", "products"),)),
    ],
    [PublicTable("products", "product")],
)
ID = {"kind": "identifier"}
SOURCES = {
    "customers": build({"customer_id": pa.int64(), "n": pa.int64(), "rebate": pa.float64()}, {"customer_id": ID}),
    "orders": build(
        {"order_id": pa.int64(), "customer_id": pa.int64(), "total": pa.float64(), "rebate": pa.float64()},
        {"customer_id": ID, "order_id": ID},
    ),
    "items": build(
        {
            "order_id": pa.int64(),
            "product": pa.string(),
            "price": pa.float64(),
            "pieces": pa.int64(),
            "paid": pa.float64(),
        },
        {"order_id": ID},
    ),
    "products": build({"product": pa.string(), "price": pa.float64()}, {}),
}
PRODUCTS = pa.table({"product": ["dear", "cheap"], "price": [500.0, 0.35]})


def draw(persons, rng=np.random.default_rng(3)):
    orders = np.repeat(np.arange(persons), rng.integers(0, 4, persons))
    items = np.repeat(np.arange(len(orders)), rng.integers(0, 5, len(orders)))
    values = {
        "customers": {"n": rng.integers(0, 9, persons), "rebate": rng.choice([0.0, 0.1], persons)},
        "orders": {"total": rng.normal(50, 9, len(orders)), "rebate": rng.choice([0.0, 0.1], len(orders))},
        "items": {
            "product": rng.choice(["dear", "cheap"], len(items), p=[0.1, 0.9]),
            "price": rng.normal(5, 1, len(items)),
            "pieces": rng.integers(1, 9, len(items)),
            "paid": rng.normal(5, 1, len(items)),
        },
    }
    parent, root = {"customers": None, "orders": orders, "items": items}, [np.arange(persons), orders, orders[items]]
    return {
        name: Rows(pa.table(cells), np.zeros((len(whose), 1), np.int64), parent[name], whose)
        for (name, cells), whose in zip(values.items(), root, strict=True)
    }


def kept(*rules, facts=None, persons=800):
    public, rng = {"products": PRODUCTS}, np.random.default_rng(5)
    keeping = RuleKeeping.of(RELATIONS, SOURCES, [parse(r) for r in rules], facts or {}, rng, public=public)
    drawn, replaced = keeping.kept(draw(persons), draw, rng)
    return {name: rows.values.to_pandas() for name, rows in drawn.items()}, drawn, replaced


def added(values, whose, rows):
    return np.bincount(whose, values, rows)


def test_an_order_is_worth_what_its_items_cost_which_the_catalogue_says():
    rules = (
        "orders.total = sum(items.paid)",
        "items.paid = items.price * items.pieces * (1 - customers.rebate)",
        "items.price == products.price",
    )
    frames, drawn, replaced = kept(*rules, facts={"items": ({}, {"paid": 2}), "orders": ({}, {"total": 2})})
    items, whose = frames["items"], drawn["items"].parent
    prices = items["product"].map({"dear": 500.0, "cheap": 0.35})
    rebate = frames["customers"]["rebate"].to_numpy()[drawn["items"].root]
    assert (items["price"] == prices).all()
    assert np.allclose(items["paid"], np.round(prices * items["pieces"] * (1 - rebate), 2), atol=0.006)
    totals = added(items["paid"], whose, len(frames["orders"]))
    assert np.allclose(frames["orders"]["total"], totals, atol=1e-6)
    assert (frames["orders"]["total"] == frames["orders"]["total"].round(2)).all(), "as prices are written"
    assert (totals == 0).any(), "an order without items costs nothing"
    assert replaced == 0, "all is computed, so nobody gives way"


def test_rows_are_counted_and_those_of_grandchildren_added_up():
    frames, drawn, _ = kept("customers.n = count(orders)", "customers.rebate = sum(items.pieces)")
    assert (frames["customers"]["n"] == np.bincount(drawn["orders"].root, minlength=800)).all()
    assert (frames["customers"]["rebate"] == added(frames["items"]["pieces"], drawn["items"].root, 800)).all()


def test_what_is_read_downwards_may_hang_on_what_is_read_upwards():
    rules = (
        "orders.total = sum(items.paid)",
        "items.paid == orders.rebate",
        "orders.rebate == customers.rebate",
        "customers.n = count(items)",
    )
    frames, drawn, _ = kept(*rules)
    rebate = frames["customers"]["rebate"].to_numpy()
    assert (frames["orders"]["rebate"] == rebate[drawn["orders"].root]).all()
    assert (frames["items"]["paid"] == rebate[drawn["items"].root]).all()
    assert np.allclose(
        frames["orders"]["total"], added(frames["items"]["paid"], drawn["items"].parent, len(frames["orders"]))
    )
    assert (frames["customers"]["n"] == np.bincount(drawn["items"].root, minlength=800)).all()


def test_a_dear_product_stays_though_its_price_lies_beyond_what_was_released_of_prices():
    ends = {"items": ({"price": (1.0, 9.0), "paid": (0.0, 50.0)}, {})}
    frames, _, replaced = kept("items.price == products.price", "items.paid = items.price * items.pieces", facts=ends)
    assert replaced == 0
    assert (frames["items"]["price"] == 500).mean() == pytest.approx(0.1, abs=0.03)


def test_a_comparison_with_what_rows_come_to_is_kept_by_whole_persons():
    frames, drawn, replaced = kept("sum(items.pieces) <= 12")
    assert replaced > 0
    assert added(frames["items"]["pieces"], drawn["items"].parent, len(frames["orders"])).max() <= 12


def test_a_row_that_refers_to_nothing_is_not_judged():
    first = draw(50)
    items = first["items"].values
    nothing = items.set_column(0, "product", pa.nulls(items.num_rows, pa.string()))
    first["items"] = Rows(nothing, first["items"].codes, first["items"].parent, first["items"].root)
    rng = np.random.default_rng(1)
    rules, public = [parse("items.price == products.price")], {"products": PRODUCTS}
    drawn, replaced = RuleKeeping.of(RELATIONS, SOURCES, rules, {}, rng, public=public).kept(first, draw, rng)
    assert replaced == 0
    assert drawn["items"].values["price"].equals(items["price"])
