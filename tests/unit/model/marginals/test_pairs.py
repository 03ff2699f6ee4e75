"""Which pairs of columns may be measured."""

from __future__ import annotations

import itertools

from dp_synth_pipeline.model.marginals.pairs import ORDINARY, nearest_pairs, paired


def test_columns_that_stand_near_each_other_are_paired_first_and_every_pair_comes_once() -> None:
    every = nearest_pairs(range(9), 99)
    assert every == list(itertools.combinations(range(9), 2))
    few = nearest_pairs(range(9), 12)
    assert few == sorted(few)
    assert set(few) == {(i, i + 1) for i in range(8)} | {(i, i + 2) for i in range(4)}


def test_of_many_columns_those_of_one_code_are_in_no_pair_and_of_few_they_are() -> None:
    cards = (1, 3) * 80
    assert paired(cards) == list(range(1, 160, 2))
    assert paired(cards[:ORDINARY]) == list(range(ORDINARY))
