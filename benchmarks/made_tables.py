"""Generates tables of shapes that are hard to learn: `python benchmarks/made_tables.py FOLDER [--table NAME]`.

| name | rows x columns | what is hard |
|---|---|---|
| second | 40,000 x 16 | long tails of categories, skewed numbers; see `second_table` |
| balances | 27,000 x 24 | six months' balances, each all but told by the one before; payments, many of them 0 |
| sessions | 10,980 x 18 | few rows, skewed durations, rates that are mostly 0 |
| classes | 7,020 x 8 | ten classes that no pair of columns tells |

Rows are drawn by chance from the same description each time, a tenth is held out, and what is there already is kept, so
that every system sees the same rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import second_table

MONTHS = 6


class Made(NamedTuple):
    """A table that can be made: what draws so many rows, how many to learn from, how many to hold out, what to predict."""

    generate: Callable[[int], pd.DataFrame]
    rows: int
    held_out: int
    target: str


def balances(rows: int) -> pd.DataFrame:
    """Return borrowers with the state of their account, what they owed and what they paid in each of six months."""
    g = np.random.default_rng()
    limit = 10_000 * np.exp(g.normal(2.4, 0.8, rows)).clip(1, 100).round()
    wealth = (np.log(limit) - 11.6) / 0.8
    used = g.beta(0.45, 0.8, rows) * (1 - 0.25 * np.tanh(wealth))
    risk = g.normal(0, 1, rows) - 0.5 * wealth + 0.8 * used
    pays_all, sleeps = g.random(rows) < 0.25, g.random(rows) < 0.08
    owed, late, months = limit * used, np.zeros(rows), []
    for _ in range(MONTHS):
        whole, nothing = pays_all & (g.random(rows) < 0.85), g.random(rows) < 0.1 + 0.15 * (risk > 1)
        some = np.where(g.random(rows) < 0.5, np.maximum(1000, 100 * (owed * 0.00035).round()), _lognormal(g, wealth))
        paid = np.where(whole, owed, np.where(nothing | sleeps, 0, np.minimum(some, owed))).round()
        again = np.where(g.random(rows) < 0.7, np.maximum(late - 2, 0), late)
        late = np.where(nothing & (owed > 0), np.minimum(late + 1 + (g.random(rows) < 0.3), 8), again)
        months.append((np.where(sleeps, -2, np.where(whole, -1, late)), owed.round(), paid))
        spent = limit * g.exponential(0.04, rows) * np.where(whole | (g.random(rows) < 0.6), 1, 0.2)
        owed = np.where(sleeps, 0, np.minimum((owed - paid) * 1.015 + spent, limit * 1.1))
    age = np.clip(g.gamma(6, 3, rows) + 20 + 2 * wealth, 21, 79).round()
    married = g.random(rows) < 1 / (1 + np.exp(-(age - 34) / 5))
    table = {
        "limit": limit,
        "sex": g.choice(2, rows, p=[0.4, 0.6]) + 1,
        "schooling": np.where(
            g.random(rows) < 0.35 + 0.1 * np.tanh(wealth), 1, 2 + g.choice(3, rows, p=[0.72, 0.26, 0.02])
        ),
        "married": np.where(married, 1, 2 + g.choice(2, rows, p=[0.98, 0.02])),
        "age": age,
    }
    for what, name in enumerate(("state", "owed", "paid")):
        table |= {f"{name}_{month + 1}": months[-1 - month][what] for month in range(MONTHS)}
    logit = -1.9 + 0.9 * (months[-1][0] >= 2) + 0.5 * (months[-2][0] >= 2) + 0.4 * risk - 0.25 * (months[-1][2] > 5000)
    table["defaulted"] = g.random(rows) < 1 / (1 + np.exp(-logit))
    return pd.DataFrame(table).astype(int)


def _lognormal(g: np.random.Generator, wealth: np.ndarray) -> np.ndarray:
    return np.exp(g.normal(7.8 + 0.5 * wealth, 1))


def sessions(rows: int) -> pd.DataFrame:
    """Return visits to a shop on the web: pages, seconds, rates, and whether something was bought."""
    g = np.random.default_rng()
    kind = g.choice(3, rows, p=[0.5, 0.35, 0.15])
    pages = {"account": _pages(g, rows, 0.47, 0.2), "help": _pages(g, rows, 0.79, 0.45)}
    pages["products"] = (g.negative_binomial(1, 0.04, rows) * (1 + kind / 2)).round().astype(int)
    seconds = {name: (np.exp(g.normal(3.2, 0.9, rows)) * n).round(6) for name, n in pages.items()}
    left = np.where(g.random(rows) < 0.06, 0.2, 0.012 + 0.18 * g.gamma(2, 0.5, rows) / (sum(pages.values()) + 2)).clip(
        0, 0.2
    )
    bounced = np.where(left >= 0.2, 0.2, np.where(g.random(rows) < 0.45, 0, left * g.beta(2, 3, rows)))
    value = np.where(g.random(rows) < 0.72 - 0.15 * (kind == 2), 0, np.exp(g.normal(2.7, 1.1, rows)))
    month = g.choice(["Feb", "Mar", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], rows, p=_MONTHLY)
    feast = np.where(
        month == "May", g.choice([0, 0.2, 0.4, 0.6, 0.8, 1], rows, p=[0.55, 0.07, 0.09, 0.11, 0.1, 0.08]), 0
    )
    system = g.choice([1, 2, 3, 4, 8], rows, p=[0.21, 0.535, 0.205, 0.04, 0.01])
    logit = -3.2 + 0.25 * np.log1p(pages["products"]) - 18 * left + 1.2 * (kind == 2) + 2.6 * (value > 0)
    table = pd.DataFrame({f"{name}_{part}": by[name] for name in pages for part, by in (("n", pages), ("s", seconds))})
    return table.assign(
        bounce_rate=bounced.round(9),
        exit_rate=left.round(9),
        page_value=value.round(8),
        feast=feast,
        month=month,
        system=system,
        browser=np.where(system == 2, g.choice([2, 1, 4, 5], rows, p=[0.8, 0.05, 0.1, 0.05]), g.choice(7, rows) + 1),
        region=g.choice(9, rows, p=[0.39, 0.09, 0.195, 0.096, 0.026, 0.065, 0.062, 0.035, 0.041]) + 1,
        came_by=np.where(kind == 2, g.choice([2, 1, 8], rows, p=[0.7, 0.2, 0.1]), g.choice(8, rows) + 1),
        visitor=np.where(kind == 2, "new", np.where(g.random(rows) < 0.99, "returning", "other")),
        weekend=g.random(rows) < 0.23,
        bought=g.random(rows) < 1 / (1 + np.exp(-logit - 0.7 * (month == "Nov"))),
    )


_MONTHLY = [0.015, 0.155, 0.273, 0.023, 0.035, 0.035, 0.036, 0.045, 0.243, 0.14]


def _pages(g: np.random.Generator, rows: int, none: float, p: float) -> np.ndarray:
    return np.where(g.random(rows) < none, 0, g.negative_binomial(1, p, rows) + 1)


def classes(rows: int) -> pd.DataFrame:
    """Return seven numbers of ten classes, each of which has three centres: the same centres in every table."""
    g, centres = np.random.default_rng(), np.random.default_rng(5).normal(0, 1.15, (10, 3, 7))
    kind = g.integers(0, 10, rows)
    at = centres[kind, g.integers(0, 3, rows)] + 0.55 * g.normal(0, 1, (rows, 7))
    numbers = np.clip((at * 20 + 50).round(), 0, 100).astype(int)
    table = pd.DataFrame(numbers, columns=pd.Index([f"f{i}" for i in range(7)]))
    return table.assign(kind=[f"kind {k}" for k in kind])


TABLES = {
    "second": Made(second_table.generate, 40_000, 4_000, second_table.TARGET),
    "balances": Made(balances, 27_000, 3_000, "defaulted"),
    "sessions": Made(sessions, 10_980, 1_220, "bought"),
    "classes": Made(classes, 7_020, 780, "kind"),
}


def write(folder: Path, name: str) -> tuple[Path, Path]:
    """Return the paths of the training and holdout rows of a table, generating them if they are missing."""
    folder.mkdir(parents=True, exist_ok=True)
    made, (train, holdout) = TABLES[name], (folder / f"{name}_train.csv", folder / f"{name}_holdout.csv")
    if not (train.exists() and holdout.exists()):
        table = made.generate(made.rows + made.held_out)
        table[: made.rows].to_csv(train, index=False)
        table[made.rows :].to_csv(holdout, index=False)
    return train, holdout


def main() -> None:
    """Write the two files of each table that is asked for."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--table", choices=TABLES, nargs="+", default=list(TABLES))
    asked = options.parse_args()
    for name in asked.table:
        print(*write(asked.folder, name), sep="\n")


if __name__ == "__main__":
    main()
