"""A simulated clinic whose truth is known: its patients, their visits, and where nulls come from.

Deterministic, so that tests may compare with the truth; it is a public simulator, not noise that protects anybody.

The truth, for tests:

* 6,000 patients, born before 2022, with 1 to 12 visits each in 2022 and 2023, about 20,000 in all. A visit's day hangs on
  no other visit's.
* `cost`: 35.00 for a third of the visits (the flat fee), otherwise log-normal with a long tail, rounded to cents, higher
  with urgency and age.
* `lab_value`: missing for 70 % of routine visits and 5 % of the others, so missingness depends on `urgent`.
* `visited`: the day of `arrived`.
* `discharged`: null exactly when the visit did not lead to an admission; otherwise 1 to 30 days after `visited`.
* `diagnosis`: 14 codes with Zipf frequencies; the last four are rare (under 0.5 % each).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

PATIENTS = 6_000
FIRST_PATIENT = 100_000
FLAT_FEE = 35.00
DIAGNOSES = ("I10", "E11", "J06", "M54", "F41", "K21", "N39", "H52", "L30", "R07", "Q21", "G35", "C81", "T63")
REGIONS = ("north", "south", "east", "west", "islands")
_STREAM = 20_190


def clinic_visits(patients: int = PATIENTS) -> pa.Table:
    """Return each visit with its patient's columns: some 3.4 rows a patient, 13 columns, the same in every call."""
    persons, rows = clinic(patients)
    whose = persons.take(pa.array(rows["patient_id"].to_numpy() - FIRST_PATIENT))
    columns = rows.drop_columns(["visit_id", "patient_id"])
    for name, column in zip(columns.column_names, columns.columns, strict=True):
        whose = whose.append_column(name, column)
    return whose


def clinic(patients: int = PATIENTS) -> tuple[pa.Table, pa.Table]:
    """Return so many patients, 4 columns, and their visits, 11 columns, the same in every call."""
    rng = np.random.Generator(np.random.PCG64(_STREAM))
    count = np.minimum(1 + rng.negative_binomial(2, 0.46, patients), 12)
    patient = np.repeat(np.arange(patients), count)
    n = len(patient)
    age = np.clip(rng.gamma(6, 8, patients), 0, 99)
    born = np.datetime64("2024-01-01") - (age * 365.25).astype("timedelta64[D]")
    sex = rng.choice(["F", "M", "X"], patients, p=[0.53, 0.46, 0.01])
    region = rng.choice(REGIONS, patients, p=[0.35, 0.28, 0.2, 0.15, 0.02])

    visited = np.datetime64("2022-01-01") + _days(rng, n).astype("timedelta64[D]")
    urgent = rng.random(n) < np.where(age[patient] > 70, 0.35, 0.15)
    diagnosis = _diagnosis(rng, age[patient])
    chronic = np.isin(diagnosis, ["I10", "E11"])
    amount = np.round(np.exp(rng.normal(4.2 + 0.9 * urgent + 0.006 * age[patient], 0.8)), 2)
    cost = np.where(rng.random(n) < 1 / 3, FLAT_FEE, amount)
    minutes = np.maximum(5, 5 * np.round(rng.gamma(4 + 3 * urgent, 1.2))).astype(np.int64)
    lab = np.round(rng.normal(5.4 + 1.3 * chronic, 0.9), 1)
    lab_missing = rng.random(n) < np.where(urgent, 0.05, 0.70)
    admitted = rng.random(n) < np.where(urgent, 0.4, 0.03)
    stay = 1 + np.minimum(rng.geometric(0.25, n), 29)
    arrived = visited.astype("datetime64[m]") + rng.normal(11.5 * 60, 150, n).clip(0, 1439).astype("timedelta64[m]")
    persons = pa.table({"patient_id": FIRST_PATIENT + np.arange(patients), "born": born, "sex": sex, "region": region})
    visits = pa.table(
        {
            "visit_id": pa.array(500_000 + rng.permutation(n)),
            "patient_id": pa.array(FIRST_PATIENT + patient),
            "visited": pa.array(visited),
            "arrived": pa.array(arrived.astype("datetime64[us]")),
            "urgent": pa.array(urgent),
            "diagnosis": pa.array(diagnosis),
            "minutes": pa.array(minutes),
            "cost": pa.array(cost),
            "lab_value": pa.array(lab, mask=lab_missing),
            "admitted": pa.array(admitted),
            "discharged": pa.array(visited + stay.astype("timedelta64[D]"), mask=~admitted),
        }
    )
    return persons, visits


def _days(rng: np.random.Generator, n: int) -> np.ndarray:
    """Days over two years with a winter season, and no Sundays."""
    days = np.arange(730)
    weight = 1 + 0.4 * np.cos(2 * np.pi * days / 365)
    weight[(days + 5) % 7 == 6] = 0  # 2022-01-01 was a Saturday
    return rng.choice(days, n, p=weight / weight.sum())


def _diagnosis(rng: np.random.Generator, age: np.ndarray) -> np.ndarray:
    """Zipf frequencies, with the chronic diagnoses likelier for the old."""
    zipf = 1 / np.arange(1, len(DIAGNOSES) + 1) ** 1.1
    zipf[-4:] = [0.012, 0.009, 0.006, 0.004]
    young, old = zipf.copy(), zipf.copy()
    young[:2] *= 0.4
    old[:2] *= 1.6
    drawn = np.where(
        age > 45,
        rng.choice(len(DIAGNOSES), len(age), p=old / old.sum()),
        rng.choice(len(DIAGNOSES), len(age), p=young / young.sum()),
    )
    return np.asarray(DIAGNOSES)[drawn]
