"""Draws tokens by the probabilities of a language model, from one generator of random numbers; some tokens may weigh more.

Where texts are to have a length, how likely each was to end at every place is kept, so that whoever asked may end it sooner.
None is made to go on beyond where it ends by itself: what a model writes there is no such text any more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

BEYOND = 1.5
"""How far tokens are drawn beyond the length that a text is to have, at most; in parts of it."""


@dataclass(frozen=True)
class Wanted:
    """What texts are to be like.

    Attributes:
        lengths: characters of each, about, (texts,).
        leans: what is added to the logarithm of each word's probability, float32 (texts, words).
        words: the word that each token stands for, int64 (tokens,).
    """

    lengths: np.ndarray
    leans: np.ndarray
    words: np.ndarray

    def __getitem__(self, rows: slice | np.ndarray) -> Wanted:
        """Return what some of the texts are to be like."""
        return Wanted(self.lengths[rows], self.leans[rows], self.words)


@dataclass(frozen=True)
class Drawn:
    """Tokens of one text, and where it may end.

    Attributes:
        tokens: int64 (tokens,).
        ends: how likely the text was to end at each place, from the first on, float64 (places,).
        characters: how many it has up to there, int64 (places,).
    """

    tokens: np.ndarray
    ends: np.ndarray
    characters: np.ndarray


class Draw:
    """A logits processor that puts out the probability of all tokens but of one that it draws.

    Args:
        end: the token that ends a text.
        rng: of all draws.
    """

    def __init__(self, end: int, rng: np.random.Generator) -> None:
        self.end, self.rng = end, rng

    def __call__(self, given: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return scores of which one is finite in each row, (texts, tokens)."""
        upto = scores.double().softmax(1).cumsum(1)
        chance = torch.from_numpy(self.rng.random((len(scores), 1))).to(scores.device) * upto[:, -1:]
        chosen = torch.searchsorted(upto, chance, right=True).clamp(max=scores.shape[1] - 1)
        return torch.full_like(scores, -torch.inf).scatter(1, chosen, 0.0)


class DrawWanted(Draw):
    """Draws texts that lean to some words, and keeps where they may end.

    Args:
        wanted: what they are to be like.
        characters: of each token, int64 (tokens,).
        where: they are drawn.
    """

    def __init__(
        self, end: int, rng: np.random.Generator, wanted: Wanted, characters: np.ndarray, where: torch.device
    ) -> None:
        super().__init__(end, rng)
        self._enough = torch.from_numpy(wanted.lengths * BEYOND + 2).to(where)
        self._leans = torch.from_numpy(wanted.leans).to(where)
        self._words, self._characters = torch.from_numpy(wanted.words).to(where), torch.from_numpy(characters).to(where)
        self._so_far = torch.zeros(len(wanted.lengths), dtype=torch.int64, device=where)
        self._places: list[tuple[torch.Tensor, torch.Tensor]] = []

    def __call__(self, given: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Keep how likely each text is to end here, and draw a token."""
        if self._places:
            self._so_far = self._so_far + self._characters[given[:, -1]]
        leaning = scores + self._leans[:, self._words]
        self._places.append((leaning.double().softmax(1)[:, self.end], self._so_far))
        return super().__call__(given, leaning)

    def enough(self, given: torch.Tensor, scores: object, **_: object) -> torch.Tensor:
        """Return which texts are as long as they may be, bool (texts,)."""
        return self._so_far + self._characters[given[:, -1]] >= self._enough

    def drawn(self, tokens: torch.Tensor) -> list[Drawn]:
        """Return what was drawn of each text.

        Args:
            tokens: that were drawn, int64 (texts, places); after its last one, a text has ends.
        """
        ends, so_far = (torch.stack(found, 1).cpu().numpy() for found in zip(*self._places, strict=True))
        rows, sizes = tokens.cpu().numpy(), (tokens != self.end).sum(1).tolist()
        return [Drawn(rows[r, :n], ends[r, : n + 1], so_far[r, : n + 1]) for r, n in enumerate(sizes)]
