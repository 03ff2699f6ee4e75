"""A generator is raked by what its network misses, and hardly by what draws miss by chance."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from dp_synth_pipeline.model.autoregressive.generator import Generator
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.marginals import raking
from dp_synth_pipeline.model.marginals.measuring import Layout, Marginals, all_pairs, count
from dp_synth_pipeline.model.marginals.raking import Tilt

CARDINALITIES = (2, 3, 2, 4)
EVERY_ROW = np.array(list(itertools.product(*map(range, CARDINALITIES))))
LAYOUT = Layout(CARDINALITIES, tuple(all_pairs(4)))


def network() -> AutoregressiveNetwork:
    made = AutoregressiveNetwork(CARDINALITIES, GeneratorSpec(hidden=5, embedding=3))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(std=0.3)
    return made.eval()


def test_it_is_raked_on_rows_that_miss_the_network_s_own_marginals_by_less_than_chance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net, rows, missed = network(), raking.LEAST_DRAWS, []
    with torch.no_grad():
        exact = np.exp(-net.losses(torch.from_numpy(EVERY_ROW)).double().numpy())
    shares = np.zeros(LAYOUT.cells)
    np.add.at(shares, LAYOUT.index(EVERY_ROW), exact[:, None])

    def rake(codes: np.ndarray, measured: Marginals) -> Tilt:
        missed.append(np.square(count(codes, measured.layout) / len(codes) - shares).sum())
        assert len(codes) == rows
        return Tilt(LAYOUT, np.ones(LAYOUT.cells, np.float32))

    monkeypatch.setattr(raking, "MOST_DRAWS", rows)
    monkeypatch.setattr(raking, "rake", rake)
    measured = Marginals(LAYOUT, 30_000 * shares, 1.0, 30_000)
    tilts = [Generator(net).rake(measured).tilt for _ in range(40)]
    assert all(tilt is not None and (tilt.values == 1).all() for tilt in tilts)
    by_chance = (shares * (1 - shares)).sum() / rows
    assert np.mean(missed) < 0.25 * by_chance  # 0.11 of it; draws that are not chosen have 0.42
