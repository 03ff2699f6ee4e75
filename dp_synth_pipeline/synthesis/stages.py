"""Defines a release's stages in their order, each by what it changes. `generator` and `publication` have their own files.

A stage that looks at rows and lets something out does so through a mechanism. The others read what was released, or write
what stays restricted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dp_synth_pipeline.errors import InvalidInput, ReadingFailed, ReleaseStateError, Unlearnable, nearest
from dp_synth_pipeline.ledger import Release as LedgerRelease
from dp_synth_pipeline.model.autoregressive.spec import Method
from dp_synth_pipeline.privacy.events import DiscreteGaussian, Gaussian
from dp_synth_pipeline.synthesis import (
    blocks,
    generator_files,
    holdout,
    memory,
    named_columns,
    profile_cache,
    retention,
)
from dp_synth_pipeline.synthesis.generator import GeneratorStage, end_failed
from dp_synth_pipeline.synthesis.mechanisms.formulas import Formulas
from dp_synth_pipeline.synthesis.mechanisms.marginals import Marginals
from dp_synth_pipeline.synthesis.mechanisms.note_words import NoteWords
from dp_synth_pipeline.synthesis.mechanisms.notes import Notes
from dp_synth_pipeline.synthesis.mechanisms.ordered_dates import OrderedDates
from dp_synth_pipeline.synthesis.mechanisms.profile import Profile
from dp_synth_pipeline.synthesis.mechanisms.row_count import RowCount
from dp_synth_pipeline.synthesis.mechanisms.texts import Texts
from dp_synth_pipeline.synthesis.mechanisms.types import Types
from dp_synth_pipeline.synthesis.mechanisms.votes import Votes
from dp_synth_pipeline.synthesis.note_writer import NoteWriter, WordLeanings
from dp_synth_pipeline.synthesis.protection import events_of
from dp_synth_pipeline.synthesis.reading import (
    formulas_sentences,
    reading,
    sentences,
    told_by_names,
    told_by_profile,
    undeclared,
    unit_sentence,
    warnings_about,
)
from dp_synth_pipeline.synthesis.release import Release, Stage
from dp_synth_pipeline.synthesis.release_plan import NOTE_WORDS, PROFILE
from dp_synth_pipeline.synthesis.run_state import dump_schema
from dp_synth_pipeline.synthesis.sampling import Sampling
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.tabular import condition, constraints, offsets, recognition
from dp_synth_pipeline.tabular.encoding import nulls
from dp_synth_pipeline.tabular.kinds.text import named
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.profiling.types import Types as Measured
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.tabular.sources import ingestion, source
from dp_synth_pipeline.tabular.sources.csv.values import CellType
from dp_synth_pipeline.texts import storage, survivors

if TYPE_CHECKING:
    from dp_synth_pipeline.model.marginals.measuring import Marginals as Counts

FEWEST = 2
"""Units, by their noisy number, of which something can be learnt."""


class Ingestion(Stage):
    """Copies the source, or a part of its rows, into a restricted snapshot. The release was reserved before.

    What is public is looked at first, and what is refused then gives the reservation back. Once rows were read, it stays:
    whether they can be read to their end is a fact about them.
    """

    name, makes = "ingested", "snapshot"

    def run(self, release: Release) -> dict[str, Any]:
        """Read the source once.

        Raises:
            InvalidInput: if it cannot be used, by public facts alone; the reservation is given back then.
            ReadingFailed: if it cannot be read to its end. The details lie in the release's restricted folder.
        """
        settings, store = release.settings, release.store
        report = release.reporter("reading")
        report(0, 1)
        retention.forget(store, release.protection.ledger, settings.name, release.part.label)
        with ExitStack() as stack:
            stack.enter_context(retention.private())
            try:
                table = stack.enter_context(_opened(release))
                _check_public(release, table)
                if said := unit_sentence(settings, [c.name for c in table.schema]):
                    release.progress.warn(said)
            except Exception:  # no row was read
                release.protection.void(release.id, "the source could not be ingested")
                release.drop()
                raise
            try:
                snapshot = table.copy(release.restricted / "snapshot.parquet")
            except Exception as error:
                raise reading_failed(release, error) from None
            try:
                release.protection.note_source(release.id, snapshot.digest)
            except ReleaseStateError as error:  # other rows than it began with, which is a fact about them
                raise reading_failed(release, error) from None
        report(1, 1)
        release.state = release.state.reading(
            dump_schema(blocks.narrowed(snapshot.schema, settings, release.state.partitions)),
            snapshot.digest,
            snapshot.units,
            untyped=snapshot.untyped,
            set_aside=snapshot.set_aside,
        )
        release.state = release.state.with_(snapshot=snapshot.path)
        return {}


def _opened(release: Release) -> AbstractContextManager[ingestion.Opened]:
    found = source.parse(release.settings.source, where=release.part.where)
    return ingestion.opened(found, release.restricted, **reading(release.settings, _modelled(release)))


def _modelled(release: Release) -> frozenset[str]:
    """Return the columns that stay modelled since the profile that may be reused has them so."""
    record = release.record
    asked_anew = release.renew_profile or not release.settings.reuse_profile
    if asked_anew or not isinstance(record, LedgerRelease) or release.allocation.pays_profile:
        return frozenset()
    return profile_cache.modelled(release.folder, record.account)


def _check_public(release: Release, table: ingestion.Opened) -> None:
    """Refuse what names and declarations alone show to be impossible; before types are measured, that is less."""
    settings, schema = release.settings, table.schema
    named_columns.check(settings, [c.name for c in schema.published], [c.name for c in schema.compared])
    holdout.check(settings, schema, table.untyped)
    _check_texts(settings, schema)
    if not table.untyped:
        constraints.check(settings.validation.parsed_rules, schema)
    elif release.allocation.pays_profile:
        release.allocation.types(len(table.untyped))


def _check_texts(settings: ReleaseSettings, schema: TableSchema) -> None:
    """Refuse what asks for rows by their texts: texts follow the rest of a row."""
    for asked in (settings.generation, *settings.generation.outputs.values()):
        named = [*(condition.names_in(asked.where) if asked.where is not None else ()), *(asked.share or ())]
        if texts := [name for name in named if name in settings.text_columns]:
            raise InvalidInput(condition.no_texts(texts[0]))
    check_notes(settings, schema)


def check_notes(settings: ReleaseSettings, schema: TableSchema, above: Sequence[TableSchema] = ()) -> None:
    """Refuse what no language model can write, before anything is read.

    Args:
        above: of the tables that the rows hang on.
    """
    if not (noted := settings.note_columns):
        return
    if len(noted) > 1:
        raise InvalidInput(
            f"columns {', '.join(noted)}: model: one column of a table is written by a language model; leave out the model "
            f"of the others, which are then written from counts of words."
        )
    others = [c.name for table in (schema, *above) for c in table.learned if not c.kind.composed]
    for name in named(schema[noted[0]].prompt or ""):
        if name not in others:
            raise InvalidInput(
                f"column {noted[0]!r}: prompt: it names {name!r}, which is no column that is learned beside it; name one of "
                f"these in braces, or none: {', '.join(others)}.{nearest(name, others)}"
            )
    from dp_synth_pipeline.model.language.note_network import check_installed
    from dp_synth_pipeline.model.language.public_model import PublicModel

    check_installed()
    PublicModel.at(settings.columns[noted[0]]["model"])


def reading_failed(release: Any, error: Exception) -> Exception:
    """Return what to raise when rows cannot be read to their end: one sentence, with the details beside the rows.

    The reservation stays. Of a source that was declared public, everything may be told.
    """
    if not release.protection.guaranteed:
        release.protection.void(release.id, "the source could not be ingested")
        release.drop()
        return error
    details = release.restricted / "reading-failed.txt"
    details.write_text(f"{type(error).__name__}: {error}\n", encoding="utf-8")
    return ReadingFailed(details)


class Profiling(Stage):
    """Measures the profile, charged, or takes the last one again: row count, types, bounds, categories, histograms."""

    name, makes = "profile", "profile"

    def run(self, release: Release) -> dict[str, Any]:
        """Return where the profile comes from and at which noise it was measured.

        Raises:
            Unlearnable: if what was released shows that nothing can be learnt, or what was declared does not fit the types
                that were measured; all that is found at once. What was charged stays charged, the rest is given back.
        """
        if release.protection.guaranteed:
            profile, facts = self._charged_profile(release)
        else:
            measured = self._measure(release)
            _regenerate(release, measured.told)
            profile, facts = measured.profile, {"profile_release": release.id}
            release.state = release.state.with_(formulas=list(measured.formulas) or None)
        self._compare_delta(release, profile.population)
        # This release's own copy, since another one may replace the cached one before this one is done.
        path = release.restricted / profile_cache.PROFILE
        with retention.private():
            path.write_text(profile.to_json(), encoding="utf-8")
        release.state = release.state.with_(profile=path, profile_release=facts["profile_release"])
        if told := [*sentences(release.settings, release.schema), *formulas_sentences(release.found_formulas)]:
            release.progress.log(f"{release.settings.name}: {' '.join(told)}")
        for warning in warnings_about(release.schema, profile, release.read):
            release.progress.warn(f"{release.settings.name}: {warning}")
        return {**facts, **_left_out(profile)}

    @staticmethod
    def _compare_delta(release: Release, units: int) -> None:
        """Warn of an account whose delta is no promise for so many units: a declared number, or a released one."""
        record = release.record
        if not isinstance(record, LedgerRelease):
            return
        delta = release.protection.ledger.account(record.account).delta
        if delta * units >= 1:
            release.progress.log(
                f"{release.settings.name}: delta of account {record.account} is {delta:g}, and there are about {units:,} "
                f"privacy units: keep their product far below 1. A person opens an account with a smaller delta."
            )

    def _charged_profile(self, release: Release) -> tuple[TableProfile, dict[str, Any]]:
        cached, why_not = self.reusable_profile(release)
        name = release.settings.name
        if cached is None:
            release.progress.log(f"{name}: the profile is measured, since {why_not}.")
            measured = self._measure(release)
            profile, kinds = measured.profile, {**measured.kinds, **measured.told}
            facts = self._facts(release, release.state.schema)
            found = {
                "types": {name: (c.sql, c.format) for name, c in measured.cells.items()},
                "kinds": kinds,
                "dates": {name: dict(of) for name, of in measured.dates.items()},
                "formulas": list(measured.formulas),
            }
            origin = profile_cache.keep(release.folder, profile, self._record(release), facts, found)
            _regenerate(release, measured.told)
        else:
            profile, origin = cached.profile, cached.origin
            _type(release, origin.cells(), cached.kinds_by_classes)
            _hang(release, origin.dates)
            _regenerate(release, origin.kinds)
            release.progress.log(f"{name}: the profile of release {origin.release} is reused, at no charge.")
        release.state = release.state.with_(formulas=list(origin.formulas) or None)
        # Base histograms come first, and profiles of earlier versions have discrete noise.
        paid = [e for e in release.protection.entries(origin.release) if e.mechanism == PROFILE]
        first = next(e for e in events_of(paid) or profile.events if isinstance(e, (Gaussian, DiscreteGaussian)))
        noise = first.combined_noise_multiplier * math.sqrt(first.size) * release.settings.privacy_unit.max_rows
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

    def _measure(self, release: Release) -> Measurement:
        report = release.reporter("profile")
        report(0, 1)
        measured = measure_profile(release, Profile)
        report(1, 1)
        return measured

    def reusable_profile(self, release: Release) -> tuple[profile_cache.Cached | None, str]:
        """Return the profile that this release reuses, or None and why it measures one."""
        if not release.settings.reuse_profile:
            return None, "reuse_profile is false"
        if release.renew_profile:
            return None, f"this run is tagged {profile_cache.RENEW}"
        if release.allocation.pays_profile:
            return None, "the declared plan has paid for one"
        account = self._record(release).account
        try:
            cached = profile_cache.read(release.folder)
            typed = _schema(release, cached.origin.cells(), cached.kinds_by_classes)
            schema = dump_schema(release.hung(typed, cached.origin.dates))
        except InvalidInput as error:
            return None, str(error).rstrip(".")
        facts = self._facts(release, schema)
        return profile_cache.find(release.folder, account, facts, release.protection.entries)

    def _facts(self, release: Release, schema: str) -> dict[str, Any]:
        return profile_cache.facts(release.settings, self._record(release), schema, release.state.partitions)

    def _record(self, release: Release) -> LedgerRelease:
        record = release.record
        assert isinstance(record, LedgerRelease)
        return record


@dataclass(frozen=True)
class Measurement:
    """What was measured of a table, all of it released.

    Attributes:
        profile: of the columns that are learned, and of those that it tells are not.
        cells: the types of a CSV's columns.
        kinds: what names and a CSV's classes told of columns that the profile does not have.
        told: what the profile tells of others.
        dates: what was found of dates that hang on others.
        formulas: what was found of numbers that others give, as rules.
    """

    profile: TableProfile
    cells: Mapping[str, CellType]
    kinds: Mapping[str, str]
    told: Mapping[str, str]
    dates: Mapping[str, Mapping[str, str]]
    formulas: Sequence[str] = ()


def measure_profile(release: Release, mechanism: Callable[[int], Profile]) -> Measurement:
    """Measure row count, types, ordered dates, formulas and profile, in this order, and tell which columns are made anew.

    Args:
        mechanism: makes the profile's mechanism from the noisy or declared number of units.

    Raises:
        Unlearnable: if what was released shows that nothing can be learnt.
    """
    population = RowCount().perform(release) or 0
    if findings := _population_findings(release, population):
        raise _ended(release, findings)
    types = Types(population).perform(release) or Measured({})
    settings = release.settings
    kinds = undeclared(settings, {**types.kinds, **told_by_names(release.schema, release.carried)})
    _type(release, types.cells, kinds)
    dates = OrderedDates(population).perform(release) or {}
    _hang(release, dates)
    computed = Formulas(population).perform(release) or ()
    profile = mechanism(population).perform(release)
    if profile is None:
        raise ReleaseStateError("this release has no row count and no profile in its plan; declare both.")
    if findings := _row_findings(release, profile):
        raise _ended(release, findings)
    misfits = {offsets.modelled_name(release.schema[name]): share for name, share in types.misfits.items()}
    columns = tuple(replace(c, misfits=misfits.get(c.name, 0.0)) for c in profile.columns)
    events = tuple(release.spent) if release.protection.guaranteed else ()
    profile = replace(profile, columns=columns, set_aside=types.set_aside, events=events)
    told = undeclared(settings, told_by_profile(release.schema, profile, types.hints, release.carried))
    return Measurement(profile, types.cells, kinds, told, dates, computed)


def _regenerate(release: Release, kinds: Mapping[str, str]) -> None:
    """Have columns made anew from here on that released figures tell to identify somebody; nothing models them then."""
    settings = release.settings
    schema = recognition.regenerated(release.schema, undeclared(settings, kinds), settings.locale)
    release.state = replace(release.state, schema=dump_schema(schema))


def _hang(release: Release, dates: Mapping[str, Mapping[str, str]]) -> None:
    """Have columns hang on others from here on, as was found."""
    if dates:
        release.hang({name: facts for name, facts in dates.items() if name in release.may_hang})


def _schema(release: Release, types: Mapping[str, CellType], kinds: Mapping[str, str]) -> TableSchema:
    """Return the table's schema with the types of the columns that were left open, and recognised ones made anew.

    Raises:
        InvalidInput: if the types are those of other columns, or something declared does not fit them.
    """
    state, settings, schema = release.state, release.settings, release.schema
    if not set(types) >= set(state.untyped):
        raise InvalidInput("the cached profile holds the types of other columns")
    if state.untyped:
        schema = release.typed_schema(types)
    return recognition.regenerated(schema, undeclared(settings, kinds), settings.locale)


def _type(release: Release, types: Mapping[str, CellType], kinds: Mapping[str, str]) -> None:
    """Give the snapshot the types and kinds that were released: what does not fit a type becomes a null, row by row.

    Raises:
        Unlearnable: if something declared does not fit them.
    """
    if not release.state.untyped:
        _regenerate(release, kinds)
        return
    try:
        schema = _schema(release, types, kinds)
        constraints.check(release.settings.validation.parsed_rules, schema)
    except InvalidInput as error:
        raise _ended(release, [str(error)]) from None
    with retention.private():
        release.type_rows(schema, types)


def _population_findings(release: Release, population: int) -> list[str]:
    findings, delta = [], release.settings.delta
    if population < FEWEST:
        findings.append(
            f"the noisy number of its privacy units is {population}, so there is nothing to learn; name a source with "
            f"more of them, check the filter, spend more epsilon, or declare their number if it is public: population: N."
            f"{_of_nobody(release)}"
        )
    if delta != "auto" and float(delta) * population >= 1:
        findings.append(
            f"delta={delta:g} is not below one over the noisy number of units, {population:,}, so it would allow the "
            f"publication of someone's row. Use delta auto, or a smaller one, such as 1e-6."
        )
    return findings


def _row_findings(release: Release, profile: TableProfile) -> list[str]:
    if profile.rows >= FEWEST:
        return []
    return [
        f"the noisy number of rows without nulls is {profile.rows}, so there is nothing to learn; use nulls: keep for the "
        f"columns that hold many, or leave them out.{_of_nobody(release)}"
    ]


def _of_nobody(release: Release) -> str:
    """Say which rows no unit has, where a column says whose each row is."""
    unit = release.settings.privacy_unit.column
    return "" if unit is None else f" A row whose {unit!r} is null belongs to no privacy unit and is left out."


def _ended(release: Release, findings: list[str]) -> Unlearnable:
    """End a release of which released numbers show that it cannot go on; return what says all that was found."""
    protection = release.protection
    if protection.guaranteed:
        protection.ledger.settle(release.id, why="what was released shows that the table cannot be synthesized")
    else:
        protection.void(release.id, "the table cannot be synthesized")
    release.drop()
    return Unlearnable(" ".join(findings))


def _left_out(profile: TableProfile) -> dict[str, Any]:
    """Return released figures of what a CSV's types and lines did not hold."""
    misfits = {c.name: round(c.misfits, 3) for c in profile.columns if c.misfits}
    return {
        **({"cells_that_fit_no_type": misfits} if misfits else {}),
        **({} if profile.set_aside is None else {"lines_set_aside": profile.set_aside}),
    }


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


