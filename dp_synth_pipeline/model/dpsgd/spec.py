"""Hyperparameters of DP-SGD, whatever network it trains; each default in one place. Imports neither torch nor opacus."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from typing import Any, ClassVar, Self

from dp_synth_pipeline.errors import InvalidInput


class Purpose(StrEnum):
    """What the synthetic table is for; it sets `max_epochs` (Syngen's recommended ranges)."""

    TESTING = "testing"
    ANALYTICS = "analytics"
    MACHINE_LEARNING = "machine_learning"


MAX_EPOCHS = {Purpose.TESTING: 15, Purpose.ANALYTICS: 30, Purpose.MACHINE_LEARNING: 60}
"""Within 10-20, 20-50 and 50-100."""


Rule = tuple[str, Callable[[Any], bool]]
"""What a value must do, in words, and whether it does."""


def whole(least: int) -> Rule:
    """Return the rule that a value is a whole number of at least `least`."""
    return f"be a whole number of at least {least}", lambda v: isinstance(v, int) and v >= least


def _number(value: Any) -> bool:
    return isinstance(value, (int, float))


POSITIVE: Rule = ("be finite and above 0", lambda v: _number(v) and math.isfinite(v) and v > 0)
SHARE: Rule = ("lie strictly between 0 and 1", lambda v: _number(v) and 0 < v < 1)

CLIPS = (1e-6, 1e6)
"""Clip norms between which squares of what clipping keeps stay in the range of 32-bit floats (see `clipping`)."""


@dataclass(frozen=True)
class TrainingSpec:
    """How a network learns. A network's own spec derives from this and adds how it looks.

    Attributes:
        max_epochs: expected passes over the units, at least 1.
        batch_share: expected share of the units in a step, before rounding to a power of two.
        max_batch: most units expected in a step.
        microbatch: rows whose mean gradient is clipped as one. More than 1 doubles the sensitivity, and so the noise.
        optimizer: 'adam' or 'sgd'.
        learning_rate: at `max_grad_norm` 1; None for the rule in `plan.learning_rate`. What the optimizer gets is
            learning_rate / max_grad_norm for SGD, since their product is what matters (arXiv 2411.02051); Adam is free of
            the scale.
        max_grad_norm: L2 bound of one unit's gradient.
        averaging: share of the last steps that the released weights average over; averaging is post-processing.
        noise_multiplier: instead of the least noise that fits: this noise, and the steps that epsilon has room for.
        looks: private loss queries that may end training early; 0 for none. Each is charged.
        look_share: part of training's squared signal to noise that all loss queries take.
    """

    max_epochs: int = MAX_EPOCHS[Purpose.ANALYTICS]
    batch_share: float = 1 / 16
    max_batch: int = 4096
    microbatch: int = 1
    optimizer: str = "adam"
    learning_rate: float | None = None
    max_grad_norm: float = 1.0
    averaging: float = 0.1
    noise_multiplier: float | None = None
    looks: int = 0
    look_share: float = 0.02

    later: ClassVar[tuple[str, ...]] = ()
    """Settings that the first version did not have: files that do not use them stay as it can read them."""

    choices: ClassVar[dict[str, tuple[str, ...]]] = {"optimizer": ("adam", "sgd")}
    """By setting, the values that it may have."""

    rules: ClassVar[dict[str, Rule]] = {
        **dict.fromkeys(("max_epochs", "max_batch", "microbatch"), whole(1)),
        **dict.fromkeys(("batch_share", "learning_rate", "noise_multiplier"), POSITIVE),
        "max_grad_norm": (
            "be finite and above 0, from 1e-06 to 1e+06",
            lambda v: _number(v) and CLIPS[0] <= v <= CLIPS[1],
        ),
        "averaging": ("lie between 0 and 1", lambda v: _number(v) and 0 <= v <= 1),
        "looks": whole(0),
        "look_share": SHARE,
    }
    """By setting, what its value must do; None is sound too where it is the default."""

    @property
    def redraws(self) -> bool:
        """Whether training begins again, after a first part of its steps, from each layer's mean and variance."""
        return False

    def __post_init__(self) -> None:
        """Refuse values that are not sound.

        Raises:
            InvalidInput: if one is not; it names the setting, what was wanted, and what was given.
        """
        listed = {name: (f"be {' or '.join(some)}", some.__contains__) for name, some in self.choices.items()}
        for name, (wanted, sound) in {**self.rules, **listed}.items():
            value = getattr(self, name)
            if not (value is None and getattr(type(self), name) is None) and not sound(value):
                raise InvalidInput(f"training: {name} must {wanted}, got {value!r}.")

    def to_dict(self) -> dict[str, Any]:
        """Return the spec as JSON-ready facts; of settings that the first version did not have, those that are set."""
        return {name: value for name, value in asdict(self).items() if name not in self.later or value is not None}

    def with_(self, **changes: Any) -> Self:
        """Return a copy with some values changed; unknown names are refused."""
        known = [f.name for f in fields(self)]
        unknown = sorted(set(changes) - set(known))
        if unknown:
            raise InvalidInput(f"training: unknown setting {unknown[0]!r}; known: {', '.join(known)}.")
        return replace(self, **changes)
