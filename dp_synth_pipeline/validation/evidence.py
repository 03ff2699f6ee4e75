"""Distances and attacks on one synthetic table, from files of rows: those learnt from, a holdout, and the synthetic ones.

Restricted: every figure is an exact function of real rows. None may be published, logged or put in metadata; not even
whether one warns, which is one more fact about real rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dp_synth_pipeline.tabular.encoding.axis import AxisCodec
from dp_synth_pipeline.tabular.encoding.codec import BATCH, TableCodec
from dp_synth_pipeline.tabular.sources.ingestion import UNIT
from dp_synth_pipeline.validation.attacks import Attack, attribute, membership
from dp_synth_pipeline.validation.closeness import Closeness, closeness

MOST = 4000
"""Rows of each table that are compared; more are sampled. An AUC is then known to about 0.02."""

FEWEST = 100
"""Rows, or units, of each table below which nothing is said: any interval would hold every answer."""

HOW = (
    "Not asked for. Keep some units of the same population out of the source, and name the file that holds them: "
    "validation: {holdout: FILE}; it is read for this page alone."
)
"""What the page says without a holdout."""

SAME = "Nothing can be said: the holdout holds the very rows that were learnt from. Name rows that never were."

TOO_FEW = (
    f"Nothing can be said: it takes {FEWEST} units that were learnt from, of the holdout, and of the synthetic table."
)


@dataclass(frozen=True)
class Evidence:
    """What distances and attacks found, or why there is nothing to find.

    Attributes:
        missing: the sentence that says why there is nothing; empty if there is.
        closeness: distances to the closest record.
        attacks: membership, then one attribute inference for each sensitive column.
        unit: what one row that was compared stands for.
    """

    missing: str = ""
    closeness: Closeness | None = None
    attacks: tuple[Attack, ...] = ()
    unit: str = "row"

    @property
    def warned(self) -> list[str]:
        """Return what did better than chance beyond doubt, by name."""
        near = ["distance to the closest record"] if self.closeness is not None and self.closeness.warns else []
        return near + [a.name for a in self.attacks if a.warns]


def gather(
    training: Path,
    holdout: Path,
    synthetic: Path,
    codec: TableCodec,
    *,
    sensitive: Sequence[str] = (),
    unit: str = "row",
    most: int = MOST,
) -> Evidence:
    """Return what distances and attacks find in three Parquet files; each call draws its own sample.

    Where a unit has several rows, one of them is drawn: rows of one unit go together, and would feign certainty.

    Args:
        training, holdout: completed snapshots; the holdout's units were drawn like those learnt from, and never learnt.
        synthetic: the synthetic table.
        codec: of the generator that drew it; it codes all three.
        sensitive: learned columns whose values the attacker guesses.
        unit: the privacy unit, in words.
        most: rows of each that are compared.
    """
    learnt, others, drawn = (codes(path, codec, most) for path in (training, holdout, synthetic))
    if min(map(len, (learnt, others, drawn))) < FEWEST:
        return Evidence(TOO_FEW, unit=unit)
    ordered = np.array([c.kind.ordered for c in codec.modelled])
    hidden = {i: n for n in sensitive if (i := codec.number(n)) is not None} if len(codec.columns) > 1 else {}
    attacks = [membership(learnt, others, drawn, ordered, most=most)]
    attacks += [attribute(learnt, others, drawn, ordered, i, name=n, most=most) for i, n in hidden.items()]
    near = closeness(learnt, others, drawn, ordered, most=most)
    return Evidence(closeness=near, attacks=tuple(attacks), unit=unit)


def codes(path: Path, codec: TableCodec, most: int) -> np.ndarray:
    """Return codes int64 (rows, columns) of at most `most` rows, one a unit, in which near codes are near values."""
    file = pq.ParquetFile(path)
    chosen = _chosen(file, most)
    found, start = [np.empty((0, len(codec.columns)), np.int64)], 0
    for batch in file.iter_batches(BATCH, columns=[c.name for c in codec.schema.learned]):
        here = chosen[(chosen >= start) & (chosen < start + batch.num_rows)] - start
        found.append(codec.encode(batch.take(pa.array(here))))
        start += batch.num_rows
    told = np.concatenate(found)
    for i, column in enumerate(codec.columns):
        if isinstance(column, AxisCodec):
            told[:, i] = _places(column)[told[:, i]]
    return told


def _chosen(file: pq.ParquetFile, most: int) -> np.ndarray:
    """Return the ascending numbers of the rows to take: at most `most`, drawn at random, and one of each unit."""
    order = np.random.default_rng().permutation(file.metadata.num_rows)
    if UNIT in file.schema_arrow.names:
        units = np.asarray(pc.cast(file.read(columns=[UNIT]).column(0), pa.int64()))
        _, first = np.unique(units[order], return_index=True)
        order = order[np.sort(first)]
    return np.sort(order[:most])


def _places(column: AxisCodec) -> np.ndarray:
    """Return the place of each code on the number line, int64 (cardinality,): heavy values stand before all groups.

    Null comes after the highest: it must stand somewhere, and stands there in every table alike.
    """
    values = np.concatenate([column.heavy, column.low[column.starts]])
    places = np.empty(column.cardinality, np.int64)
    places[: len(values)] = np.argsort(np.argsort(values, kind="stable"))
    places[len(values) :] = np.arange(len(values), column.cardinality)
    return places
