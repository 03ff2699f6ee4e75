"""Defines a release's stages in their order, each by what it changes. `generator` and `publication` have their own files.

A stage that looks at rows and lets something out does so through a mechanism. The others read what was released, or write
what stays restricted.
"""

from __future__ import annotations

from typing import Any

from dp_synth_pipeline.errors import ReleaseStateError
from dp_synth_pipeline.ledger import Release as LedgerRelease
from dp_synth_pipeline.model.autoregressive.spec import Method
from dp_synth_pipeline.privacy.events import DiscreteGaussian
from dp_synth_pipeline.synthesis import holdout, profile_cache, retention
from dp_synth_pipeline.synthesis.generator import GeneratorStage
from dp_synth_pipeline.synthesis.mechanisms.marginals import Marginals
from dp_synth_pipeline.synthesis.mechanisms.profile import Profile
from dp_synth_pipeline.synthesis.mechanisms.row_count import RowCount
from dp_synth_pipeline.synthesis.release import Release, Stage
from dp_synth_pipeline.synthesis.run_state import dump_schema
from dp_synth_pipeline.synthesis.sampling import Sampling
from dp_synth_pipeline.tabular import constraints
from dp_synth_pipeline.tabular.encoding import nulls
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.sources import ingestion, source
from dp_synth_pipeline.validation.figures import check_declared


class Ingestion(Stage):
    """Copies the source, or a part of its rows, into a restricted snapshot. The release was reserved before."""

    name, makes = "ingested", "snapshot"

    def run(self, release: Release) -> dict[str, Any]:
        """Read the source once.

        Raises:
            InvalidInput: if it cannot be used; the reservation is given back then, and nothing of the rows is kept.
        """
        settings, store = release.settings, release.store
        report = release.reporter("reading")
        report(0, 1)
        retention.forget(store, release.protection.ledger, settings.name, release.part.label)
        try:
            snapshot = read_source(release)
            release.protection.note_source(release.id, snapshot.digest)
        except Exception:  # no mechanism has started, so nothing was learnt from what was read
            release.protection.void(release.id, "the source could not be ingested")
            retention.drop(store, settings.name, release.id)
            raise
        report(1, 1)
        release.state = release.state.reading(dump_schema(snapshot.schema), snapshot.digest, snapshot.units)
        release.state = release.state.with_(snapshot=snapshot.path)
        return {}


class Profiling(Stage):
    """Measures the profile, charged, or takes the last one again: row count, bounds, categories, nulls, histograms."""

    name, makes = "profile", "profile"

    def run(self, release: Release) -> dict[str, Any]:
        """Return where the profile comes from and at which noise it was measured."""
        if release.protection.guaranteed:
            profile, facts = self._charged_profile(release)
        else:
            profile, facts = self._measure(release), {"profile_release": release.id}
        # This release's own copy, since another one may replace the cached one before this one is done.
        path = release.restricted / profile_cache.PROFILE
        with retention.private():
            path.write_text(profile.to_json(), encoding="utf-8")
        release.state = release.state.with_(profile=path, profile_release=facts["profile_release"])
        return facts

    def _charged_profile(self, release: Release) -> tuple[TableProfile, dict[str, Any]]:
        cached, why_not = self._reusable_profile(release)
        name = release.settings.name
        if cached is None:
            release.progress.log(f"{name}: the profile is measured, since {why_not}.")
            profile = self._measure(release)
            origin = profile_cache.keep(release.folder, profile, self._record(release), self._facts(release))
        else:
            profile, origin = cached.profile, cached.origin
            release.progress.log(f"{name}: the profile of release {origin.release} is reused, at no charge.")
        noise = next(e.scale for e in profile.events if isinstance(e, DiscreteGaussian))
        where = (
            f"reused from release {origin.release}, which was charged for it" if cached else "measured in this release"
        )
        return profile, {
            "profile": where,
            "profile_release": origin.release,
            "profile_epsilon": origin.epsilon,
            "profile_measured_at": origin.measured_at,
            "noise_per_cell": noise,
        }

    def _measure(self, release: Release) -> TableProfile:
        report = release.reporter("profile")
        report(0, 1)
        population = RowCount().perform(release)
        profile = Profile(population or 0).perform(release)
        if population is None or profile is None:
            raise ReleaseStateError("this release has no row count and no profile in its plan; declare both.")
        report(1, 1)
        return profile

    def _reusable_profile(self, release: Release) -> tuple[profile_cache.Cached | None, str]:
        """Return the profile that this release reuses, or None and why it measures one."""
        if not release.settings.reuse_profile:
            return None, "reuse_profile is false"
        if release.renew_profile:
            return None, f"this run is tagged {profile_cache.RENEW}"
        if release.allocation.pays_profile:
            return None, "the declared plan has paid for one"
        ledger, account = release.protection.ledger, self._record(release).account
        return profile_cache.find(release.folder, ledger, account, self._facts(release))

    def _facts(self, release: Release) -> dict[str, Any]:
        state = release.state
        return profile_cache.facts(release.settings, self._record(release), state.schema, state.partitions)

    def _record(self, release: Release) -> LedgerRelease:
        record = release.record
        assert isinstance(record, LedgerRelease)
        return record


