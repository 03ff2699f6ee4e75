"""Do codes keep their names? Made-up shipments, of whose columns six are codes, each of which gives another column:

    python benchmarks/names_of_codes.py --epsilon 2.5 --reps 3

Whole releases in process, with what was found and without. A row agrees if all of its six codes go with what they give in
the real rows. Distances are to as many other shipments. With `--senders 9000`, so many persons have the rows, most of them
several, and are protected with all of theirs. It needs no data and no scorer.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from unittest.mock import patch

import numpy as np
import pandas as pd
from fresh_home import synthesizer

from dp_synth_pipeline.model.marginals import dependencies, raking

ROWS, MOST = 20_000, 8
GIVES = {
    "airport": (30, 30),
    "city": (50, 8),
    "airline": (24, 24),
    "product": (40, 5),
    "month": (12, 12),
    "state": (60, 20),
}
"""By code, how many there are, and how many values the column has that they give."""

FIGURES = ("a code's %", "all six %", "1-way", "2-way")


def shipments(rng: np.random.Generator) -> pd.DataFrame:
    """Return twice as many rows as are learnt: codes that go with each other a little, some frequent and others rare."""
    shared, columns = rng.normal(size=2 * ROWS), {}
    for name, (codes, given) in GIVES.items():
        shares = np.arange(1, codes + 1) ** -0.8
        rank = np.argsort(np.argsort(shared / 2 + rng.normal(size=2 * ROWS))) / (2 * ROWS)
        code = np.minimum(np.searchsorted(np.cumsum(shares / shares.sum()), rank), codes - 1)
        columns[name] = pd.Series(code).map(lambda c, name=name: f"{name[:2].upper()}{c:02d}")
        columns[f"of {name}"] = pd.Series(code % given).map(lambda g, name=name: f"{name} {g}")
    columns["weight"] = np.round(10 * shared + rng.normal(50, 5, 2 * ROWS), 1)
    return pd.DataFrame(columns)


def agreement(real: pd.DataFrame, drawn: pd.DataFrame) -> list[float]:
    """Return of how many codes in 100 what they give is right, and in how many rows of 100 all are."""
    gives = {name: real.groupby(name)[f"of {name}"].first() for name in GIVES}
    right = np.column_stack([drawn[name].map(given) == drawn[f"of {name}"] for name, given in gives.items()])
    return [100 * float(right.mean()), 100 * float(right.all(1).mean())]


def distance(real: pd.DataFrame, drawn: pd.DataFrame, together: int) -> float:
    """Return the mean total variation distance of sets of so many columns; the number is left out."""
    names = [name for name in real if name not in ("weight", "sender")]
    sets = [[a, b] for i, a in enumerate(names) for b in names[i + 1 :]] if together == 2 else [[a] for a in names]
    shares = [[t.groupby(s).size() / len(t) for t in (real, drawn)] for s in sets]
    return float(np.mean([one.sub(other, fill_value=0).abs().sum() / 2 for one, other in shares]))


def sent(rows: pd.DataFrame, senders: int) -> pd.DataFrame:
    """Return rows of which most senders have several, a half of them of the product and the airport of the one before."""
    rng = np.random.default_rng()
    found = rows.assign(sender=np.sort(rng.integers(0, senders, len(rows)))).reset_index(drop=True)
    follows = found["sender"].eq(found["sender"].shift())
    for name in ("airport", "product"):
        again = follows & (rng.random(len(rows)) < 0.5)
        for column in (name, f"of {name}"):
            found[column] = found[column].mask(again).ffill()
    return found


def released(epsilon: float, senders: int, *, found: bool) -> list[float]:
    """Return the figures of one release, whose draws keep what was found or not."""
    rows = shipments(np.random.default_rng())
    real, others = (sent(r, senders) if senders else r for r in (rows[:ROWS], rows[ROWS:]))
    with nullcontext() if found else nothing():
        drawn = histories(real, senders, epsilon) if senders else flat(real, epsilon)
    return [*agreement(rows, drawn), distance(others, drawn, 1), distance(others, drawn, 2)]


def flat(rows: pd.DataFrame, epsilon: float) -> pd.DataFrame:
    """Return as many drawn rows, which are protected one by one."""
    with synthesizer("shipments", epsilon) as fitter:
        return fitter.fit(rows).sample(len(rows))


def histories(rows: pd.DataFrame, senders: int, epsilon: float) -> pd.DataFrame:
    """Return the drawn rows of as many senders, each of whom is protected with all rows."""
    relations = {"senders": {"key": "sender"}, "shipments": {"parent": {"sender": "senders"}, "max_rows": MOST}}
    with synthesizer("shipments", epsilon, unit="sender") as fitter:
        return fitter.fit({"shipments": rows}, relations=relations).sample(senders)["shipments"]


@contextmanager
def nothing() -> Iterator[None]:
    """Find no code that gives another."""
    with (
        patch.object(raking, "impossible", lambda measured: np.zeros(measured.layout.cells, bool)),
        patch.object(dependencies, "impossible", lambda measured: np.zeros(measured.layout.cells, bool)),
    ):
        yield


def main() -> None:
    """Print one line of Markdown for each way: medians of the runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=2.5)
    parser.add_argument("--senders", type=int, default=0)
    parser.add_argument("--reps", type=int, default=1)
    asked = parser.parse_args()
    print(f"| rows | {' | '.join(FIGURES)} |\n|{'---|' * (len(FIGURES) + 1)}")
    rows = shipments(np.random.default_rng())
    floor = [100.0, 100.0, *(distance(rows[:ROWS], rows[ROWS:], n) for n in (1, 2))]
    print(f"| other real rows | {' | '.join(f'{x:.3g}' for x in floor)} |", flush=True)
    for name, found in (("drawn, nothing found", False), ("**drawn**", True)):
        runs = [released(asked.epsilon, asked.senders, found=found) for _ in range(asked.reps)]
        medians = [statistics.median(run[i] for run in runs) for i in range(len(FIGURES))]
        print(f"| {name} | {' | '.join(f'{x:.3g}' for x in medians)} |", flush=True)


if __name__ == "__main__":
    main()
