"""`one_run_audit` attacks a training on a made-up table to test what the implementation promises. It is off by default.

The asset, its check, its job and its schedule belong here. It reads no real row, charges nothing and is in no refresh.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import dagster as dg

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec, Method
from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan
from dp_synth_pipeline.orchestration import metadata
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.resources import StoreResource
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.privacy import accountant
from dp_synth_pipeline.privacy.one_run import bound
from dp_synth_pipeline.synthesis.blocks import FOLDER, folded_label
from dp_synth_pipeline.tabular.targets import sink

DELTA = 1e-6
"""The delta at which the claim is tested. A larger one would prove less."""

CONFIDENCE = 0.9999
"""An honest implementation fails one audit in ten thousand, at most: once in two hundred years of weeks."""

FILE = "one_run_audit.json"

MEANING = (
    "Right guesses about who was in a made-up table prove a lower bound of epsilon; above the claimed one, training breaks "
    "its promise. Cannot show that it keeps it: a bound far below the claim is what honest training looks like too."
)

WEEKLY = "0 4 * * 0"


def one_run_audits(settings: TableSettings) -> dg.Definitions:
    """Return the asset, its job `TABLE_audit` and a weekly schedule, off until a person starts it.

    Nothing without `validation: {one_run_audit: true}`, or for a table that trains no network under a guarantee.
    """
    if not settings.validation.one_run_audit:
        return dg.Definitions()
    if settings.privacy == "none" or not Method(settings.training.spec().method).trains:
        return dg.Definitions()
    key = dg.AssetKey([settings.name, "one_run_audit"])

    @dg.asset(
        key=key,
        description="What an attacker proves of training's epsilon on a made-up table. Reads no real row; charges nothing.",
        group_name=settings.group or settings.name,
        tags=metadata.tags(metadata.RELEASABLE, settings.privacy, settings.tags),
        check_specs=[dg.AssetCheckSpec("one_run_bound", asset=key, description="Checks that the bound is not above.")],
    )
    def _audit(store: StoreResource):
        with reported("one_run_audit"):
            outcome = audit(latest(store.get().releasable(settings.name)))
        yield dg.AssetCheckResult(
            asset_key=key, check_name="one_run_bound", passed=outcome["passed"], description=outcome["told"]
        )
        yield dg.MaterializeResult(metadata={"visibility": metadata.RELEASABLE, **outcome})

    job: Any = dg.define_asset_job(
        f"{settings.name}_audit",
        dg.AssetSelection.assets(_audit),
        description=f"Attacks a training on a made-up table like {settings.name}; charges nothing.",
    )
    weekly = dg.ScheduleDefinition(
        name=f"{settings.name}_audit_schedule", job=job, cron_schedule=WEEKLY, execution_timezone="UTC"
    )
    return dg.Definitions(assets=[_audit], jobs=[job], schedules=[weekly])


def latest(table: Path, partition: str = "") -> Path:
    """Return the folder of a table's generator: its own or a partition's, whichever was released last.

    Args:
        partition: the one to return instead, or FIRST..LAST of one run.
    """
    if partition:
        return table / f"{FOLDER}{folded_label(partition.split('..'))}" / "generator"
    folders = [table / "generator", *table.glob(f"{FOLDER}*/generator")]
    return max((g for g in folders if g.is_dir()), key=lambda g: g.stat().st_mtime, default=folders[0])


def audit(generator: Path, device: str | None = None) -> dict[str, Any]:
    """Attack a training by the plan of a released generator, on a made-up table; return what was found, JSON-ready.

    It is kept beside the generator too.

    Raises:
        InvalidInput: if there is no generator that was trained under a guarantee.
    """
    from dp_synth_pipeline.model.autoregressive import one_run_target
    from dp_synth_pipeline.model.dpsgd import one_run_attack

    plan, spec, cardinalities = _released_plan(generator)
    attack = one_run_attack.attack(one_run_target.target(spec), cardinalities, plan, spec, device=device)
    proof = bound(attack.scores, attack.included, DELTA, CONFIDENCE)
    claim = accountant.epsilon(plan.event, DELTA)
    sentence = (
        f"{proof.correct} of {proof.guesses} guesses were right, which proves an epsilon of at least "
        f"{proof.epsilon:.3g} at delta {DELTA:g}, where {claim:.3g} is claimed for training."
    )
    passed = proof.epsilon <= claim and attack.audit.passed
    if not attack.audit.passed:
        sentence += f" The audit of what ran failed: {', '.join(attack.audit.failed)}."
    outcome = {"passed": passed, "claimed": claim, **asdict(proof), "told": sentence, "meaning": MEANING}
    sink.write_text(json.dumps(outcome, indent=1), generator.with_name(FILE))
    return outcome


def _released_plan(generator: Path) -> tuple[TrainingPlan, GeneratorSpec, list[int]]:
    """Read the plan that a released generator says it was trained by; all of it is public."""
    try:
        description = json.loads((generator / "generator.json").read_text(encoding="utf-8"))
        facts, spec = description["facts"], GeneratorSpec(**description["spec"])
        spec = spec.with_(learning_rate=facts.get("learning_rate"))  # the rule would give a made-up table another
        plan = TrainingPlan(facts["sample_rate"], facts["steps"], 1.0, facts["noise_multiplier"])
    except (OSError, KeyError, TypeError):
        raise InvalidInput(
            "there is no generator that was trained under a guarantee, so there is no claim to audit; materialize "
            "`generator` first."
        ) from None
    return plan, spec, description["cardinalities"]
