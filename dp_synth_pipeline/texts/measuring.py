"""Noisy counts of a text column: shapes of whole texts, words, which words follow which, and how others are spelled.

A row adds to each histogram a vector of whole numbers of L2 norm at most `WEIGHT`, however long its text is: its counts,
times one weight that is `WEIGHT` over their norm, or less. So one unit of k rows moves a histogram by at most k times that.
What is counted next may follow what was released before: the words that got a code, the pairs that are looked at closer.
The amount of noise in all may not: an odometer refuses what `TextPlan` did not pay for.

Words and shapes come from the texts themselves, so they are named only from a threshold on, as rare categories are. Of
anything else the possible cells are public, or were released.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dp_synth_pipeline.privacy import mechanisms
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.texts import tokens
from dp_synth_pipeline.texts.plan import WEIGHT, TextPlan
from dp_synth_pipeline.texts.tokens import Vocabulary

SHAPES, CODED_REST, PROSE_REST = 0.06, 0.3, 0.9
"""Part that shapes take of a column, and parts of the rest that words take where most, or some, have a released shape."""

FIRST_WORDS, MORE_WORDS, TOTALS, SCORES, BY_COLUMN, PAIRS, TRIPLES, SPELLING = (
    *(0.1, 0.18, 0.05, 0.02),
    *(0.2, 0.24, 0.11, 0.1),
)
"""Parts of what words take: found on verses, where doubling one cost the others more than it won."""

ORDERS = 4
"""Characters that are counted together when words are spelled, at most."""

MOST_WORDS, MOST_SHAPES, MOST_CELLS = 2_000, 200, 1 << 22
"""Words and shapes that are released, and cells of one histogram, at most."""

MOST_COLUMNS = 8
"""Columns whose codes words are counted by; of more, those that noisy scores choose."""

CHARACTERS_A_PIECE = 4.5
"""Of a text in most European languages, marks counted as pieces. It sets weights, so only how good the counts are."""

LONGEST_SHAPE = 32
"""Characters of a code up to which its shape is counted."""

CHARACTERS = len(tokens.ALPHABET) + 1
"""Codes of characters, the edge of a word among them."""

SORTS = 26
"""Characters of the largest sort; digits are the first ten."""

SORT = {c: i for held in tokens.FILLED.values() for i, c in enumerate(held)}
"""The code of a character within its sort."""

REST = 6
"""Part of a text's words that are not found at first, about: one in so many."""

NOISY_SUM = 0.1
"""Part of a sum that its noise may be."""

SURE, SURE_OF_SPELLING = 3.6, 4.5
"""Deviations of noise above what is expected from which a cell counts: few of a million are so large by chance."""


@dataclass(frozen=True)
class Rows:
    """Texts and what they are counted by; private.

    Attributes:
        texts: cleaned, of rows that have one.
        codes: merged codes of the other columns, int64 (texts, columns).
        shares: released shares of those codes, by column.
        most: characters of a text, at most.
        typical: released mean number of characters.
    """

    texts: Sequence[str]
    codes: np.ndarray
    shares: Sequence[np.ndarray]
    most: int
    typical: float


@dataclass(frozen=True)
class Counted:
    """Noisy counts, float64, and the deviation of each one's noise.

    Attributes:
        cells: any shape; may be negative.
        noise: standard deviation of each cell.
    """

    cells: np.ndarray
    noise: float

    def sure(self, expected: np.ndarray | float = 0.0, deviations: float = SURE) -> np.ndarray:
        """Return which cells are larger than expected by more than noise explains, bool."""
        return self.cells > expected + deviations * self.noise


@dataclass(frozen=True)
class TextCounts:
    """All that was released of a text column.

    Attributes:
        shapes, shaped: released shapes, and how many rows have each.
        places: of each place of each shape, which character stands there, (places, 26).
        followed: the same by the character at the last filled place before it, (places, 26, 26).
        vocabulary: released words.
        totals: of each of its codes.
        columns, by_column: numbers of the columns that words are counted by, and counts (codes, codes of the column).
        pairs: of which code follows which, (codes, codes).
        contexts, triples: numbers of pairs, and which code follows them, (contexts, codes).
        spelling: by order, the characters before as numbers, and which follows them, (contexts, characters).
    """

    shapes: tuple[str, ...]
    shaped: np.ndarray
    places: Counted
    followed: Counted
    vocabulary: Vocabulary
    totals: Counted
    columns: tuple[int, ...]
    by_column: tuple[Counted, ...]
    pairs: Counted
    contexts: np.ndarray
    triples: Counted
    spelling: tuple[tuple[np.ndarray, Counted], ...]