class TextMeasuring(Stage):
    """Measures text columns, and learns what writes notes, charged; what is left is for the columns that are none."""

    name, makes = "texts", "texts"

    def done(self, release: Release) -> bool:
        files, noted = release.state.files, release.settings.note_columns
        return (files.notes is not None or not noted) and (
            files.texts is not None or noted == release.settings.text_columns
        )

    def run(self, release: Release) -> dict[str, Any]:
        """Return at which noise they were learnt, and how many words were released of each.

        Raises:
            AuditFailed: if the training of notes was not seen to keep what it promises; nothing is released then.
        """
        report = release.reporter("texts")
        report(0, 1)
        facts = {**self._counted(release), **self._noted(release), **self._voted(release)}
        report(1, 1)
        return facts

    def _counted(self, release: Release) -> dict[str, Any]:
        """Count shapes and words of the columns that are written from counts."""
        mechanism, path = Texts(release.text_codecs, release.profile), release.restricted / storage.FILE
        if release.state.files.texts is not None or self._measured_before(release, mechanism.name, path):
            release.state = release.state.with_(texts=release.state.files.texts or path)
            return {}
        plan = mechanism.plan(release)
        if plan is None:
            return {}
        odometer = release.charge(mechanism.name, mechanism.events(release, plan))
        with retention.private():
            writers = mechanism.run(release, plan, odometer)
            storage.save(path, writers)
        release.state = release.state.with_(texts=path)
        noise = {"noise_multiplier": plan.noise_multiplier} if release.protection.guaranteed else {}
        return {**noise, **{f"words_of_{writer.name}": len(writer.vocabulary.words) for writer in writers}}

    def _measured_before(self, release: Release, mechanism: str, path: Path) -> bool:
        """Say whether an attempt at this stage that was cut short had measured something, and put on record what it cost."""
        if not path.exists():
            return False
        entries = [e for e in release.protection.entries(release.id) if e.mechanism == mechanism]
        release.state = release.state.having_run(mechanism, events_of(entries))
        return True

    def _noted(self, release: Release) -> dict[str, Any]:
        """Fine-tune the language model of the column that has one."""
        with retention.private():
            notes = Notes(release.text_codecs, release.profile)
            if notes.writer is None:
                return {}
            notes.writer.words = self._words(release, notes.writer)
            learnt = notes.perform(release)
            assert learnt is not None
            writer, audit = learnt
            if audit is not None and not audit.passed:
                generator_files.keep_failed(audit, release.folder, release.id)
                raise end_failed(release, audit)
            path = release.restricted / generator_files.NOTES
            writer.save(path)
        release.state = release.state.with_(notes=path)
        return {"language_model": writer.sha256, "released_numbers": sum(a.size for a in writer.arrays.values())}

    def _words(self, release: Release, writer: NoteWriter) -> WordLeanings | None:
        """Count the words that its texts lean to; what an attempt counted that was cut short is not counted again."""
        path = release.restricted / generator_files.NOTE_WORDS
        if self._measured_before(release, NOTE_WORDS, path):
            kept = NoteWriter.load(path)
            writer.model.public.check(kept.sha256)  # what goes on is a training of the same model
            return kept.words
        words = NoteWords(writer, release.text_codecs, release.profile).perform(release)
        if words is not None:
            replace(writer, words=words).save(path)
        return words

    def _voted(self, release: Release) -> dict[str, Any]:
        """Have texts vote for what the language model of the column with a prompt writes."""
        with retention.private():
            found = Votes(release.text_codecs, release.profile).perform(release)
            if found is None:
                return {}
            path = release.restricted / survivors.FILE
            found.save(path)
        release.state = release.state.with_(notes=path)
        return {"language_model": found.sha256, "released_texts": len(found.texts)}


