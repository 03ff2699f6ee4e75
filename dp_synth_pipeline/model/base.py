"""What every generative model of ours offers: a start that is free, a fit that is charged, draws, and its own description.

A model sees integers, never a table. To add one, write its module, and name it in `artifact.MODELS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from dp_synth_pipeline.errors import InvalidInput

if TYPE_CHECKING:
    from dp_synth_pipeline.model.dpsgd.training import Trained
    from dp_synth_pipeline.model.dpsgd.work import Hooks, Training
    from dp_synth_pipeline.model.marginals.measuring import Marginals

Forbidden = Mapping[int, tuple[Sequence[int], Sequence[int]]]
"""By column: codes that must not be drawn, and the codes that may stand for them."""

Allowed = Callable[[int, np.ndarray], np.ndarray | None]
"""Says what may stand in a column: of its number and the codes before it, int64 (rows, column), which of its codes may
follow, bool (rows or 1, codes); None if all may."""


class Possible(NamedTuple):
    """Which codes of a column rows may have.

    Attributes:
        may: which ones, bool (rows, codes). What others take of a row's probability, all of these share.
        instead: which of the first codes say what a later code says, and so may not be drawn either, bool (rows, own codes).
            Later codes are as likely without them as with them, in the mean of all rows. None if there are none.
        leaning: what is added to the log-odds of each code, float (rows, codes); None if nothing is.
    """

    may: np.ndarray
    instead: np.ndarray | None = None
    leaning: np.ndarray | None = None


AllowedUpon = Callable[[np.ndarray, int, np.ndarray], Possible | None]
"""Says what may be drawn upon given rows: of their numbers, int64 (rows,), an own column's number, and the own codes before
it, int64 (rows, column), which of its codes may follow; None if all may."""


class Before(NamedTuple):
    """Where a row tells a column's code in the row before, or beside.

    Attributes:
        column: number of the given column that does: 0 where there is no such row, or one more than that code.
        order: the codes that have an order, in that order.
    """

    column: int
    order: tuple[int, ...]


@dataclass(frozen=True)
class Released:
    """What a model may start from at no cost, since all of it is released or public.

    Attributes:
        shares: 1-way probabilities of each column's codes.
        measured: noisy marginals of pairs and triples of columns.
        previous: the table's previous released model.
        public: codes (rows, columns) of a table that a person declared public.
        given: how many of the first columns are given with each row, and not learnt.
        orders: for each column its codes that have an order, in that order; none: no column has codes in an order.
        moving: by column, where its code in the row before stands, for those that are learnt by how far they move.
        apart: likewise, where its code in the row beside stands, for those that are learnt by how far they lie from it.
    """

    shares: Sequence[np.ndarray]
    measured: Marginals | None = None
    previous: GenerativeModel | None = None
    public: np.ndarray | None = None
    given: int = 0
    orders: Sequence[Sequence[int]] = ()
    moving: Mapping[int, Before] = field(default_factory=dict)
    apart: Mapping[int, Before] = field(default_factory=dict)


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

    def rake_upon(self, given: np.ndarray, measured: Marginals) -> Self:
        """Return a model whose rows, drawn upon what is given, come nearer to released marginals: post-processing, so free.

        This one, by default.

        Args:
            given: codes of the columns that are given, int64 (rows, given columns), as often as rows are drawn upon them.
        """
        return self

    @abstractmethod
    def draw(
        self, rows: int, *, forbidden: Forbidden | None = None, rng: np.random.Generator | None = None
    ) -> Iterator[np.ndarray]:
        """Yield int64 codes (some rows, columns) until `rows` rows were drawn: post-processing, so free.

        Args:
            forbidden: codes that must not be drawn, and those that may stand for them.
            rng: decides; a fresh one by default.
        """

    def sample(
        self, rows: int, *, forbidden: Forbidden | None = None, rng: np.random.Generator | None = None
    ) -> np.ndarray:
        """Return int64 codes (rows, columns), all at once; see `draw`."""
        none = np.zeros((0, len(self.cardinalities)), dtype=np.int64)
        return np.concatenate([none, *self.draw(rows, forbidden=forbidden, rng=rng)])

    def draw_given(
        self, rows: int, tries: int, allowed: Allowed, *, forbidden: Forbidden | None = None, rng: np.random.Generator
    ) -> tuple[np.ndarray, float]:
        """Return rows among the allowed ones, as often as the model has them: post-processing, so free.

        Args:
            rows: how many are wanted, at most.
            tries: draws that are made; fewer rows come of them where little is allowed.
            allowed: which codes may follow others.

        Returns:
            int64 codes (rows, columns), and how many rows drawn one by one they are worth.
        """
        raise InvalidInput(f"a model of kind {self.kind!r} draws no rows on a condition.")

    def follow(
        self,
        given: np.ndarray,
        *,
        forbidden: Forbidden | None = None,
        allowed: AllowedUpon | None = None,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Return one row's own codes for each row that is given, int64 (rows, own columns): post-processing, so free.

        Args:
            given: codes of the columns that are given, int64 (rows, given columns).
            forbidden: own codes that must not be drawn, by the number of their own column.
            allowed: own codes that may be drawn, but for those that stand for forbidden ones.
        """
        raise InvalidInput(f"a model of kind {self.kind!r} draws no rows upon others.")

    def lean(self, moves: Sequence[np.ndarray]) -> None:
        """Make own codes more or less likely, whatever is given: post-processing, so free. The model changes.

        Args:
            moves: for each own column, what is added to the log-odds of its first codes, float (some codes,).
        """
        raise InvalidInput(f"a model of kind {self.kind!r} leans to no codes.")

    def complete(
        self, codes: np.ndarray, allowed: Allowed, *, forbidden: Forbidden | None = None, rng: np.random.Generator
    ) -> np.ndarray:
        """Return rows of which a part was known, completed by the model, int64 (rows, columns): post-processing, so free.

        Args:
            codes: the known codes, int64 (rows, columns), -1 where one is to be drawn.
            allowed: what may be drawn there, apart from what is known.
        """
        raise InvalidInput(f"a model of kind {self.kind!r} completes no rows.")

    def log_likelihood(self, codes: np.ndarray) -> np.ndarray:
        """Return the log-probability of each row of codes (rows, columns), in nats, float64 (rows,)."""
        raise InvalidInput(f"a model of kind {self.kind!r} tells no likelihood.")

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
