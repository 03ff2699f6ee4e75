"""The job of test_celery.py: reading to training, every step through a real queue; its folder is in the environment."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import dagster as dg

from dp_synth_pipeline.model.dpsgd import training
from dp_synth_pipeline.orchestration.build import build_defs
from dp_synth_pipeline.orchestration.executors.compute import ComputeSettings
from dp_synth_pipeline.orchestration.executors.placing import executor_of
from dp_synth_pipeline.orchestration.settings import TableSettings

FOLDER = Path(os.environ["CELERY_FOLDER"])
QUEUE = json.loads(os.environ["CELERY_QUEUE"])
LINKS = ("ingested", "profile", "completed", "generator")

settings = TableSettings(
    table="people",
    source=str(FOLDER / "people.parquet"),
    account="people",
    epsilon=4.0,
    columns={"person": {"kind": "excluded"}},
    training={"method": "autoregressive", "max_epochs": int(os.environ.get("CELERY_EPOCHS", "4"))},
    compute={"training": json.loads(os.environ.get("CELERY_TRAINING", '{"gpus": 1}'))},  # the steps' tags
)
definitions = build_defs([settings], ledger=f"sqlite:///{FOLDER / 'ledger.db'}", store=str(FOLDER / "store"))
queued = dg.define_asset_job(
    "delivered",
    dg.AssetSelection.assets(*(["people", link] for link in LINKS)),
    executor_def=executor_of(ComputeSettings(executor="celery", **QUEUE)),
)
delivered = dg.Definitions.merge(definitions, dg.Definitions(jobs=[queued])).resolve_job_def("delivered")


def delivered_again(instance: dg.DagsterInstance) -> bool:
    """Say whether the generator's step was delivered a second time."""
    (run,) = instance.get_runs(limit=1)
    said = (
        e.dagster_event.message or ""
        for e in instance.all_logs(run.run_id)
        if e.step_key == "people__generator" and e.dagster_event
    )
    return any("delivered before" in message for message in said)


def train_slowly(*args: Any, **rest: Any) -> training.Trained:
    """Train once the step was delivered again, so that this always happens while it runs; after 40 seconds without."""
    until = time.monotonic() + 40
    with dg.DagsterInstance.get() as instance:
        while time.monotonic() < until and not delivered_again(instance):
            time.sleep(0.5)
    return train(*args, **rest)


train = training.train
if (
    "pytest" not in sys.modules
):  # in the worker alone: the test's own process reads this file too, and trains for others
    training.train = train_slowly
