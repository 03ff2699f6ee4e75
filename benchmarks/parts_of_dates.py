"""Whether parts of dates agree with them in related tables, and what hangs on a part is learnt:

    python benchmarks/parts_of_dates.py --epsilon 2.5 --reps 3

Made-up customers and their orders, which stand beside the year, month, quarter and weekday of their date, and whether that
is at a weekend. Ice is bought in summer. It needs no data and no scorer.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

import numpy as np
import pandas as pd
from fresh_home import synthesizer

CUSTOMERS, SUMMER = 5_000, (5, 6, 7, 8)
FIGURES = ("year %", "month %", "quarter %", "weekday %", "weekend %", "ice in summer %", "ice else %", "birth month %")
ORDERS = {"key": "order_id", "parent": {"customer_id": "customers"}, "order": "ordered", "max_rows": 8}
PARTS = {"customers": ("birth_month",), "orders": ("order_year", "order_month", "quarter", "weekday", "is_weekend")}


def parts_of(dates: pd.Series) -> dict[str, pd.Series]:
    """Return what an order says of its date."""
    days = dates.dt.day_of_week
    named = {"order_month": dates.dt.month_name(), "quarter": "Q" + dates.dt.quarter.astype(str)}
    return {"order_year": dates.dt.year, **named, "weekday": dates.dt.day_name(), "is_weekend": days >= 5}


def shop() -> dict[str, pd.DataFrame]:
    """Return customers, and their orders of other days than Sunday."""
    rng = np.random.default_rng()
    who = np.repeat(np.arange(CUSTOMERS), rng.poisson(3, CUSTOMERS))
    first = np.datetime64("2020-01-01") + rng.integers(0, 700, CUSTOMERS)
    days = pd.Series(rng.geometric(1 / 60, len(who))).groupby(who).cumsum()
    ordered = pd.Series(first[who].astype("datetime64[ns]")) + pd.to_timedelta(days, unit="D")
    ordered += pd.to_timedelta((ordered.dt.day_of_week == 6).astype(int), unit="D")
    ice = rng.random(len(who)) < np.where(ordered.dt.month.isin(SUMMER), 0.7, 0.1)
    product = np.where(ice, "ice", rng.choice(["bread", "milk", "soup"], len(who)))
    known = {"order_id": np.arange(len(who)), "customer_id": who, "ordered": ordered.dt.date}
    orders = pd.DataFrame(
        {**known, **parts_of(ordered), "product": product, "amount": rng.gamma(2, 20, len(who)).round(2)}
    )
    born = pd.Series(np.datetime64("1950-01-01") + rng.integers(0, 18_000, CUSTOMERS)).astype("datetime64[ns]")
    told = {"born": born.dt.date, "birth_month": born.dt.month, "region": rng.choice(list("NSWE"), CUSTOMERS)}
    return {"customers": pd.DataFrame({"customer_id": np.arange(CUSTOMERS), **told}), "orders": orders}


def figures(drawn: dict[str, pd.DataFrame]) -> list[float]:
    """Return the shares of rows in percent, by `FIGURES`."""
    orders, born = drawn["orders"], pd.to_datetime(drawn["customers"]["born"])
    ordered = pd.to_datetime(orders["ordered"])
    agree = [(values.to_numpy() == orders[name].to_numpy()).mean() for name, values in parts_of(ordered).items()]
    ice, summer = orders["product"] == "ice", ordered.dt.month.isin(SUMMER)
    of_customers = (born.dt.month == drawn["customers"]["birth_month"]).mean()
    return [100 * float(x) for x in (*agree, ice[summer].mean(), ice[~summer].mean(), of_customers)]


def released(epsilon: float, *, apart: bool) -> list[float]:
    """Return the figures of one release, in which parts stand by themselves or are looked for."""
    relations: dict[str, dict[str, Any]] = {"customers": {"key": "customer_id"}, "orders": dict(ORDERS)}
    if apart:
        for table, names in PARTS.items():
            relations[table]["columns"] = {name: {"after": False} for name in names}
    with synthesizer("shop", epsilon, unit="customer_id") as model:
        return figures(model.fit(shop(), relations=relations).sample())


def main() -> None:
    """Print one line of Markdown for each way: medians of the runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=2.5)
    parser.add_argument("--reps", type=int, default=1)
    asked = parser.parse_args()
    print(f"| rows | {' | '.join(FIGURES)} |\n|{'---|' * (len(FIGURES) + 1)}")
    print(f"| real | {' | '.join(f'{x:.0f}' for x in figures(shop()))} |", flush=True)
    for name, apart in (("drawn, each column by itself", True), ("**drawn**", False)):
        runs = [released(asked.epsilon, apart=apart) for _ in range(asked.reps)]
        print(f"| {name} | {' | '.join(f'{statistics.median(f):.0f}' for f in zip(*runs, strict=True))} |", flush=True)


if __name__ == "__main__":
    main()
