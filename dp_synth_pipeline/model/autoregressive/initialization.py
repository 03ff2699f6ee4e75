"""Where a network's weights start: all of it before the first noisy step, from released or public facts only."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import numpy as np
import torch

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec, Method, Start
from dp_synth_pipeline.model.base import Released
from dp_synth_pipeline.model.devices import fastest
from dp_synth_pipeline.model.dpsgd.optimization import Flat
from dp_synth_pipeline.model.marginals import loglinear, mixture
from dp_synth_pipeline.model.marginals.measuring import Marginals
from dp_synth_pipeline.model.marginals.pairs import ORDINARY
from dp_synth_pipeline.model.threads import few_threads

STEPS, BATCH, RATE = 300, 1024, 0.01
"""Of teaching; ordinary training, since what it learns from is released or public."""

MIXED, CLEAR = 0.5, 1000
"""Part of what teaches a network that the mixture draws where rows are `CLEAR` times the noise of a cell; less in proportion
where there is more noise, which a mixture follows further than the chain does. The rest is the chain's."""

LEAST_BATCH, LARGE = 256, 1 << 21
"""Fewer rows teach a network of more than `LARGE` weights, so that wide tables are not taught longer than trained; the
fewest one of twice as many, and of more columns than an ordinary table has."""


def begin(
    cardinalities: Sequence[int],
    spec: GeneratorSpec,
    released: Released,
    previous: AutoregressiveNetwork | None = None,
) -> AutoregressiveNetwork:
    """Return a network whose weights start as `spec.start` says; from the marginals, if it is not trained after.

    Args:
        released: its noisy marginals are for `start: marginals`, and for a first run of `start: warm_start`.
        previous: the table's previous released network, for `start: warm_start`; one of another shape is left aside.

    Raises:
        InvalidInput: if `start: public` has no public table.
    """
    network = AutoregressiveNetwork(
        cardinalities, spec, released.given, released.orders, released.moving, released.apart
    )
    start = spec.start if Method(spec.method).trains else Start.MARGINALS
    if start == Start.RANDOM:
        return network
    network.start_from(released.shares)
    if start == Start.WARM_START and previous is not None and same_shape(network, previous):
        network.load_state_dict(copy.deepcopy(previous.state_dict()))
        return network
    if start == Start.PUBLIC:
        if released.public is None or len(released.public) == 0:
            raise InvalidInput("start: public needs a public table; declare training.public, or start: marginals.")
        rows = torch.from_numpy(np.asarray(released.public, dtype=np.int64))
        teach(network, lambda n: rows[torch.randint(0, len(rows), (n,))])
    elif released.measured is not None and start in (Start.MARGINALS, Start.WARM_START):
        teach(network, _fits(released.measured, released.shares, released.orders))
    return network


def _fits(
    measured: Marginals, shares: Sequence[np.ndarray], orders: Sequence[Sequence[int]]
) -> Callable[[int], torch.Tensor]:
    """Return what draws rows from the two fits to the noisy marginals, each of which tells what the other cannot.

    The chain of log-linear conditionals adds nothing to what was measured; the mixture finds what columns have in common.
    """
    share = MIXED * min(1.0, measured.rows / max(CLEAR * measured.scale, 1e-9))
    chained, mixed = torch.from_numpy(loglinear.draw(measured, shares, orders)), mixture.fit(measured, shares)

    def draw(rows: int) -> torch.Tensor:
        of_mixture = round(share * rows)
        of_chain = chained[torch.randint(len(chained), (rows - of_mixture,))]
        return torch.cat([of_chain.to(mixed.weight.device), mixed.draw(of_mixture)])

    return draw


def same_shape(network: AutoregressiveNetwork, other: AutoregressiveNetwork) -> bool:
    """Whether the weights of one fit the other, column by column."""
    return network.cardinalities == other.cardinalities and all(
        p.shape == q.shape for p, q in zip(network.parameters(), other.parameters(), strict=True)
    )


def teach(network: AutoregressiveNetwork, draw: Callable[[int], torch.Tensor], *, steps: int = STEPS) -> None:
    """Train without noise on rows that cost nothing: draws of a released fit, or a public table.

    It runs on the `fastest` device; the network comes back to the CPU.
    """
    network.mix()
    flat = Flat(network.to(fastest()))
    optimizer = torch.optim.Adam(flat.parameters(), lr=RATE)
    device = flat.vector.device
    batch = rows_taught(flat.vector.numel(), len(network.cardinalities))
    with few_threads():
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = RATE * min(1.0, 2 * (1 - step / steps) + 0.02)
            network.losses(draw(batch).to(device)).mean().backward()
            flat.gather()
            optimizer.step()
    flat.release()
    network.cpu()
    network.settle()


def rows_taught(weights: int, columns: int) -> int:
    """Return how many rows each step of teaching takes.

    Example:
        >>> rows_taught(900_000, 100), rows_taught(5_000_000, 100), rows_taught(5_000_000, 1000)
        (1024, 429, 256)
    """
    if columns > ORDINARY and weights > 2 * LARGE:
        return LEAST_BATCH
    return int(np.clip(BATCH * LARGE // weights, LEAST_BATCH, BATCH))
