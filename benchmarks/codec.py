"""How much the codec alone loses: real rows to codes and back, at the default profile share: `python benchmarks/codec.py`.

Without arguments: a table of every kind and shape of column, on generated rows. `--nulls`: what each null policy does to
fidelity and to the noise. `--adult TRAIN HOLDOUT`: mean 1-way and 2-way distances on real rows; `--scorer` judges them by
another program, called as `SCORER TRAIN HOLDOUT SYNTHETIC OUT --no-qa`. Nothing is trained: what is lost here, no model
brings back. Figures are means over `--runs`, each with fresh noise.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.synthesis import allocation
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.tabular.encoding import nulls
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling import measure, profile_plan
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.tabular.sources import ingestion, source
from dp_synth_pipeline.validation.binning import code
from dp_synth_pipeline.validation.fidelity import compare

DAY = 86_400_000_000
DELTA = 1e-5

Facts = Mapping[str, Any]


class Trip:
    """One table to codes and back, through the private profile that a release of this cost would measure."""

    def __init__(self, path: Path, folder: Path, cost: Facts, declared: Facts, policy: str = "keep") -> None:
        facts = {"source": str(path), "account": "benchmark", "delta": DELTA, "nulls": policy, **cost}
        settings = ReleaseSettings(**facts)
        folder.mkdir(exist_ok=True)
        self.snapshot = ingestion.snapshot(
            source.parse(str(path)), folder / f"{policy}.parquet", declared=declared, nulls=policy
        )
        self.schema: TableSchema = self.snapshot.schema
        asked = allocation.BudgetRequest.of(settings, DELTA)
        self.plan = allocation.plan_profile(settings, asked, self.schema, population=self.snapshot.units)
        self.folder = folder

    def run(self) -> tuple[TableProfile, TableCodec, pa.Table]:
        """Measure with fresh noise, encode and decode every row that the null policy leaves."""
        counted = Odometer(self.plan.count_events())
        population = measure.measure_population(self.snapshot.units, self.plan, counted)
        odometer = Odometer(self.plan.histogram_events(self.schema))
        profile = measure.measure(self.snapshot.path, self.schema, self.plan, population, odometer)
        codec = TableCodec(self.schema, profile)
        rows = nulls.complete(self.snapshot.path, self.schema, profile, self.folder / "completed.parquet")
        back = codec.decode(codec.encode(pq.read_table(rows)).astype(np.int64))
        return profile, codec, pa.Table.from_batches([back])


def frame(table: pa.Table) -> pd.DataFrame:
    """Return a table with its exact types."""
    return table.replace_schema_metadata(None).to_pandas(types_mapper=pd.ArrowDtype)


def told(cost: Facts) -> str:
    """Say what a release costs."""
    return f"epsilon {cost['epsilon']:g}, profile share {cost['profile_share']}"


def markdown(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """Print a table."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    print("\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines), flush=True)


def columns(n: int) -> tuple[dict[str, pa.Array], dict[str, dict[str, Any]]]:
    """Generate a column of each kind and shape, and what is declared about them."""
    g = np.random.default_rng()
    skew = np.exp(g.normal(3, 1.2, n))
    rank = (1 / np.arange(1, 5001)) / (1 / np.arange(1, 5001)).sum()
    names = [f"v{i:04}" for i in range(5000)]
    grades = ["none", "low", "middle", "high", "extreme"]
    holes = g.random(n) < 0.15
    made = {
        "category, 8 values": pa.array(g.choice([f"c{i}" for i in range(8)], n, p=g.dirichlet(np.ones(8) * 3))),
        "category, 5,000 values, long tail": pa.array(g.choice(names, n, p=rank)),
        "category, the same, declared": pa.array(g.choice(names, n, p=rank)),
        "ordinal, 5 grades": pa.array(g.choice(grades, n, p=[0.4, 0.3, 0.2, 0.08, 0.02])),
        "boolean, 3 % true": pa.array(g.random(n) < 0.03),
        "integer, a spike of 45 %": pa.array(np.where(g.random(n) < 0.45, 40, g.binomial(90, 0.45, n))),
        "integer, long tail": pa.array(g.zipf(1.7, n).clip(0, 10**9)),
        "integer, 15 % nulls": pa.array(g.poisson(30, n), mask=holes),
        "decimal, cents, skewed": pa.array(np.round(skew, 2)),
        "decimal, a continuum around 0": pa.array(g.normal(0, 1, n)),
        "date, with weekly rhythm": pa.array(
            (7000 + g.integers(0, 400, n) * 7 + (g.random(n) < 0.2)).astype(np.int32)
        ).cast(pa.date32()),
        "datetime, to the quarter hour, zoned": pa.array(g.integers(0, 365 * 96, n) * 900_000_000 + 18_262 * DAY).cast(
            pa.timestamp("us", "Europe/Paris")
        ),
        "duration, to the second, some negative": pa.array((g.normal(3600, 2400, n)).astype(np.int64) * 10**6).cast(
            pa.duration("us")
        ),
        "constant (not declared)": pa.array([7] * n),
        "nulls alone (not declared)": pa.nulls(n, pa.float64()),
    }
    ordered = {"kind": "ordinal", "categories": grades}
    return made, {"ordinal, 5 grades": ordered, "category, the same, declared": {"categories": names}}


