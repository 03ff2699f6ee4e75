"""Says a row's codes in words, from released facts alone: what a language model is given before the text of that row.

Real rows and drawn ones are said alike. What is said of a row is a function of its own codes and of nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from dp_synth_pipeline.tabular.encoding.codec import TableCodec

MOST = 16
"""Columns that a prompt tells of, at most: the length of the text, and the first others of the table."""

MIDDLE = 0.5
"""Where in its cell the number lies that stands for it."""


@dataclass(frozen=True)
class Prompts:
    """What is said of each code of some columns.

    Attributes:
        columns: numbers of the columns among those of all codecs, one after the other.
        names: of these columns.
        words: of each of them, what each code is called.
    """

    columns: tuple[int, ...]
    names: tuple[str, ...]
    words: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, codecs: Sequence[TableCodec], first: str, most: int = MOST) -> Self:
        """Return how rows are said.

        Args:
            codecs: of the row's table, and of those that it hangs on.
            first: name of the modelled column that is told first, such as the text's length.
            most: columns that are told of, at most.
        """
        coded = [pair for codec in codecs for pair in zip(codec.modelled, codec.columns, strict=True)]
        order, rng = sorted(range(len(coded)), key=lambda i: coded[i][0].name != first)[:most], np.random.default_rng()
        words = []
        for _, codec in (coded[i] for i in order):
            codes = np.arange(codec.cardinality)
            values = codec.decode(codes, rng, np.full(len(codes), MIDDLE)).to_pylist()
            words.append(tuple(_said(value) for value in values))
        return cls(tuple(order), tuple(coded[i][0].name for i in order), tuple(words))

    def say(self, codes: np.ndarray) -> list[str]:
        """Return the prompt of each row of codes (rows, columns of all codecs), a line that the text follows."""
        own = codes[:, list(self.columns)]
        return [self._line(words[code] for words, code in zip(self.words, row, strict=True)) for row in own]

    def longest(self) -> str:
        """Return a line that has the longest words of every column."""
        return self._line(max(words, key=len) for words in self.words)

    def _line(self, words: Any) -> str:
        return "; ".join(f"{name}: {word}" for name, word in zip(self.names, words, strict=True)) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready facts, all of them released."""
        return {"columns": self.columns, "names": self.names, "words": self.words}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Sequence[Any]]) -> Self:
        """Read back what `to_dict` wrote."""
        words = tuple(tuple(w) for w in facts["words"])
        return cls(tuple(facts["columns"]), tuple(facts["names"]), words)


def _said(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
