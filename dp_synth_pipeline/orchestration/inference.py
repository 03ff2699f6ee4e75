"""A schema, discovered privately: one release of its own, all of whose epsilon goes to the profile.

Same order as a refresh: reserve, read into a restricted snapshot, count, profile, settle. The snapshot is deleted at the
end in every case. What is written was released by that entry, so declaring it costs nothing more.
"""

from __future__ import annotations

import math
import uuid
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Ledger, Release
from dp_synth_pipeline.orchestration import planning, restricted
from dp_synth_pipeline.orchestration.assets.ingested import ingest
from dp_synth_pipeline.orchestration.config import SUFFIX, TableSettings
from dp_synth_pipeline.orchestration.resources import Store
from dp_synth_pipeline.privacy.budget import ADD_REMOVE
from dp_synth_pipeline.tabular.profiling import measure
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.profiling.profile_plan import ProfilePlan, weight
from dp_synth_pipeline.tabular.profiling.suggest import suggest
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.tabular.sources.ingestion import Snapshot
from dp_synth_pipeline.tabular.sources.warehouse.address import shown


@dataclass(frozen=True)
class Inferred:
    """A profile that was released for its own sake, and the settled release that paid for it."""

    schema: TableSchema
    profile: TableProfile
    release: Release


def infer(ledger: Ledger, store: Store, settings: TableSettings) -> Inferred:
    """Measure a table's profile with all of the epsilon asked, and settle the release before returning.

    Raises:
        BudgetExceeded: if the account cannot pay; nothing was read then.
        InvalidInput: if the source cannot be used; nothing was charged then.
    """
    account = ledger.account(settings.charge.account)
    asked, unit, name = planning.ask(settings, account.delta), settings.privacy_unit, settings.name + SUFFIX
    run = uuid.uuid4().hex
    release = ledger.reserve(
        account.name,
        key=f"schema:{run}",
        **asdict(asked),
        unit=str(unit),
        max_rows=unit.max_rows,
        table=name,
        run_id=run,
        code_version=settings.code_version(),
    )
    try:
        snapshot = _read(ledger, store, settings, release)
        ledger.note_source(release.id, snapshot.digest)
        with restricted.private():
            profile, delta = _profile(ledger, settings, release, snapshot)
        settled = ledger.settle(release.id, delta=delta, fingerprint=ledger.fingerprint(snapshot.digest))
    except Exception:
        if ledger.release(release.id).state == "started":
            ledger.settle(release.id)  # no more of it will run: what started is charged, the rest given back
        raise
    finally:
        restricted.drop(store, name, release.id)
    return Inferred(snapshot.schema, profile, settled)


def _read(ledger: Ledger, store: Store, settings: TableSettings, release: Release) -> Snapshot:
    folder = store.restricted(release.table, release.id)
    restricted.keep_for(folder, settings.retention_days)
    try:
        return ingest(settings, folder)
    except Exception:  # no mechanism has started, so nothing was learnt from what was read
        ledger.void(release.id, "the source could not be ingested")
        raise


def _profile(
    ledger: Ledger, settings: TableSettings, release: Release, snapshot: Snapshot
) -> tuple[TableProfile, float]:
    asked = planning.Asked(release.epsilon, release.delta, release.own_delta)
    first = planning.plan_profile(settings, asked, snapshot.schema, release.relation)
    if first.count_events():
        ledger.start(release.id, "row count", first.count_events())
    population = measure.measure_population(snapshot.units, first)
    # The noisy count is released: delta and the noise of what follows may depend on it.
    delta = planning.final_delta(settings, asked, population)
    # Closer looks only where a refresh would take them too: bounds are what few rows at a small epsilon are asked for.
    second = planning.plan_profile(settings, asked, snapshot.schema, release.relation, population)
    plan = whole_profile(second, release, snapshot.schema, delta)
    ledger.start(release.id, "profile", plan.histogram_events(snapshot.schema))
    return measure.measure(snapshot.path, snapshot.schema, plan, population), delta


def whole_profile(plan: ProfilePlan, release: Release, schema: TableSchema, delta: float) -> ProfilePlan:
    """Return the profile with the least noise at which it and its row count cost at most what was reserved."""
    moves = 1 if release.relation == ADD_REMOVE else 2
    one = plan.unit.max_rows * math.sqrt(moves * weight(schema, plan.unit, plan.refined))
    room = planning.Room.of(release, plan.count_events(), delta)
    noise = room.least_noise(lambda multiple: replace(plan, scale=multiple * one).histogram_events(schema))
    return replace(plan, scale=noise * one)


def to_yaml(found: Inferred, settings: TableSettings) -> str:
    """Write what was inferred as the `columns:` of a table's YAML, with remarks for the person who edits it."""
    lines = _header(found, settings)
    for column in found.schema:
        if column.kind.learned:
            advice = suggest(column, found.profile[column.name], found.profile.population)
            facts, remarks = advice.facts, advice.remarks
        else:
            facts, remarks = {"kind": str(column.kind)}, ()
        lines += [f"  # {' '.join(r.split())}" for r in remarks]
        text = yaml.safe_dump(
            {column.name: facts}, default_flow_style=None, sort_keys=False, allow_unicode=True, width=110
        )
        lines += [f"  {line}" for line in text.rstrip().splitlines()]
    return "\n".join(lines) + "\n"


def _header(found: Inferred, settings: TableSettings) -> list[str]:
    release, unit = found.release, settings.privacy_unit
    whose = "row" if unit.column is None else f"{unit.column} (at most {unit.max_rows} rows each)"
    return [
        f"# Schema of {shown(settings.source)}",
        f"# inferred {datetime.now(UTC):%Y-%m-%d} by release {release.id} of account {release.account}:",
        f"# epsilon {release.final_epsilon:.4g} at delta {release.final_delta:.2g}, unit {whose}.",
        "#",
        "# These facts were released by that entry, so declaring them costs nothing more; whatever you add or change is",
        "# declared public by you. Shares are noisy. Look it over, edit it, and paste it under `attributes:` of the table's",
        "# YAML, or give it to dp-synth synthesize --schema.",
        "columns:",
    ]


def load_columns(path: Path) -> dict[str, Any]:
    """Read the `columns:` of a schema file back.

    Raises:
        InvalidInput: if there is no such file, or it is none.
    """
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError:
        raise InvalidInput(
            f"no such schema file: {path}. Write one: dp-synth schema infer SOURCE --out {path}."
        ) from None
    except yaml.YAMLError as error:
        raise InvalidInput(f"{path} is not YAML ({type(error).__name__}); mend it and run again.") from None
    columns = found.get("columns") if isinstance(found, dict) else None
    if not isinstance(columns, dict):
        raise InvalidInput(f"{path} holds no `columns:`; it should map column names to facts.")
    return columns
