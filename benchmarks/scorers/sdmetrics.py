"""SDMetrics' quality report: `python -I sdmetrics.py TRAIN.csv HOLDOUT.csv SYNTHETIC.csv OUT.json --target COLUMN`.

`sd_shapes` and `sd_pairs`: its scores of columns and of pairs of columns, from 0 to 1, against the training rows. A column
is a number if pandas reads it as one, and a category otherwise; the held-out rows and the target are not used.
"""

import argparse
import json

import pandas as pd
from sdmetrics.reports.single_table import QualityReport


def main() -> None:
    """Write the two scores."""
    options = argparse.ArgumentParser(description=__doc__)
    for name in ("train", "holdout", "synthetic", "out"):
        options.add_argument(name)
    options.add_argument("--target")
    asked = options.parse_args()
    real = pd.read_csv(asked.train)
    synthetic = pd.read_csv(asked.synthetic)[list(real.columns)]
    columns = {}
    for name in real:
        number = pd.api.types.is_numeric_dtype(real[name]) and not pd.api.types.is_bool_dtype(real[name])
        columns[name] = {"sdtype": "numerical" if number else "categorical"}
        if number:
            synthetic[name] = pd.to_numeric(synthetic[name], errors="coerce")
        else:
            real[name], synthetic[name] = real[name].astype(object), synthetic[name].astype(object)
    report = QualityReport()
    report.generate(real, synthetic, {"columns": columns}, verbose=False)
    scores = report.get_properties().set_index("Property")["Score"]
    found = {"sd_shapes": float(scores["Column Shapes"]), "sd_pairs": float(scores["Column Pair Trends"])}
    with open(asked.out, "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
