"""Whether numbers of drawn histories follow from those before them, on a made-up panel in which that is known:

    python benchmarks/panels.py --epsilon 2.5 --reps 3

Persons are asked once a year or every two years, three to six times. Ages grow with the years, what was paid so far never
falls, four wages of five are as at the time before, and a weight moves little. The panel is released in process twice: as it
is, and with numbers that neither grow nor stay: no direction is looked for, and no number has a code for "as in the row
before". It needs no data and no scorer.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from fresh_home import synthesizer

from dp_synth_pipeline.synthesis.database import histories

PERSONS = 4_000
NUMBERS = ("age", "paid", "wage", "weight")
FIGURES = ("ages fall %", "age by year %", "paid falls %", "wages stay %", "wage to next", "weight to next")


def panel() -> pd.DataFrame:
    """Return what persons said each time that they were asked."""
    rng = np.random.default_rng()
    who = np.repeat(np.arange(PERSONS), rng.integers(3, 7, PERSONS))
    begins = np.append(True, who[1:] != who[:-1])

    def history(first: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Return first values of persons with steps added up."""
        so_far = np.cumsum(np.where(begins, 0, steps))
        return first[who] + so_far - so_far[np.flatnonzero(begins)][who]

    gap = np.where(rng.random(len(who)) < 0.8, 1, 2)
    raised = np.where(rng.random(len(who)) < 0.2, rng.normal(60, 120, len(who)), 0)
    return pd.DataFrame(
        {
            "person": who,
            "year": history(rng.integers(2008, 2014, PERSONS), gap),
            "age": history(rng.integers(18, 75, PERSONS), gap),
            "paid": history(rng.gamma(2, 300, PERSONS), rng.gamma(2, 150, len(who))).round(0),
            "wage": history(rng.lognormal(8, 0.4, PERSONS), raised).round(0),
            "weight": history(rng.normal(75, 14, PERSONS), rng.normal(0, 2, len(who))).round(1),
        }
    )


def figures(rows: pd.DataFrame) -> list[float]:
    """Return in how many persons ages fall, how often ages grow by the years between, and the like, by `FIGURES`."""
    rows = rows.astype(dict.fromkeys(NUMBERS, float))
    steps = rows.groupby("person")[["year", *NUMBERS]].diff()
    follows = steps["year"].notna()
    falls = (steps[["age", "paid"]] < 0).groupby(rows["person"]).any().mean()
    before = rows.groupby("person")[["wage", "weight"]].shift()
    near = [rows.loc[follows, name].corr(before.loc[follows, name]) for name in before]
    by_year, stay = (steps["age"] == steps["year"])[follows].mean(), (steps["wage"] == 0)[follows].mean()
    return [100 * falls["age"], 100 * by_year, 100 * falls["paid"], 100 * stay, *near]


def forgetful(compose: Callable[..., Any]) -> Callable[..., Any]:
    """Return what composes histories of which no number has a code for "as in the row before"."""
    return lambda relations, name, codecs, source=(): compose(relations, name, codecs)


def released(epsilon: float, *, remembering: bool) -> list[float]:
    """Return the figures of one release, in which numbers follow from those before them or not."""
    columns = {} if remembering else {name: {"monotone": False} for name in NUMBERS}
    relations = {
        "persons": {"key": "person"},
        "asked": {"parent": {"person": "persons"}, "order": "year", "max_rows": 6, "columns": columns},
    }
    with synthesizer("panel", epsilon, unit="person") as model:
        compose = histories.context_of if remembering else forgetful(histories.context_of)
        with patch.object(histories, "context_of", compose):
            return figures(model.fit({"asked": panel()}, relations=relations).sample()["asked"])


def main() -> None:
    """Print one line of Markdown for each way: medians of the runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=2.5)
    parser.add_argument("--reps", type=int, default=1)
    asked = parser.parse_args()
    print(f"| rows | {' | '.join(FIGURES)} |\n|{'---|' * (len(FIGURES) + 1)}")
    print(f"| real | {' | '.join(f'{x:.3g}' for x in figures(panel()))} |")
    for name, remembering in (("drawn, no number follows", False), ("**drawn**", True)):
        runs = [released(asked.epsilon, remembering=remembering) for _ in range(asked.reps)]
        print(f"| {name} | {' | '.join(f'{statistics.median(x):.3g}' for x in zip(*runs, strict=True))} |", flush=True)


if __name__ == "__main__":
    main()
