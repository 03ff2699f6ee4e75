"""Whether people stay who they are in drawn histories, on made-up ones in which that is known:

    python benchmarks/habits.py --epsilon 4

Persons come five to eight times. What somebody pays is as much chance as what is usual for them, three visits in five are
to a shop of their own, and they are on time often or rarely; nothing else connects one visit with the next. They are
released in process twice: rows are told of the row before alone, and of all rows before. It needs no data and no scorer.
"""

from __future__ import annotations

import argparse
from unittest.mock import patch

import numpy as np
import pandas as pd
from databases import forgetting
from fresh_home import synthesizer

from dp_synth_pipeline.synthesis.database import histories

PERSONS = 8_000
SHOPS = np.array(["Ulm", "Bonn", "Kiel", "Jena", "Trier", "Lindau", "Passau", "Husum"])
LATER = (1, 4)
"""Rows between those that are compared."""


def visits() -> pd.DataFrame:
    """Return all visits of all persons."""
    rng = np.random.default_rng()
    person = np.repeat(np.arange(PERSONS), rng.integers(5, 9, PERSONS))
    began = np.append(True, person[1:] != person[:-1])
    place = np.arange(len(person)) - np.flatnonzero(began)[person]
    own, other = rng.integers(0, len(SHOPS), PERSONS)[person], rng.integers(0, len(SHOPS), len(person))
    return pd.DataFrame(
        {
            "person": person,
            "day": pd.Timestamp("2020-01-05") + pd.to_timedelta(30 * place, "D"),
            "paid": np.exp(rng.normal(3, 0.5, PERSONS)[person] + rng.normal(0, 0.5, len(person))).round(0),
            "shop": SHOPS[np.where(rng.random(len(person)) < 0.6, own, other)],
            "on_time": rng.random(len(person)) < rng.choice([0.3, 0.9], PERSONS)[person],
        }
    )


def figures(rows: pd.DataFrame) -> dict[str, float]:
    """Return how a row is told by an earlier one of its person: correlations by ranks, and the share at the same shop."""
    rows, found = rows.astype({"on_time": float}), {}
    for name in ("paid", "on_time", "shop"):
        for rows_later in LATER:
            before = rows.groupby("person")[name].shift(rows_later)
            same = 100 * (rows[name] == before)[before.notna()].mean() if name == "shop" else None
            value = rows[name].corr(before, method="spearman") if same is None else same
            found[f"{name} {rows_later} later" + (" %" if same is not None else "")] = float(value)
    return found


def released(epsilon: float, *, forgets: bool) -> dict[str, float]:
    """Return the figures of one release, of which rows are told of the row before alone, or of all rows before."""
    relations = {
        "persons": {"key": "person"},
        "visits": {"parent": {"person": "persons"}, "order": "day", "max_rows": 8},
    }
    compose = forgetting(histories.context_of) if forgets else histories.context_of
    with synthesizer("visits", epsilon, unit="person") as model, patch.object(histories, "context_of", compose):
        return figures(model.fit({"visits": visits()}, relations=relations).sample()["visits"])


def main() -> None:
    """Print one line of Markdown for real rows, and for those of each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=4.0)
    asked = parser.parse_args()
    real = figures(visits())
    print(f"| rows | {' | '.join(real)} |\n|{'---|' * (len(real) + 1)}")
    lines = {"real": real}
    for name, forgets in (("drawn, told of the row before alone", True), ("**drawn**", False)):
        lines[name] = released(asked.epsilon, forgets=forgets)
    for name, line in lines.items():
        print(f"| {name} | {' | '.join(f'{x:.2f}' if x < 1 else f'{x:.0f}' for x in line.values())} |")


if __name__ == "__main__":
    main()
