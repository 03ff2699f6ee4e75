"""Codes in an order learn with their neighbours: what is a function of released codes alone, and so costs nothing.

Under noise each weight is learnt by itself, though what a network has to say of the 17th of forty cells of an income is
nearly what it has to say of the 18th. So half of what describes an earlier value changes smoothly along its codes where
training begins; and each head's weights are a smooth mix of as many numbers, which are what is learnt. The mix can be
undone, so nothing that could be learnt cannot be any more; after training it goes into the weights, and is not kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

REACH = 0.08
"""Part of a column's codes that a code learns with, as the deviation of a Gaussian kernel."""

OWN = 0.5
"""What a code learns by itself: this part of its weights' deviation, squared of their variance."""

WAVES = 4
"""Cosines along the codes that describe them where training begins; the k-th has a k-th of the first one's height."""


def mix(order: Sequence[int], cardinality: int) -> np.ndarray:
    """Return the matrix (cardinality, cardinality) that makes a column's logits of as many numbers.

    Its rows have length 1, so that logits move as far as without it; those of codes outside of the order are the identity's.

    By numpy, whose threads survive a fork, as torch's do not.

    Args:
        order: the codes that have an order, in that order.
    """
    made, place = np.eye(cardinality), _places(order)
    if len(order) > 1:
        kernel = np.exp(-((place[:, None] - place) ** 2) / (2 * REACH**2))
        heights, waves = np.linalg.eigh(kernel)
        root = waves * np.sqrt(np.maximum(heights, 0)) @ waves.T
        rows = OWN * np.eye(len(order)) + math.sqrt(1 - OWN**2) * root
        made[np.ix_(list(order), list(order))] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return made


def described(order: Sequence[int], size: int) -> torch.Tensor:
    """Return random numbers (codes in order, size) of variance 1 / size, half of it smooth along the codes.

    With nothing of its own, a code unlike its neighbours, such as a zero that most rows have, is told from them too late.
    """
    waves = np.arange(1, WAVES + 1)
    cosines = np.cos(math.pi * _places(order)[:, None] * waves) / waves
    smooth = cosines / np.sqrt((cosines**2).sum(1).mean()) @ torch.randn(WAVES, size).double().numpy()
    return (torch.from_numpy(smooth).float() + torch.randn(len(order), size)) / (2 * size) ** 0.5


def _places(order: Sequence[int]) -> np.ndarray:
    """Return where each code lies in its order, between 0 and 1."""
    return (np.arange(len(order)) + 0.5) / max(len(order), 1)
