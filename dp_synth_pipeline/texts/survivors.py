"""Released texts of a column for which private ones voted, and how rows get one of them: post-processing, so free."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from dp_synth_pipeline.texts.evolution import Candidates

FILE = "survivors.json"
"""Beside a generator."""

SPREAD = 0.15
"""Deviation of a text's length from the one that was drawn for its row, in parts of it."""

AT_ONCE = 1 << 12
"""Rows that get their texts at a time."""


@dataclass(frozen=True)
class Survivors:
    """What writes one text column from candidates that survived.

    Attributes:
        name: of the column.
        most: characters of a text, at most.
        sha256: of the public model's files that wrote them.
        column: number of the modelled column that texts go with; None if there is none.
        merged: the group of each of its codes; of the one code 0 without a column.
        groups: the group of each text.
        texts: those that had more votes than one deviation of their noise.
        votes: what each has beyond that, above 0; or 1 for all of a group in which none has any.
    """

    name: str
    most: int
    sha256: str
    column: int | None
    merged: tuple[int, ...]
    groups: tuple[int, ...]
    texts: tuple[str, ...]
    votes: tuple[float, ...]

    @classmethod
    def of(
        cls,
        candidates: Candidates,
        votes: np.ndarray,
        *,
        name: str,
        most: int,
        sha256: str,
        column: int | None,
        merged: tuple[int, ...],
    ) -> Self:
        """Return the candidates that survive; a group of which none does keeps all that the model wrote for it."""
        written = np.array([bool(text) for text in candidates.texts])
        votes = np.where(written, votes, 0.0)
        for group in np.unique(candidates.groups):
            own = candidates.groups == group
            if not votes[own].any():
                votes[own & written if (own & written).any() else own] = 1.0
        kept = np.flatnonzero(votes)
        groups, texts = candidates.groups[kept].tolist(), [candidates.texts[i] for i in kept]
        return cls(name, most, sha256, column, merged, tuple(groups), tuple(texts), tuple(votes[kept].tolist()))

    def write(self, codes: np.ndarray, lengths: np.ndarray, rng: np.random.Generator) -> list[str]:
        """Return a text of each row's group, drawn by its votes among those of about the length that the row has.

        Args:
            codes: of the rest of each row, int (rows, columns), as the codec has them.
            lengths: characters that were drawn for each text; 0 gives an empty text.
        """
        own = np.zeros(len(codes), np.int64) if self.column is None else codes[:, self.column].astype(np.int64)
        groups, found = np.array(self.merged)[own], np.full(len(codes), "", dtype=object)
        rows = np.flatnonzero(lengths > 0)
        texts, sizes = np.array(self.texts, dtype=object), np.array([len(text) for text in self.texts])
        for start in range(0, len(rows), AT_ONCE):
            part = rows[start : start + AT_ONCE]
            away = (sizes - lengths[part, None]) / (SPREAD * lengths[part, None] + 1)
            logs = np.log(self.votes) - 0.5 * away**2
            logs[np.array(self.groups) != groups[part, None]] = -np.inf
            found[part] = texts[(logs + rng.gumbel(size=logs.shape)).argmax(1)]  # each by its part of the weights
        return found.tolist()

    def save(self, path: Path) -> None:
        """Write all that is released of it: public text, and charged numbers."""
        path.write_text(json.dumps(asdict(self), ensure_ascii=False, indent=1), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read back what `save` wrote."""
        facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        facts |= {name: tuple(facts[name]) for name in ("merged", "groups", "texts", "votes")}
        return cls(**facts)


def beside(folder: Path) -> list[Survivors]:
    """Return what writes a column from survivors beside a generator: one, or none."""
    return [Survivors.load(folder / FILE)] if (folder / FILE).exists() else []
