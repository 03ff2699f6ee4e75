"""Makes a writer of noisy counts: what noise explains is left to what is known with less of it. Post-processing, so free."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dp_synth_pipeline.texts import tokens
from dp_synth_pipeline.texts.leanings import Leanings
from dp_synth_pipeline.texts.measuring import (
    CHARACTERS,
    SORTS,
    SURE_OF_SPELLING,
    Counted,
    TextCounts,
    expected_pairs,
    shares_of,
    total_of,
)
from dp_synth_pipeline.texts.writer import Writer

PAIR_WEIGHT = 1.4 / 1.05
"""By how much one thing weighs more in counts of pairs than of words: the clip of one over the other's."""

LUCKY = 0.3
"""Deviations by which a cell that was kept for being large is too large, about."""

SURE_OF_TRIPLES = 3.8

ROOM = 1.02
"""Of what is known of a context, so that something is left for all else."""

MADE_UP, LONGEST_WORD = 8_000, 20
"""Words that are spelled for those that were not released, and characters of one, at most."""

FREQUENT, FEWEST = "etaoinsr", 3
"""Letters of words where noise hides all characters: fewer than so many are known then."""

DOUBT = 3.0
"""Deviations of noise that the characters by a shorter context weigh beside those by a longer one."""


def fit(
    counts: TextCounts,
    *,
    name: str,
    most: int,
    merged: Sequence[tuple[int, tuple[int, ...]]],
    count: int,
    lengths: np.ndarray,
    rng: np.random.Generator,
) -> Writer:
    """Return the writer of a text column, before raking.

    Args:
        merged: of each column of `measuring.Rows.codes`, its number in the codec, and the merged code of each code.
        count: released number of texts.
        lengths: released share of texts by number of characters.
    """
    shares, (pairs, pair_shares), (places, followed) = shares_of(counts.totals), _pairs(counts), _places(counts)
    triples = _triples(counts, pairs, pair_shares)
    return Writer(
        name=name,
        most=most,
        shapes=counts.shapes,
        shape_shares=np.maximum(counts.shaped, 0.0) / count,
        places=places,
        followed=followed,
        vocabulary=counts.vocabulary,
        spelled=tuple(_spelled(counts, rng)),
        shares=shares.astype(np.float32),
        pairs=pairs,
        pair_shares=pair_shares,
        contexts=counts.contexts,
        triples=triples[0],
        triple_shares=triples[1],
        leanings=Leanings.of(
            [merged[c] for c in counts.columns], shares, [(c.cells, c.noise) for c in counts.by_column]
        ),
        lengths=lengths,
    )


def _pairs(counts: TextCounts) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs that surely come more often than by chance, and the probability of the second upon the first."""
    pairs, shares = counts.pairs, shares_of(counts.totals)
    sure = pairs.sure(expected_pairs(pairs, counts.totals, PAIR_WEIGHT))
    held = np.where(sure, pairs.cells - LUCKY * pairs.noise, 0.0)
    of_first = np.maximum(shares * total_of(pairs, counts.totals, PAIR_WEIGHT), held.sum(1) * ROOM + 1e-9)
    found = np.flatnonzero(sure)
    return found, (held / of_first[:, None]).ravel()[found].astype(np.float32)


def _triples(counts: TextCounts, pairs: np.ndarray, pair_shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers of (place among the contexts, code) that are surely more frequent than pairs say, and probabilities."""
    size, triples = counts.vocabulary.size, counts.triples
    if not len(counts.contexts):
        return np.zeros(0, np.int64), np.zeros(0, np.float32)
    by_pairs = np.tile(shares_of(counts.totals), (size, 1))
    by_pairs.ravel()[pairs] = pair_shares
    context = np.maximum(counts.pairs.cells.ravel()[counts.contexts], 1.0)
    sure = triples.sure(context[:, None] * by_pairs[counts.contexts % size], SURE_OF_TRIPLES)
    held = np.where(sure, triples.cells, 0.0)
    of_context = np.maximum(context, held.sum(1) * ROOM + 1e-9)
    found = np.flatnonzero(sure)
    return found, (held / of_context[:, None]).ravel()[found].astype(np.float32)


