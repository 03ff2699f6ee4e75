"""A made-up clinic whose truth is known: patients, their visits in order on one ward each, and what was prescribed."""

import numpy as np
import pandas as pd

WARDS = ("north", "south", "west")


def clinic(patients: int) -> dict[str, pd.DataFrame]:
    """Return patients, visits and drugs; the same every time."""
    rng = np.random.default_rng(5)
    count = rng.binomial(6, 0.45, patients)
    person = np.repeat(np.arange(patients), count)
    ward = rng.choice(WARDS, patients, p=[0.5, 0.3, 0.2])
    start = pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 300, patients), unit="D")
    gap = pd.to_timedelta(rng.geometric(1 / 30, len(person)), unit="D")
    since = pd.Series(gap).groupby(person).cumsum()
    visits = pd.DataFrame(
        {
            "visit_id": [f"visit-{n:06d}" for n in range(len(person))],
            "patient_id": person + 5000,
            "visited": (pd.Series(start[person]) + since).dt.date,
            "ward": ward[person],
            "score": np.round(rng.normal(50, 10, len(person)), 1),
        }
    )
    drugs = np.repeat(visits["visit_id"].to_numpy(), rng.integers(0, 3, len(visits)))
    return {
        "patients": pd.DataFrame(
            {
                "patient_id": np.arange(patients) + 5000,
                "sex": rng.choice(["F", "M"], patients),
                "born": (pd.Timestamp("1950-01-01") + pd.to_timedelta(rng.integers(0, 20000, patients), unit="D")).date,
            }
        ),
        "visits": visits,
        "drugs": pd.DataFrame({"visit_id": drugs, "drug": rng.choice(["a", "b", "c"], len(drugs))}),
    }
