"""Whole releases whose rows come to what a rule says, however they are drawn: in Python, saved, and as checked assets."""

import json

import numpy as np
import pandas as pd
import pytest

import dp_synth_pipeline as dps
from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.orchestration import in_process
from dp_synth_pipeline.orchestration.build import build_defs
from dp_synth_pipeline.orchestration.settings import RelatedTablesSettings
from tests.integration.test_databases import ONCE
from tests.integration.test_public_tables import PUBLIC, products, synthesizer

CENTS = 0.99
RELATIONS = {
    "customers": {"key": "customer_id"},
    "orders": {"key": "order_id", "parent": {"customer_id": "customers"}, "max_rows": 4},
    "items": {"parent": {"order_id": "orders"}, "refers": {"product_id": "products"}, "max_rows": 5},
    "products": {"key": "product_id", "public": PUBLIC},
}
RULES = [
    "items.price == products.price",
    "items.name == products.name",
    "items.paid = items.price * items.pieces * (1 - items.off)",
    "orders.total = sum(items.paid)",
    "customers.orders = count(orders)",
]


def tables(customers: int = 800) -> dict[str, pd.DataFrame]:
    """Customers, their orders and what they bought; orders without items come to nothing."""
    rng = np.random.default_rng(8)
    whose = np.repeat(np.arange(customers), rng.integers(0, 4, customers))
    order = np.repeat(np.arange(len(whose)), rng.integers(0, 4, len(whose)))
    goods = products().assign(price=lambda t: t["price"] + CENTS)
    items = pd.DataFrame({"order_id": order, "product_id": rng.choice(goods["product_id"], len(order))})
    items["price"] = items["product_id"].map(goods.set_index("product_id")["price"])
    items["name"] = items["product_id"].map(goods.set_index("product_id")["name"])
    items["pieces"] = rng.integers(1, 4, len(order))
    items["off"] = rng.choice([0.0, 0.15], len(order))
    items["paid"] = (items["price"] * items["pieces"] * (1 - items["off"])).round(2)
    orders = pd.DataFrame({"order_id": np.arange(len(whose)), "customer_id": whose})
    orders["total"] = np.bincount(order, items["paid"], len(whose)).round(2)
    frame = pd.DataFrame({"customer_id": np.arange(customers), "orders": np.bincount(whose, minlength=customers)})
    return {"customers": frame, "orders": orders, "items": items, "products": goods}


def check(drawn: dict[str, pd.DataFrame]) -> None:
    """Check that all rules hold, by joins of one's own."""
    items = drawn["items"].merge(drawn["products"], on="product_id", suffixes=("", " of it"))
    assert len(items) == len(drawn["items"]) > 500
    assert (items["price"] == items["price of it"]).all()
    known = items[items["name"].notna()]  # a null, as of a column of which noise hides all names, stays one
    assert (known["name"] == known["name of it"]).all()
    assert np.allclose(items["paid"], items["price"] * items["pieces"] * (1 - items["off"]), atol=0.0051)
    totals = drawn["items"].groupby("order_id")["paid"].sum()
    assert np.allclose(drawn["orders"]["total"], drawn["orders"]["order_id"].map(totals).fillna(0), atol=1e-6)
    counts = drawn["orders"].groupby("customer_id").size()
    assert (drawn["customers"]["orders"] == drawn["customers"]["customer_id"].map(counts).fillna(0)).all()


def test_orders_are_worth_what_their_items_come_to_also_once_saved(tmp_path):
    fitter, _ = synthesizer(tmp_path, rules=RULES)
    model = fitter.fit(tables(), relations=RELATIONS)
    check(model.sample(900))
    check(dps.load(model.save(tmp_path / "shop.dps")).sample(900))


def test_a_rule_about_rows_that_are_not_there_is_refused_before_anything_is_read(tmp_path):
    fitter, ledger = synthesizer(tmp_path, rules=["orders.total = sum(items.paid_all)"])
    with pytest.raises(InvalidInput, match="there is no column 'paid_all' to publish in items"):
        fitter.fit(tables(), relations=RELATIONS)
    assert {release.state for release in ledger.releases("shop")} == {"voided"}


def test_as_assets_what_rows_come_to_is_checked_from_the_written_tables(tmp_path, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    sourced = {}
    for name, table in tables().items():
        table.to_parquet(tmp_path / f"{name}.parquet", index=False)
        sourced[name] = {**RELATIONS[name], "source": str(tmp_path / f"{name}.parquet")}
    ledger = dps.Ledger.open(f"sqlite:///{tmp_path}/ledger.db")
    ledger.open_account("shop", epsilon=6, delta=1e-5, unit="customer_id")
    asked = {"database": "shop", "account": "shop", "epsilon": 4.0, "tables": sourced, "rules": RULES, "training": ONCE}
    outcome = in_process.refresh(build_defs([RelatedTablesSettings(**asked)]), "shop")
    assert outcome.exit_code == 0, outcome.message
    released = tmp_path / "store/releasable/shop"
    names = [
        c["name"]
        for t in ("customers", "orders", "items")
        for c in json.loads((released / t / "checks.json").read_text())
    ]
    assert {"rule_1__orders_total_eq_sum_items_paid", "rule_1__customers_orders_eq_count_orders"} <= {*names}
    assert not {"price__domain", "paid__domain", "total__domain"} & {*names}, "their own ends do not bind"
    check(
        {
            p.parent.name: pd.read_parquet(p)
            for p in [*released.glob("*/synthetic.parquet"), *released.glob("*/public.parquet")]
        }
    )
