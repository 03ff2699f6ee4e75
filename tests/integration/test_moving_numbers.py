"""A number that moves a little from row to row does so in a synthetic person's rows, and each refusal of it is seen."""

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

import dp_synth_pipeline as dps
from dp_synth_pipeline.synthesis.database import histories, row_by_row
from tests.integration.test_databases import VISITS_ALONE, synthesizer

NEVER = 1000
"""Codes in an order that no column has."""


def visits(patients: int = 3000) -> pd.DataFrame:
    """Return weights of persons who differ by far more than one person's weight moves, and a pulse that is new each time."""
    rng = np.random.default_rng(5)
    person = np.repeat(np.arange(patients), 1 + np.arange(patients) % 6)
    first = np.flatnonzero(np.append(True, person[1:] != person[:-1]))
    moved = np.cumsum(rng.normal(0, 1.5, len(person)))
    weight = rng.normal(75, 14, patients)[person] + moved - moved[first][person]
    place = np.arange(len(person)) - first[person]
    return pd.DataFrame(
        {
            "visit_id": np.arange(len(person)),
            "patient_id": person,
            "visited": (pd.Timestamp("2020-01-05") + pd.to_timedelta(30 * place, "D")).date,
            "weight": weight.round(1),
            "pulse": rng.normal(70, 9, len(person)).round(0),
        }
    )


def to_next(rows: pd.DataFrame, name: str) -> float:
    """Return how a number and that of the next row are correlated."""
    before = rows.groupby("patient_id")[name].shift()
    return float(before.corr(rows[name]))


def fitted(folder: Path) -> dps.SyntheticTables:
    folder.mkdir()
    return synthesizer(folder, epsilon=2.0, training={})[0].fit({"visits": visits()}, relations=VISITS_ALONE)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dps.SyntheticTables, dps.SyntheticTables]]:
    """A model of the visits, and one that learns no number by how far it moves."""
    folder = tmp_path_factory.mktemp("moving")
    moving = fitted(folder / "moving")
    with patch.object(histories, "LEAST_MOVING", NEVER):
        yield moving, fitted(folder / "not")


def test_a_number_that_moves_little_stays_near_to_that_of_the_row_before(models):
    moving, not_moving = (to_next(model.sample(2000)["visits"], "weight") for model in models)
    assert to_next(visits(), "weight") > 0.98
    assert moving > 0.9
    assert not_moving < moving - 0.02


def test_a_number_that_is_new_each_time_stays_so_and_both_keep_their_spread(models):
    drawn, real = models[0].sample(2000)["visits"], visits()
    assert abs(to_next(drawn, "pulse")) < 0.12
    for name in ("weight", "pulse"):
        assert drawn[name].mean() == pytest.approx(real[name].mean(), rel=0.05)
        assert drawn[name].std() == pytest.approx(real[name].std(), rel=0.15)


def test_it_moves_little_within_cells_too(models, monkeypatch):
    model = models[0]
    near = [to_next(model.sample(2000)["visits"], "weight") for _ in range(2)]
    honest = row_by_row.Succession
    monkeypatch.setattr(row_by_row, "Succession", lambda begins, stays: honest(np.ones_like(begins), stays))
    apart = [to_next(model.sample(2000)["visits"], "weight") for _ in range(2)]
    assert min(near) > max(apart)


def test_a_saved_model_draws_it_as_well(models, tmp_path):
    models[0].save(tmp_path / "clinic.dps")
    assert to_next(dps.load(tmp_path / "clinic.dps").sample(2000)["visits"], "weight") > 0.9
