"""How near the calendar of drawn dates is to that of real ones, on a made-up clinic whose opening hours are known:

    python benchmarks/calendars.py --epsilon 2.5 --reps 3

The clinic is closed on Sundays, most Saturdays and from 18 to 8 o'clock. Half of its visits follow the one before after
one, seven, 14 or 28 days. It is released in process twice: its visits as a table of rows, and with their patients as
histories. Beside each stands what the same release draws without its calendar. It needs no data and no scorer.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pandas as pd
from fresh_home import synthesizer

from dp_synth_pipeline.tabular.profiling.profile import TableProfile

PATIENTS = 4_000
GAPS = (1, 7, 14, 28)
ROWS, HISTORIES = "rows", "histories"
FIGURES = ("closed days %", "closed hours %", "weekdays", "hours", "1 January %", "distances")
RELATIONS = {
    "patients": {"key": "patient_id"},
    "visits": {"parent": {"patient_id": "patients"}, "order": "seen", "max_rows": 15},
}


def opened(days: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the first open day from each on; three Saturdays in ten are open."""
    weekday = (days + 3) % 7
    shut = (weekday == 6) | ((weekday == 5) & (rng.random(len(days)) < 0.7))
    while shut.any():
        days = days + shut
        weekday = (days + 3) % 7
        shut &= (weekday == 6) | ((weekday == 5) & (rng.random(len(days)) < 0.7))
    return days


def clinic() -> dict[str, pd.DataFrame]:
    """Return patients, of whom one in ten was born on a day that nobody knows, and their visits."""
    rng = np.random.default_rng()
    day, left, visits = opened(17_897 + rng.integers(0, 700, PATIENTS), rng), 1 + rng.poisson(3, PATIENTS), []
    who = np.arange(PATIENTS)
    while len(who):
        at = day[who] * 1440 + (12 * (8 + 10 * rng.beta(2, 2, len(who)))).astype(int) * 5
        seen = {"seen": pd.to_datetime(at, unit="m"), "score": rng.normal(50, 10, len(who)).round(1)}
        visits.append(pd.DataFrame({"patient_id": who, **seen}))
        regular = rng.random(len(who)) < 0.5
        gap = np.where(regular, rng.choice(GAPS, len(who)), 1 + rng.exponential(40, len(who)).astype(int))
        day[who] = opened(day[who] + gap, rng)
        left[who] -= 1
        who = who[left[who] > 0]
    born = np.datetime64("1930-01-01") + rng.integers(0, 70 * 365, PATIENTS)
    born = np.where(rng.random(PATIENTS) < 0.1, born.astype("datetime64[Y]").astype("datetime64[D]"), born)
    told = {"sex": rng.choice(["f", "m"], PATIENTS), "born": pd.Series(born).dt.date}
    patients = pd.DataFrame({"patient_id": np.arange(PATIENTS), **told})
    return {"patients": patients, "visits": pd.concat(visits, ignore_index=True)}


def shares(values: pd.Series, cells: int) -> np.ndarray:
    return np.bincount(values, minlength=cells) / len(values)


def figures(real: dict[str, pd.DataFrame], drawn: dict[str, pd.DataFrame]) -> list[float]:
    """Return how far drawn tables are from real ones, by `FIGURES`; distances are total variation, NaN without persons."""
    both = [pd.to_datetime(t["visits"]["seen"]) for t in (real, drawn)]
    week, hours = [shares(s.dt.day_of_week, 7) for s in both], [shares(s.dt.hour, 24) for s in both]
    born = pd.to_datetime(drawn["patients" if "patients" in drawn else "visits"]["born"])
    january = 100 * float(((born.dt.month == 1) & (born.dt.day == 1)).mean())
    apart = float("nan")
    if "patients" in drawn:
        gaps = [t["visits"].groupby("patient_id")["seen"].diff().dropna().dt.days.clip(upper=99) for t in (real, drawn)]
        apart = float(np.abs(np.subtract(*(shares(g.astype(int), 100) for g in gaps))).sum() / 2)
    shut = hours[1][:8].sum() + hours[1][18:].sum()
    near = [float(np.abs(np.subtract(*s)).sum() / 2) for s in (week, hours)]
    return [100 * float(week[1][6]), 100 * float(shut), *near, january, apart]


def evenly_of(read: Callable[[str], TableProfile]) -> Callable[[str], TableProfile]:
    """Return what reads profiles as if no calendar had been counted."""

    def evenly(text: str) -> TableProfile:
        found = read(text)
        return replace(found, calendar=None, columns=tuple(replace(c, effects=None) for c in found.columns))

    return evenly


def released(way: str, epsilon: float) -> dict[bool, list[float]]:
    """Return the figures of one release, drawn with its calendar and without."""
    real = clinic()
    with synthesizer("clinic", epsilon, unit="patient_id" if way == HISTORIES else "row") as model:
        if way == HISTORIES:
            fitted = model.fit(real, relations=RELATIONS)
            with_calendar = fitted.sample()
        else:
            rows = real["visits"].merge(real["patients"], on="patient_id").drop(columns="patient_id")
            fitted = model.fit(rows)
            with_calendar = {"visits": fitted.sample(len(rows))}
        with patch.object(TableProfile, "from_json", evenly_of(TableProfile.from_json)):
            drawn = fitted.sample() if way == HISTORIES else {"visits": fitted.sample(len(rows))}
    return {True: figures(real, with_calendar), False: figures(real, drawn)}


def main() -> None:
    """Print one line of Markdown for each way: medians of the runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=2.5)
    parser.add_argument("--reps", type=int, default=1)
    asked = parser.parse_args()
    print(f"| way | {' | '.join(FIGURES)} |\n|{'---|' * (len(FIGURES) + 1)}")
    real, other = clinic(), clinic()
    print(f"| other real rows | {' | '.join(f'{x:.3g}' for x in figures(real, other))} |")
    for way in (ROWS, HISTORIES):
        runs = [released(way, asked.epsilon) for _ in range(asked.reps)]
        for calendar in (False, True):
            medians = [statistics.median(run[calendar][i] for run in runs) for i in range(len(FIGURES))]
            name = f"**{way}**" if calendar else f"{way}, spread evenly in cells"
            print(f"| {name} | {' | '.join(f'{x:.3g}' for x in medians)} |", flush=True)


if __name__ == "__main__":
    main()
