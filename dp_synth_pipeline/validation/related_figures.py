"""All figures of the fidelity report of related tables: each table's own, their histories, and what holds across them.

Restricted: every one is computed from real rows without noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from dp_synth_pipeline.relations.structure import Relations
from dp_synth_pipeline.tabular.constraints import qualified
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.validation import texts
from dp_synth_pipeline.validation.across_tables import Link, Together, counted_together, links
from dp_synth_pipeline.validation.fidelity import (
    CHANCE_FACTOR,
    ColumnFidelity,
    PairFidelity,
    above_chance,
    word_of,
)
from dp_synth_pipeline.validation.figures import Figures, measure
from dp_synth_pipeline.validation.history_figures import Compared, History, history
from dp_synth_pipeline.validation.related_frames import RelatedFrame
from dp_synth_pipeline.validation.suggested_across import suggested_across
from dp_synth_pipeline.validation.suggested_formulas import SuggestedFormula


@dataclass(frozen=True)
class RelatedFigures:
    """What the report of related tables shows.

    Attributes:
        rows: real and synthetic rows of each table that were compared.
        tables: the figures of each table by itself; of none that has no learned column, or no row.
        histories: of each table below the root whose parent has rows.
        links: of each table with those above it.
        together: numbers of rows of a person, of two tables jointly.
        rules: across tables and within each, that every real row keeps, and synthetic ones do not.
    """

    rows: dict[str, tuple[int, int]]
    tables: dict[str, Figures]
    histories: list[History]
    links: list[Link]
    together: list[Together]
    rules: list[SuggestedFormula] = field(default_factory=list)

    @property
    def singles(self) -> Iterator[tuple[str, ColumnFidelity]]:
        """Every distribution of one thing, and the table that it is of: columns, numbers of rows, gaps."""
        for name, found in self.tables.items():
            yield from ((name, column) for column in found.fidelity.columns)
        for one in self.histories:
            yield one.table, one.rows.fidelity
            if one.gap is not None:
                yield one.table, one.gap.fidelity

    @property
    def pairs(self) -> Iterator[tuple[str, PairFidelity]]:
        """Every joint distribution of two columns of a table, of a column before and after, and across tables."""
        for name, found in self.tables.items():
            yield from ((name, pair) for pair in found.fidelity.pairs)
        for one in self.histories:
            yield from ((f"{one.table}, before and after", step.pair) for step in one.steps)
        for link in self.links:
            yield from ((f"{link.parent} and {link.child}", pair) for pair in link.pairs)
        for both in self.together:
            yield "rows of a person", both.pair

    @property
    def means(self) -> Iterator[tuple[float, float]]:
        """Mean distance and chance of all pairs of each table, of each history, and of each two tables."""
        yield from ((f.fidelity.distance2, f.fidelity.baseline2) for f in self.tables.values())
        yield from (one.all for one in self.histories)
        yield from (link.mean for link in self.links)

    @property
    def gaps(self) -> tuple[float, float, float]:
        """How far the worst mean of pairs, the worst single and the worst pair lie above what chance explains."""
        return (
            max((distance - CHANCE_FACTOR * chance for distance, chance in self.means), default=0.0),
            max((above_chance(single) for _, single in self.singles), default=0.0),
            max((above_chance(pair) for _, pair in self.pairs), default=0.0),
        )

    @property
    def verdict(self) -> str:
        """excellent, good, fair or poor, by the same limits as a single table's."""
        return word_of(self.gaps)


def _compared(source: TableSchema, real: RelatedFrame, synthetic: RelatedFrame, again: np.ndarray) -> Compared:
    """Return both frames with the lengths of texts in their place."""
    here, there = (replace(frame, rows=texts.by_length(frame.rows, source)) for frame in (real, synthetic))
    return Compared(texts.lengths_of(source), here, there, again)


def measure_related(
    relations: Relations,
    sources: Mapping[str, TableSchema],
    real: Mapping[str, RelatedFrame],
    synthetic: Mapping[str, RelatedFrame],
    public: Mapping[str, pa.Table] = MappingProxyType({}),
) -> RelatedFigures:
    """Return all figures of synthetic related tables against the real ones; the same tables give the same figures.

    Args:
        sources: the columns of each table's source.
        public: the rows of public tables.
    """
    rng = np.random.Generator(np.random.PCG64(23))  # for the same figures each time; not a noise that protects
    root = relations.root.name
    persons, drawn = len(real[root].person), len(synthetic[root].person)
    again = np.bincount(rng.integers(0, persons, drawn), minlength=persons)
    compared = {t.name: _compared(sources[t.name], real[t.name], synthetic[t.name], again) for t in relations}
    alive = [name for name, c in compared.items() if len(c.real.person) and len(c.synthetic.person)]
    whole = [name for name in alive if sources[name].learned]
    tables = {n: measure(real[n].rows, synthetic[n].rows, sources[n], part=1 / len(whole)) for n in whole}
    within = [replace(f, text=qualified(f.text, name)) for name, own in tables.items() for f in own.formulas]
    return RelatedFigures(
        rows={name: (len(c.real.person), len(c.synthetic.person)) for name, c in compared.items()},
        tables=tables,
        histories=[history(t, compared[t.parent], compared[t.name], rng) for t in relations if t.parent in alive],
        links=links(relations, compared, rng),
        together=counted_together(relations, compared),
        rules=[*within, *suggested_across(relations, sources, (real, synthetic), public, rng)],
    )
