"""Whether values of one row of a history go together, on made-up payments whose purpose and channel hang on their kind:

    python benchmarks/going_together.py --epsilon 3

Persons have 1 to 24 payments. Three of four have one of two purposes of their kind, and one of two channels; others have
any, or no purpose. They are released in process twice: without the weights by which pairs are drawn as often as was counted,
and with them. It needs no data and no scorer.
"""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from itertools import combinations
from unittest import mock

import numpy as np
import pandas as pd
from fresh_home import synthesizer

from dp_synth_pipeline.model.histories.pair_weights import PairWeights

PERSONS = (1_000, 4_000)
COLUMNS = ("kind", "purpose", "channel")


def payments(persons: int) -> pd.DataFrame:
    """Return the payments of so many persons."""
    rng = np.random.default_rng()
    person = np.repeat(np.arange(persons), rng.integers(1, 25, persons))
    rows, likely = len(person), rng.dirichlet([2, 1.5, 1, 0.5], persons)  # each pays mostly in some ways
    kind = (likely.cumsum(1)[person] < rng.random((rows, 1))).sum(1).clip(0, 3)
    own, other = rng.random((2, rows)) < 0.75, rng.integers(0, 2, (2, rows))
    purpose = np.where(own[0], 2 * kind + other[0], rng.integers(0, 9, rows))
    channel = np.where(own[1], kind + other[1], rng.integers(0, 5, rows))
    names = {"kind": kind, "purpose": purpose, "channel": channel}
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, rows), unit="D")
    table = pd.DataFrame({"person": person, "day": day} | {n: [f"{n} {code}" for code in v] for n, v in names.items()})
    table.loc[purpose == 8, "purpose"] = None
    return table.sort_values(["person", "day"], kind="stable")


def missed(drawn: pd.DataFrame, real: pd.DataFrame) -> dict[str, float]:
    """Return how far drawn rows are from real ones, 0 to 1: single columns, pairs, all three, and pairs across two rows."""

    def distance(*cells: pd.Series) -> float:
        found, there = (c.value_counts(normalize=True) for c in cells)
        return float(found.sub(there, fill_value=0).abs().sum() / 2)

    def joined(table: pd.DataFrame, columns: tuple[str, ...]) -> pd.Series:
        return table[list(columns)].fillna("").agg("|".join, axis=1)

    def steps(table: pd.DataFrame, column: str) -> pd.Series:
        before = table.groupby("person")[column].shift()
        return (before.fillna("") + "|" + table[column].fillna(""))[table["person"].duplicated()]

    mean = {
        name: np.mean([distance(*(joined(t, c) for t in (drawn, real))) for c in combinations(COLUMNS, size)])
        for size, name in enumerate(("columns", "pairs", "all three"), 1)
    }
    return mean | {"steps": np.mean([distance(*(steps(t, c) for t in (drawn, real))) for c in COLUMNS])}


def released(real: pd.DataFrame, epsilon: float, *, weighed: bool) -> dict[str, float]:
    """Return the figures of one release, whose pairs may be weighed or not."""
    relations = {
        "persons": {"key": "person"},
        "payments": {"parent": {"person": "persons"}, "order": "day", "max_rows": 24},
    }
    without = mock.patch.object(PairWeights, "begin", return_value=PairWeights())
    with nullcontext() if weighed else without, synthesizer("payments", epsilon, unit="person") as model:
        return missed(model.fit({"payments": real}, relations=relations).sample()["payments"], real)


def main() -> None:
    """Print one line of Markdown for each number of persons and each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=3.0)
    asked = parser.parse_args()
    print("| persons | drawn | columns | pairs | all three | steps |\n|---|---|---|---|---|---|")
    for persons in PERSONS:
        real = payments(persons)
        lines = {"other such persons": missed(payments(persons), real)}
        for name, weighed in (("without weights", False), ("**with weights**", True)):
            lines[name] = released(real, asked.epsilon, weighed=weighed)
        for name, line in lines.items():
            print(f"| {persons:,} | {name} | {' | '.join(f'{x:.3f}' for x in line.values())} |")


if __name__ == "__main__":
    main()
