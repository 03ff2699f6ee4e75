"""A generator that an earlier version saved is loaded as what it was: its folder was written before models had kinds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from dp_synth_pipeline.model import artifact
from dp_synth_pipeline.model.autoregressive.generator import Generator

SAVED = Path(__file__).parent / "generator_without_kind"


def test_a_generator_without_a_kind_is_the_autoregressive_one_with_the_same_numbers() -> None:
    expected = json.loads((SAVED / "losses.json").read_text())
    assert "kind" not in json.loads((SAVED / "generator.json").read_text())
    loaded, facts = artifact.load(SAVED)
    assert isinstance(loaded, Generator)
    assert loaded.tilt is not None
    codes = np.array(expected["codes"])
    with torch.no_grad():
        assert loaded.proposal.losses(torch.from_numpy(codes)).tolist() == pytest.approx(expected["losses"], rel=1e-6)
    assert loaded.tilt.log_weights(codes).tolist() == pytest.approx(expected["log_weights"], rel=1e-6)
    assert (loaded.weights, facts) == (expected["weights"], {"release": "r-1", "steps": 3})
    assert loaded.spec.looks == 2
    assert loaded.sample(50).shape == (50, 3)


def test_a_generator_of_an_earlier_version_is_drawn_from_on_a_condition_and_completes_rows() -> None:
    loaded, _ = artifact.load(SAVED)
    rng, first = np.random.default_rng(), np.array(json.loads((SAVED / "losses.json").read_text())["codes"])[0]

    def allowed(column: int, before: np.ndarray) -> np.ndarray | None:
        return (np.arange(loaded.cardinalities[2]) == first[2])[None] if column == 2 else None

    codes, effective = loaded.draw_given(50, 2_000, allowed, rng=rng)
    assert (codes[:, 2] == first[2]).all()
    assert 0 < len(codes) <= effective
    known = np.array([[-1, first[1], first[2]]])
    assert loaded.complete(known, lambda column, before: None, rng=rng)[0, 1:].tolist() == first[1:].tolist()
    assert np.isfinite(loaded.log_likelihood(first[None])).all()


def test_it_is_saved_again_with_its_kind_and_nothing_else_changed(tmp_path: Path) -> None:
    loaded, facts = artifact.load(SAVED)
    before = json.loads((SAVED / "generator.json").read_text())
    after = json.loads((artifact.save(tmp_path, loaded, facts) / "generator.json").read_text())
    assert after == before | {"kind": "autoregressive"}
    kept, found = (
        artifact.load(shutil.copytree(folder, tmp_path / str(n)))[0].arrays()
        for n, folder in enumerate((SAVED, tmp_path))
    )
    assert kept.keys() == found.keys()
    assert all(np.array_equal(kept[name], found[name]) for name in kept)