def kinds(rows: int, runs: int, cost: Facts) -> None:
    """Print the distance of every generated column after encoding and decoding, next to what chance explains."""
    made, declared = columns(rows)
    found: dict[str, list[tuple[int, float, float]]] = {name: [] for name in made}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.parquet"
        pq.write_table(pa.table(made), path)
        trip = Trip(path, Path(folder) / "restricted", cost, declared)
        for _ in range(runs):
            _, codec, back = trip.run()
            figures = compare(frame(pa.table(made)), frame(back), trip.schema)
            for column, size in zip(figures.columns, codec.cardinalities, strict=True):
                found[column.name].append((size, column.distance, column.baseline))
    print(f"{rows:,} rows, {len(made)} columns, {told(cost)}, noise of {trip.plan.scale:.0f} rows a cell.\n")
    means = {n: np.mean(v, axis=0) for n, v in found.items()}
    head = ("column", "codes", "1-way distance", "of a fresh sample")
    markdown(head, ((n, round(s), f"{d:.4f}", f"{b:.4f}") for n, (s, d, b) in means.items()))


def holed(n: int) -> pa.Table:
    """Generate a table with nulls that depend on other columns, so that leaving rows out shifts what remains."""
    g = np.random.default_rng()
    age = g.binomial(90, 0.45, n)
    sector = g.choice(["office", "field", "plant"], n, p=[0.5, 0.3, 0.2])
    wage = np.round(np.exp(g.normal(6.5 + age / 100 + 0.3 * (sector == "office"), 0.5)), 2)
    visits = g.poisson(np.where(sector == "plant", 6, 2))
    since = (18_000 - 90 * age + g.integers(0, 4000, n)).astype(np.int32)
    grade = np.where(wage > np.quantile(wage, 0.7), "senior", np.where(age < 36, "junior", "middle"))
    return pa.table(
        {
            "age": age,
            "sector": sector,
            "wage": pa.array(wage, mask=g.random(n) < np.where(age > 45, 0.3, 0.1)),
            "visits": pa.array(visits, mask=g.random(n) < np.where(sector == "plant", 0.25, 0.02)),
            "since": pa.array(since, mask=g.random(n) < 0.05).cast(pa.date32()),
            "grade": pa.array(grade, mask=g.random(n) < np.where(sector == "field", 0.2, 0.05)),
        }
    )


def between(real: pd.DataFrame, back: pd.DataFrame, schema: TableSchema) -> tuple[float, float]:
    """Return mean 1-way and 2-way distances over values alone, without nulls."""
    cells = [code(c, pd.Series(real[c.name]), pd.Series(back[c.name])) for c in schema.learned]
    one = [_distance(c.real[c.real < c.size - 1], c.synthetic[c.synthetic < c.size - 1]) for c in cells]
    two = []
    for a, b in combinations(cells, 2):
        both = ((a.real, b.real), (a.synthetic, b.synthetic))
        two.append(_distance(*((x * b.size + y)[(x < a.size - 1) & (y < b.size - 1)] for x, y in both)))
    return float(np.mean(one)), float(np.mean(two))


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    size = int(max(a.max(initial=0), b.max(initial=0))) + 1
    p, q = np.bincount(a, minlength=size) / max(len(a), 1), np.bincount(b, minlength=size) / max(len(b), 1)
    return 0.5 * float(np.abs(p - q).sum())


