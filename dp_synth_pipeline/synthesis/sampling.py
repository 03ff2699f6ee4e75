"""Draws as many rows as asked from released weights, under the declared rules. As post-processing, this is free."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput, ReleaseStateError
from dp_synth_pipeline.synthesis import note_writer, rebalancing
from dp_synth_pipeline.synthesis.conditional import Pool
from dp_synth_pipeline.synthesis.progress import unheard
from dp_synth_pipeline.synthesis.rebalancing import Share
from dp_synth_pipeline.synthesis.release import Release, Stage
from dp_synth_pipeline.synthesis.run_state import load_schema
from dp_synth_pipeline.synthesis.settings import DrawSettings
from dp_synth_pipeline.tabular import constraints, offsets, text_lengths
from dp_synth_pipeline.tabular.condition import Condition, Where, respelled, written
from dp_synth_pipeline.tabular.constraints import Rule
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.targets import sink
from dp_synth_pipeline.texts import storage, survivors

FILE = "synthetic.parquet"
"""In a table's releasable folder."""

OUTPUTS = "outputs"
"""Folder of further tables, beside it."""

SMALL = 0.5
"""Part of the rows that the effective sample size may fall to before that is said."""

BATCH = 1 << 15
"""Rows drawn on a condition at a time."""

Report = Callable[[int, int], None]
"""Is told how many rows of all are there."""

ATTEMPTS, LEAST = 16, 256
"""How often rows that no longer satisfy a condition, once rules changed them, are drawn again; and how many at least."""


class Sampling(Stage):
    """Draws the synthetic table from what a release learnt."""

    name, makes = "synthetic", "synthetic"

    def run(self, release: Release) -> dict[str, Any]:
        """Return the number of rows drawn and where they lie."""
        drawer = Drawer(
            release.state.path("generator"),
            release.state.path("profile"),
            [constraints.parse(text) for text in release.rules],
        )
        generation, path = release.settings.generation, release.folder / FILE
        drawn = _draw(release, drawer, generation, path, release.settings.rows)
        release.state = release.state.with_(
            synthetic=path,
            synthetic_rows=drawn["rows"],
            asked_rows=drawn["rows"],
            seal=drawn["seal"],
            effective=drawn["effective"],
        )
        shutil.rmtree(release.folder / OUTPUTS, ignore_errors=True)
        outputs = {
            name: _draw(release, drawer, asked, release.folder / OUTPUTS / f"{name}.parquet")
            for name, asked in generation.outputs.items()
        }
        release.state = release.state.with_(outputs=outputs or None)
        return {"rows": drawn["rows"], "path": path, **_told("", drawn), **_tables(outputs)}


def _draw(release: Release, drawer: Drawer, asked: DrawSettings, path: Path, rows: int | None = None) -> dict[str, Any]:
    """Write one table of drawn rows; return how many there are, what they are worth, and the file's seal."""
    rows = rows or asked.rows or release.state.facts.rows
    if rows is None:
        raise ReleaseStateError("this release has no generator yet; run the stage that makes it first.")
    drawn = drawer.draw(rows, Asked(asked.where, asked.share), release.reporter("generation"))
    written_rows = sink.write_parquet(drawn.batches, drawer.schema, path)
    seal = release.protection.seal(sealed(release.id, path))
    return {"path": str(path), "rows": written_rows, "effective": drawn.effective, "seal": seal}


def _told(name: str, drawn: dict[str, Any]) -> dict[str, Any]:
    """Return the effective sample size of a table that was drawn on a condition, as a public fact."""
    return {} if drawn["effective"] is None else {f"{name}effective_sample_size": drawn["effective"]}


