"""What a training works on, on its way to another process."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan
from dp_synth_pipeline.model.dpsgd.work import SharedArray, Training


def codes(rows: int = 300) -> np.ndarray:
    return np.random.default_rng().integers(0, 4, (rows, 3)).astype(np.int16)


def test_memory_mapped_rows_travel_by_name_and_slices_by_value(tmp_path: Path) -> None:
    np.save(tmp_path / "codes.npy", codes())
    whole = np.load(tmp_path / "codes.npy", mmap_mode="r")
    rebuild, arguments = SharedArray(whole).__reduce__()
    assert str(tmp_path) in arguments[0]
    assert np.array_equal(rebuild(*arguments).array, whole)
    for part in (whole[5:], whole[::2], whole[:, 1:], np.array(whole)):
        rebuild, arguments = SharedArray(part).__reduce__()
        assert np.array_equal(rebuild(*arguments).array, part)
        assert not any(isinstance(a, str) for a in arguments)


@pytest.mark.parametrize("units", [None, np.arange(300) // 2])
def test_a_training_arrives_as_it_was_and_its_mapped_rows_are_not_copied(
    tmp_path: Path, units: np.ndarray | None
) -> None:
    np.save(tmp_path / "codes.npy", codes(100_000))
    whole = np.load(tmp_path / "codes.npy", mmap_mode="r")
    sent = Training(whole, TrainingPlan(0.1, 2, 3.0, 1.0), GeneratorSpec(hidden=3), units=units, workers=2)
    letter = pickle.dumps(sent)
    assert len(letter) < whole.nbytes / 50
    found = pickle.loads(letter)
    assert isinstance(found.codes, np.memmap)
    assert np.array_equal(found.codes, whole)
    assert (found.units is None) == (units is None)
    assert units is None or np.array_equal(found.units, units)
    assert (found.plan, found.spec, found.workers) == (sent.plan, sent.spec, 2)
