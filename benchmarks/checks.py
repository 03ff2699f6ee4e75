"""How long the checks and the rules take: `python benchmarks/checks.py [--rows 50000] [--columns 19]`.

Makes synthetic rows of every common kind and prints what making them keep three rules adds to drawing them. Then asks Great
Expectations for three expectations a column, two of the table and the rules, with Data Docs, and prints the seconds of the
first validation, which imports the library, and of the next ones. The promise is 60 expectations on 50,000 rows in 10 s.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.reporting import data_docs
from dp_synth_pipeline.tabular import constraints
from dp_synth_pipeline.tabular.profiling.profile import ColumnProfile, TableProfile
from dp_synth_pipeline.tabular.schema import Kind, TableSchema, build
from dp_synth_pipeline.validation.check_plan import CheckPlan
from dp_synth_pipeline.validation.run import validate

RULES = ("n0 <= n1", "total = n0 + n1", "c0 -> c1")
DAY = 86_400_000_000

T = TypeVar("T")


def draw(rows: int, columns: int) -> pa.Table:
    """Return fresh rows: whole numbers, decimals, datetimes and categories in turn, a tenth of them null."""
    g = np.random.default_rng()
    made: dict[str, pa.Array] = {"total": pa.array(g.integers(0, 200, rows), mask=g.random(rows) < 0.1)}
    kinds = (
        lambda: ("n", g.integers(0, 100, rows)),
        lambda: ("c", g.choice(np.array([f"v{i}" for i in range(20)]), rows)),
        lambda: ("d", g.random(rows).round(3)),
        lambda: ("t", (g.integers(0, 3650, rows) * DAY).astype("datetime64[us]")),
    )
    for i in range(columns - 1):
        letter, values = kinds[i % len(kinds)]()
        made[f"{letter}{i // len(kinds)}"] = pa.array(values, mask=g.random(rows) < 0.1)
    return pa.table(made)


def released(schema: TableSchema, rows: int) -> TableProfile:
    """Return a profile that the rows of `draw` fit."""
    ends = {Kind.INTEGER: (0.0, 200.0), Kind.DECIMAL: (0.0, 1.0), Kind.DATETIME: (0.0, 3650.0 * DAY)}
    names = tuple(f"v{i}" for i in range(20))
    columns = []
    for c in schema.learned:
        if c.kind is Kind.CATEGORY:
            columns.append(ColumnProfile(c.name, c.kind, names, (0.045,) * 20, null_rate=0.1))
        else:
            columns.append(ColumnProfile(c.name, c.kind, (), (), (ends[c.kind],), (0.9,), null_rate=0.1, decimals=3))
    return TableProfile(rows, rows, "row", tuple(columns))


def made(declared: list[constraints.Rule], rows: int, columns: int) -> pa.Table:
    """Return rows that keep the rules."""
    return pa.concat_tables(constraints.enforced(lambda n: draw(n, columns), rows, declared))


def timed(what: str, work: Callable[[], T]) -> T:
    """Do some work and print the seconds that it took, of a clock and of a processor."""
    clock, processor = time.perf_counter(), time.process_time()
    done = work()
    print(f"  {what}: {time.perf_counter() - clock:.1f} s, {time.process_time() - processor:.1f} CPU s")
    return done


def main() -> None:
    """Print one line per figure."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=50_000)
    options.add_argument("--columns", type=int, default=19)
    options.add_argument("--reps", type=int, default=3)
    asked = options.parse_args()
    first = draw(asked.rows, asked.columns)
    schema = build({f.name: f.type for f in first.schema})
    profile, declared = released(schema, asked.rows), [constraints.parse(r) for r in RULES]
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "index.html"
        timed("drawing", lambda: draw(asked.rows, asked.columns))
        kept = timed("drawing, kept to three rules", lambda: made(declared, asked.rows, asked.columns))
        suite = CheckPlan(rules=declared).suite(schema, profile, asked.rows)
        print(f"{len(suite)} expectations on {kept.num_rows:,} rows:")
        results = timed("imports included", lambda: validate(kept, suite, docs=data_docs.to(page)))
        for _ in range(asked.reps - 1):
            timed("again", lambda: validate(kept, suite, docs=data_docs.to(page)))
        print("failed:", [r.name for r in results if not r.passed] or "none")


if __name__ == "__main__":
    main()
