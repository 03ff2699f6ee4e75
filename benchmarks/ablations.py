"""What each choice is worth: one setting changed at a time, everything charged, by one command:

    python benchmarks/ablations.py --train T.csv --holdout H.csv --target COLUMN --scorer score.py --scorer-python PYTHON

Every line is a whole release at the same epsilon (profile, marginals, training, raking, as many rows as the noisy count), in
process. `--only GROUP ...` runs some groups. Lines that are in OUT/ablations.csv are not run again; delete it to start over.
Writes a CSV, a Markdown table and a chart.
"""

from __future__ import annotations

import os
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

import charts
from pipeline import Made, run
from scoring import Log, markdown, options, score, write

from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.synthesis.training_settings import TrainingSettings

Variant = dict[str, Any]

RATES, CLIPS = (0.004, 0.012, 0.036), (0.3, 1.0, 3.0)

GROUPS: dict[str, dict[str, Variant]] = {
    "base": {"defaults": {}},
    "method": {name: {"method": name} for name in ("autoregressive", "marginals")},
    "raking": {"off": {"rake": False}},
    "activation": {"relu": {"activation": "relu"}},
    "hidden": {f"{n} units a column": {"hidden": n} for n in (8, 24, 32, 64)},
    "start": {name: {"start": name} for name in ("random", "mean_var", "public", "warm_start")},
    "split": {f"{share:g} to marginals": {"marginals_share": share} for share in (0.05, 0.12, 0.4, 0.6)},
    "triples": {f"{n} triples": {"triples": n} for n in (0, 3, 30)},
    "optimizer": {
        f"sgd, rate x norm {rate:g}": {"optimizer": "sgd", "learning_rate": rate} for rate in (0.03, 0.3, 1.0)
    },
    "batch": {f"1/{n} of the units": {"batch_share": 1 / n, "max_batch": 1 << 16} for n in (64, 32, 8, 4)},
    "epochs": {f"{n} epochs": {"max_epochs": n} for n in (10, 60)},
    "early stop": {f"{n} looks at most": {"looks": n} for n in (6, 12)},
    "microbatch": {f"{n} rows": {"microbatch": n} for n in (4, 16, 64)},
    "averaging": {f"last {share:g}": {"averaging": share} for share in (0.0, 0.3)},
    "rate x norm": {
        f"rate {rate:g}, norm {clip:g}": {"learning_rate": rate, "max_grad_norm": clip}
        for rate in RATES
        for clip in CLIPS
        if (rate, clip) != (0.012, 1.0)
    },
}

COLUMNS = {
    "group": "",
    "variant": "",
    "spent": ".3f",
    "tvd1": ".4f",
    "tvd2": ".4f",
    "tvd3": ".4f",
    "disc_auc": ".3f",
    "tstr_auc": ".3f",
    "steps": ".0f",
    "train_cpu": ".1f",
    "cpu": ".0f",
    "runs": ".0f",
}
PANELS = {"tvd2": "2-way distance", "disc_auc": "discriminator AUC", "tstr_auc": "TSTR AUC"}


def settings(train: Path, epsilon: float, changes: Variant) -> ReleaseSettings:
    """Return the table's settings with some of the training's changed."""
    return ReleaseSettings(
        table="benchmark",
        source=str(train),
        account="benchmark",
        epsilon=epsilon,
        delta=1e-5,
        reuse_profile=False,
        training=TrainingSettings(**changes),  # type: ignore[arg-type]
    )


def release(asked: Namespace, epsilon: float, changes: Variant, out: Path) -> Made:
    """Make one release; a warm start begins from the network of a first one, whose own cost is not in its figures."""
    own = settings(asked.train, epsilon, changes)
    if changes.get("start") == "public":  # the rows held out stand in for a public table of the same shape
        own.training.public = str(asked.holdout)
    with tempfile.TemporaryDirectory() as folder:
        if changes.get("start") == "warm_start":
            run(settings(asked.train, epsilon, {}), Path(folder), Path(folder) / "first.csv")
        return run(own, Path(folder), out)


def figures(made: Made) -> dict[str, Any]:
    """Return what a release cost: epsilon spent, CPU seconds in all and of training, and its plan."""
    train = made.steps.get("generator")
    plan = {
        k: made.facts.get(k) for k in ("noise_multiplier", "steps_planned", "steps", "sample_rate", "pairs", "weights")
    }
    return {"spent": made.epsilon, "cpu": made.cpu, "train_cpu": train.cpu if train else 0.0, **plan}


def report(log: Log, out: Path) -> None:
    """Write the table and the chart of all that was measured."""
    lines = sorted(log.medians(), key=lambda r: list(GROUPS).index(r["group"]))
    write(out / "ablations.md", markdown(lines, COLUMNS))
    groups = {g: [r for r in lines if r["group"] == g] for g in GROUPS}
    base = (groups["base"] or [None])[0]
    charts.dots(out / "ablations.html", {g: rows for g, rows in groups.items() if rows}, PANELS, base)


def main() -> None:
    """Run what is missing, then print the table of all that there is."""
    found = options(__doc__ or "", "ablations")
    found.add_argument("--epsilon", type=float, default=2.51)
    found.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS))
    asked = found.parse_args()
    if asked.train is None or asked.holdout is None:
        found.error("give --train and --holdout")
    os.umask(0o077)
    log = Log(asked.out / "ablations.csv", ("group", "variant"))
    for group in asked.only:
        for variant, changes in GROUPS[group].items():
            for _ in range(log.done(group=group, variant=variant), asked.reps):
                with tempfile.TemporaryDirectory() as folder:
                    out = Path(folder) / "synthetic.csv"
                    made = release(asked, asked.epsilon, changes, out)
                    log.add({"group": group, "variant": variant, **figures(made), **score(asked, out)})
                print(markdown(log.rows[-1:], COLUMNS).splitlines()[-1], flush=True)
    report(log, asked.out)


if __name__ == "__main__":
    main()
