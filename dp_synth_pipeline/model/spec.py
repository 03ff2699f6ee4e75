"""Hyperparameters of the network and its training, each default in one place; and the plan that public facts fix.

Imports neither torch nor opacus, so that a plan and its cost can be computed anywhere.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.privacy.events import SubsampledGaussian


class Purpose(StrEnum):
    """What the synthetic table is for; it sets `max_epochs` (Syngen's recommended ranges)."""

    TESTING = "testing"
    ANALYTICS = "analytics"
    MACHINE_LEARNING = "machine_learning"


MAX_EPOCHS = {Purpose.TESTING: 15, Purpose.ANALYTICS: 40, Purpose.MACHINE_LEARNING: 80}
"""Within 10-20, 20-50 and 50-100."""


@dataclass(frozen=True)
class GeneratorSpec:
    """How the network looks and learns.

    Attributes:
        max_epochs: expected passes over the units, at least 1.
        batch_share: expected share of the units in a step, before rounding to a power of two.
        max_batch: most units expected in a step.
        hidden: tanh units per column. Small is better under noise (Papernot et al. 2020, section 3.1).
        embedding: numbers that describe one earlier value.
        activation: 'tanh' (bounded, so gradients stay under the clip; section 3.2) or 'relu'.
        optimizer: 'adam' or 'sgd'.
        learning_rate: at `max_grad_norm` 1. What the optimizer gets is learning_rate / max_grad_norm for SGD, since
            their product is what matters (arXiv 2411.02051); Adam is free of the scale.
        max_grad_norm: L2 bound of one unit's gradient.
        averaging: share of the last steps that the released weights average over; averaging is post-processing.
    """

    max_epochs: int = MAX_EPOCHS[Purpose.ANALYTICS]
    batch_share: float = 1 / 16
    max_batch: int = 4096
    hidden: int = 32
    embedding: int = 8
    activation: str = "tanh"
    optimizer: str = "adam"
    learning_rate: float = 0.004
    max_grad_norm: float = 1.0
    averaging: float = 0.1

    def __post_init__(self) -> None:
        for name in ("max_epochs", "max_batch", "hidden", "embedding"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise InvalidInput(f"training: {name} must be a whole number of at least 1, got {value!r}.")
        for name in ("batch_share", "learning_rate", "max_grad_norm"):
            value = getattr(self, name)
            if not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
                raise InvalidInput(f"training: {name} must be finite and above 0, got {value!r}.")
        if not (isinstance(self.averaging, (int, float)) and 0 <= self.averaging <= 1):
            raise InvalidInput(f"training: averaging must lie between 0 and 1, got {self.averaging!r}.")
        if self.activation not in ("tanh", "relu"):
            raise InvalidInput(f"training: activation must be tanh or relu, got {self.activation!r}.")
        if self.optimizer not in ("adam", "sgd"):
            raise InvalidInput(f"training: optimizer must be adam or sgd, got {self.optimizer!r}.")

    def to_dict(self) -> dict[str, Any]:
        """Return the spec as JSON-ready facts."""
        return asdict(self)

    def with_(self, **changes: Any) -> GeneratorSpec:
        """Return a copy with some values changed; unknown names are refused."""
        unknown = sorted(set(changes) - set(asdict(self)))
        if unknown:
            raise InvalidInput(f"training: unknown setting {unknown[0]!r}; known: {', '.join(asdict(self))}.")
        return replace(self, **changes)


@dataclass(frozen=True)
class TrainingPlan:
    """What training will do, fixed before it starts by the public or privately counted population alone.

    Attributes:
        sample_rate: probability with which each unit joins each step.
        steps: number of noisy steps.
        expected_batch: the divisor of every noisy sum; never the size of a batch that was drawn.
        noise_multiplier: noise per unit of `max_grad_norm`; 0 before calibration.
    """

    sample_rate: float
    steps: int
    expected_batch: float
    noise_multiplier: float = 0.0

    @property
    def event(self) -> SubsampledGaussian:
        """What the whole plan costs."""
        return SubsampledGaussian(self.noise_multiplier, self.sample_rate, self.steps)


def plan_training(population: int, spec: GeneratorSpec) -> TrainingPlan:
    """Return sampling rate, steps and divisor for `population` units; noise is calibrated afterwards.

    Example:
        >>> plan_training(43958, GeneratorSpec(max_epochs=40))
        TrainingPlan(sample_rate=0.0465899267482597, steps=859, expected_batch=2048.0, noise_multiplier=0.0)
    """
    wanted = min(max(population * spec.batch_share, 1), spec.max_batch)
    batch = min(2 ** round(math.log2(wanted)), population)
    rate = batch / population
    return TrainingPlan(rate, max(1, math.ceil(spec.max_epochs / rate)), float(batch))