class Completion(Stage):
    """Handles the snapshot's nulls by released numbers. The outcome is as restricted as the snapshot."""

    name, makes = "completed", "completed"

    def run(self, release: Release) -> dict[str, Any]:
        """Return the null policy of each column."""
        snapshot, schema = release.state.path("snapshot"), release.schema
        path = snapshot.with_name("completed.parquet")
        with retention.private():
            nulls.complete(snapshot, schema, release.profile, path)
        release.state = release.state.with_(completed=path)
        return {"null_policy": {c.name: str(c.nulls) for c in schema.learned}}


class Measuring(Stage):
    """Measures noisy marginals, charged, unless there are none to measure."""

    name, makes = "marginals", "marginals"

    def run(self, release: Release) -> dict[str, Any]:
        """Return how many sets of columns were measured, and at which noise."""
        from dp_synth_pipeline.model.marginals import storage

        report = release.reporter("marginals")
        report(0, 1)
        mechanism = Marginals(release.codec, release.profile)
        plan = mechanism.plan(release)
        if plan is None:  # one column only, or a declared plan without marginals
            return {"pairs": 0}
        release.charge(mechanism.name, mechanism.events(release, plan))
        path = release.folder / "marginals.safetensors"
        storage.save(path, mechanism.run(release, plan))
        release.state = release.state.with_(marginals=path)
        report(1, 1)
        noise = {"noise_multiplier": plan.noise_multiplier, "noise_per_cell": plan.scale}
        return {
            **(noise if release.protection.guaranteed else {}),
            "pairs": plan.chosen,
            "pairs_in_all": plan.pairs,
            "triples": plan.triples,
        }


def read_source(release: Release) -> ingestion.Snapshot:
    """Copy a release's rows into its restricted folder, where nobody else can read them.

    Raises:
        InvalidInput: if they cannot be read as declared, or lack what rules, reports and the holdout need.
    """
    settings = release.settings
    with retention.private():
        snapshot = ingestion.snapshot(
            source.parse(settings.source, settings.columns, release.part.where),
            release.restricted / "snapshot.parquet",
            declared=settings.columns,
            nulls=settings.nulls,
            other=settings.other,
            unit=settings.privacy_unit,
            complete=settings.columns_complete,
            delta=None if settings.delta == "auto" else settings.delta,
        )
    constraints.check(settings.validation.parsed_rules, snapshot.schema)
    check_declared(snapshot.schema, settings.validation.predict, settings.validation.sensitive)
    holdout.check(settings, snapshot.schema)
    return snapshot


def of_release(release: Release) -> list[Stage]:
    """Return the stages that take a release from its reservation to its synthetic rows, in their order."""
    measures = Method(release.settings.training.spec().method).measures
    return [Ingestion(), Profiling(), Completion(), *([Measuring()] if measures else []), GeneratorStage(), Sampling()]
