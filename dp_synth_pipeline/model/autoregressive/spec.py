"""Hyperparameters of the autoregressive generator and its training, each default in one place.

Imports neither torch nor opacus, so that a plan and its cost can be computed anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from dp_synth_pipeline.model.dpsgd.spec import SHARE, TrainingSpec, whole


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


@dataclass(frozen=True)
class GeneratorSpec(TrainingSpec):
    """How the generator looks and learns; see `TrainingSpec` for the rest.

    Attributes:
        method: 'hybrid', 'marginals' or 'autoregressive'.
        start: 'marginals', 'random', 'mean_var', 'warm_start' or 'public'.
        marginals_share: part of what the profile leaves that noisy marginals take, in squared signal to noise; None for
            the rule in `plan.marginals_share`.
        triples: triples of columns measured beside all pairs, at most; their noisy scores choose which. None for the rule in
            `plan.wanted_triples`.
        rake: whether draws are weighted towards the noisy marginals.
        hidden: tanh units per column; None for the rule in `plan.capacity`. Small is better under noise (Papernot et al.
            2020, section 3.1).
        embedding: numbers that describe one earlier value.
        activation: 'tanh' (bounded, so gradients stay under the clip; section 3.2) or 'relu'.
        train_only: 'heads' for the last layer of each column alone, while all before it stays as it started; None for all.
    """

    kind: ClassVar[str] = "autoregressive"
    """The model that this is a spec of, in `artifact.MODELS`."""

    method: str = Method.HYBRID
    start: str = Start.MARGINALS
    marginals_share: float | None = None
    triples: int | None = None
    rake: bool = True
    hidden: int | None = None
    embedding: int = 8
    activation: str = "tanh"
    train_only: str | None = None

    later = ("train_only",)

    choices = TrainingSpec.choices | {
        "method": tuple(Method),
        "start": tuple(Start),
        "activation": ("tanh", "relu"),
        "train_only": ("heads",),
    }
    rules = TrainingSpec.rules | {
        **dict.fromkeys(("embedding", "hidden"), whole(1)),
        "triples": whole(0),
        "marginals_share": SHARE,
    }

    @property
    def redraws(self) -> bool:
        """Whether training begins again, after a first part of its steps, from each layer's mean and variance."""
        return self.start == Start.MEAN_VAR
