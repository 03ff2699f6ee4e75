"""`one_run_audit` attacks a training on a made-up table of canaries to test what the implementation promises.

The asset, its check, its job and its schedule belong here. It is off by default. It reads no real row, charges nothing
and is in no refresh.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec, Method
from dp_synth_pipeline.model.dpsgd.plan import TrainingPlan
from dp_synth_pipeline.orchestration import metadata
from dp_synth_pipeline.orchestration.failures import reported
from dp_synth_pipeline.orchestration.resources import StoreResource, of_project
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.privacy import accountant, lower_bound
from dp_synth_pipeline.synthesis import generator_files
from dp_synth_pipeline.synthesis.blocks import FOLDER, folded_label
from dp_synth_pipeline.targets import sink

if TYPE_CHECKING:
    from dp_synth_pipeline.model.dpsgd.one_run_attack import Attacked

DELTA = 1e-5
"""The delta at which the claim is stated and the bounds are."""

CONFIDENCE = 0.95
"""Of the bounds that are told."""

CERTAINTY = 0.9999
"""Of a verdict: an honest implementation fails at most one audit in ten thousand, once in two hundred years of weeks."""

MEANING = (
    "A lower bound of training's epsilon, by an attacker who put in worst-case canaries and saw every noisy sum. Above the "
    "claimed epsilon, training breaks its promise. Close below, its sampling, clipping, noise and number of steps are what "
    "was charged for, as far as these canaries can tell. Cannot show that every row is treated as they were."
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
        check_specs=[
            dg.AssetCheckSpec("one_run_bound", asset=key, description="Checks that the claim is not refuted.")
        ],
    )
    def _audit(context: dg.AssetExecutionContext):
        with reported("one_run_audit"):
            store = of_project(StoreResource, context.job_def.resource_defs).get()
            outcome = audit(latest(store.releasable(settings.name)))
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
    from dp_synth_pipeline.model.autoregressive.canary_network import CanaryNetwork
    from dp_synth_pipeline.model.dpsgd import one_run_attack

    plan, spec, release = _released_plan(generator)
    network = CanaryNetwork(one_run_attack.canaries(plan))
    attacked = one_run_attack.attack(network, network.everybody(), plan, spec, device=device)
    claim = accountant.epsilon(plan.event, DELTA)
    proved = lower_bound.points(attacked.out, attacked.inside, CONFIDENCE)
    epsilon = lower_bound.epsilon_of_kind(proved, plan.event, DELTA)
    faults = _faults(attacked, plan)
    sentence = (
        f"An attacker who saw all noisy sums proved that training costs an epsilon of at least {epsilon:.3g} at delta "
        f"{DELTA:g}, with a confidence of {CONFIDENCE:.0%}: {epsilon / claim:.0%} of the {claim:.3g} that is claimed."
    )
    outcome = {
        "passed": not faults,
        "release": release,
        "claimed": claim,
        "epsilon": epsilon,
        "ratio": epsilon / claim,
        "epsilon_of_any_mechanism": lower_bound.epsilon_alone(proved, DELTA),
        "delta": DELTA,
        "confidence": CONFIDENCE,
        "canaries": len(attacked.out) + len(attacked.inside),
        "sums": attacked.sums,
        "told": " ".join([sentence, *faults]),
        "meaning": MEANING,
    }
    sink.write_text(json.dumps(outcome, indent=1), generator.with_name(generator_files.ATTACKED))
    return outcome


def _faults(attacked: "Attacked", plan: TrainingPlan) -> list[str]:
    """Return what convicts the training that was attacked, a sentence each."""
    faults = []
    if lower_bound.refutes(lower_bound.points(attacked.out, attacked.inside, CERTAINTY), plan.event):
        faults.append(f"The claim is refuted, with a confidence of {CERTAINTY:.2%}.")
    if attacked.sums != plan.steps:
        faults.append(f"Training released {attacked.sums} noisy sums, where {plan.steps} were charged.")
    if not attacked.audit.passed:
        faults.append(f"The audit of what ran failed: {', '.join(attacked.audit.failed)}.")
    return faults


def _released_plan(generator: Path) -> tuple[TrainingPlan, GeneratorSpec, str]:
    """Read the plan that a released generator says it was trained by, and its release's id; all of it is public."""
    try:
        description = json.loads((generator / "generator.json").read_text(encoding="utf-8"))
        facts, spec = description["facts"], GeneratorSpec(**description["spec"])
        spec = spec.with_(learning_rate=facts.get("learning_rate"))  # the rule would give a made-up table another
        plan = TrainingPlan(facts["sample_rate"], facts["steps"], 1.0, facts["noise_multiplier"])
    except (OSError, KeyError, TypeError):
        raise InvalidInput(
            "there is no generator that was trained under a guarantee, so there is no claim to audit; materialize "
            "`generator` first. A refresh that remembers trains nothing."
        ) from None
    return plan, spec, facts.get("release", "")
