"""Rows that are unique within their parent stay so in synthetic persons, and a saved model keeps it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dp_synth_pipeline as dps
from dp_synth_pipeline.errors import InvalidInput
from tests.integration.test_databases import synthesizer

UNIQUE = ["day", "test"]
TESTS = {
    "key": "test_id",
    "parent": {"patient_id": "patients"},
    "order": "day",
    "max_rows": 8,
    "unique": UNIQUE,
    "columns": {"test": {"categories": list("abcd")}},
}


def tables(patients: int = 600) -> dict[str, pd.DataFrame]:
    """Patients with one to four days, on each of which two of four tests are made, and neither twice."""
    rng = np.random.default_rng(3)
    person = np.repeat(np.arange(patients), 2 * (1 + np.arange(patients) % 4))
    days = np.arange(len(person)) // 2
    first = rng.integers(0, 4, len(person) // 2)
    second = (first + rng.integers(1, 4, len(first))) % 4
    rows = {
        "test_id": np.arange(len(person)),
        "patient_id": person,
        "day": (pd.Timestamp("2024-01-01") + pd.to_timedelta(days % 40 * 7, "D")).date,
        "test": np.array(list("abcd"))[np.column_stack([first, second]).ravel()],
    }
    return {
        "patients": pd.DataFrame({"patient_id": np.arange(patients), "sex": rng.choice(["F", "M"], patients)}),
        "tests": pd.DataFrame(rows).sort_values(["patient_id", "day"], kind="stable"),
    }


def fitted(folder: Path, **changes: object) -> dps.SyntheticTables:
    relations = {"patients": {"key": "patient_id"}, "tests": {**TESTS, **changes}}
    return synthesizer(folder)[0].fit(tables(), relations=relations)


def twice(drawn: pd.DataFrame) -> float:
    return float(drawn.duplicated(["patient_id", *UNIQUE]).mean())


def test_no_two_rows_of_a_person_are_the_same_and_without_the_key_many_are(tmp_path):
    model = fitted(tmp_path)
    assert twice(tables()["tests"]) == 0
    drawn = model.sample(800)["tests"]
    assert twice(drawn) == 0
    assert drawn["patient_id"].is_monotonic_increasing
    assert drawn.groupby("patient_id")["day"].is_monotonic_increasing.all()
    model.save(tmp_path / "clinic.dps")
    assert twice(dps.load(tmp_path / "clinic.dps").sample(400)["tests"]) == 0
    free = tmp_path / "free"
    free.mkdir()
    assert twice(fitted(free, unique=[]).sample(800)["tests"]) > 0.02


def test_a_mistake_about_them_is_told_before_anything_is_spent(tmp_path):
    with pytest.raises(InvalidInput, match=r"tables.tests: unique: tset: .* Did you mean test\?"):
        fitted(tmp_path, unique=["day", "tset"])
