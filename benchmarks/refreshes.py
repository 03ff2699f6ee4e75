"""Is each refresh of a year better than the last? A table every week, at one epsilon for the year, in three ways:

    python benchmarks/refreshes.py --adult adult_train.csv --rows 15000 --look 0 1 4 10 20 30 40 51

*remembers*: `refresh: {remember: true}`, with the epsilons that `dp-synth ledger forecast --remember` gives. *independent*:
as many refreshes of one epsilon, each by itself but for the profile, which is reused. *kept*: one release with all of it,
kept for the year. Tables: the census, and the demo's visits of whole patients. Drift: none (the same rows each week), slow
(a tilt of the rows towards one end that grows all year) and sudden (two thirds of that at once, after a quarter of it).
Figures are of drawn rows against that week's rows: mean distance of one and of two columns, and TSTR on the week's own rows.

Goes on where it was interrupted, except that a way whose releases were begun is begun anew. What it writes is restricted.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scoring import Log

import dp_synth_pipeline as dps
from dp_synth_pipeline.demo.clinic import clinic_visits
from dp_synth_pipeline.synthesis.horizon import FIRST, divided
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.validation import fidelity, learners

SLOW, SUDDEN, QUIET = 1.0, 0.67, 0.25
"""Tilt that a slow drift reaches at the year's end, that a sudden one has, and the part of the year before that comes."""

DELTA, DRIFTS, WAYS = 1e-5, ("none", "slow", "sudden"), ("remembers", "independent", "kept")
VISITS = {
    "patient_id": {"kind": "identifier"},
    "sex": {"categories": ["F", "M", "X"]},
    "minutes": {"lower": 5, "upper": 240},
    "visited": {"same_as": "arrived"},
    "discharged": {"after": "visited"},
}


@dataclass(frozen=True)
class Table:
    """A pool of rows that each week's table is chosen from.

    Attributes:
        unit: number of the unit of each row.
        tilt: by unit, where it stands on the line along which the table drifts, with deviation 1.
        units: how many each week has.
        chance: by unit, so that most of those who are in one week are in the next.
    """

    rows: pd.DataFrame
    unit: np.ndarray
    tilt: np.ndarray
    units: int
    chance: np.ndarray
    target: str
    account: dict[str, Any]
    settings: dict[str, Any]

    def week(self, drift: str, week: int, weeks: int) -> pd.DataFrame:
        """Return one week's rows: a weighted sample without replacement (Efraimidis & Spirakis 2006)."""
        strength = {"none": 0.0, "slow": SLOW * week / (weeks - 1), "sudden": SUDDEN * (week >= QUIET * weeks)}[drift]
        order = np.argsort(np.log(self.chance) / np.exp(strength * self.tilt))[::-1]
        chosen = np.zeros(len(self.tilt), bool)
        chosen[order[: self.units]] = True
        return self.rows[chosen[self.unit]].reset_index(drop=True)


def _line(values: np.ndarray) -> np.ndarray:
    scaled = (values - values.mean()) / values.std()
    return np.clip(scaled, -2.5, 2.5)


