"""Texts vote for what a public model wrote: a unit moves each round by what was charged, and nothing else of it is seen."""

from __future__ import annotations

import doctest
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_synth_pipeline.errors import NotCharged
from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.events import Gaussian
from dp_synth_pipeline.privacy.odometer import Odometer, Unmetered
from dp_synth_pipeline.texts import evolution
from dp_synth_pipeline.texts.evolution import Candidates, Voters
from dp_synth_pipeline.texts.plan import WEIGHT, VotesPlan

WORDS = ("slept", "well", "home", "ward", "new", "plan", "pain", "went", "rash", "walked")
PLAN = VotesPlan(0.5, 4, 100)


def write(codes: np.ndarray, beginnings: Sequence[str], rng: np.random.Generator | None = None) -> list[str]:
    """Write on with random words, which is all that a language model need do."""
    rng = rng or np.random.default_rng()
    return [" ".join([*b.split(), *rng.choice(WORDS, max(4 - len(b.split()), 1))]) for b in beginnings]


CANDIDATES = Candidates(
    ("slept well in the ward", "went home with a plan", "walked home", "a new rash", "", "pain in the ward"),
    np.array([0, 0, 0, 1, 1, 1]),
    np.array([0, 0, 0, 1, 1, 1]),
)


def voters(units: dict[int, list[tuple[str, int]]]) -> Voters:
    """Return the texts and groups of each unit as voters."""
    texts = [(text, group, unit) for unit, own in units.items() for text, group in own]
    groups, numbers = (np.array([t[i] for t in texts], dtype=np.int64) for i in (1, 2))
    return Voters([t[0] for t in texts], groups, numbers)


def cells(monkeypatch: pytest.MonkeyPatch, found: Voters) -> np.ndarray:
    """Return the histogram that would get its noise, in units; and see that it is told of the sensitivity it has."""
    told = []

    def answer(histograms, *, scale, sensitivity, odometer):
        assert (sensitivity, scale) == (WEIGHT, WEIGHT * PLAN.noise_multiplier)
        told.extend(histograms)
        return histograms, None

    with monkeypatch.context() as patch:
        patch.setattr(mechanisms, "noisy_histograms", answer)
        evolution.vote(found, CANDIDATES, PLAN, Odometer(()))
    (counts,) = told
    assert counts.dtype == np.int64
    return counts / WEIGHT


TEXTS = st.tuples(st.text(min_size=1, max_size=20) | st.sampled_from(CANDIDATES.texts[:4]), st.integers(0, 1))
UNITS = st.dictionaries(st.integers(0, 6), st.lists(TEXTS, min_size=1, max_size=5), max_size=5)


@given(UNITS, st.lists(TEXTS, min_size=1, max_size=12))
def test_one_unit_more_moves_the_votes_by_at_most_one_however_many_texts_it_has(units, more):
    with pytest.MonkeyPatch.context() as patch:
        before, after = cells(patch, voters(units)), cells(patch, voters({**units, 7: more}))
    assert np.linalg.norm(after - before) <= 1
    assert (after >= before).all()


def test_a_unit_of_one_text_has_one_whole_vote_and_one_of_several_a_vector_of_norm_one(monkeypatch):
    one = cells(monkeypatch, voters({3: [("went home with a plan", 0)]}))
    np.testing.assert_array_equal(one, [0, 1, 0, 0, 0, 0])
    same = cells(monkeypatch, voters({3: [("went home with a plan", 0)] * 4}))
    np.testing.assert_array_equal(same, one)
    two = cells(monkeypatch, voters({3: [("went home with a plan", 0), ("a new rash", 1)]}))
    np.testing.assert_allclose(two, [0, 0.707, 0, 0.707, 0, 0], atol=1e-3)


def test_nobody_votes_where_there_is_no_text(monkeypatch):
    assert not cells(monkeypatch, voters({})).any()


@given(st.lists(TEXTS, min_size=1, max_size=8), st.lists(TEXTS, max_size=8))
def test_whom_a_text_votes_for_hangs_on_that_text_and_the_candidates_alone(texts, others):
    alone = evolution.nearest(voters({0: texts}), CANDIDATES)
    among = evolution.nearest(voters({0: others, 1: texts}), CANDIDATES)[len(others) :]
    np.testing.assert_array_equal(alone, among)
    assert (CANDIDATES.groups[alone] == [group for _, group in texts]).all()


@pytest.mark.parametrize(
    ("text", "other"),
    [("ward home", "home"), ("home in the ward", "slept well in the ward"), ("a plan in the ward", "ward")],
)
def test_how_rare_words_are_is_told_by_candidates_and_by_no_other_text(text, other):
    """Were it told by the texts, each of these would vote for another candidate among fifty of the other."""
    alone = evolution.nearest(voters({0: [(text, 0)]}), CANDIDATES)
    among = evolution.nearest(voters({0: [(other, 0)] * 50, 1: [(text, 0)]}), CANDIDATES)
    assert among[-1] == alone[0]


