"""Takes texts apart into words, marks and characters by public rules. Nothing here was ever fitted to anybody's text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dp_synth_pipeline.tabular.sources.csv.identifying import PATTERNS

PIECE = re.compile(r" ?\w+| ?[^\w\s]")
"""A word or a mark, with the blank before it."""

ALPHABET = "".join(
    c
    for first, last in ((0x21, 0x7E), (0xC0, 0x24F), (0x370, 0x4FF))
    for c in map(chr, range(first, last + 1))
    if first == 0x21 or c.isalpha()
)
"""Characters of words that are spelled: ASCII, and Latin, Greek and Cyrillic letters."""

EDGE = 0
"""The code of a word's beginning and end among those of its characters, which count from 1."""

DIGIT, UPPER, LOWER = "0", "A", "a"
FILLED = {DIGIT: "0123456789", UPPER: "ABCDEFGHIJKLMNOPQRSTUVWXYZ", LOWER: "abcdefghijklmnopqrstuvwxyz"}
"""What may stand at each place of a shape; any other character of a shape stands for itself."""

_CODES = {c: i for i, c in enumerate(ALPHABET, 1)}
_SHAPE = str.maketrans({c: shape for shape, characters in FILLED.items() for c in characters})
_IDENTIFYING = re.compile("|".join(rf"(?<!\w)(?:{pattern})(?!\w)" for pattern in PATTERNS.values()))


def identifies(text: str) -> bool:
    """Whether anything in a text has the form of a mail address, a telephone number, an IBAN and so on.

    Example:
        >>> identifies("write to ann@example.org"), identifies("born in 1984, room 12-34")
        (True, False)
    """
    return _IDENTIFYING.search(text) is not None


def shape(text: str) -> str:
    """Return what sort of character stands at each place: digits, capitals and small letters of ASCII, or the character.

    Example:
        >>> shape("AB-12 é")
        'AA-00 é'
    """
    return text.translate(_SHAPE)


def coded(text: str) -> bool:
    """Whether a text may be a code, whose shape tells more than its words: it has a digit, or no small letter.

    Example:
        >>> [coded(text) for text in ("AB-12", "Room 7", "OSL", "slept well", "")]
        [True, True, True, False, False]
    """
    found = shape(text)
    return bool(text) and (DIGIT in found or LOWER not in found)


def characters(word: str) -> list[int]:
    """Return the codes of a word's characters; those that the alphabet lacks are left out."""
    return [_CODES[c] for c in word if c in _CODES]


@dataclass(frozen=True)
class Vocabulary:
    """Released words, each with the code of its place; then a code for other words, and one for beginning and end.

    Attributes:
        words: pieces of texts, most of them with the blank before them.
    """

    words: tuple[str, ...] = ()

    @property
    def other_after_blank(self) -> int:
        """The code of words that were not released, after a blank."""
        return len(self.words)

    @property
    def other(self) -> int:
        """The code of words that were not released and follow no blank."""
        return len(self.words) + 1

    @property
    def end(self) -> int:
        """The code of a text's beginning and end."""
        return len(self.words) + 2

    @property
    def size(self) -> int:
        """How many codes there are."""
        return len(self.words) + 3

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {word: code for code, word in enumerate(self.words)}

    def encode(self, texts: Iterable[Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
        """Return the codes of all texts' pieces, each text between two ends, and the number of each one's text; int64.

        Args:
            texts: pieces of each text.
        """
        codes, rows = [], []
        for row, found in enumerate(texts):
            own = [self._codes.get(p, self.other_after_blank if p[0] == " " else self.other) for p in found]
            codes += [self.end, *own, self.end]
            rows += [row] * (len(own) + 2)
        return np.array(codes, dtype=np.int64), np.array(rows, dtype=np.int64)

    def spelled(self, texts: Iterable[Sequence[str]]) -> list[list[list[int]]]:
        """Return, for each text, the characters of each of its words that were not released."""
        return [[characters(p.strip()) for p in found if p not in self._codes] for found in texts]