class Measuring(Stage):
    """Measures noisy marginals, charged, unless there are none to measure; combines them with those of earlier releases.

    A refresh that remembers measures what they measured, with all that it may spend: it trains nothing after.
    """

    name, makes = "marginals", "marginals"

    def run(self, release: Release) -> dict[str, Any]:
        """Return how many sets of columns were measured, and at which noise."""
        from dp_synth_pipeline.model.marginals import storage as marginals_storage

        report = release.reporter("marginals")
        report(0, 1)
        remembered, why_not = memory.find(release.protection, release.folder, release.state, release.given_by)
        layout = None if remembered is None else remembered.memory.layout
        mechanism = Marginals(release.columns, release.profile, layout)
        plan = mechanism.plan(release)
        if plan is None:  # one column only, or a declared plan without marginals
            return {"pairs": 0}
        if remembered is not None:  # on record before the charge: what they cost is part of what this release promises
            release.state = release.state.with_(start_release=remembered.last)
        odometer = release.charge(mechanism.name, mechanism.events(release, plan))
        # The release's own, as the profile is: what another refresh of this table measured, this one has not paid for.
        path = release.restricted / "marginals.safetensors"
        with retention.private():
            marginals_storage.save(
                path, _combined(release, mechanism.run(release, plan, odometer), remembered, why_not)
            )
        release.state = release.state.with_(marginals=path)
        report(1, 1)
        noise = {"noise_multiplier": plan.noise_multiplier, "noise_per_cell": plan.scale}
        return {
            **(noise if release.protection.guaranteed else {}),
            "pairs": plan.chosen,
            "pairs_in_all": plan.pairs,
            "triples": plan.triples,
            **_remembering_facts(release),
        }


