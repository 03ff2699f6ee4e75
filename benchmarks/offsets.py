"""What declaring that columns hang on each other is worth, on the demo's visits, whose truth is known:

    python benchmarks/offsets.py --epsilon 4 --reps 3

Four ways, each a whole release in process: dates by themselves (`after: false`), with the rule `discharged >= visited` or
without, nothing declared, and the facts `same_as` and `after`. Figures are of drawn rows against the simulated ones. It
needs no data and no scorer.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import pandas as pd
from fresh_home import synthesizer

from dp_synth_pipeline.demo.clinic import clinic_visits
from dp_synth_pipeline.validation import figures

COLUMNS: dict[str, Any] = {
    "patient_id": {"kind": "identifier"},
    "sex": {"categories": ["F", "M", "X"]},
    "minutes": {"lower": 5, "upper": 240},
}
APART: dict[str, Any] = COLUMNS | {name: {"after": False} for name in ("born", "visited", "arrived", "discharged")}
WAYS: dict[str, dict[str, Any]] = {
    "dates by themselves": {"columns": APART},
    "by themselves, and a rule": {"columns": APART, "validation": {"rules": ["discharged >= visited"]}},
    "nothing declared": {"columns": COLUMNS},
    "`same_as`, `after`": {
        "columns": {**COLUMNS, "visited": {"same_as": "arrived"}, "discharged": {"after": "visited"}}
    },
}
FIGURES = ("same day %", "in order %", "median stay", "mean stay", "accuracy", "told apart", "CPU s")


def truth(rows: pd.DataFrame) -> list[float]:
    """Return how often the visit is on the day of arrival and the stay in order, and its median and mean, in days."""
    visited, left = pd.to_datetime(rows["visited"]), pd.to_datetime(rows["discharged"])
    stay = (left - visited).dt.days.dropna()
    same = visited == pd.to_datetime(rows["arrived"]).dt.normalize()
    return [100 * same.mean(), 100 * (stay >= 0).mean(), stay.median(), stay.mean()]


def released(how: dict[str, Any], epsilon: float, real: pd.DataFrame) -> tuple[list[float], str]:
    """Return the figures of one release, and the report's verdict."""
    begun = time.process_time()
    with synthesizer("clinic", epsilon, unit="patient_id", max_rows=3, table="visits", **how) as fitter:
        model = fitter.fit(clinic_visits())
        drawn = model.sample(len(real))
        spent = time.process_time() - begun
        learned = [c.name for c in model.drawer().codec.schema.learned]
        found = figures.measure(real[learned], drawn[learned], model.drawer().codec.schema)
    apart = float("nan") if found.told_apart is None else found.told_apart.auc
    return [*truth(drawn), 100 * found.accuracy.overall, apart, spent], found.fidelity.verdict


def main() -> None:
    """Print one line of Markdown for each way: medians of the runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--reps", type=int, default=1)
    asked = parser.parse_args()
    real = clinic_visits().to_pandas()
    print(f"| way | {' | '.join(FIGURES)} | verdicts |\n|{'---|' * (len(FIGURES) + 2)}")
    print(f"| real rows | {' | '.join(f'{x:.3g}' for x in truth(real))} | | | | |")
    for name, how in WAYS.items():
        runs = [released(how, asked.epsilon, real) for _ in range(asked.reps)]
        medians = [statistics.median(run[0][i] for run in runs) for i in range(len(FIGURES))]
        print(
            f"| {name} | {' | '.join(f'{x:.3g}' for x in medians)} | {', '.join(run[1] for run in runs)} |", flush=True
        )


if __name__ == "__main__":
    main()
