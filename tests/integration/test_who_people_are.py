"""What people are like for good shows in all of their synthetic rows, and not only from one row to the next."""

import numpy as np
import pandas as pd
import pytest

import dp_synth_pipeline as dps
from tests.integration.test_databases import VISITS_ALONE, synthesizer

SHOPS = np.array(["Ulm", "Bonn", "Kiel", "Jena"])
LAG = 4


def visits(patients: int = 8000) -> pd.DataFrame:
    """Return rows of persons who pay much or little, go to one shop mostly, and are on time often or rarely.

    What a row says beside that is chance, so the row before tells little of its person.
    """
    rng = np.random.default_rng(11)
    person = np.repeat(np.arange(patients), 5 + np.arange(patients) % 4)
    place = np.concatenate([np.arange(5 + i % 4) for i in range(patients)])
    shop, elsewhere = rng.integers(0, 4, patients)[person], rng.integers(0, 4, len(person))
    return pd.DataFrame(
        {
            "visit_id": np.arange(len(person)),
            "patient_id": person,
            "visited": (pd.Timestamp("2020-01-05") + pd.to_timedelta(30 * place, "D")).date,
            "paid": np.exp(rng.normal(3, 0.5, patients)[person] + rng.normal(0, 0.5, len(person))).round(0),
            "shop": SHOPS[np.where(rng.random(len(person)) < 0.6, shop, elsewhere)],
            "on_time": rng.random(len(person)) < rng.choice([0.3, 0.9], patients)[person],
        }
    )


def later(rows: pd.DataFrame) -> dict[str, float]:
    """Return how a row is told by the one four before it: correlations, and the share at the same shop."""
    before = rows.groupby("patient_id")[["paid", "shop", "on_time"]].shift(LAG)
    both = before["shop"].notna()
    now, before = rows[both], before[both]
    return {
        "paid": float(now["paid"].rank().corr(before["paid"].rank())),
        "shop": float((now["shop"] == before["shop"]).mean()),
        "on_time": float(now["on_time"].astype(float).corr(before["on_time"].astype(float))),
    }


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> dps.SyntheticTables:
    synth, _ = synthesizer(tmp_path_factory.mktemp("people"), epsilon=4.0, training={})
    return synth.fit({"visits": visits()}, relations=VISITS_ALONE)


LEAST = {"paid": 0.25, "shop": 0.42, "on_time": 0.25}
"""Where rows are told of the row before alone, these are .04, .27 and .01; rows of the source have .48, .52 and .37."""


def test_people_stay_who_they_are_for_many_rows(model):
    drawn = later(model.sample(6000)["visits"])
    assert all(drawn[name] > least for name, least in LEAST.items()), drawn


def test_a_saved_model_draws_them_so_too(model, tmp_path):
    model.save(tmp_path / "people.dps")
    drawn = later(dps.load(tmp_path / "people.dps").sample(6000)["visits"])
    assert all(drawn[name] > least for name, least in LEAST.items()), drawn
