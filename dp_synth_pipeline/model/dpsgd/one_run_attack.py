"""One training on a made-up table, to be attacked: does the implementation keep what its plan promises?

It reads no real row, so it costs nothing. The table has the columns of the audited one and one more, in which each canary
has a code of its own: an attacker who looks at that code's weights sees nobody but this canary, and noise. It goes through
`training.train` like any other table: the same samples, clip, noise, optimizer and averaging. See `privacy.one_run`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dp_synth_pipeline.model.dpsgd import training
from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan
from dp_synth_pipeline.model.dpsgd.spec import TrainingSpec
from dp_synth_pipeline.model.dpsgd.trainable import Trainable
from dp_synth_pipeline.model.dpsgd.work import Training
from dp_synth_pipeline.privacy.audit import Audit

CANARIES = 1000
OTHERS = 0.9
"""Share of the ordinary code that the network starts from; canaries share the rest."""


@dataclass(frozen=True)
class Target:
    """The kind of network that is attacked.

    Attributes:
        begin: makes a network that starts from 1-way probabilities of each column's codes.
        logits: returns what a network thinks of each code of its first column, float (codes,).
    """

    begin: Callable[[Sequence[np.ndarray]], Trainable]
    logits: Callable[[Any], np.ndarray]


@dataclass(frozen=True)
class Attacked:
    """What the attacker saw.

    Attributes:
        scores: float (canaries,); how much likelier the released network makes each canary's code.
        included: bool (canaries,); who was in.
        audit: the run's own audit.
    """

    scores: np.ndarray
    included: np.ndarray
    audit: Audit


def attack(
    target: Target,
    cardinalities: Sequence[int],
    plan: TrainingPlan,
    spec: TrainingSpec,
    *,
    canaries: int = CANARIES,
    device: str | None = None,
) -> Attacked:
    """Train once by `plan` on a made-up table that holds each canary with probability 1/2, and score all of them.

    Args:
        cardinalities: of the audited table.
        plan: the audited plan; its divisor is replaced by the made-up table's.
    """
    rng = np.random.default_rng()
    included = rng.random(canaries) < 0.5
    column = np.concatenate([np.flatnonzero(included) + 1, np.zeros(canaries, dtype=np.int64)])
    # In all other columns everybody is alike, so that a canary's clipped gradient is spent on its own code.
    codes = np.zeros((len(column), 1 + len(cardinalities)), dtype=np.int64)
    codes[:, 0] = column
    first = np.full(canaries + 1, (1 - OTHERS) / canaries)
    first[0] = OTHERS
    network = target.begin([first, *(np.eye(1, c)[0] for c in cardinalities)])
    begun = target.logits(network)[1:]
    made_up = replace(plan, expected_batch=max(1.0, plan.sample_rate * len(column)))
    trained = training.train(network, Training(codes, made_up, spec, device=device))
    return Attacked(target.logits(trained.network)[1:] - begun, included, trained.audit)
