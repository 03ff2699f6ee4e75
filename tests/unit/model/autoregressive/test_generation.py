"""What is drawn follows the network's own probabilities. The thresholds give a false alarm with probability 1e-7."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from dp_synth_pipeline.model.autoregressive import generation
from dp_synth_pipeline.model.autoregressive.generator import Generator
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.base import Before

CARDINALITIES = (2, 3, 2, 4)
ROWS = 20_000


def network(activation: str = "tanh") -> AutoregressiveNetwork:
    spec = GeneratorSpec(hidden=5, embedding=3, activation=activation)
    made = AutoregressiveNetwork(CARDINALITIES, spec, moving={3: Before(1, (1, 0, 3))})
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(std=0.7)
    return made.eval()


def every_row() -> np.ndarray:
    return np.array(list(itertools.product(*map(range, CARDINALITIES))))


def probabilities(net: AutoregressiveNetwork) -> np.ndarray:
    """Each row's probability, column by column."""
    rows = torch.from_numpy(every_row())
    with torch.no_grad():
        logits = net(rows).double()
    each = logits.log_softmax(-1).gather(-1, rows[..., None]).squeeze(-1)
    return each.sum(-1).exp().numpy()


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_rows_are_drawn_with_the_probabilities_of_the_network(activation: str) -> None:
    net = network(activation)
    drawn = np.concatenate(list(Generator(net).draw(ROWS, batch=3_000)))
    assert drawn.shape == (ROWS, len(CARDINALITIES))
    place = np.ravel_multi_index(drawn.T, CARDINALITIES)
    seen = np.bincount(place, minlength=48)
    expected = ROWS * probabilities(net)
    order = np.argsort(expected)
    groups = np.cumsum(expected[order]) // 25  # cells too rare for the approximation are counted together
    totals = [np.array([expected[order][groups == g].sum(), seen[order][groups == g].sum()]) for g in np.unique(groups)]
    statistic = sum((s - e) ** 2 / e for e, s in totals if e > 0)
    assert statistic < chi2.isf(1e-7, len(totals) - 1)


def test_as_many_rows_as_asked_come_in_batches() -> None:
    assert [len(b) for b in Generator(network()).draw(25, batch=10)] == [10, 10, 5]
    assert list(Generator(network()).draw(0)) == []


def test_every_code_is_below_its_cardinality() -> None:
    drawn = next(Generator(network()).draw(4_000))
    assert drawn.dtype == np.int64
    assert (drawn >= 0).all()
    assert (drawn < CARDINALITIES).all()


def test_draws_differ_from_call_to_call_whatever_is_seeded() -> None:
    net, drawn = network(), []
    for _ in range(2):
        torch.manual_seed(3)
        np.random.seed(3)
        drawn.append(next(Generator(net).draw(200)))
    assert not np.array_equal(*drawn), "200 equal rows have a probability below 1e-50"


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_several_cores_draw_the_same_rows_in_distribution_each_batch_by_fresh_chance(two_threads: None) -> None:
    net = network()
    batches = list(Generator(net).draw(60_100, batch=10_000))
    assert [len(b) for b in batches] == [*[10_000] * 6, 100]
    assert torch.get_num_threads() == 2
    assert not any((a[:100] == b[:100]).all() for a, b in itertools.combinations(batches, 2))
    expected = probabilities(net) * 60_100
    found = np.array([(np.concatenate(batches) == row).all(1).sum() for row in every_row()])
    common = expected > 25  # for rarer rows, chi-square is no approximation
    statistic = ((found - expected)[common] ** 2 / expected[common]).sum()
    assert statistic < chi2.isf(1e-9, common.sum())


def test_draws_that_nobody_takes_any_more_end_and_never_run_far_ahead(
    two_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    honest = generation._drawn
    monkeypatch.setattr(generation, "_drawn", lambda *asked, **how: started.append(asked[2]) or honest(*asked, **how))
    batches = Generator(network()).draw(1000, batch=10)
    next(batches)
    assert len(started) <= 3
    batches.close()
    assert torch.get_num_threads() == 2


def test_the_first_column_is_drawn_as_often_as_the_network_says_all_but_exactly() -> None:
    net = network()
    drawn = np.concatenate(list(Generator(net).draw(ROWS, batch=ROWS)))
    first = np.bincount(every_row()[:, 0], probabilities(net))
    # Each of three stretches of 8,192 rows is off by two rows at most; a sample would be by 70 (one deviation).
    assert np.bincount(drawn[:, 0]) == pytest.approx(ROWS * first, abs=6)
