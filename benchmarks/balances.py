"""Whether the balances of drawn accounts add up, on made-up statements of which all do:

    python benchmarks/balances.py --epsilon 4

Accounts have four to twenty-four rows. What comes in depends on whose account it is, what goes out on what is there, and no
balance is ever below zero. They are released in process twice: the balance is a number like others, declared running: false,
and it is found to be a running total. It needs no data and no scorer.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from fresh_home import synthesizer

ACCOUNTS = 3_000
PLACES = (0, 9)
"""Rows, counted from 0, at which balances are compared."""


def statements() -> pd.DataFrame:
    """Return all rows of all accounts."""
    rng, rows = np.random.default_rng(), []
    for account, income in enumerate(np.exp(rng.normal(7, 0.5, ACCOUNTS))):
        balance, day = 0.0, pd.Timestamp("2020-01-01") + pd.Timedelta(days=int(rng.integers(0, 300)))
        for place in range(rng.integers(4, 25)):
            comes = place == 0 or balance < 50 or rng.random() < 0.35
            amount = round(float(income * np.exp(rng.normal(0, 0.3)) if comes else balance * rng.beta(1.2, 3)), 2)
            balance = round(balance + (amount if comes else -amount), 2)
            rows.append((account, day, "in" if comes else "out", amount, balance))
            day += pd.Timedelta(days=int(rng.integers(1, 40)))
    return pd.DataFrame(rows, columns=["account", "day", "way", "amount", "balance"])


def figures(rows: pd.DataFrame) -> dict[str, float]:
    """Return in how many rows the balance is that of the row before, plus or minus the amount, and how large it is."""
    by_account = rows.groupby("account")
    change = rows["balance"] - by_account["balance"].shift(fill_value=0.0)
    place, way = by_account.cumcount(), np.where(rows["way"] == "in", 1, -1)
    found = {
        "adds up %": 100 * ((change.abs() - rows["amount"]).abs() < 0.005).mean(),
        "in its direction %": 100 * ((change - way * rows["amount"]).abs() < 0.005).mean(),
        "below zero %": 100 * (rows["balance"] < 0).mean(),
    }
    for at in PLACES:
        found |= {
            f"row {at + 1}, {name}": rows.loc[place == at, "balance"].quantile(q)
            for name, q in (("median", 0.5), ("95 %", 0.95))
        }
    return {name: float(value) for name, value in found.items()}


def released(epsilon: float, *, running: bool) -> dict[str, float]:
    """Return the figures of one release, whose balance may be a running total, or is none."""
    moves = {"parent": {"account": "accounts"}, "order": "day", "max_rows": 24}
    declared = {} if running else {"columns": {"balance": {"running": False}}}
    relations = {"accounts": {"key": "account"}, "moves": moves | declared}
    with synthesizer("moves", epsilon, unit="account") as model:
        return figures(model.fit({"moves": statements()}, relations=relations).sample()["moves"])


def main() -> None:
    """Print one line of Markdown for real rows, and for those of each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=4.0)
    asked = parser.parse_args()
    lines = {"real": figures(statements())}
    print(f"| rows | {' | '.join(lines['real'])} |\n|{'---|' * (len(lines['real']) + 1)}")
    for name, running in (("drawn, a number like others", False), ("**drawn**", True)):
        lines[name] = released(asked.epsilon, running=running)
    for name, line in lines.items():
        print(f"| {name} | {' | '.join(f'{x:,.0f}' if x > 100 else f'{x:.1f}' for x in line.values())} |")


if __name__ == "__main__":
    main()
