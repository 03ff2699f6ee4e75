"""Whether dates of related tables agree with each other and with their parts, and what hangs on a part is learnt:

    python benchmarks/related_dates.py --epsilon 2.5 --reps 3

Made-up customers and their orders, which stand beside the year, month, quarter and weekday of their date, and whether that
is at a weekend. Two customers in five order on the day on which they join, and nobody before. Ice is bought in summer. And
made-up employees and their salaries, each of which is paid until the next one is, the last one for ever. It needs no data
and no scorer.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

import numpy as np
import pandas as pd
from fresh_home import synthesizer

CUSTOMERS, SUMMER = 5_000, (5, 6, 7, 8)
FIGURES = (
    "year",
    "month",
    "quarter",
    "weekday",
    "weekend",
    "birth month",
    "ice in summer",
    "ice else",
    "early",
    "at once",
)
OF_STAFF = ("until the next", "beyond it", "the last one for ever", "first on being hired")
FOREVER = pd.Timestamp("2262-01-01")
SALARIES = {"parent": {"employee_id": "employees"}, "order": "from_date", "max_rows": 10}
ORDERS = {"key": "order_id", "parent": {"customer_id": "customers"}, "order": "ordered", "max_rows": 8}
DATES = {
    "customers": ("birth_month",),
    "orders": ("ordered", "order_year", "order_month", "quarter", "weekday", "is_weekend"),
}


def parts_of(dates: pd.Series) -> dict[str, pd.Series]:
    """Return what an order says of its date."""
    days = dates.dt.day_of_week
    named = {"order_month": dates.dt.month_name(), "quarter": "Q" + dates.dt.quarter.astype(str)}
    return {"order_year": dates.dt.year, **named, "weekday": dates.dt.day_name(), "is_weekend": days >= 5}


def open_day(dates: pd.Series) -> pd.Series:
    """Return dates of which those on Sundays are on the next day."""
    return dates + pd.to_timedelta((dates.dt.day_of_week == 6).astype(int), unit="D")


def shop() -> dict[str, pd.DataFrame]:
    """Return customers, and their orders of other days than Sunday."""
    rng = np.random.default_rng()
    who = np.repeat(np.arange(CUSTOMERS), rng.poisson(3, CUSTOMERS))
    joined = open_day(pd.Series(np.datetime64("2020-01-01") + rng.integers(0, 700, CUSTOMERS)).astype("datetime64[ns]"))
    at_once = np.append(True, who[1:] != who[:-1]) & (rng.random(CUSTOMERS) < 0.4)[who]
    days = pd.Series(np.where(at_once, 0, rng.geometric(1 / 60, len(who)))).groupby(who).cumsum()
    ordered = open_day(joined[who].reset_index(drop=True) + pd.to_timedelta(days, unit="D"))
    ice = rng.random(len(who)) < np.where(ordered.dt.month.isin(SUMMER), 0.7, 0.1)
    product = np.where(ice, "ice", rng.choice(["bread", "milk", "soup"], len(who)))
    known = {"order_id": np.arange(len(who)), "customer_id": who, "ordered": ordered.dt.date}
    orders = pd.DataFrame(
        {**known, **parts_of(ordered), "product": product, "amount": rng.gamma(2, 20, len(who)).round(2)}
    )
    born = pd.Series(np.datetime64("1950-01-01") + rng.integers(0, 18_000, CUSTOMERS)).astype("datetime64[ns]")
    told = {
        "joined": joined.dt.date,
        "born": born.dt.date,
        "birth_month": born.dt.month,
        "region": rng.choice(list("NSWE"), CUSTOMERS),
    }
    return {"customers": pd.DataFrame({"customer_id": np.arange(CUSTOMERS), **told}), "orders": orders}


def figures(drawn: dict[str, pd.DataFrame]) -> list[float]:
    """Return shares in percent, by `FIGURES`: of rows, and at last of customers with orders."""
    orders, born = drawn["orders"], pd.to_datetime(drawn["customers"]["born"])
    ordered = pd.to_datetime(orders["ordered"])
    agree = [(values.to_numpy() == orders[name].to_numpy()).mean() for name, values in parts_of(ordered).items()]
    ice, summer = orders["product"] == "ice", ordered.dt.month.isin(SUMMER)
    joined = pd.to_datetime(drawn["customers"].set_index("customer_id")["joined"])
    since = (ordered - joined.reindex(orders["customer_id"]).to_numpy()).dt.days
    at_once = (since[~orders["customer_id"].duplicated()] == 0).mean()
    of_customers = (born.dt.month == drawn["customers"]["birth_month"]).mean()
    return [
        100 * float(x)
        for x in (*agree, of_customers, ice[summer].mean(), ice[~summer].mean(), (since < 0).mean(), at_once)
    ]


def staff() -> dict[str, pd.DataFrame]:
    """Return employees, and their salaries, which rise after a year or two."""
    rng = np.random.default_rng()
    who = np.repeat(np.arange(CUSTOMERS), 1 + rng.poisson(3, CUSTOMERS))
    hired = pd.Series(np.datetime64("1995-01-01") + rng.integers(0, 9_000, CUSTOMERS)).astype("datetime64[ns]")
    first, days = np.append(True, who[1:] != who[:-1]), rng.choice([365, 730], len(who))
    begun = hired[who].reset_index(drop=True) + pd.to_timedelta(
        pd.Series(np.where(first, 0, days)).groupby(who).cumsum(), unit="D"
    )
    ends = begun.groupby(who).shift(-1).fillna(FOREVER)
    pay = (rng.normal(50_000, 12_000, CUSTOMERS)[who] + 1_500 * pd.Series(who).groupby(who).cumcount()).astype(int)
    salaries = {"employee_id": who, "salary": pay, "from_date": begun.dt.date, "to_date": ends.dt.date}
    known = {"employee_id": np.arange(CUSTOMERS), "hired": hired.dt.date, "sex": rng.choice(["f", "m"], CUSTOMERS)}
    return {"employees": pd.DataFrame(known), "salaries": pd.DataFrame(salaries)}


def of_staff(drawn: dict[str, pd.DataFrame]) -> list[float]:
    """Return shares in percent, by `OF_STAFF`: of salaries that another one follows, of last ones, and of first ones."""
    salaries = drawn["salaries"]
    begun, ends = (pd.to_datetime(salaries[name]) for name in ("from_date", "to_date"))
    following, first = begun.groupby(salaries["employee_id"]).shift(-1), ~salaries["employee_id"].duplicated()
    hired = (
        pd.to_datetime(drawn["employees"].set_index("employee_id")["hired"]).reindex(salaries["employee_id"]).to_numpy()
    )
    inner = following.notna()
    shares = ((ends == following)[inner], (ends > following)[inner], (ends == FOREVER)[~inner], (begun == hired)[first])
    return [100 * float(share.mean()) for share in shares]


def released(epsilon: float, *, apart: bool) -> tuple[list[float], list[float]]:
    """Return the figures of two releases, in which dates and parts stand by themselves or are found to hang together."""
    relations: dict[str, dict[str, Any]] = {"customers": {"key": "customer_id"}, "orders": dict(ORDERS)}
    paid: dict[str, dict[str, Any]] = {"employees": {"key": "employee_id"}, "salaries": dict(SALARIES)}
    if apart:
        for table, names in DATES.items():
            relations[table]["columns"] = {name: {"after": False} for name in names}
        paid["salaries"]["columns"] = {"from_date": {"after": False}, "to_date": {"until": False, "after": False}}
    with synthesizer("shop", epsilon, unit="customer_id") as model:
        of_shop = figures(model.fit(shop(), relations=relations).sample())
    with synthesizer("staff", epsilon, unit="employee_id") as model:
        return of_shop, of_staff(model.fit(staff(), relations=paid).sample())


def main() -> None:
    """Print one line of Markdown for each way and each database: medians of the runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=2.5)
    parser.add_argument("--reps", type=int, default=1)
    asked = parser.parse_args()
    ways = {"drawn, each column by itself": True, "**drawn**": False}
    runs = {name: [released(asked.epsilon, apart=apart) for _ in range(asked.reps)] for name, apart in ways.items()}
    for number, (names, real) in enumerate(((FIGURES, figures(shop())), (OF_STAFF, of_staff(staff())))):
        print(f"| rows | {' | '.join(names)} |\n|{'---|' * (len(names) + 1)}")
        print(f"| real | {' | '.join(f'{x:.0f}' for x in real)} |")
        for name, both in runs.items():
            medians = [statistics.median(figure) for figure in zip(*(run[number] for run in both), strict=True)]
            print(f"| {name} | {' | '.join(f'{x:.0f}' for x in medians)} |", flush=True)


if __name__ == "__main__":
    main()
