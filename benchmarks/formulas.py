"""What finding that numbers give each other is worth, on made-up orders, whose formulas are known:

    python benchmarks/formulas.py --epsilon 2 --reps 3

Each way is a whole release in process: no formulas, those that charged counts find, both again with one of them too fine to
be found (a tax of 0.19625 times the net price), and all of them declared as rules. Figures are of drawn rows beside as many
others of the same orders. It needs no data and no scorer.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np
import pandas as pd
from fresh_home import synthesizer

from dp_synth_pipeline.validation import figures

ROWS = 16_000
TAX, FINE = 0.2, 0.19625
RULES = [
    "net = price * quantity",
    f"tax = {TAX:g} * net",
    "gross = net + tax",
    "rate = paid / hours",
]
WAYS: dict[str, tuple[float, dict[str, Any]]] = {
    "no formulas": (TAX, {"find_formulas": False}),
    "**found by charged counts**": (TAX, {}),
    "the same, but the tax": (FINE, {}),
    "the same, and no formulas": (FINE, {"find_formulas": False}),
    "declared as rules": (TAX, {"find_formulas": False, "rules": RULES}),
}
FIGURES = ("net %", "tax %", "gross %", "rate %", "1-way", "2-way", "told apart", "CPU s")


def orders(tax: float) -> pd.DataFrame:
    """Return twice as many orders as are learnt, each with a job that has nothing to do with it."""
    rng = np.random.default_rng()
    price, quantity = np.round(rng.lognormal(3, 0.8, 2 * ROWS), 2), rng.geometric(0.3, 2 * ROWS)
    hours, paid = rng.integers(1, 60, 2 * ROWS), np.round(rng.lognormal(6, 0.5, 2 * ROWS), 2)
    net = np.round(price * quantity, 2)
    told = {"region": rng.choice(list("abcd"), 2 * ROWS), "price": price, "quantity": quantity, "net": net}
    taxed = {"tax": np.round(tax * net, 2), "gross": np.round(net + np.round(tax * net, 2), 2)}
    return pd.DataFrame({**told, **taxed, "hours": hours, "paid": paid, "rate": np.round(paid / hours, 2)})


def truth(rows: pd.DataFrame, tax: float) -> list[float]:
    """Return in how many rows of 100 each formula holds, to the cent."""
    given = {
        "net": rows["price"] * rows["quantity"],
        "tax": tax * rows["net"],
        "gross": rows["net"] + rows["tax"],
        "rate": rows["paid"] / rows["hours"],
    }
    return [float(100 * ((rows[name] - by).abs() < 0.0051).mean()) for name, by in given.items()]


def distance(real: pd.DataFrame, drawn: pd.DataFrame, together: int) -> float:
    """Return the mean total variation distance of sets of so many columns, each number cut at the real deciles."""
    cuts = {n: np.unique(np.quantile(real[n], np.arange(1, 10) / 10)) for n in real if n != "region"}
    codes = [{n: np.searchsorted(c, t[n]) for n, c in cuts.items()} for t in (real, drawn)]
    names, found = list(cuts), []
    for i, first in enumerate(names):
        for second in names[i + 1 :] if together == 2 else [first]:
            shares = [np.bincount(10 * c[first] + c[second], minlength=100) / len(c[first]) for c in codes]
            found.append(np.abs(shares[0] - shares[1]).sum() / 2)
    return float(np.mean(found))


def released(tax: float, validation: dict[str, Any], epsilon: float) -> list[float]:
    """Return the figures of one release."""
    rows = orders(tax)
    real, others = rows[:ROWS], rows[ROWS:].reset_index(drop=True)
    begun = time.process_time()
    with synthesizer("orders", epsilon, validation=validation) as fitter:
        model = fitter.fit(real)
        drawn, spent = model.sample(ROWS), time.process_time() - begun
        told = figures.measure(others, drawn, model.drawer().codec.schema).told_apart
    apart = float("nan") if told is None else told.auc
    return [*truth(drawn, tax), distance(others, drawn, 1), distance(others, drawn, 2), apart, spent]


def main() -> None:
    """Print one line of Markdown for each way: medians of the runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--reps", type=int, default=1)
    asked = parser.parse_args()
    print(f"| way | {' | '.join(FIGURES)} |\n|{'---|' * (len(FIGURES) + 1)}")
    one, other = (orders(TAX)[:ROWS] for _ in range(2))
    floor = [*truth(one, TAX), distance(one, other, 1), distance(one, other, 2)]
    print(f"| other real rows | {' | '.join(f'{x:.3g}' for x in floor)} | | |")
    for name, (tax, validation) in WAYS.items():
        runs = [released(tax, validation, asked.epsilon) for _ in range(asked.reps)]
        medians = [statistics.median(run[i] for run in runs) for i in range(len(FIGURES))]
        print(f"| {name} | {' | '.join(f'{x:.3g}' for x in medians)} |", flush=True)


if __name__ == "__main__":
    main()
