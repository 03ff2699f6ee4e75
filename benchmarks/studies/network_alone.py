"""Trains the network once on a public table, without a ledger or a pipeline, and tells its loss on held-out rows.

Codec, plan, DP-SGD and network are those of a release. The codec knows the whole table exactly, since it is public; the
network starts at random and nothing else is measured, so a loss tells what training did and nothing else.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from dp_synth_pipeline.demo.clinic import clinic_visits
from dp_synth_pipeline.demo.rand_hie import rand_hie
from dp_synth_pipeline.errors import Diverged
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan, plan_training
from dp_synth_pipeline.model.dpsgd.training import train, train_public
from dp_synth_pipeline.model.dpsgd.work import Training
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.budget import Budget, PrivacyUnit
from dp_synth_pipeline.privacy.calibration import least_noise
from dp_synth_pipeline.privacy.events import SubsampledGaussian
from dp_synth_pipeline.privacy.odometer import Unmetered
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling import measure
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan
from dp_synth_pipeline.tabular.sources import ingestion, source

DELTA = 1e-5

NO_NOISE = 1e-3
"""Noise of a count that is never drawn as anything but 0."""

MOST_CODES = 10
"""Codes of a column by which two tables are compared, at most."""

Shape = Callable[[Sequence[int], GeneratorSpec], AutoregressiveNetwork]


def fair() -> pa.Table:
    """Return Fair's survey of extramarital affairs, 6,366 rows of 9 columns, as the statsmodels package ships it."""
    from statsmodels.datasets import fair as survey

    return pa.Table.from_pandas(survey.load_pandas().data, preserve_index=False)


TABLES = {"rand": rand_hie, "fair": fair, "clinic": clinic_visits, "many visits": partial(clinic_visits, 310_000)}


class Coded(NamedTuple):
    """A table as the network sees it: int64 codes (rows, columns), and how many codes each column has."""

    codes: np.ndarray
    cardinalities: tuple[int, ...]


@cache
def coded(table: str) -> Coded:
    """Return a public table's codes, from exact counts of all of its rows."""
    rows = TABLES[table]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        pq.write_table(rows, path)
        taken = ingestion.snapshot(
            source.parse(str(path)), Path(folder) / "snapshot.parquet", declared={}, nulls="keep"
        )
        plan = ProfilePlan(None, NO_NOISE, 1e-9, PrivacyUnit(), rows.num_rows)
        codec = TableCodec(taken.schema, measure.measure(taken.path, taken.schema, plan, rows.num_rows, Unmetered()))
        return Coded(codec.encode(pq.read_table(taken.path)).astype(np.int64), codec.cardinalities)


def split(table: str, rows: int, held_out: int) -> tuple[Coded, np.ndarray]:
    """Return rows to learn from, and codes that were held out: other ones in each call."""
    whole = coded(table)
    drawn = whole.codes[np.random.default_rng().permutation(len(whole.codes))]
    return Coded(drawn[held_out : held_out + rows], whole.cardinalities), drawn[:held_out]


@dataclass(frozen=True)
class Result:
    """What one training did.

    Attributes:
        loss: mean negative log-likelihood of held-out rows in nats a row; infinite if the training diverged.
        nothing: the loss of a network that knows nothing, for which all codes are equally likely.
        noise: the noise multiplier; 0 without privacy.
        steps: number of steps.
        epsilon: what the steps cost at `DELTA`; infinite without privacy.
        seconds: CPU seconds of this process while it trained.
        network: what was trained; None if the training diverged.
    """

    loss: float
    nothing: float
    noise: float
    steps: int
    epsilon: float
    seconds: float
    network: AutoregressiveNetwork | None = None


def spec(**settings: Any) -> GeneratorSpec:
    """Return how a network of its own, from a random start, looks and learns."""
    return GeneratorSpec(**{"method": "autoregressive", "start": "random", **settings})


@cache
def calibrated(sample_rate: float, steps: int, epsilon: float) -> float:
    """Return the least noise with which so many steps cost at most `epsilon`."""
    return least_noise(lambda noise: [SubsampledGaussian(noise, sample_rate, steps)], Budget(epsilon, DELTA))


