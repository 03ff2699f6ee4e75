"""What a test draws follows its own name alone, so that tests pass or fail alike on every machine."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import numpy as np
import pytest
import torch

from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.events import DiscreteLaplace, Gaussian
from dp_synth_pipeline.privacy.noise import secure_bytes
from dp_synth_pipeline.privacy.odometer import Odometer
from tests import chance

pytestmark = pytest.mark.skipif(chance.FRESH, reason="every run is another one")


def drawn() -> list[Any]:
    """Draw from all that the product draws from."""
    zeros, generator = np.zeros(20, dtype=np.int64), torch.Generator()
    generator.seed()
    with duckdb.connect() as con:
        rows = con.sql("SELECT random() FROM range(5)").fetchall()
    return [
        secure_bytes(16),
        mechanisms.noisy_histograms([zeros], scale=50.0, sensitivity=1, odometer=Odometer([Gaussian(50.0)]))[0][
            0
        ].tolist(),
        [mechanisms.noisy_count(0, epsilon=0.01, odometer=Odometer([DiscreteLaplace(100.0)]))[0] for _ in range(5)],
        np.random.default_rng().integers(2**60),
        np.random.default_rng().spawn(2)[1].integers(2**60),
        torch.rand(3).tolist(),
        torch.rand(3, generator=generator).tolist(),
        random.random(),
        rows,
    ]


def test_a_name_draws_the_same_again_and_another_name_something_else() -> None:
    chance.begin("one")
    once = drawn()
    with chance.apart("two"):
        other = drawn()
    chance.begin("one")
    assert drawn() == once
    assert not [i for i, (a, b) in enumerate(zip(once, other, strict=True)) if a == b]


def test_a_stream_goes_on_where_a_fixtures_own_one_ended() -> None:
    chance.begin("one")
    without = [secure_bytes(8), secure_bytes(8)]
    chance.begin("one")
    first = secure_bytes(8)
    with chance.apart("two"):
        assert secure_bytes(8) not in without
    assert [first, secure_bytes(8)] == without


def test_what_is_drawn_in_a_test_never_repeats() -> None:
    assert secure_bytes(16) != secure_bytes(16)
    assert np.random.default_rng().integers(2**60) != np.random.default_rng().integers(2**60)
