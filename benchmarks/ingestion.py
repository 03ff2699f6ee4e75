"""How much memory and time ingestion takes: `python benchmarks/ingestion.py [--rows 10000000]`.

Writes a CSV of made-up rows, then reads it in a fresh process, with rows and with persons as privacy units, and prints the
peak resident memory of that process. The promise is under 2 GiB for ten million rows.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.tabular.profiling import measure
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan
from dp_synth_pipeline.tabular.sources import ingestion, source

COLUMNS = """(random() * 80)::INT AS age, ['a', 'b', 'c', 'd'][1 + (random() * 3.99)::INT % 4] AS kind,
    round(exp(random() * 6), 2) AS amount, DATE '2020-01-01' + (random() * 1000)::INT AS day, random() < 0.3 AS flag"""


def ingest(csv: Path, folder: Path, unit: PrivacyUnit) -> None:
    """Snapshot and profile one CSV, and print what it took."""
    began = time.perf_counter()
    taken = ingestion.snapshot(source.parse(str(csv)), folder / "snapshot.parquet", unit=unit)
    read = time.perf_counter() - began
    plan = ProfilePlan(0.05, 25.0 * unit.max_rows, 1e-8, unit)
    population = measure.measure_population(taken.units, plan, Odometer(plan.count_events()))
    measure.measure(taken.path, taken.schema, plan, population, Odometer(plan.histogram_events(taken.schema)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"unit {unit}: snapshot {read:.1f} s, with profile {time.perf_counter() - began:.1f} s, peak {peak:.2f} GiB")


def main() -> None:
    """Make the rows and read them twice, each time in a process of its own."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=10_000_000)
    options.add_argument("--ingest", nargs=2, metavar=("CSV", "UNIT"), help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.ingest:
        csv, unit = Path(asked.ingest[0]), asked.ingest[1]
        with tempfile.TemporaryDirectory() as folder:
            ingest(csv, Path(folder), PrivacyUnit() if unit == "row" else PrivacyUnit(unit, 4))
        return
    with tempfile.TemporaryDirectory() as folder:
        csv = Path(folder) / "rows.csv"
        person = f"i % {max(asked.rows * 3 // 10, 1)} AS person"
        duckdb.sql(f"COPY (SELECT {person}, {COLUMNS} FROM range({asked.rows}) t(i)) TO '{csv}' (HEADER)")
        print(f"{asked.rows:,} rows, {csv.stat().st_size / 2**20:.0f} MiB of CSV")
        for unit in ("row", "person"):
            subprocess.run([sys.executable, __file__, "--ingest", str(csv), unit], check=True)


if __name__ == "__main__":
    main()
