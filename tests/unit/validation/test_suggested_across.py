"""What rows come to and what a public table says is suggested where all real rows keep it and synthetic ones do not."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dp_synth_pipeline.relations.structure import PublicTable, Related, Relations
from dp_synth_pipeline.tabular.schema import build
from dp_synth_pipeline.validation.related_frames import RelatedFrame
from dp_synth_pipeline.validation.suggested_across import suggested_across

MOST = 4
RELATIONS = Relations(
    [
        Related("orders", key="order_id"),
        Related("items", parent="orders", reference="order_id", max_rows=MOST, refers=(("product", "products"),)),
    ],
    [PublicTable("products", "sku")],
)
ID = {"kind": "identifier"}
SOURCES = {
    "orders": build({"order_id": pa.int64(), "total": pa.float64(), "n": pa.int64()}, {"order_id": ID}),
    "items": build(
        {
            "order_id": pa.int64(),
            "product": pa.string(),
            "paid": pa.float64(),
            "price": pa.float64(),
            "group": pa.string(),
        },
        {"order_id": ID},
    ),
}
PRODUCTS = pa.table({"sku": [1, 2, 3, 4], "price": [0.1, 2.5, 40.0, 7.0], "group": ["a", "b", "a", "c"]})


def frames(seed: int, orders: int = 400) -> dict[str, RelatedFrame]:
    """Return orders with up to three items each, whose rows keep all that a rule could say."""
    rng = np.random.default_rng(seed)
    whose = np.repeat(np.arange(orders), rng.integers(0, MOST, orders))
    product, said = rng.integers(0, 4, len(whose)), PRODUCTS.to_pandas()
    items = pd.DataFrame(
        {"product": said["sku"].astype(str).to_numpy()[product], "paid": rng.integers(1, 900, len(whose)) / 100}
    )
    items["price"], items["group"] = said["price"].to_numpy()[product], said["group"].to_numpy()[product]
    counts = np.bincount(whose, minlength=orders)
    above = pd.DataFrame({"total": np.bincount(whose, items["paid"], orders).round(2), "n": counts})
    return {"orders": RelatedFrame(above, None, np.arange(orders)), "items": RelatedFrame(items, whose, whose)}


def shuffled(of: dict[str, RelatedFrame], table: str, column: str) -> dict[str, RelatedFrame]:
    rows = of[table].rows.copy()
    rows[column] = np.random.default_rng(9).permutation(rows[column])
    return {**of, table: RelatedFrame(rows, of[table].parent, of[table].person)}


def suggested(real, synthetic, public=None) -> list[str]:
    rng, tables = np.random.default_rng(0), {"products": PRODUCTS if public is None else public}
    return [rule.text for rule in suggested_across(RELATIONS, SOURCES, (real, synthetic), tables, rng)]


WAYS = [
    ("orders", "total", "orders.total = sum(items.paid)"),
    ("orders", "n", "orders.n = count(items)"),
    ("items", "price", "items.price == products.price"),
    ("items", "group", "items.group == products.group"),
]


@pytest.mark.parametrize(("table", "column", "rule"), WAYS)
def test_what_synthetic_rows_break_is_suggested_and_nothing_else(table, column, rule):
    assert suggested(frames(1), shuffled(frames(2), table, column)) == [rule]


@pytest.mark.parametrize(("table", "column", "rule"), WAYS)
def test_what_one_real_row_breaks_is_not_suggested(table, column, rule):
    real = frames(1)
    real[table].rows.loc[7, column] = 99 if column != "group" else "z"
    assert suggested(real, shuffled(frames(2), table, column)) == []


def test_what_synthetic_rows_keep_needs_no_rule():
    assert suggested(frames(1), frames(2)) == []


def test_parents_of_whom_rows_may_have_been_left_out_say_nothing_against_a_sum():
    real = frames(1)
    full = np.bincount(real["items"].parent, minlength=400) == 3
    real["orders"].rows.loc[full, "total"] += 5
    broken = shuffled(frames(2), "orders", "total")
    assert suggested(real, broken) == []
    fewer = Relations(
        [RELATIONS["orders"], Related("items", parent="orders", reference="order_id", max_rows=3)], RELATIONS.public
    )
    told = suggested_across(fewer, SOURCES, (real, broken), {}, np.random.default_rng(0))
    assert [rule.text for rule in told] == ["orders.total = sum(items.paid)"]


def test_few_rows_say_nothing():
    assert suggested(frames(1, 40), shuffled(frames(2), "orders", "total")) == []


def test_a_row_whose_public_row_is_not_there_says_nothing():
    real, drawn = frames(1), shuffled(frames(2), "items", "price")
    assert suggested(real, drawn, PRODUCTS.slice(1)) == ["items.price == products.price"]


def test_what_chance_would_keep_too_says_nothing():
    real, drawn = frames(1), frames(2)
    real["items"] = RelatedFrame(real["items"].rows[:400], np.arange(400), np.arange(400))
    real["orders"].rows["n"] = 1
    assert suggested(real, shuffled(drawn, "orders", "n")) == []


def test_of_two_columns_that_refer_to_one_table_none_is_looked_up():
    twice = Related(
        "items",
        parent="orders",
        reference="order_id",
        max_rows=MOST,
        refers=(("product", "products"), ("group", "products")),
    )
    relations = Relations([RELATIONS["orders"], twice], RELATIONS.public)
    both = frames(1), shuffled(frames(2), "items", "price")
    assert suggested_across(relations, SOURCES, both, {"products": PRODUCTS}, np.random.default_rng(0)) == []
