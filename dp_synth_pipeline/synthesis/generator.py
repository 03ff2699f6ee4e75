"""Learns a release's generator from the rows, audits it, keeps it durably, settles it, and only then releases it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from dp_synth_pipeline.errors import AuditFailed, InvalidInput
from dp_synth_pipeline.ledger import Release as LedgerRelease
from dp_synth_pipeline.model.autoregressive.plan import capacity
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec, Method, Start
from dp_synth_pipeline.privacy.audit import Audit
from dp_synth_pipeline.privacy.budget import PrivacyUnit
from dp_synth_pipeline.privacy.tagged import TaggedEvent
from dp_synth_pipeline.synthesis import generator_files, memory, retention
from dp_synth_pipeline.synthesis.mechanisms.accuracy import Accuracy
from dp_synth_pipeline.synthesis.mechanisms.study import Study
from dp_synth_pipeline.synthesis.mechanisms.training import Training
from dp_synth_pipeline.synthesis.note_writer import NoteWriter
from dp_synth_pipeline.synthesis.reading import together_sentence
from dp_synth_pipeline.synthesis.release import Release, Stage
from dp_synth_pipeline.synthesis.run_state import dump_ran, load_ran
from dp_synth_pipeline.tabular import text_lengths
from dp_synth_pipeline.tabular.encoding import nulls
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.sources import ingestion, public_list, source
from dp_synth_pipeline.tabular.sources.csv.values import CellType
from dp_synth_pipeline.targets import sink
from dp_synth_pipeline.texts import storage
from dp_synth_pipeline.texts.writer import Writer

if TYPE_CHECKING:
    import numpy as np

    from dp_synth_pipeline.model.base import GenerativeModel
    from dp_synth_pipeline.model.marginals.measuring import Clique, Marginals

TEXTS = 24_000
"""Texts that are written to rake what writes them, at most."""

KEPT_FACTS = ("release", "schema", "guarantee", "accuracy", "ran", "rules", "memory", "windows", "rows")
"""Facts that lie beside the weights and are said elsewhere."""


class GeneratorStage(Stage):
    """Learns the generator or adopts what an earlier attempt learnt, settles the release, then releases the weights.

    Attributes:
        audit: what training was seen to do; None if it took no noisy step.
    """

    name, makes = "generator", "generator"

    def __init__(self) -> None:
        self.audit: Audit | None = None

    def run(self, release: Release) -> dict[str, Any]:
        """Return the weights' number, the metrics that may be published, and how training went.

        Raises:
            AuditFailed: if training was not seen to keep what it promises; its weights are not released then.
        """
        from dp_synth_pipeline.model import artifact

        folder = release.folder / generator_files.FOLDER
        learnt_folder = self.learn(release)
        self.audit = self.audit or generator_files.audit(learnt_folder)
        generator, facts = artifact.load(learnt_folder)
        ran = facts.get("ran")
        release.protection.settle(
            release.id,
            delta=release.delta,
            ran=None if ran is None else load_ran(ran),
        )
        generator_files.release_to(learnt_folder, folder)
        metrics = facts.get("accuracy", {})
        release.state = release.state.with_(
            generator=folder,
            profile=folder / "profile.json",
            rows=facts.get("rows", release.profile.rows),
            accuracy=metrics,
        )
        public = {name: value for name, value in facts.items() if name not in KEPT_FACTS}
        return {"weights": generator.weights, **public, **metrics}

    def learn(self, release: Release) -> Path:
        """Learn the generator, or adopt what an earlier attempt learnt; return where it is kept durably, not yet released.

        Raises:
            AuditFailed: if training was not seen to keep what it promises; its weights are not released then.
        """
        folder = release.folder / generator_files.FOLDER
        learnt_folder = _adopted(release, folder)
        if learnt_folder is None:
            learnt_folder = release.restricted / retention.LEARNT
            self.audit = _learn(release, folder, learnt_folder)
            if self.audit is not None and not self.audit.passed:
                raise end_failed(release, self.audit)
        return learnt_folder


def _adopted(release: Release, folder: Path) -> Path | None:
    """Return where an earlier attempt left what this release learnt, if it got so far: nothing is learnt twice then.

    A release that was settled for a reason, such as a crash or an audit, releases nothing.
    """
    record = release.record
    if record.state == "voided" or (isinstance(record, LedgerRelease) and record.state == "settled" and record.why):
        return None
    places = (release.restricted / retention.LEARNT, folder)
    return next((place for place in places if generator_files.found(place, release.id)), None)


def _learn(release: Release, folder: Path, learnt_folder: Path) -> Audit | None:
    """Learn from the rows, and keep what was learnt unless the audit of how failed; return that audit."""
    profile, codec = release.profile, release.codec
    spec = _sized(release, codec)
    # Charged before training, which then leaves it its part; measured before the settlement, which is final.
    accuracy = Accuracy(codec, profile.rows).begin(release)
    learning = Training.of if release.settings.training.tune is None else Study
    training = learning(release, codec, spec, profile.population)
    generator, facts = _generator(release, codec, training, folder)
    if training.audit is not None and not training.audit.passed:
        generator_files.keep_failed(training.audit, release.folder, release.id)
        return training.audit
    metrics = Accuracy(codec, profile.rows, generator).run(release, *accuracy) if accuracy else {}
    ran: list[TaggedEvent] = [*release.state.ran, *training.ran]
    about = {
        "release": release.id,
        "schema": release.state.schema,
        "guarantee": release.settings.privacy,
        **facts,
        "accuracy": metrics,
        "ran": dump_ran(ran),
        "rules": release.rules,
        "rows": _rows(release),
        "windows": release.settings.partitions.windows if release.settings.partitions else None,
        **memory.facts(release.state, release.restricted, release.given_by),
    }
    draw = partial(generator.sample, TEXTS, forbidden=codec.forbidden)
    texts = raked_texts(release, codec, draw)
    beside = [memory.waiting(release.restricted), *raked_notes(release, codec, draw)]
    generator_files.keep(learnt_folder, generator, about, profile.to_json(), training.audit, beside, texts)
    return training.audit


def _rows(release: Release) -> int:
    """Return the noisy number of the source's rows: the profile's, or what all remembered releases tell together."""
    counted = noisy_marginals(release)
    return release.profile.rows if counted is None or release.state.facts.remembered is None else counted.rows


def noisy_marginals(release: Release) -> Marginals | None:
    """Return what it measured, combined with what it remembers; None if nothing was to be measured."""
    from dp_synth_pipeline.model.marginals import storage as marginals_storage

    file = release.state.files.marginals
    return None if file is None else marginals_storage.load(file)


def raked_texts(release: Release, codec: TableCodec, draw: Callable[..., np.ndarray]) -> list[Writer]:
    """Return what writes the text columns, raked upon rows that a generator draws; free, as all draws are.

    Args:
        draw: draws codes of rows, and of those that they hang on, int64 (rows, columns), by the numbers of `rng`.
    """
    import numpy as np

    file, rng = release.state.files.texts, np.random.default_rng()
    if file is None:
        return []
    codes = draw(rng=rng)[:TEXTS]
    rows = codec.decode(codes[:, : len(codec.columns)], rng=rng)
    return [writer.raked(codes, text_lengths.drawn(rows, writer.name), rng) for writer in storage.load(file)]


def raked_notes(release: Release, codec: TableCodec, draw: Callable[..., np.ndarray]) -> list[Path]:
    """Return where what a language model has to do with a text column lies, raked if it leans: one file, or none.

    Args:
        draw: draws codes of rows, and of those that they hang on, int64 (rows, columns), by the numbers of `rng`: free.
    """
    import numpy as np

    path, rng = release.state.files.notes, np.random.default_rng()
    if path is None:
        return []
    writer = NoteWriter.load(path) if path.name == generator_files.NOTES else None
    if writer is not None and writer.words is not None:
        codes = draw(rng=rng)[:TEXTS]
        drawn_lengths = text_lengths.drawn(codec.decode(codes[:, : len(codec.columns)], rng=rng), writer.name)
        raked = writer.raked(codes, drawn_lengths, rng, release.reporter("raking of notes"))
        with retention.private(), sink.replacing(path) as partial_path:
            raked.save(partial_path)
    return [path]


def _sized(release: Release, codec: TableCodec) -> GeneratorSpec:
    """Return the network and optimiser settings; a network that nobody sized is sized by the noise and the noisy count."""
    spec, population = release.settings.training.spec(), release.profile.population
    if spec.hidden:
        return spec
    noise = release.allocation.noise(population)
    return spec.with_(hidden=capacity(population, noise, len(codec.cardinalities), spec.embedding))


def _generator(
    release: Release, codec: TableCodec, training: Training, folder: Path
) -> tuple[GenerativeModel, dict[str, Any]]:
    """Return the generator and the public facts of how it came to be: a start, training, raking."""
    from dp_synth_pipeline.model import artifact
    from dp_synth_pipeline.model.base import Released
    from dp_synth_pipeline.model.marginals import dependencies

    spec, measured = training.spec, noisy_marginals(release)
    goes_on = release.state.facts.remembered is not None  # then all went into the marginals
    trains, facts = Method(spec.method).trains and not goes_on, {}
    if measured is None and not trains:
        raise InvalidInput("method: marginals needs two columns to learn; use method: autoregressive for this table.")
    public = _public_codes(release, codec) if trains and spec.start == Start.PUBLIC else None
    previous = _previous(release, folder) if trains and spec.start == Start.WARM_START else None
    model = last(release, folder) if goes_on and Method(spec.method).trains else None
    if model is None:
        start_facts = Released(codec.marginals(), measured, previous, public, orders=codec.orders())
        spec = spec.with_(start=Start.MARGINALS) if goes_on else spec
        model = artifact.model_of(spec.kind).begin(codec.cardinalities, spec, start_facts)
    if trains:
        model, facts = training.train(model, release.reporter("training"))
    if measured is not None and spec.rake:
        raked = model.rake(measured)
        kept = {} if raked is model else keeping_together(release, codec, dependencies.pairs(measured))
        return raked, {**facts, **kept}  # a model may know no raking
    return model, facts


def keeping_together(release: Release, codec: TableCodec, found: Sequence[Clique]) -> dict[str, list[str]]:
    """Say, in the log as well, which columns' codes give others and are drawn with them; nothing if none do."""
    pairs = [" and ".join(codec.encoded[column] for column in pair) for pair in found]
    if not pairs:
        return {}
    release.progress.log(f"{release.settings.name}: {together_sentence(pairs)}")
    return {"together": pairs}


