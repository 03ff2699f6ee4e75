"""mostlyai-qa's report: `python -I mostlyai_qa.py TRAIN.csv HOLDOUT.csv SYNTHETIC.csv OUT.json --target COLUMN`.

`qa_accuracy`: its overall accuracy, from 0 to 1. `qa_disc`: the AUC of its discriminator, training rows against synthetic
ones; 0.5 is perfect. The target is not used.
"""

import argparse
import json
import tempfile
from pathlib import Path

import pandas as pd
from mostlyai import qa


def main() -> None:
    """Write the two figures."""
    options = argparse.ArgumentParser(description=__doc__)
    for name in ("train", "holdout", "synthetic", "out"):
        options.add_argument(name)
    options.add_argument("--target")
    asked = options.parse_args()
    train, holdout, synthetic = (pd.read_csv(p) for p in (asked.train, asked.holdout, asked.synthetic))
    with tempfile.TemporaryDirectory() as folder:
        _, metrics = qa.report(
            syn_tgt_data=synthetic[list(train.columns)],
            trn_tgt_data=train,
            hol_tgt_data=holdout,
            report_path=Path(folder) / "report.html",
        )
    found = {
        "qa_accuracy": metrics.accuracy.overall,
        "qa_disc": metrics.similarity.discriminator_auc_training_synthetic,
    }
    with open(asked.out, "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
