"""Noisy marginals come back from disk as they were, from files of the version before too."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.marginals import storage
from dp_synth_pipeline.model.marginals.measuring import Layout, Marginals

LAYOUT = Layout((2, 3, 2), ((0, 1), (0, 1, 2)))
MEASURED = Marginals(LAYOUT, np.linspace(-2.5, 40.0, LAYOUT.cells), 3.25, 1000)


def same(found: Marginals) -> bool:
    return (
        found.layout == LAYOUT
        and np.array_equal(found.counts, MEASURED.counts)
        and found.counts.dtype == np.float64
        and (found.scale, found.rows) == (3.25, 1000)
    )


def test_they_come_back_as_they_were(tmp_path: Path) -> None:
    assert same(storage.load(storage.save(tmp_path / "new" / "marginals.safetensors", MEASURED)))


def test_a_file_that_torch_wrote_is_read(tmp_path: Path) -> None:
    path = tmp_path / "marginals.safetensors"
    facts = {"cardinalities": json.dumps(LAYOUT.cardinalities), "cliques": json.dumps(LAYOUT.cliques)}
    save_file({"counts": torch.from_numpy(MEASURED.counts)}, path, metadata=facts | {"scale": "3.25", "rows": "1000"})
    assert same(storage.load(path))


def test_a_file_that_is_gone_is_told_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"gone; materialize .marginals. again \(a new charge\)"):
        storage.load(tmp_path / "marginals.safetensors")
