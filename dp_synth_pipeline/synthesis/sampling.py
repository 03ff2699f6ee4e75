"""Draws as many rows as asked from released weights, under the declared rules. As post-processing, this is free."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from dp_synth_pipeline.errors import InvalidInput, ReleaseStateError
from dp_synth_pipeline.synthesis.release import Release, Stage
from dp_synth_pipeline.synthesis.run_state import load_schema
from dp_synth_pipeline.tabular import constraints
from dp_synth_pipeline.tabular.constraints import Rule
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.targets import sink

FILE = "synthetic.parquet"
"""In a table's releasable folder."""


class Sampling(Stage):
    """Draws the synthetic table from what a release learnt."""

    name, makes = "synthetic", "synthetic"

    def run(self, release: Release) -> dict[str, Any]:
        """Return the number of rows drawn and where they lie."""
        drawer = Drawer(
            release.state.path("generator"),
            release.state.path("profile"),
            release.settings.validation.parsed_rules if release.settings.validation.enforce_rules else [],
        )
        row_count = release.settings.rows or release.state.facts.rows
        if row_count is None:
            raise ReleaseStateError("this release has no generator yet; run the stage that makes it first.")
        path = release.folder / FILE
        batches = _with_progress(drawer.draw(row_count), row_count, release.reporter("generation"))
        rows = sink.write_parquet(batches, drawer.schema, path)
        seal = release.protection.fingerprint(sealed(release.id, path))
        release.state = release.state.with_(synthetic=path, synthetic_rows=rows, asked_rows=row_count, seal=seal)
        return {"rows": rows, "path": path}


class Drawer:
    """Draws rows from a generator that was released, in the source's types and formats.

    Args:
        generator: the folder of its weights.
        profile: the profile that it was learnt under.
        rules: what holds across columns in every row that is drawn.
    """

    def __init__(self, generator: Path, profile: Path, rules: list[Rule]) -> None:
        from dp_synth_pipeline.model import artifact

        self._generator, facts = artifact.load(generator)
        self._profile = TableProfile.from_json(profile.read_text(encoding="utf-8"))
        self._codec = TableCodec(load_schema(facts["schema"]), self._profile)
        self._declared = rules
        constraints.check(rules, self._codec.schema)

    @property
    def schema(self) -> pa.Schema:
        """The synthetic table's columns."""
        return self._codec.schema.arrow_schema()

    def draw(self, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield as many rows, in batches; only drawn rows are looked at to keep the rules.

        Raises:
            InvalidInput: if the rules leave too few rows.
        """
        if rows < 1:
            raise InvalidInput(f"rows: expected at least 1, got {rows}.")
        if not self._declared:
            return self._decoded(rows)
        codec = self._codec
        batches = constraints.enforced(
            lambda count: pa.Table.from_batches(self._decoded(count), self.schema),
            rows,
            self._declared,
            limits=constraints.limits(codec.schema, self._profile),
            digits=constraints.digits(codec.schema, self._profile),
        )
        return codec.renumber(batches)

    def _decoded(self, rows: int) -> Iterator[pa.RecordBatch]:
        return self._codec.decode_stream(self._generator.draw(rows, forbidden=self._codec.forbidden))


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


def _with_progress(
    batches: Iterator[pa.RecordBatch], total: int, report: Callable[[int, int], None]
) -> Iterator[pa.RecordBatch]:
    row_count = 0
    report(0, total)
    for batch in batches:
        yield batch
        row_count += batch.num_rows
        report(row_count, total)