@dataclass(frozen=True)
class WordCounts:
    """What was released of how often each word of a public list comes.

    Attributes:
        totals: of each word.
        columns, by_column: numbers of the columns that words are counted by, and counts (words, codes of the column).
    """

    totals: Counted
    columns: tuple[int, ...]
    by_column: tuple[Counted, ...]


@dataclass(frozen=True)
class Read:
    """The codes of all texts, one after another; private.

    Attributes:
        size: how many codes there are.
        read: codes, int64 (steps,).
        reader: the text that each step is of.
    """

    size: int
    read: np.ndarray
    reader: np.ndarray


@dataclass(frozen=True)
class Chain(Read):
    """The codes of all texts, one after another, and what comes before each; private.

    Attributes:
        before: the code before each, int64 (steps,).
    """

    before: np.ndarray

    @classmethod
    def of(cls, vocabulary: Vocabulary, pieces: Sequence[Sequence[str]]) -> Chain:
        """Return the codes of texts, each between two ends."""
        codes, owner = vocabulary.encode(pieces)
        same = owner[1:] == owner[:-1]
        return cls(vocabulary.size, codes[1:][same], owner[1:][same], codes[:-1][same])

    def triples(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return three neighbouring codes, and the text that they are of."""
        same = self.reader[1:] == self.reader[:-1]
        return self.before[:-1][same], self.before[1:][same], self.read[1:][same], self.reader[1:][same]


def measure(rows: Rows, plan: TextPlan, count: int, odometer: Odometer) -> TextCounts:
    """Measure one text column of a table, with the part of `plan` that each of its columns has.

    Args:
        count: released number of rows that have a text.
        odometer: of the entry that was charged `plan.events`.

    Raises:
        NotCharged: if something was to be released that was not charged.
    """
    return _Pass(rows, plan, odometer).all(max(count, 1))


def measure_words(rows: Rows, read: Read, plan: TextPlan, odometer: Odometer) -> WordCounts:
    """Measure how often each word of a public list comes, and by the codes of other columns.

    Args:
        rows: whose `most` is the words of a text, at most; their texts are not looked at.
        read: the words of all texts.
        odometer: of the entry that was charged `plan.events`.

    Raises:
        NotCharged: if something was to be released that was not charged.
    """
    measuring = _Pass(rows, plan, odometer)
    whole = TOTALS + SCORES + BY_COLUMN
    totals = measuring.totals(read, TOTALS / whole)
    columns = measuring.columns(read, totals, SCORES / whole)
    return WordCounts(totals, columns, measuring.by_column(read, columns, BY_COLUMN / whole))


def weighted(rows: np.ndarray, keys: np.ndarray, clip: float) -> tuple[np.ndarray, np.ndarray]:
    """Return distinct keys, and what all rows add to each, int64: of each row a vector of L2 norm at most `WEIGHT`.

    Args:
        rows, keys: int64 from 0; of each thing that is counted, the row that has it, and its cell.
        clip: norm of a row's counts up to which all rows weigh the same; above 0.

    Example:
        >>> weighted(np.array([0, 0, 1]), np.array([7, 7, 9]), 1.0)
        (array([7, 9]), array([1024, 1024]))
    """
    if not len(keys):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    span = int(keys.max()) + 1
    held, times = np.unique(rows * span + keys, return_counts=True)
    row, key = np.divmod(held, span)
    norm = np.sqrt(np.bincount(row, times.astype(np.float64) ** 2))
    weight = np.floor(WEIGHT / np.maximum(clip, norm)).astype(np.int64)
    distinct, place = np.unique(key, return_inverse=True)
    return distinct, np.bincount(place, weight[row] * times).astype(np.int64)


class _Pass:
    """Measures one column; each method spends a part of what it has."""

    def __init__(self, rows: Rows, plan: TextPlan, odometer: Odometer) -> None:
        self.rows, self.plan, self.odometer = rows, plan, odometer
        self.pieces = [tokens.PIECE.findall(text) for text in rows.texts]
        self.typical = max(rows.typical / CHARACTERS_A_PIECE, 1.0)

    def all(self, count: int) -> TextCounts:
        shapes, shaped = self.shapes()
        coded = float(shaped.sum()) > count / 2
        words = (1 - SHAPES) * (CODED_REST if coded else PROSE_REST if shapes else 1.0)
        places, followed = self.places(shapes, 1 - SHAPES - words)
        found = self.words(FIRST_WORDS * words, frozenset(), math.sqrt(self.typical))
        more = self.words(MORE_WORDS * words, frozenset(found), math.sqrt(self.typical / REST))
        vocabulary = Vocabulary(tuple(sorted([*found, *more][:MOST_WORDS])))
        chain = Chain.of(vocabulary, self.pieces)
        totals = self.totals(chain, TOTALS * words)
        columns = self.columns(chain, totals, SCORES * words)
        by_column = self.by_column(chain, columns, BY_COLUMN * words)
        pairs = self.pairs(chain, PAIRS * words)
        contexts, triples = self.triples(chain, pairs, totals, TRIPLES * words)
        spelling = self.spelling(vocabulary, SPELLING * words)
        return TextCounts(
            *(shapes, shaped, places, followed, vocabulary, totals, columns, by_column, pairs, contexts, triples),
            spelling,
        )

    def shapes(self) -> tuple[tuple[str, ...], np.ndarray]:
        """Release the shapes that enough rows have, and how many; a row has one, so it moves the histogram by 1."""
        held = Counter(
            tokens.shape(text) for text in self.rows.texts if len(text) <= LONGEST_SHAPE and tokens.coded(text)
        )
        found = self._named(held, SHAPES, 1, 1)[:MOST_SHAPES]
        return tuple(shape for shape, _ in found), np.array([n for _, n in found], dtype=np.float64)

    def words(self, part: float, known: frozenset[str], clip: float) -> list[str]:
        """Release the words that enough rows have and that were not released before, the most frequent first.

        Args:
            clip: root of how many words a row has to have before each of them weighs less.
        """
        held: Counter[str] = Counter()
        most = math.floor(WEIGHT / max(clip, 1.0))
        for pieces in self.pieces:
            own = set(pieces) - known
            weight = math.floor(WEIGHT / max(clip, 1.0, math.sqrt(len(own)))) if own else 0
            for piece in own:
                held[piece] += weight
        return [word for word, _ in self._named(held, part, WEIGHT, most, keys=self.rows.most)]

    def _named(
        self, held: Counter[str], part: float, sensitivity: int, most: int, keys: int = 1
    ) -> list[tuple[str, float]]:
        """Return what noise and threshold let be named, with its noisy count, the largest first.

        Args:
            sensitivity: L2 norm of what one row adds.
            most: what it adds to one count.
            keys: counts that it adds to, at most.
        """
        if not held:
            return []
        names, max_rows = sorted(held), self.plan.max_rows  # so that no tie tells in which order rows came
        counted = self._noisy([np.array([held[n] for n in names], np.int64)], part, sensitivity)[0]
        limit = mechanisms.threshold(
            counted.noise,
            self.plan.delta,
            keys=keys * max_rows,
            sensitivity=most * max_rows,
            odometer=self.odometer,
        )
        order = np.argsort(-counted.cells, kind="stable")
        return [(names[i], float(counted.cells[i])) for i in order if counted.cells[i] >= limit]

    def places(self, shapes: Sequence[str], part: float) -> tuple[Counted, Counted]:
        """Count the characters at each place of each shape, and by the one before; a row adds 1 for each place."""
        filled = [i for i, c in enumerate("".join(shapes)) if c in tokens.FILLED]
        number = {place: i for i, place in enumerate(filled[: MOST_CELLS // SORTS**2])}
        if not number:
            return Counted(np.zeros((0, SORTS)), 0.0), Counted(np.zeros((0, SORTS, SORTS)), 0.0)
        begins = dict(zip(shapes, np.cumsum([0, *map(len, shapes)]), strict=False))
        singles, follows = [], []
        for row, text in enumerate(self.rows.texts):
            start, before = begins.get(tokens.shape(text)) if len(text) <= LONGEST_SHAPE else None, None
            if start is None:
                continue
            for place, character in enumerate(text, int(start)):
                if place in number:
                    code = SORT[character]
                    singles.append((row, number[place] * SORTS + code))
                    if before is not None:
                        follows.append((row, (number[place] * SORTS + before) * SORTS + code))
                    before = code
        shape = (len(number), SORTS)
        single = self._weighed(np.array(singles, np.int64).reshape(-1, 2).T, shape, part / 2, 1.0)
        follow = self._weighed(np.array(follows, np.int64).reshape(-1, 2).T, (*shape, SORTS), part / 2, 1.0)
        return single, follow

    def totals(self, chain: Read, part: float) -> Counted:
        """Count each code."""
        return self._weighed((chain.reader, chain.read), (chain.size,), part, self.clip_of_words)

    def columns(self, chain: Read, totals: Counted, part: float) -> tuple[int, ...]:
        """Choose the columns that words are counted by: those whose codes go with words most, by noisy scores.

        A score is the L1 distance between exact counts and what the released totals and shares let one expect. What a row
        adds has at most as many cells as its text has characters, and so an L1 norm of at most the root of that times its
        L2 norm (Cauchy and Schwarz); rounding adds 1.
        """
        shares = self.rows.shares
        if len(shares) <= MOST_COLUMNS:
            return tuple(range(len(shares)))
        scores = []
        for column, share in enumerate(shares):
            keys = chain.read * len(share) + self.rows.codes[chain.reader, column]
            cells = _dense(*weighted(chain.reader, keys, self.clip_of_words), chain.size * len(share))
            expected = np.outer(np.maximum(totals.cells, 0), share).ravel()
            scores.append(round(float(np.abs(cells - expected).sum())))
        moved = math.ceil(WEIGHT * math.sqrt(self.rows.most + 1)) + 1
        sensitivity = moved * math.ceil(math.sqrt(len(shares)))
        noisy = self._noisy([np.array(scores, np.int64)], part, sensitivity)[0].cells
        return tuple(sorted(int(c) for c in np.argsort(-noisy, kind="stable")[:MOST_COLUMNS]))

    def by_column(self, chain: Read, columns: Sequence[int], part: float) -> tuple[Counted, ...]:
        """Count words by the codes of each column; a histogram each."""
        counts = []
        for column in columns:
            size = len(self.rows.shares[column])
            keys = chain.read * size + self.rows.codes[chain.reader, column]
            shape = (chain.size, size)
            counts.append(self._weighed((chain.reader, keys), shape, part / len(columns), self.clip_of_words))
        return tuple(counts)

    def pairs(self, chain: Chain, part: float) -> Counted:
        """Count which code follows which."""
        keys = chain.before * chain.size + chain.read
        return self._weighed((chain.reader, keys), (chain.size, chain.size), part, self.clip_of_pairs)

    def triples(self, chain: Chain, pairs: Counted, totals: Counted, part: float) -> tuple[np.ndarray, Counted]:
        """Count which code follows pairs that are surely more frequent than chance."""
        sure = np.flatnonzero(pairs.sure(expected_pairs(pairs, totals, self.clip_of_words / self.clip_of_pairs)))
        order = np.argsort(-pairs.cells.ravel()[sure], kind="stable")
        contexts = np.sort(sure[order][: MOST_CELLS // chain.size]).astype(np.int64)
        first, second, third, reader = chain.triples()
        place = np.searchsorted(contexts, first * chain.size + second)
        place = np.minimum(place, max(len(contexts) - 1, 0))
        if not len(contexts):
            return contexts, Counted(np.zeros((0, chain.size)), 0.0)
        known = contexts[place] == first * chain.size + second
        keys = place[known] * chain.size + third[known]
        return contexts, self._weighed((reader[known], keys), (len(contexts), chain.size), part, self.clip_of_pairs)

    def spelling(self, vocabulary: Vocabulary, part: float) -> tuple[tuple[np.ndarray, Counted], ...]:
        """Count the characters of words that were not released by those before them, ever more of these."""
        words = vocabulary.spelled(self.pieces)
        clip = math.sqrt(self.typical)  # a sixth of the words, of about six characters
        counted: list[tuple[np.ndarray, Counted]] = []
        contexts = np.zeros(1, np.int64)
        for order in range(1, ORDERS + 1):
            rows, before, code = _runs(words, order)
            place = np.minimum(np.searchsorted(contexts, before), len(contexts) - 1)
            known = contexts[place] == before
            keys, shape = place[known] * CHARACTERS + code[known], (len(contexts), CHARACTERS)
            counts = self._weighed((rows[known], keys), shape, part / ORDERS, clip)
            counted.append((contexts, counts))
            held, after = np.nonzero(counts.sure(deviations=SURE_OF_SPELLING))
            most = MOST_CELLS // CHARACTERS
            contexts = np.unique(np.append(contexts[held] * CHARACTERS + after, 0))[:most]
        return tuple(counted)

    @property
    def clip_of_words(self) -> float:
        return 1.4 * math.sqrt(self.typical)  # marks and short words come several times

    @property
    def clip_of_pairs(self) -> float:
        return 1.05 * math.sqrt(self.typical)

    def _weighed(self, counted: Iterable[np.ndarray], shape: tuple[int, ...], part: float, clip: float) -> Counted:
        rows, keys = counted
        cells = _dense(*weighted(rows, keys, clip), math.prod(shape))
        found = self._noisy([cells], part, WEIGHT)[0]
        return Counted(found.cells.reshape(shape), found.noise)

    def _noisy(self, histograms: Sequence[np.ndarray], part: float, sensitivity: int) -> list[Counted]:
        """Return histograms with the noise of a part of the plan; each row adds at most `sensitivity` in L2 to all of them.

        Args:
            part: of the column's squared signal to noise.
        """
        scale = self.plan.scale(part) * sensitivity
        noisy, _ = mechanisms.noisy_histograms(
            histograms, scale=scale, sensitivity=sensitivity * self.plan.max_rows, odometer=self.odometer
        )
        return [Counted(cells.astype(np.float64), scale) for cells in noisy]


def expected_pairs(pairs: Counted, totals: Counted, ratio: float) -> np.ndarray:
    """Return how often codes would follow each other by chance, (codes, codes), from released counts alone.

    Args:
        ratio: by how much one thing weighs more in `pairs` than in `totals`.
    """
    share = shares_of(totals)
    return np.outer(share, share) * total_of(pairs, totals, ratio)


def shares_of(totals: Counted) -> np.ndarray:
    """Return the share of each code, float64; none is 0."""
    held = np.maximum(totals.cells, totals.noise / 10 + 1e-9)
    return held / held.sum()


def total_of(pairs: Counted, totals: Counted, ratio: float) -> float:
    """Return the sum of all pairs: that of their cells, unless noise is a larger part of it than clipping would be."""
    known = max(float(totals.cells.sum()) * ratio, 1.0)
    noise = pairs.noise * math.sqrt(pairs.cells.size)
    return max(float(pairs.cells.sum()), 1.0) if noise < NOISY_SUM * known else known


def _dense(keys: np.ndarray, sums: np.ndarray, cells: int) -> np.ndarray:
    found = np.zeros(cells, dtype=np.int64)
    found[keys] = sums
    return found


def _runs(words: Sequence[Sequence[Sequence[int]]], order: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return, for each character of each word and its end, its row, the number of those before it, and its code."""
    rows, before, codes = [], [], []
    for row, own in enumerate(words):
        for word in own:
            run = [tokens.EDGE] * (order - 1) + list(word) + [tokens.EDGE]
            for place in range(order - 1, len(run)):
                rows.append(row)
                before.append(number_of(run[place - order + 1 : place]))
                codes.append(run[place])
    return np.array(rows, np.int64), np.array(before, np.int64), np.array(codes, np.int64)


def number_of(run: Iterable[int]) -> int:
    """Return the number of some characters in their order."""
    number = 0
    for code in run:
        number = number * CHARACTERS + code
    return number
