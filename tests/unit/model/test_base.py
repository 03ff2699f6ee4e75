"""A model of another kind: it goes through the same door, and needs nothing but its module and a line of the registry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model import artifact
from dp_synth_pipeline.model.autoregressive.generator import Generator
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.base import Forbidden, GenerativeModel, Released
from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan
from dp_synth_pipeline.model.dpsgd.spec import TrainingSpec
from dp_synth_pipeline.model.dpsgd.work import Hooks, Training

CARDS = (3, 2)
SHARES = [np.array([0.5, 0.3, 0.2]), np.array([0.9, 0.1])]


@dataclass
class Independent(GenerativeModel):
    """Columns that have nothing to do with each other; a toy, whose counts have no noise."""

    shares: list[np.ndarray]
    kind: ClassVar[str] = "independent"

    @classmethod
    def begin(cls, cardinalities: Sequence[int], spec: Any, released: Released) -> Independent:
        return cls([np.asarray(share, dtype=np.float64) for share in released.shares])

    def fit(self, training: Training, hooks: Hooks) -> Any:
        hooks.mark(1)
        self.shares = [
            np.bincount(column, minlength=c) / len(column)
            for column, c in zip(training.codes.T, self.cardinalities, strict=True)
        ]

    def draw(
        self, rows: int, *, forbidden: Forbidden | None = None, rng: np.random.Generator | None = None
    ) -> Iterator[np.ndarray]:
        rng = rng or np.random.default_rng()
        if rows:
            yield np.stack([rng.choice(len(share), rows, p=share) for share in self.shares], 1)

    @property
    def cardinalities(self) -> tuple[int, ...]:
        return tuple(len(share) for share in self.shares)

    @property
    def weights(self) -> int:
        return sum(self.cardinalities)

    def description(self) -> dict[str, Any]:
        return {"cardinalities": list(self.cardinalities)}

    def arrays(self) -> dict[str, np.ndarray]:
        return {"shares": np.concatenate(self.shares)}

    @classmethod
    def restore(cls, description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Independent:
        return cls(np.split(arrays["shares"], np.cumsum(description["cardinalities"])[:-1]))


@pytest.fixture
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(artifact.MODELS, "independent", f"{__name__}:Independent")


def toy() -> Independent:
    return Independent.begin(CARDS, None, Released(SHARES))


@pytest.mark.usefixtures("_registered")
def test_a_model_of_another_kind_is_fitted_saved_loaded_and_drawn_from_through_the_same_door(tmp_path: Path) -> None:
    marks: list[int] = []
    made = artifact.model_of("independent").begin(CARDS, None, Released(SHARES))
    codes = np.array([[2, 1], [2, 0], [2, 0], [2, 0]])
    made.fit(Training(codes, TrainingPlan(1.0, 1, 4.0, 1.0), TrainingSpec()), Hooks(mark=marks.append))
    loaded, facts = artifact.load(artifact.save(tmp_path, made, {"release": "r-1"}))
    assert (type(loaded), facts, marks) == (Independent, {"release": "r-1"}, [1])
    assert (loaded.cardinalities, loaded.weights) == (CARDS, 5)
    drawn = loaded.sample(1000)
    assert set(drawn[:, 0]) == {2}
    assert 0.15 < drawn[:, 1].mean() < 0.35
    assert loaded.sample(0).shape == (0, 2)
    assert json.loads((tmp_path / "generator.json").read_text())["kind"] == "independent"


def test_a_model_that_the_registry_does_not_name_is_neither_saved_nor_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidInput, match="knows no model of kind 'independent', but autoregressive"):
        artifact.save(tmp_path, toy(), {})
    assert not list(tmp_path.iterdir())
    with monkeypatch.context() as patched:
        patched.setitem(artifact.MODELS, "independent", f"{__name__}:Independent")
        artifact.save(tmp_path, toy(), {})
    with pytest.raises(InvalidInput, match=r"use the version that wrote it, or train again \(a new charge\)"):
        artifact.load(tmp_path)


def test_a_model_learns_without_privacy_and_is_raked_only_if_it_says_so() -> None:
    with pytest.raises(InvalidInput, match="'independent' does not learn without privacy"):
        toy().fit_public(Training(np.zeros((1, 2)), TrainingPlan(1.0, 1, 1.0), TrainingSpec()), Hooks())
    made = toy()
    assert made.rake(None) is made  # type: ignore[arg-type]


def test_every_kind_is_registered_under_its_own_name() -> None:
    assert all(artifact.model_of(kind).kind == kind for kind in artifact.MODELS)


def test_a_generator_begins_is_trained_in_place_and_samples() -> None:
    spec = GeneratorSpec(start="random", hidden=2, embedding=2)
    made = Generator.begin(CARDS, spec, Released(SHARES))
    codes = np.zeros((40, 2), np.int16)
    before = made.arrays()["embed.weight"].copy()
    trained = made.fit(Training(codes, TrainingPlan(0.5, 3, 20.0, 1.0), spec), Hooks())
    assert trained.network is made.proposal
    assert trained.event.steps == 3
    assert not np.array_equal(before, made.arrays()["embed.weight"])
    assert made.sample(7).shape == (7, 2)
    made.fit_public(Training(codes, TrainingPlan(0.5, 3, 20.0), spec), Hooks())
    assert made.spec == spec
