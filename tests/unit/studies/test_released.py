"""Whole releases are made as the cell says, scored beside their own real rows, or not made where nothing scores them."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from benchmarks.studies import grid, released, whole_release
from dp_synth_pipeline.synthesis.settings import ReleaseSettings


class Scorer:
    """Stands for mostlyai-qa, and keeps the tables that it was given."""

    def __call__(self, python: str, *paths: Path) -> dict[str, dict[str, float]]:
        self.tables = [pd.read_csv(path) for path in paths]
        return {
            "accuracy": {"overall": 0.9, "overall_max": 0.98},
            "similarity": {"discriminator_auc_training_synthetic": 0.6},
        }


@pytest.fixture
def scorer(monkeypatch: pytest.MonkeyPatch) -> Scorer:
    found = Scorer()
    monkeypatch.setattr(released, "theirs", found)
    monkeypatch.setattr(released, "PYTHON", "an interpreter")
    return found


def test_the_table_is_scored_beside_what_it_learnt_from_and_what_was_held_out(
    scorer: Scorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def broken(rows: pd.DataFrame, epsilon: float, training: dict[str, Any]) -> pd.DataFrame:
        asked.append((rows, epsilon, training))
        return rows.assign(**{released.TARGET: rows[released.TARGET].sample(frac=1.0).to_numpy()})

    monkeypatch.setattr(released, "released", broken)
    found = released.measure({"epsilon": 0.5, "epochs": 3})
    [(learnt, epsilon, training)] = asked
    train, held_out, drawn = scorer.tables
    assert (epsilon, training) == (0.5, {"max_epochs": 3})
    assert (len(train), len(held_out)) == (released.ROWS, released.HELD_OUT)
    pd.testing.assert_frame_equal(train, learnt.reset_index(drop=True))
    assert not drawn[released.TARGET].equals(train[released.TARGET])
    assert (found["accuracy"], found["best"], found["discriminator"]) == (0.9, 0.98, 0.6)
    assert found["trtr"] > 0.65
    assert abs(found["tstr"] - 0.5) < 0.1  # of a table whose visits hang on nothing


def test_without_a_scorer_nothing_is_released_and_why_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(released, "PYTHON", None)
    released.run(tmp_path / "released.csv")
    assert not (tmp_path / "released.csv").exists()
    assert "QA_PYTHON names no interpreter of an environment with mostlyai-qa" in capsys.readouterr().out


def test_what_tstr_loses_is_told_beside_the_real_rows_of_the_same_release() -> None:
    columns = ("epsilon", "epochs", "repeat", "accuracy", "best", "discriminator", "tstr", "trtr", "seconds")
    lines = pd.DataFrame(
        [
            (2.51, 30, 0, 0.90, 0.98, 0.6, 0.70, 0.71, 10.0),
            (2.51, 30, 1, 0.92, 0.98, 0.7, 0.60, 0.69, 12.0),
            (2.51, 30, 2, 0.91, 0.98, 0.8, 0.65, 0.75, 11.0),
            (math.inf, 1, 0, 0.95, 0.98, 0.5, 0.69, 0.70, 9.0),
        ],
        columns=pd.Index(columns),
    )
    told = released.tables(lines)["released"].splitlines()
    assert told[2] == "| 2.51 | 30 | 0.910 | 0.700 | 0.650 | 0.090 | 11 |"
    assert told[3] == "| none | 1 | 0.950 | 0.500 | 0.690 | 0.010 | 9 |"
    assert told[4] == "| real rows | - | 0.980 | - | 0.705 | - | - |"


@pytest.mark.parametrize("epsilon", [2.51, math.inf])
def test_a_release_costs_what_the_cell_says_or_is_of_a_public_table(
    epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pd.DataFrame({"b": [1, 2, 3], "a": [4, 5, 6]})
    asked: list[ReleaseSettings] = []

    def run(settings: ReleaseSettings, folder: Path, out: Path) -> Any:
        asked.append(settings)
        pd.read_parquet(str(settings.source))[["a", "b"]].to_parquet(out)
        return SimpleNamespace(path=out)

    monkeypatch.setattr(whole_release.pipeline, "run", run)
    pd.testing.assert_frame_equal(whole_release.released(rows, epsilon, {"max_epochs": 7}), rows)
    [settings] = asked
    assert settings.training.max_epochs == 7
    if math.isinf(epsilon):
        assert settings.privacy == "none"
    else:
        assert (settings.privacy, settings.epsilon, settings.delta) == ("dp", epsilon, 1e-5)


def test_a_table_that_was_scored_is_not_released_again(
    tmp_path: Path, scorer: Scorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[grid.Cell] = []
    monkeypatch.setattr(released, "measure", lambda cell: made.append(cell) or {"accuracy": 0.9})
    for _ in range(2):
        released.run(tmp_path / "released.csv")
    cells = len(released.EPSILONS) + len(released.PLAIN_EPOCHS)
    assert len(made) == len(grid.read(tmp_path / "released.csv")) == cells * released.REPEATS