@cache
def spent(event: SubsampledGaussian) -> float:
    """Return the epsilon of a training at `DELTA`."""
    return accountant.epsilon(event, DELTA)


def learn(
    rows: Coded,
    held_out: np.ndarray,
    how: GeneratorSpec,
    *,
    epsilon: float | None = None,
    noise: float | None = None,
    shape: Shape = AutoregressiveNetwork,
    rows_per_unit: int = 1,
) -> Result:
    """Train once and return what came of it.

    Args:
        epsilon: what training may cost; its noise follows. Without it and `noise`, training has no privacy.
        noise: the noise multiplier; its cost follows.
        shape: makes the network.
        rows_per_unit: so many rows in a row belong to one unit.
    """
    units = np.arange(len(rows.codes)) // rows_per_unit
    plan = planned(int(units[-1]) + 1, how, epsilon=epsilon, noise=noise)
    network = shape(rows.cardinalities, how)
    begun = time.process_time()
    sound = _trained(network, Training(rows.codes, plan, how, units if rows_per_unit > 1 else None))
    seconds = time.process_time() - begun
    loss = held_out_loss(network, held_out) if sound else math.inf
    cost = spent(plan.event) if plan.noise_multiplier else math.inf
    nothing = float(np.log(rows.cardinalities).sum())
    kept = network if sound else None
    return Result(loss, nothing, plan.noise_multiplier, plan.steps, cost, seconds, kept)


def planned(
    units: int, how: GeneratorSpec, *, epsilon: float | None = None, noise: float | None = None
) -> TrainingPlan:
    """Return the plan of a training on so many units, whose noise is given or follows from what it may cost."""
    plan = plan_training(units, how)
    if epsilon is not None:
        noise = calibrated(plan.sample_rate, plan.steps, epsilon)
    return replace(plan, noise_multiplier=noise or 0.0)


def fitted(rows: Coded, how: GeneratorSpec, plan: TrainingPlan) -> AutoregressiveNetwork:
    """Return a network that was trained by a plan, without privacy if that has no noise."""
    network = AutoregressiveNetwork(rows.cardinalities, how)
    training = Training(rows.codes, plan, how)
    (train if plan.noise_multiplier else train_public)(network, training)
    return network


def _trained(network: AutoregressiveNetwork, training: Training) -> bool:
    private = training.plan.noise_multiplier > 0
    try:
        train(network, training) if private else train_public(network, training)
    except Diverged:
        return False
    return True


@torch.no_grad()
def held_out_loss(network: AutoregressiveNetwork, held_out: np.ndarray) -> float:
    """Return the mean negative log-likelihood of rows that were held out, in nats a row; infinite if it is not finite."""
    found = float(network.losses(torch.from_numpy(held_out)).double().mean())
    return found if math.isfinite(found) else math.inf


def accuracy(codes: np.ndarray, others: np.ndarray, cardinalities: Sequence[int]) -> float:
    """Return how alike two tables are in their columns and pairs of columns, 1 at most.

    It is one less the total variation distance, in the mean over columns, over pairs, and of both: what mostlyai-qa
    calls accuracy, here of codes of which neighbours are merged to ten in a column.
    """
    merged = [np.minimum(table, MOST_CODES * table // np.array(cardinalities)) for table in (codes, others)]
    columns = range(len(cardinalities))
    apart = [
        [_distance(*(table[:, some] @ MOST_CODES ** np.arange(size) for table in merged)) for some in sets]
        for size, sets in ((1, [[c] for c in columns]), (2, [list(pair) for pair in combinations(columns, 2)]))
    ]
    return 1 - float(np.mean([np.mean(distances) for distances in apart]))


def _distance(cells: np.ndarray, others: np.ndarray) -> float:
    counts = [np.bincount(c, minlength=MOST_CODES**2) / len(c) for c in (cells, others)]
    return float(np.abs(counts[0] - counts[1]).sum() / 2)
