"""Writes texts upon rows, from noisy counts of a text column: post-processing, so free, however many are written.

A text of a released shape gets its characters place by place. Any other is a chain of words: each is drawn by the two before
it, where they were released together often enough, else by the one before or by how frequent it is, and leans to the words
that go with the row's other codes. It ends near the length that was drawn for it, where a text would. Words that were not
released are spelled from charged counts of characters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from dp_synth_pipeline.texts import tokens
from dp_synth_pipeline.texts.leanings import Leanings
from dp_synth_pipeline.texts.tokens import FILLED, Vocabulary

AT_ONCE = 1 << 21
"""Rows times words that are weighed at a time, about."""

SPREAD, BEYOND = 0.04, 1.15
"""Deviation of a text's length from the one that was drawn for it, and how far beyond it words are drawn; in parts of it."""

ROUNDS = 6
"""Of raking."""

AGAIN = 3
"""How often a text that has the form of an identifier is written anew, before it is left out."""


@dataclass(frozen=True)
class Writer:
    """What writes one text column.

    Attributes:
        name: the column.
        most: characters of a text, at most.
        shapes, shape_shares: released shapes, and the part of all texts that has each.
        places, followed: probabilities of characters at each place of each shape, (places, 26), and by the character at
            the place before, (places, 26, 26).
        vocabulary: released words; `spelled` are made up for all others.
        shares: probability of each code, (codes,).
        pairs, pair_shares: numbers of pairs and the probability of the second given the first.
        contexts, triples, triple_shares: numbers of pairs; numbers of (place of the pair, code), and their probability.
        leanings: how words lean to the columns that texts hang on.
        lengths: released share of texts by number of characters, (most + 1,).
    """

    name: str
    most: int
    shapes: tuple[str, ...]
    shape_shares: np.ndarray
    places: np.ndarray
    followed: np.ndarray
    vocabulary: Vocabulary
    spelled: tuple[str, ...]
    shares: np.ndarray
    pairs: np.ndarray
    pair_shares: np.ndarray
    contexts: np.ndarray
    triples: np.ndarray
    triple_shares: np.ndarray
    leanings: Leanings
    lengths: np.ndarray

    def write(self, codes: np.ndarray, lengths: np.ndarray, rng: np.random.Generator) -> list[str]:
        """Return a text for each row.

        Args:
            codes: int (rows, modelled columns) of the table's codec.
            lengths: characters that each text is to have, about, int (rows,); 0 gives an empty text.
        """
        found = np.full(len(codes), "", dtype=object)
        shape = self._shape_of(lengths, rng)
        for number in np.unique(shape[shape >= 0]):
            rows = np.flatnonzero(shape == number)
            found[rows] = self._filled(int(number), len(rows), rng)
        rows = np.flatnonzero((shape < 0) & (lengths > 0))
        for _ in range(1 + AGAIN):
            found[rows] = self._worded(codes[rows], lengths[rows], rng)
            rows = rows[[tokens.identifies(text) for text in found[rows]]] if len(rows) else rows
        found[rows] = ""
        return found.tolist()

    def _shape_of(self, lengths: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the number of a shape of each text's length, -1 for none, int64 (rows,)."""
        found = np.full(len(lengths), -1)
        sizes = np.array([len(shape) for shape in self.shapes], dtype=np.int64)
        for size in np.unique(sizes):
            own, rows = np.flatnonzero(sizes == size), np.flatnonzero(lengths == size)
            upto = self.shape_shares[own].cumsum()
            held = max(float(self.lengths[size]), float(upto[-1]))  # what of that length has none of these shapes
            place = np.searchsorted(upto, rng.random(len(rows)) * held, side="right")
            found[rows] = np.append(own, -1)[place]
        return found

    def _filled(self, shape: int, rows: int, rng: np.random.Generator) -> list[str]:
        """Return texts of a shape."""
        text, place = self.shapes[shape], sum(c in FILLED for s in self.shapes[:shape] for c in s)
        columns, before = [], None
        for sort in text:
            held = FILLED.get(sort)
            if held is None or place >= len(self.places):
                columns.append(np.full(rows, sort))
                continue
            shares = np.tile(self.places[place], (rows, 1)) if before is None else self.followed[place][before]
            before, place = _drawn(shares[:, : len(held)], rng), place + 1
            columns.append(np.array(list(held))[before])
        return ["".join(row) for row in zip(*columns, strict=True)]

    def _worded(self, codes: np.ndarray, lengths: np.ndarray, rng: np.random.Generator) -> list[str]:
        """Return texts of words."""
        texts, step = [], max(AT_ONCE // self.vocabulary.size, 64)
        for at in range(0, len(codes), step):
            part = slice(at, at + step)
            for chain, _ in self._chains(codes[part], lengths[part], rng):
                texts.append("".join(chain).strip()[: self.most].rstrip())
        return texts

    def _chains(
        self, codes: np.ndarray, lengths: np.ndarray, rng: np.random.Generator
    ) -> list[tuple[list[str], np.ndarray]]:
        """Return the words of each text, and their codes."""
        size, end, rows = self.vocabulary.size, self.vocabulary.end, len(codes)
        lean = np.exp(self.leanings.upon(codes)) if self.leanings.weights else np.float32(1)
        before, last = np.full(rows, -1), np.full(rows, end)
        length, words, drawn, lengths_so_far, ends = np.zeros(rows), [], [], [], []
        while (length < lengths * BEYOND + 2).any():
            shares = self._next(before, last) * lean
            ends.append(shares[:, end] / shares.sum(1))
            lengths_so_far.append(length)
            shares[:, end] = 0
            code = _drawn(shares, rng)
            word = self._words(code, rng)
            words.append(word)
            drawn.append(code)
            length = length + np.char.str_len(word)
            before, last = np.where(last == end, -1, last * size + code), code
        stop = self._stops(np.array(ends), np.array(lengths_so_far), lengths, rng)
        table, numbers = np.array(words).T, np.array(drawn).T
        return [(table[r, : stop[r]].tolist(), numbers[r, : stop[r]]) for r in range(rows)]

    def _stops(self, ends: np.ndarray, so_far: np.ndarray, lengths: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return after how many words each text ends: near its length, and rather where texts end; int64 (rows,)."""
        away = so_far - lengths
        logs = np.log(ends + 1e-12) - 0.5 * (away / (SPREAD * lengths + 1)) ** 2
        logs[0] = -np.inf
        logs[so_far > self.most + 1] = -np.inf
        logs[1] = np.maximum(logs[1], -1e9)
        return _drawn(np.exp(logs - logs.max(0)).T, rng)

    def _next(self, before: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Return the probabilities of each next code, float32 (rows, codes), to be changed by whoever asked.

        Args:
            before: number of the last two codes as a pair, -1 at a text's second word.
            last: the last code.
        """
        shares = self._pair_table[last]
        if len(self.contexts):
            place = np.minimum(np.searchsorted(self.contexts, before), len(self.contexts) - 1)
            known = self.contexts[place] == before
            shares[known] = self._triple_table[place[known]]
        return shares

    def _words(self, codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the word of each code, a made-up one for those that were not released."""
        found = self._named[codes]
        spelled = np.array(self.spelled)[rng.integers(len(self.spelled), size=len(codes))]
        found = np.where(codes == self.vocabulary.other, spelled, found)
        return np.where(codes == self.vocabulary.other_after_blank, np.char.add(" ", spelled), found)

    @cached_property
    def _named(self) -> np.ndarray:
        return np.array([*self.vocabulary.words, "", "", ""])

    @cached_property
    def _pair_table(self) -> np.ndarray:
        """Probability of each code after each, float32 (codes, codes)."""
        return _backed_off(self.pairs, self.pair_shares, np.tile(self.shares, (self.vocabulary.size, 1)))

    @cached_property
    def _triple_table(self) -> np.ndarray:
        """Probability of each code after each pair of `contexts`, float32 (contexts, codes)."""
        return _backed_off(self.triples, self.triple_shares, self._pair_table[self.contexts % self.vocabulary.size])

    def raked(self, codes: np.ndarray, lengths: np.ndarray, rng: np.random.Generator) -> Writer:
        """Return a writer whose texts have the released shares of words, by each column: found on drawn rows, so free.

        Args:
            codes, lengths: of rows that the table's generator drew.
        """
        rows = np.flatnonzero(lengths > 0)
        if not self.leanings.weights or not len(rows):
            return self
        writer = self
        for part in np.array_split(rng.permutation(rows), ROUNDS):
            writer = writer._nearer(codes[part], lengths[part], rng)
        return writer

    def _nearer(self, codes: np.ndarray, lengths: np.ndarray, rng: np.random.Generator) -> Writer:
        """Return a writer one round nearer to the released shares."""
        step = max(AT_ONCE // self.vocabulary.size, 64)
        parts = [slice(at, at + step) for at in range(0, len(codes), step)]
        words = [numbers for p in parts for _, numbers in self._chains(codes[p], lengths[p], rng)]
        return replace(self, leanings=self.leanings.nearer(codes, words))

    def to_dict(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return what JSON holds of the writer, and its arrays by name: all of them released."""
        arrays = {n: np.ascontiguousarray(getattr(self, n)) for n in _ARRAYS}
        facts = {n: getattr(self, n) for n in ("name", "most", "shapes", "spelled")}
        facts |= {"merged": self.leanings.merged, "words": self.vocabulary.words}
        return facts, {**arrays, **self.leanings.arrays()}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the writer that `to_dict` described."""
        return cls(
            name=facts["name"],
            most=facts["most"],
            shapes=tuple(facts["shapes"]),
            spelled=tuple(facts["spelled"]),
            vocabulary=Vocabulary(tuple(facts["words"])),
            leanings=Leanings.from_arrays(facts["merged"], arrays),
            **{n: arrays[n] for n in _ARRAYS},
        )


_ARRAYS = (
    *("shape_shares", "places", "followed", "shares", "pairs", "pair_shares"),
    *("contexts", "triples", "triple_shares", "lengths"),
)


def _backed_off(cells: np.ndarray, shares: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Return `rest` (contexts, codes) with the known shares of some cells; what they leave is divided as `rest` is."""
    known = np.zeros(rest.shape, dtype=np.float32)
    known.ravel()[cells] = shares
    rest = np.where(known > 0, 0, rest)
    left = np.maximum(1 - known.sum(1, keepdims=True), 0)
    return (known + left * rest / np.maximum(rest.sum(1, keepdims=True), 1e-12)).astype(np.float32)


def _drawn(shares: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a place of each row, int64 (rows,), drawn in proportion to shares (rows, places)."""
    upto = shares.cumsum(1)
    place = (upto <= (rng.random(len(shares)) * upto[:, -1])[:, None]).sum(1)
    return np.minimum(place, shares.shape[1] - 1)
