"""What every generative model of ours offers: a start that is free, a fit that is charged, draws, and its own description.

A model sees integers, never a table. To add one, write its module, and name it in `artifact.MODELS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from dp_synth_pipeline.errors import InvalidInput

if TYPE_CHECKING:
    from dp_synth_pipeline.model.dpsgd.training import Trained
    from dp_synth_pipeline.model.dpsgd.work import Hooks, Training
    from dp_synth_pipeline.model.marginals.measuring import Marginals

Forbidden = Mapping[int, tuple[Sequence[int], Sequence[int]]]
"""By column: codes that must not be drawn, and the codes that may stand for them."""


@dataclass(frozen=True)
class Released:
    """What a model may start from at no cost, since all of it is released or public.

    Attributes:
        shares: 1-way probabilities of each column's codes.
        measured: noisy marginals of pairs and triples of columns.
        previous: the table's previous released model.
        public: codes (rows, columns) of a table that a person declared public.
    """

    shares: Sequence[np.ndarray]
    measured: Marginals | None = None
    previous: GenerativeModel | None = None
    public: np.ndarray | None = None


class GenerativeModel(ABC):
    """A distribution over rows of codes.

    Attributes:
        kind: its name in `artifact.MODELS`, and in what is saved.
    """

    kind: ClassVar[str]

    @classmethod
    @abstractmethod
    def begin(cls, cardinalities: Sequence[int], spec: Any, released: Released) -> Self:
        """Return a model that knows nothing but what was released: post-processing, so free.

        Args:
            cardinalities: codes per column.
            spec: its hyperparameters.
        """

    @abstractmethod
    def fit(self, training: Training, hooks: Hooks) -> Trained[Any]:
        """Learn from private rows, exactly as `training.plan` says, which is what that costs. The model changes.

        Returns:
            The event that was performed, and the audit of it.
        """

    def fit_public(self, training: Training, hooks: Hooks) -> None:
        """Learn from rows that a person declared public, without clipping or noise: not private. The model changes."""
        raise InvalidInput(f"a model of kind {self.kind!r} does not learn without privacy; write privacy: dp.")

    def rake(self, measured: Marginals) -> Self:
        """Return a model whose draws come nearer to released marginals: post-processing, so free. This one, by default."""
        return self

    @abstractmethod
    def draw(self, rows: int, *, forbidden: Forbidden | None = None) -> Iterator[np.ndarray]:
        """Yield int64 codes (some rows, columns) until `rows` rows were drawn: post-processing, so free.

        Args:
            forbidden: codes that must not be drawn, and those that may stand for them.
        """

    def sample(self, rows: int, *, forbidden: Forbidden | None = None) -> np.ndarray:
        """Return int64 codes (rows, columns), all at once; see `draw`."""
        none = np.zeros((0, len(self.cardinalities)), dtype=np.int64)
        return np.concatenate([none, *self.draw(rows, forbidden=forbidden)])

    @property
    @abstractmethod
    def cardinalities(self) -> tuple[int, ...]:
        """Codes per column."""

    @property
    @abstractmethod
    def weights(self) -> int:
        """Number of released numbers."""

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """Return JSON-ready facts that, with `arrays`, are the whole model: public, since all of them are released."""

    @abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """Return the released numbers by name."""

    @classmethod
    @abstractmethod
    def restore(cls, description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the model that said this `description` and these `arrays`; facts of others may stand beside them."""
