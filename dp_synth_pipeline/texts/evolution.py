"""Private Evolution: a public language model writes candidates, and private texts vote for those that they are nearest to.

Of the texts, nothing but a noisy number of votes is ever seen. What has many votes stays and is varied, which the public
model does, and texts vote again. This follows Aug-PE (Xie et al. 2024, "Differentially Private Synthetic Data via Foundation
Model APIs 2: Text", algorithm 1). A text votes within its group, by the code of one other column, so that groups share one
histogram and cost nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.texts.measuring import weighted
from dp_synth_pipeline.texts.plan import WEIGHT, VotesPlan

FEATURES = 1 << 16
"""Cells that runs of characters are hashed to."""

RUNS = (2, 4)
"""Characters of a run. Of 1,200 verses, 52 % have a nearest one of the same part by these, 50 % by whole words, and 42 % by
the mean of the word vectors of a language model of 135 million weights."""

AT_ONCE = 1 << 12
"""Texts that are compared at a time."""

Write = Callable[[np.ndarray, Sequence[str]], list[str]]
"""Returns a text for each code of the other column, int64 (texts,), and beginning; empty where none could be written."""


@dataclass(frozen=True)
class Voters:
    """Texts that vote; private.

    Attributes:
        texts: cleaned, none of them empty.
        groups: the group that each votes in, int64 (texts,).
        units: the privacy unit of each, int64 (texts,), from 0.
    """

    texts: Sequence[str]
    groups: np.ndarray
    units: np.ndarray


@dataclass(frozen=True)
class Candidates:
    """What a public model wrote.

    Attributes:
        texts: may be empty where it wrote nothing that may be released.
        codes: of the other column, which each was written for, int64 (texts,).
        groups: the group that each is voted for in, int64 (texts,).
    """

    texts: tuple[str, ...]
    codes: np.ndarray
    groups: np.ndarray


def evolve(
    voters: Voters, codes: np.ndarray, groups: np.ndarray, write: Write, plan: VotesPlan, odometer: Odometer
) -> tuple[Candidates, np.ndarray]:
    """Return the candidates of the last round, and their votes as `vote` has them, float64 (candidates,).

    Args:
        codes, groups: those that the candidates of the first round are written for, int64 (candidates,).
        odometer: of the entry that was charged `plan.events`.

    Raises:
        NotCharged: if a round was not charged.
    """
    candidates = Candidates(tuple(write(codes, [""] * len(codes))), codes, groups)
    votes = vote(voters, candidates, plan, odometer)
    for _ in range(plan.rounds - 1):
        candidates = bred(candidates, votes, write, np.random.default_rng())
        votes = vote(voters, candidates, plan, odometer)
    return candidates, votes


def vote(voters: Voters, candidates: Candidates, plan: VotesPlan, odometer: Odometer) -> np.ndarray:
    """Release one round's votes, less a deviation of their noise, at least 0, in units, float64 (candidates,).

    A text has one vote, which is a function of that text and of the candidates alone. The votes of a unit's texts are
    weighed together: it adds to the histogram a vector of whole numbers of L2 norm at most `WEIGHT`, however many texts it
    has. So one unit more or less moves it by at most `WEIGHT`, which counts as 1; another unit in its place by twice that.

    Raises:
        NotCharged: if the round was not charged; nothing is drawn then.
    """
    chosen, sums = weighted(voters.units, nearest(voters, candidates), 1.0)
    cells = np.zeros(len(candidates.texts), dtype=np.int64)
    cells[chosen] = sums
    scale = WEIGHT * plan.noise_multiplier  # exact, since the weight is a power of two
    (noisy,), _ = mechanisms.noisy_histograms([cells], scale=scale, sensitivity=WEIGHT, odometer=odometer)
    return np.maximum(noisy / WEIGHT - plan.noise_multiplier, 0.0)


def nearest(voters: Voters, candidates: Candidates) -> np.ndarray:
    """Return the number of the candidate that each text is nearest to in its group, int64 (texts,).

    Near are texts that share short runs of characters, by the cosine of their counts, in which rare runs weigh more.
    Candidates alone tell how rare each is. Sums run over a text's own runs in a fixed order, so that not even their rounding
    hangs on any other text.
    """
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

    cells: Any = {"n_features": FEATURES, "norm": None, "alternate_sign": False}
    hashed: Any = HashingVectorizer(analyzer="char_wb", ngram_range=RUNS, **cells)
    rarity: Any = TfidfTransformer(sublinear_tf=True)
    theirs = rarity.fit_transform(hashed.transform(candidates.texts)).tocsr()
    found = np.zeros(len(voters.texts), dtype=np.int64)
    for start in range(0, len(found), AT_ONCE):
        own = rarity.transform(hashed.transform(voters.texts[start : start + AT_ONCE])).tocsr()
        groups = voters.groups[start : start + AT_ONCE]
        for group in np.unique(groups):
            rows, among = np.flatnonzero(groups == group), np.flatnonzero(candidates.groups == group)
            found[start + rows] = among[(own[rows] @ theirs[among].T).toarray().argmax(1)]
    return found


def bred(candidates: Candidates, votes: np.ndarray, write: Write, rng: np.random.Generator) -> Candidates:
    """Return the next round's candidates: of each group the better half, and variations in place of the others.

    A variation keeps the beginning of a candidate that is drawn by its votes, and the public model writes on from there. All
    of it follows from released votes, and so is free.
    """
    places, parents = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for group in np.unique(candidates.groups):
        own = np.flatnonzero(candidates.groups == group)
        order = own[np.argsort(-votes[own], kind="stable")]
        worse = order[-(-len(own) // 2) :]
        places.append(worse)
        parents.append(rng.choice(own, len(worse), p=_shares(votes[own])))
    place, parent = np.concatenate(places), np.concatenate(parents)
    codes, texts = candidates.codes.copy(), np.array(candidates.texts, dtype=object)
    codes[place] = codes[parent]
    texts[place] = write(codes[place], [_beginning(candidates.texts[p], rng) for p in parent])
    return Candidates(tuple(texts), codes, candidates.groups)


def _shares(votes: np.ndarray) -> np.ndarray:
    """Return votes as parts of their sum; equal ones if there are none."""
    return votes / votes.sum() if votes.any() else np.full(len(votes), 1 / len(votes))


def _beginning(text: str, rng: np.random.Generator) -> str:
    """Return the first words of a text, of a uniformly random number: none up to all but one."""
    words = text.split(" ")
    return " ".join(words[: rng.integers(len(words))])


def shortened(text: str, most: int) -> str:
    """Return a text of at most `most` characters, cut between words where that is possible.

    Example:
        >>> shortened("slept very well", 12), shortened("slept", 3)
        ('slept very', 'sle')
    """
    if len(text) <= most:
        return text
    return text[: most + 1].rpartition(" ")[0].rstrip() or text[:most]
