"""Synthetic persons have no row after the day on which the data were taken, and a later refresh may have."""

import datetime as dt
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import dp_synth_pipeline as dps
from dp_synth_pipeline.synthesis.database.drawing import DatabaseDrawer
from dp_synth_pipeline.synthesis.database.table_release import TableRelease
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from tests.integration.test_databases import VISITS_ALONE, synthesizer

TAKEN = dt.date(2024, 12, 31)


def visits(patients: int = 3000) -> pd.DataFrame:
    """Return visits every month or so from some day in two years until the data were taken."""
    rng = np.random.default_rng(4)
    person = np.repeat(np.arange(patients), 6)
    back = np.cumsum(rng.integers(0, 60, (patients, 6)), axis=1) - rng.integers(0, 3, (patients, 1))
    days = np.sort(19_000 - np.maximum(back, 0), axis=1).ravel()
    dates = (pd.Timestamp(TAKEN) + pd.to_timedelta(days - 19_000, "D")).date
    ward = rng.choice(list("abc"), len(person))
    return pd.DataFrame({"visit_id": np.arange(len(person)), "patient_id": person, "visited": dates, "ward": ward})


def late(model: dps.SyntheticTables) -> float:
    """Return which part of the synthetic visits lies two weeks or more after the data were taken."""
    return float((model.sample(1500)["visits"]["visited"] > TAKEN + dt.timedelta(14)).mean())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> dps.SyntheticTables:
    folder = tmp_path_factory.mktemp("end")
    return synthesizer(folder, epsilon=5.0)[0].fit({"visits": visits()}, relations=VISITS_ALONE)


def test_no_synthetic_row_lies_after_the_end_of_all_histories(model, tmp_path):
    assert late(model) == 0
    model.save(tmp_path / "clinic.dps")
    loaded = dps.load(tmp_path / "clinic.dps")
    assert late(loaded) == 0


def test_without_the_end_many_do(model, monkeypatch):
    following = DatabaseDrawer.following
    monkeypatch.setattr(DatabaseDrawer, "following", lambda *what: replace(following(*what), end=None))
    assert late(model) > 0.02


def test_a_profile_of_an_earlier_release_does_not_say_where_histories_end(model):
    known = TableProfile.from_json((model.folder / "visits" / "profile.json").read_text())
    assert known.end is not None
    release = TableRelease.__new__(TableRelease)
    release.state = SimpleNamespace(release="this one", table_profile=lambda: known)
    for paid, end in (("this one", known.end), (None, known.end), ("an earlier one", None)):
        release.state.facts = SimpleNamespace(profile_release=paid)
        assert release.profile == replace(known, end=end)
