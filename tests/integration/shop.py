"""A made-up shop: customers and their orders, payments below orders, and refunds beside them."""

import numpy as np
import pandas as pd

TOWNS = np.array([f"town {number}" for number in range(20)])
EACH = 3
"""Orders of a customer."""

RELATIONS = {
    "customers": {"key": "customer_id"},
    "orders": {"key": "order_id", "parent": {"customer_id": "customers"}, "order": "ordered", "max_rows": 5},
    "payments": {"parent": {"order_id": "orders"}, "max_rows": 2},
    "refunds": {"parent": {"customer_id": "customers"}, "order": "refunded", "max_rows": 5},
}


def shop(customers: int) -> dict[str, pd.DataFrame]:
    """Make up orders, nine of ten of which go home; payments of four of five in one piece; and refunds of most in full."""
    rng, rows = np.random.default_rng(), customers * EACH
    who, number = np.repeat(np.arange(customers), EACH), np.tile(np.arange(EACH), customers)
    home = rng.integers(0, len(TOWNS), customers)
    ships = np.where(rng.random(rows) < 0.9, home[who], rng.integers(0, len(TOWNS), rows))
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(30 * number + rng.integers(0, 20, rows), unit="D")
    total = np.round(np.exp(rng.normal(3, 1, rows)), 2)
    paid, back = (np.where(rng.random(rows) < 0.8, total, np.round(total / 2, 2)) for _ in range(2))
    orders = {
        "order_id": np.arange(rows),
        "customer_id": who,
        "ordered": day.date,
        "total": total,
        "ships_to": TOWNS[ships],
    }
    refunds = {"customer_id": who, "refunded": (day + pd.to_timedelta(3, unit="D")).date, "given_back": back}
    return {
        "customers": pd.DataFrame({"customer_id": np.arange(customers), "home": TOWNS[home]}),
        "orders": pd.DataFrame(orders),
        "payments": pd.DataFrame({"order_id": np.arange(rows), "amount": paid}),
        "refunds": pd.DataFrame(refunds)[rng.random(rows) < 0.6],
    }


def agreeing(tables: dict[str, pd.DataFrame]) -> dict[str, float]:
    """Return which part of the orders go home, of payments is of the whole order, and of refunds of the whole last order."""
    orders, refunds = tables["orders"].merge(tables["customers"], on="customer_id"), tables["refunds"]
    paid = tables["payments"].merge(orders, on="order_id")
    times = [frame.assign(at=pd.to_datetime(frame[day])) for frame, day in ((refunds, "refunded"), (orders, "ordered"))]
    last = pd.merge_asof(*(frame.sort_values("at", kind="stable") for frame in times), on="at", by="customer_id")
    return {
        "goes home": float((orders["ships_to"] == orders["home"]).mean()),
        "paid in whole": float((paid["amount"] == paid["total"]).mean()),
        "back in whole": float((last["given_back"] == last["total"]).mean()),
    }
