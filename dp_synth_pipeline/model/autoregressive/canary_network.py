"""A network in which every row has a weight of its own, so that DP-SGD's noisy sums show each row in one coordinate.

The loss of a row is its weight times `LOUD`: whatever was learnt, its gradient is one coordinate, and clipping makes it
exactly the clip norm. No gradient of a unit tells it better from noise, so this is the worst case that DP-SGD promises to
withstand: a canary gradient, put in by the attacker (Nasr et al. 2023, "Tight Auditing of Differentially Private Machine
Learning"). The weights are an embedding like that of the released network, and are clipped by the same rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from dp_synth_pipeline.model.autoregressive import clipping_rules  # noqa: F401  registers how embeddings are clipped
from dp_synth_pipeline.model.autoregressive.layers import ColumnEmbedding
from dp_synth_pipeline.model.dpsgd.trainable import Trainable

LOUD = 1e4
"""Slope of each loss: far above any clip norm in use, so that every gradient is clipped to it."""


class CanaryNetwork(Trainable):
    """A network of `rows` different rows, rounded down to a square, of which row i has weight i.

    Two columns tell the rows apart, so that a batch is not cut into small parts, as it is for columns of many codes.
    """

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.side = max(2, math.isqrt(rows))
        self.cardinalities = (self.side, self.side)
        self.embed = ColumnEmbedding([self.side**2], 1)

    def everybody(self) -> np.ndarray:
        """Return the codes int64 (rows, 2) of all rows, in the order of their weights."""
        return np.stack(np.divmod(np.arange(self.side**2), self.side), 1)

    def losses(self, codes: torch.Tensor) -> torch.Tensor:
        """Return the loss (...,) of each row of int64 codes (..., 2), linear in the row's own weight."""
        own = codes[..., :1] * self.side + codes[..., 1:]
        return LOUD * self.embed(own)[..., 0, 0]

    def forget_unused(self) -> None:
        """Leave all weights: each belongs to a row that might have been there."""

    def blueprint(self) -> Callable[[], Trainable]:
        """Return what makes such a network in another process."""
        return partial(CanaryNetwork, self.side**2)
