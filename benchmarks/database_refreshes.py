#!/usr/bin/env python
"""Related tables, refreshed again and again: is a refresh that remembers better than one by itself?

    python benchmarks/database_refreshes.py --patients 3000 --epsilon 4 --later 0.5 --refreshes 5

The tables are the made-up clinic of the tests, which stay as they are: what is drawn is compared with them, so the figures
tell of noise and of the model, and of no drift. *remembers*: `refresh: {remember: true, epsilon: LATER}`. *independent*: a
release of LATER by itself. *first alone*: one of EPSILON by itself, without counts of visits and drugs. Figures are mean
distances of all pairs of columns: of patients with their number of visits, and of visits beside their patient and the visit
before.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from scoring import Log

import dp_synth_pipeline as dps
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.tabular import schema as schema_lib
from dp_synth_pipeline.validation import fidelity

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.integration.clinic import clinic

RELATIONS = {
    "patients": {"key": "patient_id"},
    "visits": {"key": "visit_id", "parent": {"patient_id": "patients"}, "order": "visited", "max_rows": 6},
    "drugs": {"parent": {"visit_id": "visits"}, "max_rows": 3},
}
KEYS = ["patient_id", "visit_id"]
DELTA = 1e-5


def beside(tables: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return patients with their number of visits, and visits beside their patient and the visit before."""
    visits = tables["visits"].sort_values(["patient_id", "visited"], kind="stable").reset_index(drop=True)
    number = visits.groupby("patient_id").size()
    patients = tables["patients"].assign(visits=tables["patients"]["patient_id"].map(number).fillna(0).astype(int))
    drugs = tables["drugs"].groupby("visit_id").size()
    visits["drugs"] = visits["visit_id"].map(drugs).fillna(0).astype(int)
    own = visits.drop(columns=KEYS)
    before = own.groupby(visits["patient_id"]).shift().add_prefix("before_").convert_dtypes()
    wide = visits.join(before).merge(patients, on="patient_id")
    return {"patients": patients.drop(columns=KEYS[:1]), "visits": wide.drop(columns=KEYS)}


def figures(model: Any, real: dict[str, pd.DataFrame]) -> dict[str, float]:
    """Return how far drawn tables are from the real ones."""
    known, drawn = beside(real), beside(model.sample(len(real["patients"])))
    found = {}
    for name, frame in known.items():
        fields = pa.Table.from_pandas(frame, preserve_index=False).schema
        schema = schema_lib.build({field.name: field.type for field in fields})
        found[name] = fidelity.compare(frame, drawn[name], schema).distance2
    return found


def releases(way: str, asked: argparse.Namespace, folder: Path, log: Log) -> None:
    """Make the releases of one way, and keep the figures of each."""
    ledger = dps.Ledger.open(f"sqlite:///{folder}/ledger.db")
    ledger.open_account("patients", epsilon=asked.epsilon * 10, delta=DELTA, unit="patient_id", why="a benchmark")
    remembers, epsilon = way == "remembers", asked.later if way == "independent" else asked.epsilon
    refresh = {"remember": True, "epsilon": asked.later} if remembers else {}
    terms = {"training": {"purpose": asked.purpose}, "refresh": refresh, "store": Store(folder / "store")}
    fitter = dps.Synthesizer("patients", epsilon, ledger, table="clinic", show=False, **terms)
    real = clinic(asked.patients)
    for number in range(1 + asked.refreshes if remembers else 1):
        begun = time.process_time()
        model = fitter.fit(real, relations=RELATIONS)
        spent, added = time.process_time() - begun, ledger.releases("patients")[-1].final_epsilon
        found = figures(model, real)
        log.add({"way": way, "refresh": number, "epsilon": model.epsilon, "added": added, **found, "CPU s": spent})
        print(way, number, f"{model.epsilon:.3f}", *(f"{v:.4f}" for v in found.values()), f"{spent:.0f} s", flush=True)


def main() -> None:
    """Run what is left to run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patients", type=int, default=3000)
    parser.add_argument("--epsilon", type=float, default=4.0, help="of the first release")
    parser.add_argument("--later", type=float, default=0.5, help="of each later one")
    parser.add_argument("--refreshes", type=int, default=5, help="after the first release")
    parser.add_argument("--purpose", default="testing", help="how long a release trains")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "database_refreshes.csv")
    asked = parser.parse_args()
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    log = Log(asked.out, ("way", "refresh"))
    for way in ("independent", "remembers", "first alone"):
        if not log.done(way=way, refresh=0.0):
            with tempfile.TemporaryDirectory() as folder:
                releases(way, asked, Path(folder), log)


if __name__ == "__main__":
    main()