def _places(counts: TextCounts) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities of the characters at each place of each shape, and of those by the one before."""
    sizes = _sizes(counts.shapes)
    places = _evened(counts.places, np.ones((1, SORTS)), sizes)
    return places, _evened(counts.followed, places[:, None, :], sizes[:, None])


def _sizes(shapes: Sequence[str]) -> np.ndarray:
    """Return how many characters may stand at each filled place of the shapes, int64 (places,)."""
    return np.array([len(tokens.FILLED[c]) for shape in shapes for c in shape if c in tokens.FILLED], dtype=np.int64)


def _evened(counted: Counted, rest: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return probabilities (..., 26): what was counted, drawn to `rest` by as much as noise explains of their difference.

    Args:
        sizes: how many of the characters may stand at each place; broadcast over the other axes.
    """
    if not len(counted.cells):
        return counted.cells.astype(np.float32)
    sizes = sizes[: len(counted.cells)]
    may = np.arange(SORTS) < sizes[..., None]
    rest = np.where(may, rest, 0.0)
    rest = rest / rest.sum(-1, keepdims=True)
    cells = np.where(may, counted.cells, 0.0)
    total = np.maximum(cells.sum(-1, keepdims=True), 1.0)
    beyond = cells - total * rest
    squares, noise = (beyond**2).sum(-1, keepdims=True), sizes[..., None] * counted.noise**2
    trust = np.clip(1 - noise / np.maximum(squares, 1e-9), 0.0, 1.0)
    found = np.maximum(total * rest + trust * beyond, 1e-9) * may
    return (found / found.sum(-1, keepdims=True)).astype(np.float32)


def _spelled(counts: TextCounts, rng: np.random.Generator) -> list[str]:
    """Return made-up words, each character drawn by those before it."""
    seen, tables = _characters(counts)
    before = np.zeros((MADE_UP, len(tables)), np.int64)
    words, alive = np.full(MADE_UP, "", dtype=object), np.ones(MADE_UP, bool)
    letters = np.array(["", *tokens.ALPHABET], dtype=object)
    for place in range(LONGEST_WORD):
        contexts, row = np.unique(before, axis=0, return_inverse=True)
        shares = _after(tables, contexts)
        shares[:, seen == tokens.EDGE] *= place > 0
        upto = shares.cumsum(1)[row.ravel()]
        code = seen[(upto <= (rng.random(MADE_UP) * upto[:, -1])[:, None]).sum(1).clip(0, len(seen) - 1)]
        alive &= code != tokens.EDGE
        words[alive] += letters[code[alive]]
        before = np.column_stack([before[:, 1:], code])
    return words.tolist()


Tables = list[tuple[np.ndarray, np.ndarray, float]]
"""By order: numbers of the characters before, how often which follows them, and the weight of a shorter context."""


def _characters(counts: TextCounts) -> tuple[np.ndarray, Tables]:
    """Return the characters that are surely there, int64 (characters,), and counts of them, those that noise explains as 0.

    Where noise hides all of them, they are frequent letters.
    """
    first = counts.spelling[0][1]
    sure = first.sure(deviations=SURE_OF_SPELLING)[0]
    sure[tokens.EDGE] = True
    if sure.sum() < FEWEST:
        sure[tokens.characters(FREQUENT)] = True
    seen = np.flatnonzero(sure)
    tables: Tables = []
    for contexts, counted in counts.spelling:
        held = np.where(counted.sure(deviations=SURE_OF_SPELLING), counted.cells, 0.0)
        tables.append((contexts, held[:, seen], DOUBT * counted.noise + 1e-9))
    return seen, tables


def _after(tables: Tables, before: np.ndarray) -> np.ndarray:
    """Return the probability of each next character, float64 (words, characters), upon those before."""
    shares = np.full((len(before), tables[0][1].shape[1]), 1 / tables[0][1].shape[1])
    for order, (contexts, held, doubt) in enumerate(tables):
        number = np.zeros(len(before), np.int64)
        for code in before[:, before.shape[1] - order :].T:
            number = number * CHARACTERS + code
        place = np.minimum(np.searchsorted(contexts, number), len(contexts) - 1)
        own = held[place] * (contexts[place] == number)[:, None]
        shares = (own + doubt * shares) / (own.sum(1, keepdims=True) + doubt)
    return shares
