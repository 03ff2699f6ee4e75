#!/usr/bin/env python
"""Does our fidelity report say what mostlyai-qa says of the same tables?

    python benchmarks/agreement.py --train TRAIN.csv --holdout HOLDOUT.csv --qa-python PYTHON [--synthetic TABLE.csv ...]

`PYTHON` is the interpreter of an environment outside the project that has mostlyai-qa (`pip install torch mostlyai-qa`).
Real rows are TRAIN and HOLDOUT together, which is what mostlyai-qa compares accuracy with. Without `--synthetic`, three
stand-ins are compared, from good to bad: rows drawn again, rows with a column in three redrawn by itself, and all columns
drawn by themselves. Ends with 1 if an accuracy differs by more than 0.005. What it prints is restricted: it is computed
from real rows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from dp_synth_pipeline.tabular.schema import build
from dp_synth_pipeline.validation.accuracy import accuracy

FIGURES = {"overall": "overall", "univariate": "one", "bivariate": "two", "trivariate": "three", "overall_max": "best"}
TOLERANCE = 0.005

THEIRS = """
import json, sys, tempfile, pandas as pd
from mostlyai import qa
*paths, embedded = sys.argv[1:]
train, holdout, synthetic = (pd.read_csv(p) for p in paths)
with tempfile.TemporaryDirectory() as folder:
    _, found = qa.report(syn_tgt_data=synthetic, trn_tgt_data=train, hol_tgt_data=holdout, report_path=folder + "/r.html",
                         max_sample_size_embeddings=json.loads(embedded))
print(json.dumps(found.model_dump(), default=float))
"""


def theirs(
    python: str, train: Path, holdout: Path, synthetic: Path, embedded: int | None = None
) -> dict[str, dict[str, float]]:
    """Return mostlyai-qa's figures by their group, such as `accuracy` and `similarity`.

    Args:
        embedded: how many rows similarity and distances are told of; None for all.
    """
    command = [python, "-c", THEIRS, train, holdout, synthetic, json.dumps(embedded)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"HF_HUB_OFFLINE": "1"})
    if done.returncode:
        raise SystemExit(f"mostlyai-qa failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def ours(real: pd.DataFrame, synthetic: pd.DataFrame) -> dict[str, float]:
    """Return our figures under their names."""
    schema = build({f.name: f.type for f in pa.Schema.from_pandas(real, preserve_index=False)})
    found = accuracy(real, synthetic, schema, np.random.default_rng())
    return {name: getattr(found, field) for name, field in FIGURES.items()}


def stand_ins(train: pd.DataFrame, folder: Path) -> list[Path]:
    """Write three tables made of real rows, from good to bad, into a folder that goes away."""
    made = []
    for name, every in (
        ("rows drawn again", 0),
        ("a third of the columns by themselves", 3),
        ("columns by themselves", 1),
    ):
        table = train.sample(frac=1, replace=True).reset_index(drop=True)
        for i, column in enumerate(table):
            if every and i % every == 0:
                table[column] = table[column].sample(frac=1).to_numpy()
        made.append(folder / f"{name}.csv")
        table.to_csv(made[-1], index=False)
    return made


def main() -> int:
    """Print both programs' figures, and say whether they agree."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--train", type=Path, required=True)
    options.add_argument("--holdout", type=Path, required=True)
    options.add_argument("--synthetic", type=Path, nargs="*")
    options.add_argument("--qa-python", required=True)
    asked = options.parse_args()
    train, holdout = pd.read_csv(asked.train), pd.read_csv(asked.holdout)
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for path in asked.synthetic or stand_ins(train, Path(folder)):
            began = time.process_time()
            mine = ours(pd.concat([train, holdout], ignore_index=True), pd.read_csv(path)[list(train)])
            print(f"\n{path.stem} (ours: {time.process_time() - began:.1f} CPU s)")
            other = theirs(asked.qa_python, asked.train, asked.holdout, path, embedded=500)["accuracy"]
            for name in FIGURES:
                gap = mine[name] - other[name]
                worst = max(worst, abs(gap))
                print(f"  {name:12} ours {mine[name]:.4f}  mostlyai-qa {other[name]:.4f}  difference {gap:+.4f}")
    print(f"\nlargest difference {worst:.4f}, tolerance {TOLERANCE}")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
