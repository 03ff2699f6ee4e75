"""Does the free way of tuning find what the charged way finds? On the RAND Health Insurance Experiment, a public table:

    python benchmarks/tuning.py --epsilon 3 --reps 2

Each repetition holds out other rows. *real*: a release of the other rows at each learning rate, which on a private table
would be charged each time; it is the yardstick, and only a public table may be measured so. *drawn*: the free way,
`dp-synth tune --on-released`: the same rates on rows drawn from the release with the default rate, each of the same
epsilon. *study*: the charged way, `training: {tune: ...}`, at the same epsilon. A loss is in nats a row, over the held-out
rows that all of one kind can draw; the lower the better. *picked* is the loss on real rows of the rate that did best on
drawn ones.

Goes on where it was interrupted, a repetition at a time.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scoring import Log

import dp_synth_pipeline as dps
from dp_synth_pipeline.demo.rand_hie import rand_hie
from dp_synth_pipeline.synthesis.store import Store

DELTA = 1e-5

RATES = (0.001, 0.003, 0.01, 0.03, 0.1)


def released(rows: pd.DataFrame, training: dict[str, Any], asked: argparse.Namespace) -> Any:
    """Return what one release learnt, under an account and in a store that are thrown away with it."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = dps.Ledger.open(f"{folder}/ledger.db")
        ledger.open_account("rows", epsilon=asked.epsilon, delta=DELTA, rule="plan", why="a benchmark")
        terms: dict[str, Any] = {"unit": "row", "training": {"max_epochs": asked.epochs, **training}}
        how: dict[str, Any] = {"store": Store(Path(folder) / "store"), "show": False, **terms}
        return dps.Synthesizer("rows", asked.epsilon, ledger, **how).fit(rows)


def losses(models: dict[str, Any], rows: pd.DataFrame) -> dict[str, float]:
    """Return each model's loss in nats a row, over the rows that all of them can draw."""
    found = {name: model.log_likelihood(rows) for name, model in models.items()}
    drawable = np.all([np.isfinite(one) for one in found.values()], axis=0)
    return {name: -float(one[drawable].mean()) for name, one in found.items()}


def repetition(rows: pd.DataFrame, asked: argparse.Namespace) -> dict[str, float]:
    """Return the figures of one repetition."""
    shuffled = rows.sample(frac=1).reset_index(drop=True)
    held_out, learnt = shuffled[: asked.held_out], shuffled[asked.held_out : asked.held_out + asked.rows]
    default = released(learnt, {}, asked)
    real = {f"{rate:g}": released(learnt, {"learning_rate": rate}, asked) for rate in RATES}
    drawn = default.sample(len(learnt) + len(held_out))
    trials, judges = drawn.iloc[: len(learnt)], drawn.iloc[len(learnt) :]
    begun = time.monotonic()
    free = {f"{rate:g}": released(trials, {"learning_rate": rate}, asked) for rate in RATES}
    free["default"], between = released(trials, {}, asked), time.monotonic()
    tune = {"trials": asked.trials, "learning_rate": [RATES[0], RATES[-1]]}
    study = released(learnt, {"tune": tune}, asked)
    ended, on_drawn = time.monotonic(), losses(free, judges)
    on_real = losses({"default": default, "study": study, **real}, held_out)
    best = min(on_drawn, key=lambda name: on_drawn[name])
    return {
        **{f"real {name}": loss for name, loss in on_real.items()},
        **{f"drawn {name}": loss for name, loss in on_drawn.items()},
        "picked": on_real[best],
        "best": min(loss for name, loss in on_real.items() if name != "study"),
        "rate of study": study.drawer().facts.get("learning_rate", 0.0),
        "seconds of free": between - begun,
        "seconds of study": ended - between,
    }


def main() -> None:
    """Run what is asked, and print a table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--epsilon", type=float, default=3.0)
    options.add_argument("--trials", type=float, default=4)
    options.add_argument("--epochs", type=int, default=10)
    options.add_argument("--rows", type=int, default=18_000)
    options.add_argument("--held-out", type=int, default=2_000)
    options.add_argument("--reps", type=int, default=1)
    options.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    asked = options.parse_args()
    log = Log(asked.out / "tuning.csv", ("epsilon", "trials", "epochs", "rows"))
    line = {"epsilon": asked.epsilon, "trials": asked.trials, "epochs": float(asked.epochs), "rows": float(asked.rows)}
    rows = rand_hie().to_pandas()
    while log.done(**line) < asked.reps:
        log.add(line | repetition(rows, asked))
    for run in log.runs(**line):
        print("| " + " | ".join(f"{name} {value:.3f}" for name, value in run.items()) + " |")


if __name__ == "__main__":
    main()