def _combined(release: Release, measured: Counts, remembered: memory.Remembered | None, why_not: str) -> Counts:
    """Return what this release and those that it remembers tell together: a function of released numbers alone."""
    from dp_synth_pipeline.model.marginals.remembering import Memory

    if not release.settings.refresh.remember:
        return measured
    known, earlier, drift = Memory.begun(measured), (), None
    if remembered is not None:
        both = remembered.memory.updated(measured)
        names = [column.name for column in release.codec.modelled]
        drift = memory.drift(remembered.memory, measured, names, release.columns.given)
        known, earlier, why_not = (known, (), memory.DRIFTED) if both.lost else (both, remembered.releases, "")
    memory.keep(known, release.restricted)
    going_on = None if remembered is None else list(earlier)
    release.state = release.state.with_(remembered=going_on, anew=why_not or None, drift=drift)
    if why_not:
        release.progress.warn(f"{release.settings.name}: this refresh begins anew, since {why_not}.")
    return known.marginals


def _remembering_facts(release: Release) -> dict[str, Any]:
    facts = release.state.facts
    found: dict[str, Any] = {} if facts.remembered is None else {"releases_remembered": len(facts.remembered)}
    if facts.anew is not None:
        found["begins_anew"] = facts.anew
    if facts.drift is not None:
        found["drift_since_last_release"] = facts.drift["mean"]
    return found


def of_release(settings: ReleaseSettings) -> list[Stage]:
    """Return the stages that take a release from its reservation to its synthetic rows, in their order."""
    measures = Method(settings.training.spec().method).measures
    texts = [TextMeasuring()] if settings.text_columns else []
    measuring = [Measuring()] if measures else []
    return [Ingestion(), Profiling(), Completion(), *texts, *measuring, GeneratorStage(), Sampling()]
