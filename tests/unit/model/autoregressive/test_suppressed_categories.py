"""Codes that must not be published are replaced by others that fit; nothing else about the rows changes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from dp_synth_pipeline.model.autoregressive.generation import propose
from dp_synth_pipeline.model.autoregressive.generator import Generator
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.autoregressive.suppressed_categories import Fitting, impute
from dp_synth_pipeline.model.base import Forbidden
from dp_synth_pipeline.model.marginals.measuring import Layout
from dp_synth_pipeline.model.marginals.raking import Tilt

FEW, MANY = 3, 12
"""Names: so few that each is tried, or so many that some are drawn to be tried."""

ROWS = 60_000
CHANCE = 6.5 * 0.5 / ROWS**0.5
"""A share of `ROWS` draws is off by more with a probability of 1e-10."""


def network(names: int = FEW, unnamed: float = 2.0) -> AutoregressiveNetwork:
    """Columns of 3, names + 2 and 4 codes: the last mostly tells the name before it, or is anything behind none.

    The middle one's last two codes are an unnamed value, which about half of the rows hold, and a null.
    """
    made = AutoregressiveNetwork((3, names + 2, 4), GeneratorSpec(hidden=8, embedding=3)).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.zero_()
        shares = made.column(1)[3]
        shares[:names] = torch.linspace(1.0, -1.0, names) - np.log(names / 3)
        shares[names], shares[names + 1] = unnamed, -1.0
        weight, _, head, _ = made.column(2)
        at = made.embed.offsets[1]
        for k in range(names):
            made.embed.weight[at + k, k % 3] = 2.0
        for k in range(3):
            weight[k, 3 + k] = 1.0
            head[k, k] = 3.0
    return made


def forbidden(names: int = FEW) -> Forbidden:
    return {1: ((names,), range(names))}


def joint(net: AutoregressiveNetwork) -> np.ndarray:
    """The network's probability of every row, as an array with one axis for each column."""
    rows = torch.tensor(list(itertools.product(*map(range, net.cardinalities))))
    with torch.no_grad():
        return np.exp(-net.losses(rows).double().numpy()).reshape(net.cardinalities)


def shares(codes: np.ndarray, cardinalities: tuple[int, ...]) -> np.ndarray:
    cells = np.ravel_multi_index(codes.T, cardinalities)
    return np.bincount(cells, minlength=int(np.prod(cardinalities))).reshape(cardinalities) / len(codes)


def distance(a: np.ndarray, b: np.ndarray) -> float:
    return 0.5 * float(np.abs(a - b).sum())


def named(truth: np.ndarray, names: int, given: tuple[int, ...] = ()) -> np.ndarray:
    """The joint in which unnamed rows are given names in proportion, by all other columns or but for those in `given`."""
    known = truth[:, :names].sum(given, keepdims=True) if given else truth[:, :names]
    out = truth.copy()
    out[:, :names] += known / known.sum(1, keepdims=True) * truth[:, [names]]
    out[:, names] = 0
    return out


@pytest.mark.parametrize("names", [FEW, MANY])
def test_other_columns_and_nulls_keep_the_distribution_that_was_learnt(names: int) -> None:
    net = network(names)
    drawn = np.concatenate(list(Generator(net).draw(ROWS, forbidden=forbidden(names))))
    truth, seen = joint(net), shares(drawn, net.cardinalities)
    assert seen[:, names].sum() == 0
    assert np.abs(seen.sum(1) - truth.sum(1)).max() < CHANCE
    assert np.abs(seen[:, names + 1] - truth[:, names + 1]).max() < CHANCE


@pytest.mark.parametrize("names", [FEW, MANY])
def test_a_name_is_given_in_the_proportions_in_which_it_fits_the_rest_of_the_row(names: int) -> None:
    net = network(names)
    truth = joint(net)
    expected, blind = named(truth, names), named(truth, names, given=(2,))
    assert distance(blind, expected) > 0.15, "by the columns before alone, names would fit badly"
    seen = shares(impute(net, Fitting(), propose(net, ROWS), forbidden(names)), net.cardinalities)
    assert distance(seen, expected) < 0.055, "0.02 is chance, the rest that there are but eight candidates"


def test_rows_without_a_forbidden_code_stay_as_they_are() -> None:
    net = network()
    codes = propose(net, 2_000)
    kept = codes.copy()
    changed = impute(net, Fitting(), codes, forbidden())
    free = kept[:, 1] != FEW
    assert (changed[free] == kept[free]).all()
    assert (changed[:, [0, 2]] == kept[:, [0, 2]]).all()
    assert (codes == kept).all(), "what was drawn is not written over"
    assert set(changed[~free, 1]) == set(range(FEW))


@pytest.mark.parametrize("names", [FEW, MANY])
def test_the_tilt_has_its_say_in_the_choice_of_a_name(names: int) -> None:
    made = AutoregressiveNetwork(
        (3, names + 2, 4), GeneratorSpec(hidden=8, embedding=3)
    ).eval()  # all alike: heads of 0
    values = np.zeros(4 * (names + 2), dtype=np.float32)
    values[4 * 2 + 1] = 3.0  # name 2 where the last column is 1
    tilt = Tilt(Layout((3, names + 2, 4), ((1, 2),)), values)
    codes = np.tile([[0, names, 1], [0, names, 0]], (5_000, 1))
    chosen = impute(made, Fitting(tilt), codes, forbidden(names))
    favoured, other = [(chosen[at::2, 1] == 2).mean() for at in (0, 1)]
    expected = np.exp(3) / (np.exp(3) + names - 1)
    # With many names, half of the rows have the favoured one among their eight candidates.
    assert 0.5 * expected < favoured < expected + 0.03
    assert abs(other - 1 / names) < 0.05


def test_several_columns_with_unnamed_values_are_all_named() -> None:
    banned = {0: ((2,), (0, 1)), 1: ((FEW,), (0,)), 2: ((0, 3), (1, 2))}
    drawn = np.concatenate(list(Generator(network()).draw(5_000, forbidden=banned)))
    assert not [i for i, (codes, _) in banned.items() if np.isin(drawn[:, i], codes).any()]


def test_a_code_that_the_network_all_but_always_draws_is_replaced_too() -> None:
    drawn = np.concatenate(list(Generator(network(unnamed=60.0)).draw(3_000, forbidden=forbidden())))
    assert set(drawn[:, 1]) <= set(range(FEW))
