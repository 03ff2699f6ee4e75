"""Discovers a schema privately, by one release of its own, all of whose epsilon goes to the profile.

Its order is a refresh's: reserve, read into a restricted snapshot, count, profile, settle. The snapshot is deleted at the
end in every case. What is written was released by that entry, so declaring it costs nothing more.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from dp_synth_pipeline.errors import InvalidInput, ReadingFailed
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.ledger import Release as LedgerRelease
from dp_synth_pipeline.privacy.budget import ADD_REMOVE
from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.synthesis import allocation, retention
from dp_synth_pipeline.synthesis.mechanisms.profile import Profile
from dp_synth_pipeline.synthesis.reading import hanging_facts, recognised
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.settings import SUFFIX, ReleaseSettings
from dp_synth_pipeline.synthesis.stages import Ingestion, measure_profile
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.tabular import recognition
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan, weight
from dp_synth_pipeline.tabular.profiling.suggest import suggest
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.tabular.sources.warehouse.address import shown


@dataclass(frozen=True)
class Inferred:
    """A profile that was released for its own sake, and the settled release that paid for it."""

    schema: TableSchema
    profile: TableProfile
    release: LedgerRelease


class WholeProfile(Profile):
    """A profile that spends all that a release has left after its row count and its types."""

    def plan(self, release: Release) -> ProfilePlan:
        # Refinements only where a refresh would take them too: bounds are what few rows at a small epsilon are asked for.
        plan, record = super().plan(release), release.record
        assert isinstance(record, LedgerRelease)
        delta = release.allocation.delta(self._population)
        return whole_profile(plan, record, release.modelled, release.spent, delta)


def infer(ledger: Ledger, store: Store, settings: ReleaseSettings) -> Inferred:
    """Measure a table's profile with all of the epsilon asked, and settle the release before returning.

    Raises:
        BudgetExceeded: if the account cannot pay; nothing was read then.
        InvalidInput: if the source cannot be used, by public facts alone; nothing was charged then.
        ReadingFailed: if it cannot be read to its end; the reservation stays.
        Unlearnable: if the noisy row count shows that there is nothing to learn; that count stays charged.
    """
    own_settings = settings.model_copy(
        update={
            "table": settings.name + SUFFIX,
            "validation": settings.validation.model_copy(update={"find_formulas": False}),
            **dict.fromkeys(("partitions", "plan", "target")),
        }
    )
    run, told = uuid.uuid4().hex, False
    release = Release.reserve(own_settings, ledger, store, key=f"schema:{run}", run_id=run)
    try:
        release.run(Ingestion())
        with retention.private():
            measured = measure_profile(release, WholeProfile)
        profile = measured.profile
        # The noisy count is released, so delta and the noise of what followed may depend on it.
        delta = release.allocation.delta(profile.population)
        settled_release = release.protection.settle(release.id, delta=delta)
    except ReadingFailed:
        told = True  # to its owner, beside where the rows would be
        raise
    except Exception:
        if release.record.state == "started":
            ledger.settle(release.id, why="its profile was not released", who="schema infer")  # no more of it will run
        raise
    finally:
        if not told:
            retention.drop(store, own_settings.name, release.id)
    assert isinstance(settled_release, LedgerRelease)
    return Inferred(recognition.regenerated(release.schema, measured.told, settings.locale), profile, settled_release)


def whole_profile(
    plan: ProfilePlan, release: LedgerRelease, schema: TableSchema, spent: Sequence[Event], delta: float
) -> ProfilePlan:
    """Return the profile with the least noise at which it and what was spent before cost at most what was reserved."""
    moves = 1 if release.relation == ADD_REMOVE else 2
    unit_noise = plan.unit.max_rows * moves * math.sqrt(weight(schema, plan.unit, plan.refined))
    budget = allocation.RemainingBudget.of(release, spent, delta)
    noise = budget.least_noise(lambda multiple: replace(plan, scale=multiple * unit_noise).histogram_events(schema))
    return replace(plan, scale=noise * unit_noise)


def to_yaml(inference: Inferred, settings: ReleaseSettings) -> str:
    """Write what was inferred as the `columns:` of a table's YAML, with remarks for the person who edits it."""
    lines, told = _header(inference, settings), recognised(settings, inference.schema)
    for column in inference.schema:
        if column.base is not None:
            facts, remarks = {"kind": str(column.kind), **hanging_facts(column)}, ()
        elif column.kind.composed:
            model = {fact: said for fact in ("model", "prompt") if (said := getattr(column, fact)) is not None}
            facts, remarks = {"kind": "text", "max_length": column.max_length, **model}, ()
        elif column.kind.learned:
            advice = suggest(column, inference.profile[column.name], inference.profile.population)
            facts, remarks = advice.facts, advice.remarks
        else:
            facts, remarks = {"kind": str(column.kind)}, ()
            if column in told:
                remarks = ("recognised, so it is made anew and not modelled; another kind has it modelled",)
        lines += [f"  # {_printable(r)}" for r in remarks]
        text = yaml.safe_dump(
            {column.name: facts}, default_flow_style=None, sort_keys=False, allow_unicode=True, width=110
        )
        lines += [f"  {line}" for line in text.rstrip().splitlines()]
    return "\n".join(lines) + "\n"


def _printable(remark: str) -> str:
    """Return a remark in one line, of characters that YAML takes."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in " ".join(remark.split()))


def _header(inference: Inferred, settings: ReleaseSettings) -> list[str]:
    release, unit = inference.release, settings.privacy_unit
    whose = "row" if unit.column is None else f"{unit.column} (at most {unit.max_rows} rows each)"
    return [
        f"# Schema of {shown(settings.source)}",
        f"# inferred {datetime.now(UTC):%Y-%m-%d} by release {release.id} of account {release.account}:",
        f"# epsilon {release.final_epsilon:.4g} at delta {release.final_delta:.2g}, unit {whose}.",
        "#",
        "# These facts were released by that entry, so declaring them costs nothing more; whatever you add or change is",
        "# declared public by you. Shares are noisy. Look it over, edit it, and paste it under `attributes:` of the table's",
        "# YAML, or give it to dp-synth synthesize --schema. `inferred_by` has the card count what that release cost.",
        f"inferred_by: {release.id}",
        "columns:",
    ]


def load(path: Path) -> dict[str, Any]:
    """Read a schema file back: its `columns`, and `inferred_by`, the release that paid for them, if it names one.

    Raises:
        InvalidInput: if there is no such file, or it is none.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError:
        raise InvalidInput(
            f"no such schema file: {path}. Write one: dp-synth schema infer SOURCE --out {path}."
        ) from None
    except yaml.YAMLError as error:
        raise InvalidInput(f"{path} is not YAML ({type(error).__name__}); mend it and run again.") from None
    columns = document.get("columns") if isinstance(document, dict) else None
    if not isinstance(columns, dict):
        raise InvalidInput(f"{path} holds no `columns:`; it should map column names to facts.")
    return {"columns": columns, "inferred_by": document.get("inferred_by")}
