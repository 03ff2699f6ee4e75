"""SynthEval's utility: `python -I syntheval.py TRAIN.csv HOLDOUT.csv SYNTHETIC.csv OUT.json --target COLUMN`.

`mutual_information` (pairs of columns) and `propensity` (can a regression tell the rows?), as SynthEval normalizes them:
from 0 to 1, which is perfect. A column is a number if pandas reads it as one. Its Hellinger distance is left out, since
with the default scaling all values of a number fall into one bin.
"""

import argparse
import contextlib
import json
import tempfile

import pandas as pd
from syntheval import SynthEval

NAMED = {"mutual_inf_diff": "mutual_information", "avg_pMSE": "propensity"}


def main() -> None:
    """Write the two scores."""
    options = argparse.ArgumentParser(description=__doc__)
    for name in ("train", "holdout", "synthetic", "out"):
        options.add_argument(name)
    options.add_argument("--target", required=True)
    asked = options.parse_args()
    train, holdout, synthetic = (pd.read_csv(p) for p in (asked.train, asked.holdout, asked.synthetic))
    numbers = [c for c in train if pd.api.types.is_numeric_dtype(train[c]) and not pd.api.types.is_bool_dtype(train[c])]
    evaluator = SynthEval(
        train,
        holdout_dataframe=holdout,
        cat_cols=[c for c in train if c not in numbers],
        missing_directive="drop",
        verbose=False,
        enable_plots=False,
        console="off",
    )
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # it writes its settings where it is
        scores = evaluator.evaluate(synthetic[list(train.columns)], asked.target, mi_diff={}, p_mse={})
    values = scores.set_index("metric")["n_val"]
    found = {name: float(values[metric]) for metric, name in NAMED.items()}
    with open(asked.out, "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
