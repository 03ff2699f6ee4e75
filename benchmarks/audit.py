"""What attacks prove of epsilon, against what is claimed, by one command:

    python benchmarks/audit.py [--epsilon 1 3 8] [--canaries N]
    python benchmarks/audit.py --table [--epsilon 3 8] [--releases 400]

The first attacks DP-SGD by a plan like that of the Adult census (43,958 rows, 644 steps), as `dp-synth audit` attacks the
plan of a released generator: on a made-up table of canaries, by an attacker who sees every noisy sum.

The second attacks the released table. It makes many releases of a small table, by the whole pipeline with its default
method, and half of them hold one row more: the only one with its values. The attacker sees the released rows, and counts
that row's values. No real row is read by either. Both print a Markdown table, or one line of JSON an epsilon (--json).
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pipeline
import pyarrow as pa
import pyarrow.parquet as pq

from dp_synth_pipeline.model.autoregressive.canary_network import CanaryNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd import one_run_attack
from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan
from dp_synth_pipeline.privacy import accountant, lower_bound
from dp_synth_pipeline.privacy.budget import ADD_REMOVE, Budget
from dp_synth_pipeline.privacy.calibration import least_noise
from dp_synth_pipeline.privacy.events import Event, SubsampledGaussian
from dp_synth_pipeline.synthesis.settings import ReleaseSettings

CONFIDENCE = 0.95
RATE, STEPS = 2048 / 43_958, 644
ROWS, COLUMNS = 100, 3
LEDGER = 40
"""Releases that share a ledger, which grows slower as it grows."""

Figures = dict[str, float]


def of_training(epsilon: float, canaries: int | None) -> Figures:
    """Attack DP-SGD at one claim."""
    noise = least_noise(lambda n: [SubsampledGaussian(n, RATE, STEPS)], Budget(epsilon, pipeline.DELTA))
    plan = TrainingPlan(RATE, STEPS, 2048.0, noise)
    network = CanaryNetwork(canaries or one_run_attack.canaries(plan))
    seen = one_run_attack.attack(network, network.everybody(), plan, GeneratorSpec(learning_rate=0.01))
    found = lower_bound.points(seen.out, seen.inside, CONFIDENCE)
    claimed = accountant.epsilon(plan.event, pipeline.DELTA)
    return {
        "claimed": claimed,
        "trials": len(seen.out) + len(seen.inside),
        "of this kind": lower_bound.epsilon_of_kind(found, plan.event, pipeline.DELTA),
        "of any mechanism": lower_bound.epsilon_alone(found, pipeline.DELTA),
    }


def of_table(epsilon: float, releases: int) -> Figures:
    """Attack the released table at one claim, by as many releases with the canary as without it."""
    _remember_costs()
    scores = np.array(list(_scores(epsilon, releases)))
    found = lower_bound.points(scores[:, 0], scores[:, 1], CONFIDENCE)
    return {
        "claimed": epsilon,
        "trials": scores.size,
        "of any mechanism": lower_bound.epsilon_alone(found, pipeline.DELTA),
    }


def _scores(epsilon: float, releases: int) -> Iterator[tuple[float, float]]:
    """Yield, for a release without the canary and one with it, how many of the canary's values the released rows hold."""
    for first in range(0, releases, LEDGER // 2):
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(first, min(first + LEDGER // 2, releases)):
                yield _released(Path(folder), epsilon, 0), _released(Path(folder), epsilon, 1)


def _released(folder: Path, epsilon: float, canaries: int) -> float:
    """Make one release; return how many of the canary's values are in it. A coin is tossed where two numbers are equal."""
    names = [f"c{i}" for i in range(COLUMNS)]
    values = ["usual"] * ROWS + ["canary"] * canaries
    pq.write_table(pa.table(dict.fromkeys(names, values)), folder / "people.parquet")
    settings = ReleaseSettings(
        table="people",
        source=str(folder / "people.parquet"),
        account="people",
        epsilon=epsilon,
        delta=pipeline.DELTA,
        population=ROWS,
        reuse_profile=False,
        columns={n: {"kind": "category", "categories": ["canary", "usual"]} for n in names},
        training={"max_epochs": 2, "hidden": 4, "embedding": 2},
    )
    pipeline.run(settings, folder, folder / "out.parquet", releases=LEDGER)
    rows = pq.read_table(folder / "out.parquet").to_pandas()
    return float((rows == "canary").to_numpy().sum()) + float(np.random.default_rng().random()) / 2


def _remember_costs() -> None:
    """Compute the cost of the same events once: all releases have one plan, and calibrating it takes most of the time."""
    computed = accountant.epsilon

    @cache
    def known(events: tuple[Event, ...], delta: float, relation: str, fixed: bool) -> float:
        return computed(events, delta, relation, fixed=fixed)

    def epsilon(events: Any, delta: float, relation: str = ADD_REMOVE, *, fixed: bool = False) -> float:
        return known((events,) if isinstance(events, Event) else tuple(events), delta, relation, fixed)

    accountant.epsilon = epsilon


def main() -> None:
    """Print one line for each epsilon."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--epsilon", type=float, nargs="+")
    options.add_argument("--table", action="store_true", help="attack released tables, not training")
    options.add_argument("--releases", type=int, default=400, help="with the canary, and as many without")
    options.add_argument("--canaries", type=int)
    options.add_argument("--json", action="store_true")
    asked = options.parse_args()
    kinds = ["of any mechanism"] if asked.table else ["of this kind", "of any mechanism"]
    if not asked.json:
        titles = ["claimed", "trials", *(x for k in kinds for x in (f"least epsilon {k}", "of the claim"))]
        print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    for epsilon in asked.epsilon or ([3.0, 8.0] if asked.table else [1.0, 3.0, 8.0]):
        found = of_table(epsilon, asked.releases) if asked.table else of_training(epsilon, asked.canaries)
        proved = [x for k in kinds for x in (f"{found[k]:.2f}", f"{found[k] / found['claimed']:.0%}")]
        line = f"| {found['claimed']:.2f} | {found['trials']:,} | {' | '.join(proved)} |"
        print(json.dumps(found) if asked.json else line, flush=True)


if __name__ == "__main__":
    main()
