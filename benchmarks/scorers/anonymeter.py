"""Anonymeter's attacks: `python -I anonymeter.py TRAIN.csv HOLDOUT.csv SYNTHETIC.csv OUT.json --target COLUMN`.

Each risk is from 0 to 1, and is what an attack on training rows reaches beyond the same attack on held-out rows, its
control: `singling_out` (three columns at a time), `linkability` (the first half of the columns with the second) and
`inference` (of the target from all others). `..._ci` is half the width of its 95 % interval.
"""

import argparse
import json

import pandas as pd
from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator

ATTACKS = 500
CLASSES = 50
"""A target of numbers of more values is inferred by regression."""
TRIES = 200_000
"""Predicates of singling out that are tried at most."""


def main() -> None:
    """Write the three risks."""
    options = argparse.ArgumentParser(description=__doc__)
    for name in ("train", "holdout", "synthetic", "out"):
        options.add_argument(name)
    options.add_argument("--target", required=True)
    asked = options.parse_args()
    train, holdout, synthetic = (pd.read_csv(p) for p in (asked.train, asked.holdout, asked.synthetic))
    columns = list(train.columns)
    numbers = list(train.select_dtypes("number"))
    kinds = {c: float if c in numbers else str for c in columns}  # the same types in all three, or it refuses them
    train, holdout, synthetic = (rows[columns].astype(kinds) for rows in (train, holdout, synthetic))
    half, others = len(columns) // 2, [c for c in columns if c != asked.target]
    rows = {"ori": train, "syn": synthetic, "control": holdout, "n_attacks": min(ATTACKS, len(holdout))}
    number = train[asked.target].nunique() > CLASSES and asked.target in numbers
    attacks = {
        "singling_out": SinglingOutEvaluator(**rows, n_cols=3, max_attempts=TRIES),
        "linkability": LinkabilityEvaluator(**rows, aux_cols=(columns[:half], columns[half:])),
        "inference": InferenceEvaluator(**rows, aux_cols=others, secret=asked.target, regression=number),
    }
    found = {}
    for name, attack in attacks.items():
        attack.evaluate(**({} if name == "singling_out" else {"n_jobs": 1}))
        risk = attack.risk()
        found |= {name: float(risk.value), f"{name}_ci": float(risk.ci[1] - risk.ci[0]) / 2}
    with open(asked.out, "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
