"""Says what may run by itself. Nothing that spends may; what is drawn from released weights may follow them.

An eager condition on a stage up to the generator would spend epsilon at every update of its source, with nobody asking.
So it is refused where the settings are read, where definitions are assembled, and once more where a release is reserved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.orchestration.dagster_internals import (
    AUTO_MATERIALIZE_TAG,
    AUTOMATION_CONDITION_TAG,
    UnresolvedAssetJobDefinition,
    is_valid_cron_string,
)

SPENDS = "dp_synth/spends"
"""Tag of the stages up to the generator: materializing one may charge an account."""

SPENDING = ("ingested", "profile", "completed", "texts", "marginals", "generator")
FREE = ("synthetic", "published", "quality_report", "release_card")
"""The stages of a chain, before and after what was learnt is released."""

WORDS = {"eager": dg.AutomationCondition.eager, "on_missing": dg.AutomationCondition.on_missing}


def check(conditions: dict[str, str]) -> dict[str, str]:
    """Return conditions of stages that spend nothing; refuse all else.

    Raises:
        InvalidInput: naming the stage and what to write instead.
    """
    for stage, word in conditions.items():
        if stage in ("source", *SPENDING):
            raise InvalidInput(f"automation: {_why(stage)}")
        if stage not in FREE:
            raise InvalidInput(f"automation: expected some of {', '.join(FREE)}, got {stage!r}.")
        if word not in WORDS and not is_valid_cron_string(word):
            raise InvalidInput(f"automation: {stage} is eager, on_missing or a cron such as '0 3 * * 1', got {word!r}.")
    return conditions


def condition(words: Mapping[str, str], stage: str) -> dg.AutomationCondition | None:
    """Return what lets one stage run by itself; what analysts read still waits for its blocking checks.

    Args:
        words: as `check` returned them.
    """
    word = words.get(stage)
    if word is None:
        return None
    trigger = WORDS[word]() if word in WORDS else dg.AutomationCondition.on_cron(word)
    return trigger & dg.AutomationCondition.all_deps_blocking_checks_passed() if stage == "published" else trigger


def refuse_eager_spending(defs: dg.Definitions) -> dg.Definitions:
    """Return the definitions if no asset or job in them would spend epsilon by itself.

    Call it on your own merged definitions: a condition that is mapped onto all assets reaches the spending ones too.

    Raises:
        InvalidInput: naming the asset or job with an automation condition.
    """
    for spec in _specs(defs):
        if _spends(spec) and spec.automation_condition is not None:
            raise InvalidInput(f"{spec.key.to_user_string()}: {_why(spec.key.path[-1])}")
    for job in defs.jobs or ():
        if isinstance(job, UnresolvedAssetJobDefinition) and getattr(job, "automation_condition", None) is not None:
            selected_keys = job.selection.resolve([a for a in defs.assets or () if isinstance(a, dg.AssetsDefinition)])
            if any(_spends(s) for s in _specs(defs) if s.key in selected_keys):
                raise InvalidInput(f"job {job.name}: {_why('a job with')}")
    return defs


def refuse_automatic(tags: Mapping[str, str], table: str) -> None:
    """Refuse a run that an automation condition launched, before it reserves or reads anything.

    Raises:
        InvalidInput: since no condition may decide to spend.
    """
    if AUTOMATION_CONDITION_TAG in tags or AUTO_MATERIALIZE_TAG in tags:
        raise InvalidInput(f"{table}/ingested: {_why('ingested')} Nothing was read and nothing was charged.")


def _spends(spec: dg.AssetSpec) -> bool:
    return SPENDS in spec.tags


def _specs(defs: dg.Definitions) -> Iterator[dg.AssetSpec]:
    for asset in defs.assets or ():
        if isinstance(asset, dg.AssetSpec):
            yield asset
        else:
            yield from getattr(asset, "specs", ())


def _why(stage: str) -> str:
    return (
        f"an automation condition on {stage} would spend epsilon at every update, with nobody asking. Remove it; a "
        f"`schedule` or `on_new_data`, which a person starts, refreshes the table, and {', '.join(FREE)} may follow by "
        f"themselves."
    )


def spending_tag(stage: str) -> dict[str, Any]:
    """Return the tag of a stage that may spend; none for one that is free."""
    return {SPENDS: "true"} if stage in SPENDING else {}