def policies(rows: int, runs: int, cost: Facts) -> None:
    """Print what each null policy does to fidelity and to the noise, at the same epsilon."""
    table = holed(rows)
    constants = {"wage": 0, "visits": -1, "since": "1900-01-01", "grade": "unknown"}
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "holed.parquet"
        pq.write_table(table, path)
        for policy in ("keep", "mean", "median", "mode", "constant", "drop"):
            named = {n: {"nulls": policy, "constant": v} for n, v in constants.items()} if policy == "constant" else {}
            trip = Trip(path, Path(folder) / policy, cost, named, "keep" if named else policy)
            figures = []
            for _ in range(runs):
                _, _, back = trip.run()
                whole = compare(frame(table), frame(back), trip.schema)
                alone = between(frame(table), frame(back), trip.schema)
                figures.append((whole.distance1, whole.distance2, *alone, back.num_rows / rows))
            *distances, kept = np.mean(figures, axis=0)
            histograms = profile_plan.weight(trip.schema, trip.plan.unit, trip.plan.refined)
            costs = (f"{histograms:g}", f"{trip.plan.scale:.1f}", f"{kept:.0%}")
            lines.append((f"`{policy}`", *costs, *(f"{d:.3f}" for d in distances)))
    print(f"{rows:,} rows, {table.num_columns} columns, 4 of them with nulls, {told(cost)} for every policy.\n")
    distances = ("1-way", "2-way", "1-way, values", "2-way, values")
    markdown(("policy", "histograms", "noise, rows a cell", "rows kept", *distances), lines)


def adult(train: Path, holdout: Path, runs: int, cost: Facts, scorer: str | None, interpreter: str) -> None:
    """Print codec-only distances on real rows, by the package's own measure or by another scorer."""
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        trip = Trip(train, Path(folder) / "restricted", cost, {})
        real = pq.read_table(trip.snapshot.path)
        for _ in range(runs):
            _, _, back = trip.run()
            if scorer is None:
                whole = compare(frame(real), frame(back), trip.schema)
                figures.append((whole.distance1, whole.distance2))
                continue
            synthetic, out = Path(folder) / "back.csv", Path(folder) / "score.json"
            pc.write_csv(back, synthetic)
            command = [interpreter, scorer, str(train), str(holdout), str(synthetic), str(out), "--no-qa"]
            subprocess.run(command, check=True, capture_output=True)
            score = json.loads(out.read_text())["tvd"]
            figures.append((score["tvd1"], score["tvd2"]))
    mean, spread = np.mean(figures, axis=0), np.std(figures, axis=0)
    print(f"{train.name}: {told(cost)}, noise of {trip.plan.scale:.1f} rows a cell, {runs} runs.\n")
    lines = [[name, *(f"{x:.4f}" for x in row)] for name, row in (("mean", mean), ("deviation", spread))]
    markdown(("", "1-way", "2-way"), lines)


def main() -> None:
    """Print one table of Markdown."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=40_000)
    options.add_argument("--runs", type=int, default=5)
    options.add_argument("--epsilon", type=float, default=2.51, help="Of the whole release.")
    options.add_argument("--share", default="auto", help="The profile's part of the cost.")
    options.add_argument("--nulls", action="store_true")
    options.add_argument("--adult", nargs=2, type=Path, metavar=("TRAIN", "HOLDOUT"))
    options.add_argument("--scorer", help="A program that scores CSV files.")
    options.add_argument("--scorer-python", default=sys.executable, help="The interpreter that runs it.")
    asked = options.parse_args()
    share = "auto" if asked.share == "auto" else float(asked.share)
    cost = {"epsilon": asked.epsilon, "profile_share": share}
    if asked.adult:
        adult(asked.adult[0], asked.adult[1], asked.runs, cost, asked.scorer, asked.scorer_python)
    elif asked.nulls:
        policies(asked.rows, asked.runs, cost)
    else:
        kinds(asked.rows, asked.runs, cost)


if __name__ == "__main__":
    main()
