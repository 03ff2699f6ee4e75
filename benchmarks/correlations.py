"""Does one column still grow with another where a table is small? Made-up patients, and how strong it is in drawn ones:

    python benchmarks/correlations.py --line 1000:3 5000:1 20000:1 --reps 6
    python benchmarks/correlations.py --wide --line 5000:1 5000:3

A line is ROWS:EPSILON, at delta 1e-5. Whole releases in process: as they are, and with each noisy cell of two columns
weighed by itself, as an earlier version did. It needs no data and no scorer. `--write FOLDER` writes tables for other
systems, and `--read FILE` prints the figures of what one of them drew. `--wide` makes up thirty numbers in five blocks,
of which those of a block grow with each other, and eight categories: too many pairs of columns to measure them all.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pipeline

from dp_synth_pipeline.model.marginals import waves
from dp_synth_pipeline.synthesis.settings import ReleaseSettings

DELTA, MANY = 1e-5, 200_000
RANKS = 0.582
"""The rank correlation of two normals that have a correlation of .6."""

BLOCKS, EACH = 5, 6
FIGURES = ("height, weight", "age, systolic", "weight, cholesterol", "sex: cm", "smoker: asthma", "region: log income")


def patients(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return patients of twelve columns, of which some grow with others."""
    sex, age = rng.choice(["female", "male"], rows, p=[0.52, 0.48]), rng.integers(18, 90, rows)
    height = np.round(np.where(sex == "male", 178, 165) + rng.normal(0, 7, rows))
    weight = np.round((height / 100) ** 2 * np.exp(rng.normal(np.log(25), 0.15, rows)), 1)
    smoker = rng.random(rows) < np.where(age < 50, 0.3, 0.15)
    region = rng.choice(list("ABCDEF"), rows, p=[0.3, 0.25, 0.2, 0.1, 0.1, 0.05])
    income = np.round(np.exp(rng.normal(10, 0.6, rows) + 0.4 * (region == "A")))
    gold = rng.random(rows) < 1 / (1 + np.exp(-2 * (np.log(income) - 10.3)))
    return pd.DataFrame(
        {
            "sex": sex,
            "age": age,
            "height": height,
            "weight": weight,
            "smoker": np.where(smoker, "yes", "no"),
            "asthma": np.where(rng.random(rows) < np.where(smoker, 0.25, 0.06), "yes", "no"),
            "systolic": np.round(100 + 0.5 * age + rng.normal(0, 14, rows)),
            "cholesterol": np.round(rng.normal(5, 1, rows) + 0.02 * (weight - 75), 2),
            "region": region,
            "income": income,
            "plan": np.where(gold, "gold", "basic"),
            "diagnosis": rng.choice(
                ["none", "diabetes", "copd", "heart", "cancer"], rows, p=[0.5, 0.2, 0.1, 0.12, 0.08]
            ),
        }
    )


def figures(table: pd.DataFrame) -> list[float]:
    """Return rank correlations of numbers, and by how much the rows of a category differ from others."""
    pairs = [("height", "weight"), ("age", "systolic"), ("weight", "cholesterol")]
    found = [float(table[a].corr(table[b], method="spearman")) for a, b in pairs]
    asthma, income = (table["asthma"] == "yes").astype(float), np.log(table["income"].clip(lower=1))
    for rows, values in ((table["sex"] == "male", table["height"]), (table["smoker"] == "yes", asthma)):
        found.append(float(values[rows].mean() - values[~rows].mean()))
    return [*found, float(income[table["region"] == "A"].mean() - income[table["region"] != "A"].mean())]


OF_BLOCKS = ("within a block", "of two blocks", "off by")


def blocks(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return numbers, of which those of a block have a correlation of .6, and categories that tell of one block each."""
    common = rng.normal(size=(rows, BLOCKS))
    found = {}
    for number in range(BLOCKS * EACH):
        value = np.sqrt(0.6) * common[:, number % BLOCKS] + np.sqrt(0.4) * rng.normal(size=rows)
        found[f"n{number}"] = np.round(100 * np.exp(value / 2), 1) if number % 2 else np.round(50 + 10 * value)
    for number in range(8):
        told = np.digitize(common[:, number % BLOCKS], [-1, 0, 1])
        found[f"c{number}"] = np.char.add(
            "v", np.where(rng.random(rows) < 0.5, told, rng.integers(0, 4, rows)).astype(str)
        )
    return pd.DataFrame({name: found[name] for name in sorted(found, key=lambda name: (int(name[1:]), name))})


def figures_of_blocks(table: pd.DataFrame) -> list[float]:
    """Return the mean rank correlation within blocks, its deviation between them, and how far all are from the real ones."""
    numbers = table[[f"n{i}" for i in range(BLOCKS * EACH)]].apply(pd.to_numeric, errors="coerce")
    one, other = np.triu_indices(BLOCKS * EACH, 1)
    found, inside = numbers.corr(method="spearman").to_numpy()[one, other], (one - other) % BLOCKS == 0
    return [found[inside].mean(), found[~inside].std(), np.abs(found - np.where(inside, RANKS, 0)).mean()]


@contextmanager
def together(told: bool) -> Iterator[None]:
    """Let codes in an order say something together, or not."""
    with patch.object(waves, "smooth", waves.smooth if told else lambda order: False):
        yield


def drawn(rows: int, epsilon: float, wide: bool) -> list[float]:
    """Return the figures of one release of so many made-up rows."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "real.csv", Path(folder) / "drawn.csv"
        (blocks if wide else patients)(rows, np.random.default_rng()).to_csv(source, index=False)
        asked = ReleaseSettings(
            source=str(source), table="made", account="a", epsilon=epsilon, delta=DELTA, training={}
        )
        pipeline.run(asked, Path(folder) / "home", out)
        return (figures_of_blocks if wide else figures)(pd.read_csv(out, keep_default_na=False))


def line(what: str, found: list[float]) -> str:
    """Return one line of Markdown."""
    return f"| {what} | {' | '.join(f'{x:.2f}' for x in found)} |"


def main() -> None:
    """Print one line of Markdown for each way: means of the runs, each of other rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--line", nargs="+", default=["1000:3", "5000:1", "20000:1"], help="ROWS:EPSILON")
    parser.add_argument("--reps", type=int, default=1)
    parser.add_argument("--write", type=Path, help="write a table of each line into this folder, and do no more")
    parser.add_argument("--wide", action="store_true", help="of numbers in blocks, instead of patients")
    parser.add_argument("--read", type=Path, nargs="+", help="print the figures of these CSV files, and do no more")
    asked = parser.parse_args()
    make, tell, names = (blocks, figures_of_blocks, OF_BLOCKS) if asked.wide else (patients, figures, FIGURES)
    print(f"| rows | {' | '.join(names)} |\n|{'---|' * (len(names) + 1)}")
    print(line("real", tell(make(MANY, np.random.default_rng()))), flush=True)
    for file in asked.read or ():
        print(line(file.stem, figures(pd.read_csv(file, keep_default_na=False))))
    for text in () if asked.read else asked.line:
        rows, epsilon = text.split(":")
        if asked.write:
            patients(int(rows), np.random.default_rng()).to_csv(asked.write / f"patients_{rows}.csv", index=False)
            continue
        for how, told in (("**drawn**", True), ("cell by cell", False)):
            with together(told):
                runs = [drawn(int(rows), float(epsilon), asked.wide) for _ in range(asked.reps)]
            found = [statistics.fmean(x) for x in zip(*runs, strict=True)]
            print(line(f"{how}, {int(rows):,} at ε = {epsilon}", found), flush=True)


if __name__ == "__main__":
    main()