def tables(asked: argparse.Namespace) -> Iterator[tuple[str, Table]]:
    """Yield the tables that are asked for; the choice of rows protects nobody, so it is the same in each run."""
    rng = np.random.Generator(np.random.PCG64(0))
    if asked.adult:
        rows = pd.read_csv(asked.adult)
        line = _line(_line(rows["age"].to_numpy()) + 0.5 * _line(rows["hours_per_week"].to_numpy()))
        yield "adult", Table(rows, np.arange(len(rows)), line, asked.rows, rng.random(len(rows)), "income", {}, {})
    if asked.visits:
        rows = clinic_visits().to_pandas()
        patients, unit = np.unique(rows["patient_id"], return_inverse=True)
        born = rows.groupby("patient_id")["born"].first().reindex(patients)
        line = _line(-pd.to_datetime(born).astype("int64").to_numpy().astype(float))
        account = {"unit": "patient_id", "max_rows": 3}
        settings = {"columns": VISITS, "training": {"purpose": asked.purpose}}
        yield (
            "clinic_visits",
            Table(rows, unit, line, len(patients) // 2, rng.random(len(patients)), "urgent", account, settings),
        )


def refreshed(way: str, table: Table, asked: argparse.Namespace, folder: Path) -> Callable[[pd.DataFrame], Any]:
    """Return what makes the next release of a table in one way; it returns the model and what it cost by itself."""
    ledger, store = dps.Ledger.open(f"sqlite:///{folder}/ledger.db"), Store(folder / "store")
    ledger.open_account("year", epsilon=asked.epsilon, delta=DELTA, **table.account)
    every = ledger.affordable("year", times=asked.weeks)
    first, later = divided(ledger, "year", asked.weeks, asked.first)
    epsilon = {"remembers": first, "independent": every, "kept": ledger.affordable("year", times=1)}[way]
    refresh = {"remember": True, "epsilon": later} if way == "remembers" else {}
    terms = {"training": {"purpose": asked.purpose}, **table.settings, "refresh": refresh}
    fitter = dps.Synthesizer("year", epsilon, ledger, table="rows", store=store, show=False, **terms)

    def release(rows: pd.DataFrame) -> tuple[Any, float]:
        model = fitter.fit(rows)
        return model, float(ledger.releases("year")[-1].final_epsilon or 0.0)

    return release


def figures(model: Any, real: pd.DataFrame, target: str) -> dict[str, float]:
    """Return how near drawn rows are to a week's, and how well they teach it."""
    schema = model.drawer().codec.schema
    names = [c.name for c in schema.learned]
    drawn = model.sample(len(real))[names]
    near = fidelity.compare(real[names], drawn, schema)
    told = learners.predict(real[names], drawn, schema, target, np.random.default_rng(0))
    return {"tvd1": near.distance1, "tvd2": near.distance2, "TSTR": told.synthetic if told else float("nan")}


def year(name: str, table: Table, drift: str, way: str, asked: argparse.Namespace, log: Log) -> None:
    """Make the releases of one year in one way, and keep the figures of the weeks that are looked at."""
    place = {"table": name, "drift": drift, "way": way}
    left = [week for week in asked.look if not log.done(**place, week=float(week))]
    if not left:
        return
    with tempfile.TemporaryDirectory() as folder:
        release, model, added = refreshed(way, table, asked, Path(folder)), None, 0.0
        for week in range(max(left) + 1):
            rows, begun = table.week(drift, week, asked.weeks), time.process_time()
            if model is None or way == "remembers" or (way == "independent" and week in left):
                model, added = release(rows)
            spent = time.process_time() - begun
            if week in left:
                found = figures(model, rows, table.target)
                log.add({**place, "week": week, "epsilon": model.epsilon, "added": added, **found, "CPU s": spent})
                print(
                    *place.values(), week, *(f"{value:.4f}" for value in found.values()), f"{spent:.0f} s", flush=True
                )


def main() -> None:
    """Run what is left to run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adult", type=Path, help="CSV of the census; without it, the visits alone")
    parser.add_argument("--visits", action=argparse.BooleanOptionalAction, default=True, help="the demo's visits too")
    parser.add_argument("--rows", type=int, default=15_000, help="of the census, each week")
    parser.add_argument("--epsilon", type=float, default=6.0, help="for the whole year")
    parser.add_argument("--weeks", type=int, default=52)
    parser.add_argument(
        "--first", type=float, default=FIRST, help="part of the signal for the first release of those that remember"
    )
    parser.add_argument(
        "--look", type=int, nargs="+", default=[0, 1, 4, 10, 20, 30, 40, 51], help="weeks that are scored"
    )
    parser.add_argument("--drifts", nargs="+", choices=DRIFTS, default=DRIFTS)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument(
        "--purpose", default="testing", help="how long a release trains, as in `training: {purpose: ...}`"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "refreshes.csv")
    asked = parser.parse_args()
    log = Log(asked.out, ("table", "drift", "way", "week"))
    for name, table in tables(asked):
        for drift in asked.drifts:
            for way in asked.ways:
                year(name, table, drift, way, asked, log)


if __name__ == "__main__":
    main()