def test_a_text_votes_for_the_one_that_it_shares_most_with():
    found = evolution.nearest(voters({0: [("he slept well", 0), ("walking home", 0), ("rashes", 1)]}), CANDIDATES)
    np.testing.assert_array_equal(found, [0, 2, 3])


def test_exactly_what_was_charged_is_used_and_a_round_more_is_refused():
    odometer, codes = Odometer(PLAN.events), np.zeros(20, np.int64)
    found = voters({u: [("slept well", 0)] for u in range(9)})
    candidates, _ = evolution.evolve(found, codes, codes, write, PLAN, odometer)
    assert odometer.used == PLAN.events == (Gaussian(0.5, 4),)
    with pytest.raises(NotCharged):
        evolution.vote(found, candidates, PLAN, odometer)
    with pytest.raises(NotCharged):
        evolution.evolve(found, codes, codes, write, PLAN, Odometer(VotesPlan(0.5, 3, 100).events))


def test_rows_that_a_person_declared_public_vote_without_noise_and_without_charge():
    """Under `privacy: none` noise has a thousandth of a vote, so 0.05 are beyond it with a chance of all but exp(-1,000)."""
    found, codes = voters({u: [("slept well", 0)] for u in range(9)}), np.zeros(20, np.int64)
    _, votes = evolution.evolve(found, codes, codes, write, VotesPlan(1e-3, 2, 9), Unmetered())
    assert votes.sum() == pytest.approx(9, abs=0.05)


def test_what_is_released_is_a_function_of_noisy_votes_and_of_no_text(monkeypatch):
    """Noise and chance are pinned: two sets of texts then leave the very same behind."""
    codes = np.arange(20) % 2

    def answer(histograms, **_):
        return [np.arange(len(h)) * WEIGHT for h in histograms], None

    monkeypatch.setattr(mechanisms, "noisy_histograms", answer)
    default, ends = np.random.default_rng, []
    for units in ({0: [("slept well", 0)]}, {0: [("slept well", 0)], 1: [("a canary sang", 1)] * 3}):
        chance = default(5)
        monkeypatch.setattr(np.random, "default_rng", lambda *_, c=chance: c)
        ends.append(evolution.evolve(voters(units), codes, codes, write, PLAN, Odometer(PLAN.events)))
    (one, votes), (other, again) = ends
    assert one.texts == other.texts
    np.testing.assert_array_equal(votes, again)


def test_what_most_texts_say_is_written_round_by_round(monkeypatch):
    """Chance is pinned, and noise is so small that it is 0 with a chance of all but exp(-100,000)."""
    default, words = np.random.default_rng, {}
    for rounds in (1, 8):
        chance, plan = default(5), VotesPlan(1e-6, rounds, 200)
        monkeypatch.setattr(np.random, "default_rng", lambda *_, c=chance: c)
        for _ in range(6):
            found, codes = voters({u: [("slept well slept well", 0)] for u in range(200)}), np.zeros(60, np.int64)
            candidates, votes = evolution.evolve(found, codes, codes, write, plan, Odometer(plan.events))
            assert votes.max() == pytest.approx(200)
            best = candidates.texts[int(votes.argmax())].split()
            words[rounds] = words.get(rounds, 0) + sum(word in ("slept", "well") for word in best)
    assert words[1] < words[8]


def test_the_better_half_of_each_group_stays_and_variations_take_the_place_of_the_others():
    votes = np.array([5.0, 0.0, 9.0, 1.0, 0.0, 0.0])
    asked = []

    def vary(codes: np.ndarray, beginnings: Sequence[str]) -> list[str]:
        asked.extend(beginnings)
        return ["new"] * len(codes)

    found = evolution.bred(CANDIDATES, votes, vary, np.random.default_rng())
    assert found.texts == ("slept well in the ward", "new", "walked home", "a new rash", "", "new")
    np.testing.assert_array_equal(found.groups, CANDIDATES.groups)
    assert all(any(text.startswith(b) for text in CANDIDATES.texts) for b in asked)
    unloved = evolution.bred(CANDIDATES, np.zeros(6), vary, np.random.default_rng())
    assert unloved.texts.count("new") == 2


@pytest.mark.parametrize(
    ("noise", "population", "candidates"), [(4.0, 4_000, 500), (4.0, 50, 20), (4.0, 10**6, 1_000), (1e-3, 600, 300)]
)
def test_there_are_so_few_candidates_that_votes_are_told_from_noise(noise, population, candidates):
    assert VotesPlan(noise, 4, population).candidates == candidates


def test_examples_hold():
    assert doctest.testmod(evolution).failed == 0