def _tables(outputs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for name, drawn in outputs.items():
        told |= {f"{name}_rows": drawn["rows"], **_told(f"{name}_", drawn)}
    return told


@dataclass(frozen=True)
class Asked:
    """What is asked of rows beside their number.

    Attributes:
        where: a condition that each of them satisfies.
        share: parts of the rows that values are to have, by column.
        seed: makes draws the same again. Noise is never seeded; drawing from what is released is post-processing, so a
            seed gives nothing away.
    """

    where: Where | None = None
    share: Share | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.seed is not None and (isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0):
            raise InvalidInput(f"seed: expected a whole number from 0, got {self.seed!r}.")

    def chance(self) -> np.random.Generator:
        """Return what decides."""
        return np.random.default_rng(self.seed)


@dataclass
class Drawn:
    """Rows as they are drawn, in batches; to be taken once.

    Attributes:
        rows: how many there will be.
        effective: how many rows drawn one by one they are worth, once they are taken; None without a condition or shares.
    """

    rows: int
    batches: Iterator[pa.RecordBatch]
    effective: int | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self.batches


class Drawer:
    """Draws rows from a generator that was released, in the source's types and formats.

    Args:
        generator: the folder of its weights.
        profile: the profile that it was learnt under.
        rules: what holds across columns in every row that is drawn; by default, what was declared when it was learnt.

    Attributes:
        model: the generator.
        codec: what its codes stand for.
        facts: public facts of how it came to be.
        rules: what holds across columns in every row.
        writers: what writes its text columns.
    """

    def __init__(self, generator: Path, profile: Path, rules: list[Rule] | None = None) -> None:
        from dp_synth_pipeline.model import artifact

        self.model, self.facts = artifact.load(generator)
        self.profile = TableProfile.from_json(profile.read_text(encoding="utf-8"))
        self.codec = TableCodec(load_schema(self.facts["schema"]), self.profile)
        self.rules = [constraints.parse(text) for text in self.facts.get("rules", [])] if rules is None else rules
        constraints.check(self.rules, self.codec.schema)
        counted = storage.load(generator / storage.FILE) if (generator / storage.FILE).exists() else []
        self.writers = [*counted, *note_writer.written_by(generator), *survivors.beside(generator)]

    @property
    def schema(self) -> pa.Schema:
        """The synthetic table's columns."""
        return self.codec.schema.arrow_schema()

    def never_null(self, column: int, before: np.ndarray) -> np.ndarray | None:
        """Return which codes of a column are no null, bool (1, codes); None if all are, or none is."""
        del before
        codec: Any = self.codec.columns[column]
        if codec.null is None or codec.cardinality == 1:
            return None
        return (np.arange(codec.cardinality) != codec.null)[None]

    def draw(self, rows: int, asked: Asked = Asked(), report: Report = unheard) -> Drawn:
        """Return as many rows, in batches; only drawn rows are looked at to keep the rules and to satisfy what is asked.

        Args:
            report: is told of the rows so far, and of all; with shares, while they are drawn here, else while they are
                taken.

        Raises:
            InvalidInput: if nothing fits what is asked.
        """
        if isinstance(rows, bool) or not isinstance(rows, (int, np.integer)) or rows < 1:
            raise InvalidInput(f"rows: expected a whole number from 1, got {rows!r}.")
        rng = asked.chance()
        report(0, int(rows))
        drawn = self._drawn(int(rows), asked, rng, report)
        if self.writers:
            drawn.batches = (self.written(batch, rng) for batch in drawn.batches)
        return drawn

    def _drawn(self, rows: int, asked: Asked, rng: np.random.Generator, report: Report) -> Drawn:
        """Return rows whose texts are not written yet."""
        if asked.share is not None:
            return self._shared(rows, asked, rng, report)
        if asked.where is not None:
            return self._conditional(rows, asked.where, rng, lambda found: report(found, rows))
        source = partial(self._table, rng=rng)
        batches = self._kept(source, rows, rng) if self.rules else self._decoded(rows, rng)
        return Drawn(rows, _with_progress(batches, rows, report))

    def written(
        self, rows: pa.RecordBatch, rng: np.random.Generator, above: Sequence[np.ndarray] = ()
    ) -> pa.RecordBatch:
        """Return drawn rows with their texts, which are blanks until then: each is written upon the rest of its row.

        Args:
            above: codes of the rows that they hang on, int (rows, columns) of each table above.
        """
        if not self.writers or not rows.num_rows:
            return rows
        codes = np.concatenate([self.codec.encode(rows), *above], 1)
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        for writer in self.writers:
            texts = writer.write(codes, text_lengths.drawn(rows, writer.name), rng)
            null = np.asarray(columns[writer.name].is_null())
            columns[writer.name] = pa.array(texts, pa.string(), mask=null)
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=rows.schema)

    def _decoded(self, rows: int, rng: np.random.Generator) -> Iterator[pa.RecordBatch]:
        return self.codec.decode_stream(self.model.draw(rows, forbidden=self.codec.forbidden, rng=rng), rng)

    def _table(self, rows: int, rng: np.random.Generator) -> pa.Table:
        return pa.Table.from_batches(self._decoded(rows, rng), self.schema)

    def _kept(self, source: Callable[[int], pa.Table], rows: int, rng: np.random.Generator) -> Iterator[pa.RecordBatch]:
        """Yield rows of a source that keep the rules."""
        return self.codec.renumber(self._ruled(source, rows, rng))

    def _ruled(self, source: Callable[[int], pa.Table], rows: int, rng: np.random.Generator) -> Iterator[pa.Table]:
        schema, profile = self.codec.schema, self.profile
        limits, digits = constraints.limits(schema, profile), constraints.digits(schema, profile)
        hangs = partial(offsets.agree, schema=schema)
        return constraints.enforced(source, rows, self.rules, limits=limits, digits=digits, also=hangs, rng=rng)

    def _conditional(
        self, rows: int, where: Where, rng: np.random.Generator, report: Callable[[int], None] = unheard
    ) -> Drawn:
        condition = Condition(where, self.codec)
        pool = Pool(self.model, self.codec, condition, rows, rng, lambda found: report(min(found, rows)))
        drawn = Drawn(rows, iter(()), 0)

        def batches() -> Iterator[pa.Table]:
            left = rows
            while left:
                part = self._satisfying(pool, condition, min(left, BATCH), rng)
                left -= part.num_rows
                drawn.effective = min(rows - left, pool.effective)
                yield part
            report(rows)

        drawn.batches = self.codec.renumber(batches())
        return drawn

    def _satisfying(self, pool: Pool, condition: Condition, rows: int, rng: np.random.Generator) -> pa.Table:
        """Return rows that satisfy a condition and keep the rules: where the rules changed one, it is judged again."""
        if not self.rules:
            return pool.draw(rows).rows
        parts: list[pa.Table] = []
        for _ in range(ATTEMPTS):
            missing = rows - sum(part.num_rows for part in parts)
            if missing == 0:
                break
            kept = pa.concat_tables(self._ruled(lambda count: pool.draw(count).rows, max(missing, LEAST), rng))
            parts.append(kept.filter(pa.array(condition.holds(kept))).slice(0, missing))
        found = pa.concat_tables(parts)
        if not found.num_rows:
            raise InvalidInput(
                f"nothing fits: rows that satisfy {condition.sql} do not keep the table's rules; relax the condition."
            )
        return found.take(pa.array(np.resize(np.arange(found.num_rows), rows)))

    def _shared(self, rows: int, asked: Asked, rng: np.random.Generator, report: Report) -> Drawn:
        assert asked.share is not None
        where = None if asked.where is None else written(asked.where, self.codec)
        share = {n: {respelled(v, n, self.codec): p for v, p in parts.items()} for n, parts in _mapping(asked.share)}
        plan = rebalancing.planned(share, rows, lambda: self.pilot(rng, where), self._holds)
        parts, effective, done = [], 0, 0
        for group, count in plan:
            wanted = group if where is None else f"({where}) AND {group}"
            drawn = self._conditional(count, wanted, rng, lambda found, done=done: report(done + found, rows))
            parts.append(pa.Table.from_batches(drawn, self.schema))
            effective, done = effective + (drawn.effective or 0), done + count
        whole = pa.concat_tables(parts).take(pa.array(rng.permutation(rows)))
        return Drawn(rows, self.codec.renumber([whole]), effective)

    def pilot(self, rng: np.random.Generator, where: str | None = None) -> pa.Table:
        """Return rows as the model has them, or has those that satisfy a condition, to learn from; free as all draws are."""
        if where is None:
            return self._table(BATCH, rng)
        return pa.Table.from_batches(self._conditional(BATCH, where, rng), self.schema)

    def _holds(self, sql: str, table: pa.Table) -> np.ndarray:
        return Condition(sql, self.codec).holds(table)


def _mapping(share: Share) -> Iterable[tuple[str, Mapping[Any, float]]]:
    rebalancing.groups(share)  # refuses what is none
    return share.items()


def few(rows: int, effective: int | None) -> str:
    """Say that drawn rows are worth much less than as many drawn one by one; nothing if they are not."""
    if effective is None or effective >= SMALL * rows:
        return ""
    return (
        f"{rows:,} rows are worth {effective:,} drawn one by one, since few draws satisfy what is asked; rows are repeated. "
        f"Ask for fewer, or relax the condition."
    )


def sealed(release: str, rows: Path) -> str:
    """Return what the ledger's key seals of drawn rows: which release they were drawn from, and the file's own digest.

    Whoever cannot read the key cannot make any other file, such as the snapshot of the real rows, pass for them.
    """
    return f"drawn under {release}: {sha256(rows)}"


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file that may leave; never call it on real rows, whose plain hash confirms a guess."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        raise InvalidInput(f"{path} cannot be read; name the published Parquet file.") from None


def _with_progress(batches: Iterator[pa.RecordBatch], total: int, report: Report) -> Iterator[pa.RecordBatch]:
    row_count = 0
    for batch in batches:
        yield batch
        row_count += batch.num_rows
        report(row_count, total)
