"""How near are conditional draws to the real rows of their condition? And how near is what `where` replaces?

    python benchmarks/conditional.py --train adult_train.csv --model adult.dps --where "income = '>50K'"

Draws as many rows on the condition as the table has real ones that satisfy it, and as many without; `filtered` are the rows
of unconditional draws that happen to satisfy it. `real` and `real, given` are as many real rows drawn again, with
replacement, of all and of those that satisfy it: what chance alone does. Prints the mean total variation distance of all
pairs of columns, each to its real rows, with and without the columns of the condition, which are easy to have right. Numbers
are cut at 20 quantiles of the real table. Without `--model`, one is trained at `--epsilon` and kept at `--save`. Real rows
are read, so the figures are restricted unless the table is public.
"""

from __future__ import annotations

import argparse
import itertools
from collections import defaultdict
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
from fresh_home import synthesizer

import dp_synth_pipeline as dps

BINS = 20


def codes(table: pd.DataFrame, real: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return each column's bins: quantiles of the real table, or its values; what is missing or new has bins of its own."""
    found = {}
    for name in real:
        if pd.api.types.is_numeric_dtype(real[name]):
            edges = np.unique(np.nanquantile(real[name].astype(float), np.linspace(0, 1, BINS + 1)[1:-1]))
            x = table[name].to_numpy(float)
            found[name] = np.where(np.isnan(x), len(edges) + 1, np.searchsorted(edges, x))
        else:
            values = sorted(real[name].dropna().astype(str).unique())
            place = {value: i for i, value in enumerate(values)}
            found[name] = np.array(
                [len(values) + 1 if pd.isna(v) else place.get(str(v), len(values)) for v in table[name]]
            )
    return found


def distance(one: dict[str, np.ndarray], other: dict[str, np.ndarray], columns: list[str]) -> float:
    """Return the mean total variation distance of all pairs of columns."""
    return float(np.mean([_apart(one, other, pair) for pair in itertools.combinations(columns, 2)]))


def _apart(one: dict[str, np.ndarray], other: dict[str, np.ndarray], pair: tuple[str, str]) -> float:
    width = 1 + max(table[pair[1]].max() for table in (one, other))
    cells = [table[pair[0]] * width + table[pair[1]] for table in (one, other)]
    size = 1 + max(c.max() for c in cells)
    first, second = (np.bincount(c, minlength=size) / len(c) for c in cells)
    return 0.5 * float(np.abs(first - second).sum())


def satisfying(table: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return the rows that satisfy an SQL condition."""
    return duckdb.query_df(table, "shown", f"SELECT * FROM shown WHERE {where}").df()


def trained(asked: argparse.Namespace) -> dps.SyntheticModel:
    """Return the model that is named, or a new one."""
    if asked.model is not None:
        return dps.load(asked.model)
    with synthesizer("conditional", asked.epsilon, show=True) as made:
        model = made.fit(asked.train)
    if asked.save is not None:
        model.save(asked.save)
    return model


def main() -> None:
    """Print the distances."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--train", type=Path, required=True, help="CSV that was synthesized")
    options.add_argument("--where", default="income = '>50K'")
    options.add_argument("--model", type=Path, help="a saved model; else one is trained")
    options.add_argument("--epsilon", type=float, default=2.51)
    options.add_argument("--save", type=Path, help="where a model that is trained is kept")
    options.add_argument("--reps", type=int, default=3, help="draws of each kind; figures are their means")
    asked = options.parse_args()
    model, real = trained(asked), pd.read_csv(asked.train)
    fitting = satisfying(real, asked.where)
    fixed = [name for name in real if name in asked.where]
    free = [name for name in real if name not in fixed]
    whole, part = codes(real, real), codes(fitting, real)
    rows = len(fitting)
    print(
        f"{rows:,} of {len(real):,} real rows satisfy {asked.where}; distances of as many drawn rows, {asked.reps} times"
    )
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for _ in range(asked.reps):
        plain, given = model.sample(rows), model.sample(rows, where=asked.where)
        filtered = satisfying(model.sample(round(1.1 * len(real))), asked.where).head(rows)
        for kind, drawn, target in (
            ("unconditional", plain, whole),
            ("conditional", given, part),
            ("filtered", filtered, part),
            ("real", real.sample(rows, replace=True), whole),
            ("real, given", fitting.sample(rows, replace=True), part),
        ):
            seen = codes(drawn, real)
            found[kind].append((distance(seen, target, list(real)), distance(seen, target, free)))
        print(f"effective sample size: {given.attrs['effective_sample_size']:,}")
    means = {kind: np.mean(figures, 0) for kind, figures in found.items()}
    print(f"{'':15} {'all columns':>12} {'the others':>12}")
    for kind, (every, others) in means.items():
        print(f"{kind:15} {every:12.4f} {others:12.4f}")
    ratio = means["conditional"] / means["unconditional"]
    print(f"{'ratio':15} {ratio[0]:12.2f} {ratio[1]:12.2f}")


if __name__ == "__main__":
    main()