def _previous(release: Release, folder: Path) -> GenerativeModel | None:
    """Return the table's last released model, if this release may start from it; then it is on record that it does."""
    from dp_synth_pipeline.model import artifact

    if not (folder / generator_files.DESCRIBED).exists():
        return None
    try:
        generator, facts = artifact.load(folder)
    except InvalidInput:  # another version's
        return None
    start = facts.get("release")
    if start not in release.protection.paid_releases():
        return None
    release.state = release.state.with_(start_release=start)  # what it cost is part of what this release promises
    return generator


def last(release: Release, folder: Path) -> GenerativeModel | None:
    """Return the model of the release that this one goes on from; None if the table is another one by now, or it is gone."""
    from dp_synth_pipeline.model import artifact

    facts = release.state.facts
    try:
        generator, about = artifact.load(folder)
    except InvalidInput:
        return None
    return generator if facts.remembered and about.get("release") == facts.start_release else None


def _public_codes(release: Release, codec: TableCodec) -> np.ndarray:
    """Return the codes of the table that was declared public: read like the source, but nothing in it is charged.

    Raises:
        InvalidInput: if there is none, or it has other columns. Whether an account protects the very same content is not
            asked here: the answer would confirm a guess of that account's table.
    """
    import numpy as np

    settings, schema = release.settings, release.schema
    uri, unit = settings.training.public, settings.privacy_unit.column
    if uri is None:
        raise InvalidInput("start: public needs a table that you declare public: training: {public: FILE}.")
    with TemporaryDirectory() as folder:
        snapshot = ingestion.snapshot(  # the unit's column is left out as there, so that the same rows are known again
            source.parse(uri),
            Path(folder) / "public.parquet",
            declared=public_list.resolved(settings.columns),
            nulls=settings.nulls,
            unit=PrivacyUnit(unit, max_rows=sys.maxsize) if unit else PrivacyUnit(),
            types={c.name: CellType.of_column(c) for c in schema.learned},
            kept=[c.name for c in schema.learned],
        )
        if snapshot.schema.names != schema.names:
            raise InvalidInput(f"the public table must have the source's columns: {', '.join(schema.names)}.")
        whole = nulls.complete(snapshot.path, schema, release.profile, Path(folder) / "completed.parquet")
        codes, _ = codec.encode_file(whole, Path(folder) / "codes.npy")
        return np.array(codes)


def end_failed(release: Release, audit: Audit) -> AuditFailed:
    """End a release whose training failed its audit, and return what to raise.

    It is charged for all that started, and its weights are not released. Nothing of it runs any more, so nobody need find
    it open, its snapshot may go, and no later attempt can go on with this training.
    """
    try:
        who = f"run {release.record.run_id}"
        why = f"its weights are not released, since the audit of what ran failed ({', '.join(audit.failed)})"
        release.protection.ledger.settle(release.id, why=why, who=who)
    except Exception:  # such as a lost connection: what the audit found must be told all the same
        return AuditFailed(audit.failed, release.id, settled=False)
    return AuditFailed(audit.failed, release.id, settled=True)
