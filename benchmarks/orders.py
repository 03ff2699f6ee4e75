"""Do the orders of a shop agree with themselves? Made-up customers and their orders, of which rare products are dear:

    python benchmarks/orders.py --epsilon 2.6 --reps 3

Whole releases in process: as they are, and without what each part does. A product gives its name, group and price, and a
total is price times quantity. It needs no data and no scorer.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from fresh_home import synthesizer
from names_of_codes import nothing

from dp_synth_pipeline.synthesis.database import learning

CUSTOMERS, PRODUCTS, DEAR = 6_000, 30, 60.0
RELATIONS = {
    "customers": {"key": "customer_id"},
    "orders": {"key": "order_id", "parent": {"customer_id": "customers"}, "order": "ordered", "max_rows": 12},
}
CATALOGUE = {"key": "product", "public": {"why": "it is on the web", "by": "the shop"}}
REFERRING = {**RELATIONS, "orders": {**RELATIONS["orders"], "refers": {"product": "catalogue"}}, "catalogue": CATALOGUE}
LOOKED_UP = [f"orders.{column} == catalogue.{column}" for column in ("name", "group", "price")]
FIGURES = ("name %", "group %", "price %", "total %", "dear %", "1-way of products")


def shop(rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    """Return customers and their orders, 2.2 each on the average."""
    customers = pd.DataFrame({"customer_id": np.arange(CUSTOMERS), "sex": rng.choice(["f", "m"], CUSTOMERS)})
    customers["city"] = rng.choice(["Bern", "Basel", "Chur", "Genf"], CUSTOMERS, p=[0.4, 0.3, 0.2, 0.1])
    whose = np.repeat(customers["customer_id"], rng.poisson(2.2, CUSTOMERS)).to_numpy()
    shares = 1 / np.arange(1, PRODUCTS + 1)
    product = rng.choice(PRODUCTS, len(whose), p=shares / shares.sum())
    day = pd.Timestamp("2023-01-01") + pd.to_timedelta(np.sort(rng.integers(0, 700, len(whose))), unit="D")
    orders = pd.DataFrame({"order_id": np.arange(len(whose)), "customer_id": whose, "ordered": day})
    orders["product"] = [f"P{p:03d}" for p in product]
    orders["name"] = [f"article {p}" for p in product]
    orders["group"] = [f"group {p % 6}" for p in product]
    orders["price"] = np.round(5 * 1.12**product, 2)
    orders["quantity"] = rng.choice([1, 2, 3, 4], len(whose), p=[0.6, 0.25, 0.1, 0.05])
    orders["total"] = (orders["price"] * orders["quantity"]).round(2)
    return {"customers": customers, "orders": orders}


def figures(real: pd.DataFrame, drawn: pd.DataFrame) -> list[float]:
    """Return in how many rows of 100 each is what it must be, how many are dear, and how far products are from real ones."""
    gives = [drawn["product"].map(real.groupby("product")[c].first()) == drawn[c] for c in ("name", "group", "price")]
    total = (drawn["price"] * drawn["quantity"] - drawn["total"]).abs() < 0.006
    shares = [t["product"].value_counts(normalize=True) for t in (real, drawn)]
    distance = shares[0].sub(shares[1], fill_value=0).abs().sum() / 2
    return [*(100 * float(part.mean()) for part in (*gives, total, drawn["price"] > DEAR)), float(distance)]


def released(epsilon: float, how: str) -> list[float]:
    """Return the figures of one release."""
    tables, relations = shop(np.random.default_rng()), RELATIONS
    settings: dict[str, Any] = {"find_formulas": False} if how == "no formulas" else {}
    if how == "with a catalogue":
        relations, settings = REFERRING, {"rules": LOOKED_UP}
        tables["catalogue"] = tables["orders"].groupby("product")[["name", "group", "price"]].first().reset_index()
    with WAYS[how](), synthesizer("shop", epsilon, unit="customer_id", **settings) as fitter:
        drawn = fitter.fit(tables, relations=relations).sample(CUSTOMERS)["orders"]
    return figures(tables["orders"], drawn)


@contextmanager
def whole() -> Iterator[None]:
    """Leave a release as it is."""
    yield


@contextmanager
def imputed() -> Iterator[None]:
    """Level to rows in which released categories stand for others, as an earlier version did."""
    begin = learning._Drawn.__init__

    def begun(self: learning._Drawn, *of: object) -> None:
        begin(self, *of)  # type: ignore[arg-type]
        self._following = replace(self._following, imputes=True)

    with patch.object(learning._Drawn, "__init__", begun):
        yield


WAYS = {
    "**drawn**": whole,
    "with a catalogue": whole,
    "no formulas": whole,
    "nothing found of codes": nothing,
    "levelled to imputed rows": imputed,
}


def main() -> None:
    """Print one line of Markdown for each way: medians of the runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=2.6)
    parser.add_argument("--reps", type=int, default=1)
    asked = parser.parse_args()
    print(f"| rows | {' | '.join(FIGURES)} |\n|{'---|' * (len(FIGURES) + 1)}")
    one, other = (shop(np.random.default_rng())["orders"] for _ in range(2))
    print(f"| other real rows | {' | '.join(f'{x:.3g}' for x in figures(one, other))} |", flush=True)
    for how in WAYS:
        runs = [released(asked.epsilon, how) for _ in range(asked.reps)]
        print(f"| {how} | {' | '.join(f'{statistics.median(x):.3g}' for x in zip(*runs, strict=True))} |", flush=True)


if __name__ == "__main__":
    main()
