"""Hyperparameters of the generator and its training, each default in one place.

Imports neither torch nor opacus, so that a plan and its cost can be computed anywhere.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from dp_synth_pipeline.errors import InvalidInput


class Purpose(StrEnum):
    """What the synthetic table is for; it sets `max_epochs` (Syngen's recommended ranges)."""

    TESTING = "testing"
    ANALYTICS = "analytics"
    MACHINE_LEARNING = "machine_learning"


MAX_EPOCHS = {Purpose.TESTING: 15, Purpose.ANALYTICS: 30, Purpose.MACHINE_LEARNING: 60}
"""Within 10-20, 20-50 and 50-100."""


class Method(StrEnum):
    """What draws the synthetic rows."""

    HYBRID = "hybrid"
    """Noisy marginals; a network that starts from their fit and learns the joint by DP-SGD; draws raked to the marginals."""
    AUTOREGRESSIVE = "autoregressive"
    """The network alone."""
    MARGINALS = "marginals"
    """A network taught by the fits to the marginals alone, its draws raked to them; no gradient of a real row is taken."""

    @property
    def measures(self) -> bool:
        """Whether noisy marginals are measured."""
        return self is not Method.AUTOREGRESSIVE

    @property
    def trains(self) -> bool:
        """Whether a network is trained on rows."""
        return self is not Method.MARGINALS


class Start(StrEnum):
    """Where the network's weights start."""

    RANDOM = "random"
    MARGINALS = "marginals"
    """Taught by draws from the fit to the noisy marginals, or, without those, by the 1-way shares. Free."""
    MEAN_VAR = "mean_var"
    """Drawn with each layer's mean and variance after a first part of the noisy steps (Papernot et al. 2020, section 4).
    Those steps are charged, and their weights thrown away."""
    WARM_START = "warm_start"
    """The weights of the table's previous released generator on the same account, if its shape is the same. Free."""
    PUBLIC = "public"
    """Taught by a table that a person declared public. Free."""


CHOICES = {
    "method": tuple(Method),
    "start": tuple(Start),
    "activation": ("tanh", "relu"),
    "optimizer": ("adam", "sgd"),
}


@dataclass(frozen=True)
class GeneratorSpec:
    """How the generator looks and learns.

    Attributes:
        method: 'hybrid', 'marginals' or 'autoregressive'.
        start: 'marginals', 'random', 'mean_var', 'warm_start' or 'public'.
        marginals_share: part of what the profile leaves that noisy marginals take, in squared signal to noise; None for
            the rule in `plan.marginals_share`.
        triples: triples of columns measured beside all pairs, at most; their noisy scores choose which. None for the rule in
            `plan.wanted_triples`.
        rake: whether draws are weighted towards the noisy marginals.
        max_epochs: expected passes over the units, at least 1.
        batch_share: expected share of the units in a step, before rounding to a power of two.
        max_batch: most units expected in a step.
        microbatch: rows whose mean gradient is clipped as one. More than 1 doubles the sensitivity, and so the noise.
        hidden: tanh units per column; None for the rule in `plan.capacity`. Small is better under noise (Papernot et al.
            2020, section 3.1).
        embedding: numbers that describe one earlier value.
        activation: 'tanh' (bounded, so gradients stay under the clip; section 3.2) or 'relu'.
        optimizer: 'adam' or 'sgd'.
        learning_rate: at `max_grad_norm` 1; None for the rule in `plan.learning_rate`. What the optimizer gets is
            learning_rate / max_grad_norm for SGD, since their product is what matters (arXiv 2411.02051); Adam is free of
            the scale.
        max_grad_norm: L2 bound of one unit's gradient.
        averaging: share of the last steps that the released weights average over; averaging is post-processing.
        noise_multiplier: instead of the least noise that fits: this noise, and the steps that epsilon has room for.
        looks: noisy looks at the loss that may end training early; 0 for none. Each is charged.
        look_share: part of training's squared signal to noise that all looks take.
    """

    method: str = Method.HYBRID
    start: str = Start.MARGINALS
    marginals_share: float | None = None
    triples: int | None = None
    rake: bool = True
    max_epochs: int = MAX_EPOCHS[Purpose.ANALYTICS]
    batch_share: float = 1 / 16
    max_batch: int = 4096
    microbatch: int = 1
    hidden: int | None = None
    embedding: int = 8
    activation: str = "tanh"
    optimizer: str = "adam"
    learning_rate: float | None = None
    max_grad_norm: float = 1.0
    averaging: float = 0.1
    noise_multiplier: float | None = None
    looks: int = 0
    look_share: float = 0.02

    def __post_init__(self) -> None:
        for name, least in (
            ("max_epochs", 1),
            ("max_batch", 1),
            ("embedding", 1),
            ("microbatch", 1),
            ("looks", 0),
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise InvalidInput(f"training: {name} must be a whole number of at least {least}, got {value!r}.")
        for name, least in (("hidden", 1), ("triples", 0)):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and value >= least):
                raise InvalidInput(f"training: {name} must be a whole number of at least {least}, got {value!r}.")
        for name in ("batch_share", "learning_rate", "max_grad_norm"):
            value = getattr(self, name)
            if name == "learning_rate" and value is None:
                continue
            if not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
                raise InvalidInput(f"training: {name} must be finite and above 0, got {value!r}.")
        noise = self.noise_multiplier
        if noise is not None and not (isinstance(noise, (int, float)) and math.isfinite(noise) and noise > 0):
            raise InvalidInput(f"training: noise_multiplier must be finite and above 0, got {noise!r}.")
        if not (isinstance(self.averaging, (int, float)) and 0 <= self.averaging <= 1):
            raise InvalidInput(f"training: averaging must lie between 0 and 1, got {self.averaging!r}.")
        for name in ("marginals_share", "look_share"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, (int, float)) and 0 < value < 1):
                raise InvalidInput(f"training: {name} must lie between 0 and 1, got {value!r}.")
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise InvalidInput(f"training: {name} must be {' or '.join(allowed)}, got {getattr(self, name)!r}.")

    def to_dict(self) -> dict[str, Any]:
        """Return the spec as JSON-ready facts."""
        return asdict(self)

    def with_(self, **changes: Any) -> GeneratorSpec:
        """Return a copy with some values changed; unknown names are refused."""
        unknown = sorted(set(changes) - set(asdict(self)))
        if unknown:
            raise InvalidInput(f"training: unknown setting {unknown[0]!r}; known: {', '.join(asdict(self))}.")
        return replace(self, **changes)
