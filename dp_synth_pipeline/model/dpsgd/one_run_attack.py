"""One training on a made-up table, to be attacked: does the implementation keep what its plan promises?

It reads no real row, so it costs nothing. The table has the columns of the audited one and one more, in which each canary
has a code of its own: an attacker who looks at that code's weights sees nobody but this canary, and noise. It goes through
`training.train` like any other table: the same samples, clip, noise, optimizer and averaging. See `privacy.one_run`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd import training
from dp_synth_pipeline.model.marginals.plan import TrainingPlan
from dp_synth_pipeline.privacy.audit import Audit

CANARIES = 1000
OTHERS = 0.9
"""Share of the ordinary code that the network starts from; canaries share the rest."""


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
    cardinalities: Sequence[int],
    plan: TrainingPlan,
    spec: GeneratorSpec,
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
    wide = (canaries + 1, *cardinalities)
    network = AutoregressiveNetwork(wide, spec)
    first = np.full(canaries + 1, (1 - OTHERS) / canaries)
    first[0] = OTHERS
    network.start_from([first, *(np.eye(1, c)[0] for c in cardinalities)])
    begun = _logits(network)
    made_up = replace(plan, expected_batch=max(1.0, plan.sample_rate * len(column)))
    trained = training.train(codes, wide, made_up, spec, network=network, device=device)
    return Attacked(_logits(trained.network) - begun, included, trained.audit)


@torch.no_grad()
def _logits(network: AutoregressiveNetwork) -> np.ndarray:
    """Return what the network thinks of each canary's code, (canaries,)."""
    _, bias, heads, shift = network.column(0)
    hidden = network.activation(bias[None, :, None])[0, :, 0] if bias.dim() == 1 else bias
    return (heads @ hidden + shift).double().cpu().numpy()[1:].copy()
