"""How far are releases off, beside what is expected before they are made?

    python benchmarks/expected.py --csv adult=adult_train.csv --line adult:1000:15:1 adult:5000:5:1 rand:2000:10:0.5

A line is TABLE:ROWS:COLUMNS:EPSILON: so many rows of a table, drawn at random, and its last columns, released once from a
CSV by the defaults, everything charged, at delta 1e-5. Tables are CSV files, and two that the `statsmodels` package ships
(rand, fair). Distances are those of the quality report, to the rows that were learnt. Each finished line goes to
`figures/expected.csv`, from which a table of `docs/choosing.md` is made: python docs/site/reference.py docs/choosing.md
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import pandas as pd
from scoring import Log
from studies.network_alone import TABLES

import dp_synth_pipeline as dps
from dp_synth_pipeline.synthesis.expected_quality import Shape
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.validation import fidelity

DELTA = 1e-5


def release(real: pd.DataFrame, epsilon: float) -> dict[str, float]:
    """Return how far one release of these rows is off, and the cells of a column that its own profile tells."""
    with tempfile.TemporaryDirectory() as folder:
        ledger, store = dps.Ledger.open(f"sqlite:///{folder}/ledger.db"), Store(Path(folder) / "store")
        real.to_csv(source := Path(folder) / "rows.csv", index=False)
        ledger.open_account("once", epsilon=epsilon, delta=DELTA, rule="plan")
        model = dps.Synthesizer("once", epsilon, ledger, table="rows", store=store, show=False, delta=DELTA).fit(source)
        drawer = model.drawer()
        names = [c.name for c in drawer.codec.schema.learned]
        near = fidelity.compare(real[names], model.sample(len(real))[names], drawer.codec.schema)
        cells = Shape.of(drawer.profile).cells
    return {"cells": round(cells, 2), "tvd1": round(near.distance1, 5), "tvd2": round(near.distance2, 5)}


def main() -> None:
    """Release what is left to release."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", nargs="*", default=[], help="NAME=PATH")
    parser.add_argument("--line", nargs="+", required=True, help="TABLE:ROWS:COLUMNS:EPSILON")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "figures" / "expected.csv")
    asked = parser.parse_args()
    files = dict(text.split("=", 1) for text in asked.csv)
    log = Log(asked.out, ("table", "rows", "columns", "epsilon"))
    for line in asked.line:
        table, rows, columns, epsilon = line.split(":")
        place = {"table": table, "rows": float(rows), "columns": float(columns), "epsilon": float(epsilon)}
        if not log.done(**place):
            whole = pd.read_csv(files[table]) if table in files else TABLES[table]().to_pandas()
            real = whole.sample(int(rows)).reset_index(drop=True)[list(whole)[-int(columns) :]]
            log.add({**place, **release(real, float(epsilon))})
            print(log.rows[-1], flush=True)


if __name__ == "__main__":
    main()
