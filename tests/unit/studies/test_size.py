"""What the study of rows tells of time, steps and batches is what ran, and its table has as many rows as one asks for."""

from __future__ import annotations

import math

import pandas as pd

from benchmarks.studies import size
from dp_synth_pipeline.demo.clinic import PATIENTS, clinic, clinic_visits


def test_losses_stand_beside_each_other_and_seconds_are_those_of_an_epoch() -> None:
    columns = ("table", "epsilon", "rows", "epochs", "group", "repeat", "loss", "seconds", "steps")
    lines = pd.DataFrame(
        [
            ("many visits", math.inf, 1_000_000, 10, 1, 0, 22.0, 80.0, 2_442),
            ("many visits", 2.51, 1_000_000, 10, 1, 0, 23.0, 130.0, 2_442),
            ("many visits", 2.51, 1_000_000, 1, 1, 0, 24.0, 13.0, 245),
            ("many visits", math.inf, 1_000_000, 1, 1, 0, 23.5, 8.0, 245),
            ("rand", 2.51, 16_000, 10, 1, 0, 11.0, 2.0, 160),
            ("rand", 2.51, 16_000, 10, 4, 0, 12.0, 9.0, 160),
            ("rand", math.inf, 16_000, 10, 1, 0, 10.0, 1.0, 160),
        ],
        columns=pd.Index(columns),
    )
    found = size.tables(lines)
    assert found["a million rows"].splitlines()[2:] == [
        "| 1,000,000 | 1 | 245 | 4,096 | 24.00 | 23.50 | 13.00 | 8.00 |",
        "| 1,000,000 | 10 | 2,442 | 4,096 | 23.00 | 22.00 | 13.00 | 8.00 |",
    ]
    assert found["rows"].splitlines()[2:] == ["| 16,000 | 11.00 | 10.00 |"]
    assert [line.split(" | ")[2] for line in found["micro-batches"].splitlines()[2:]] == ["11.00", "12.00"]


def test_the_clinic_has_as_many_patients_as_one_asks_for() -> None:
    patients, visits = clinic(500)
    assert patients.num_rows == 500
    assert set(visits["patient_id"].to_pylist()) == set(patients["patient_id"].to_pylist())
    assert clinic_visits(500).num_rows == visits.num_rows
    assert clinic()[0].num_rows == PATIENTS
