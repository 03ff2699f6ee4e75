"""What rows below a row come to, and what a public table says of one, in every real row and not in synthetic ones.

A person may want to declare the rule. Restricted, as what `suggested_formulas` finds: it is told of exact rows. Whoever
declares it says that it is public.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_synth_pipeline.relations.structure import Related, Relations
from dp_synth_pipeline.tabular.constraints.hold import numbers
from dp_synth_pipeline.tabular.constraints.parse import written_name
from dp_synth_pipeline.tabular.kinds.base import NUMBER
from dp_synth_pipeline.tabular.profiling.formulas import MOST_COLUMNS
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.validation.related_frames import RelatedFrame
from dp_synth_pipeline.validation.suggested_formulas import BY_CHANCE, SuggestedFormula, digits_of
from dp_synth_pipeline.validation.suggested_rules import BROKEN, FEWEST

Cells = tuple[np.ndarray, np.ndarray]
"""What a row holds, and what it should hold by a rule; both object or float64 (rows,), and null where that is not known."""


def suggested_across(
    relations: Relations,
    sources: Mapping[str, TableSchema],
    frames: tuple[Mapping[str, RelatedFrame], Mapping[str, RelatedFrame]],
    public: Mapping[str, pa.Table],
    rng: np.random.Generator,
) -> list[SuggestedFormula]:
    """Return rules across tables, those first that most synthetic rows break.

    Args:
        sources: the columns of each table's source.
        frames: the real rows of each table, and the synthetic ones.
        public: the rows of public tables.
        rng: shuffles columns, to tell what chance would give; protects nothing.
    """
    found = []
    for table in relations:
        both = zip(
            *([*_totals(table, sources, of), *_looked_up(table, relations, sources, of, public)] for of in frames),
            strict=True,
        )
        told = (_told(text, real, synthetic, rng) for (text, real), (_, synthetic) in both)
        found += [rule for rule in told if rule is not None]
    return sorted(found, key=lambda rule: -rule.broken)


def _totals(
    table: Related, sources: Mapping[str, TableSchema], frames: Mapping[str, RelatedFrame]
) -> Iterator[tuple[str, Cells]]:
    """Yield what each row of a table's parent may be: how many rows it has here, or what they add up to."""
    whose = frames[table.name].parent
    if table.parent is None or whose is None:
        return
    above, below = (_arrow(frames[name], _numbers(name, sources)) for name in (table.parent, table.name))
    counts = np.bincount(whose, minlength=len(frames[table.parent].person))
    whole = counts < table.max_rows  # of others, some rows may not have taken part
    sums = [(f"count({table.name})", counts)]
    for name in below.column_names:
        added = np.bincount(whose, np.nan_to_num(numbers(below, name)), len(counts))
        sums.append((f"sum({table.name}.{name})", added))
    for target in above.column_names:
        for text, values in sums:
            yield f"{table.parent}.{target} = {text}", (numbers(above, target), np.where(whole, values, np.nan))


def _numbers(table: str, sources: Mapping[str, TableSchema]) -> list[str]:
    """Return the columns of numbers of a table that a rule can add up."""
    names = [c.name for c in sources[table].learned if c.kind.family == NUMBER and c.base is None]
    return [name for name in names if written_name(name) == name][:MOST_COLUMNS]


def _arrow(frame: RelatedFrame, names: list[str]) -> pa.Table:
    return pa.Table.from_pandas(frame.rows[names].reset_index(drop=True), preserve_index=False)


def _looked_up(
    table: Related,
    relations: Relations,
    sources: Mapping[str, TableSchema],
    frames: Mapping[str, RelatedFrame],
    public: Mapping[str, pa.Table],
) -> Iterator[tuple[str, Cells]]:
    """Yield what each row may hold of the public row that it refers to."""
    tables = [name for _, name in table.refers]
    own = [c for c in sources[table.name].learned if written_name(c.name) == c.name][:MOST_COLUMNS]
    rows = _arrow(frames[table.name], [*dict.fromkeys([*(c.name for c in own), *dict(table.refers)])])
    for column, other in table.refers:
        key = str(relations.public_key(other))
        at = pc.index_in(  # type: ignore[attr-defined]
            rows[column].cast(pa.string()), value_set=public[other][key].cast(pa.string())
        )
        for name in public[other].column_names if tables.count(other) == 1 else ():
            said = pa.table({name: public[other][name].take(at)})
            number = pa.types.is_floating(said[name].type) or pa.types.is_integer(said[name].type)
            for c in own if name != key and written_name(name) == name else ():
                if c.name != column and (c.kind.family == NUMBER if number else c.kind.categorical):
                    cells = _plain(rows, c.name, number), _plain(said, name, number)
                    yield f"{table.name}.{c.name} == {other}.{name}", cells


def _plain(table: pa.Table, name: str, number: bool) -> np.ndarray:
    if number:
        return numbers(table, name)
    return np.array([None if cell is None else str(cell) for cell in table[name].to_pylist()], object)


def _told(text: str, real: Cells, synthetic: Cells, rng: np.random.Generator) -> SuggestedFormula | None:
    """Return what is told of a rule, if every real row keeps it, some synthetic ones do not, and chance would not."""
    real, synthetic = _known(real), _known(synthetic)
    if len(real[0]) < FEWEST or not len(synthetic[0]) or _broken(*real) > 0:
        return None
    by_chance, broken = _broken(rng.permutation(real[0]), real[1]), _broken(*synthetic)
    if by_chance < BY_CHANCE or broken < BROKEN:
        return None
    return SuggestedFormula(text, len(real[0]), broken, by_chance)


def _known(cells: Cells) -> Cells:
    held, values = cells
    known = ~(_missing(held) | _missing(values))
    return held[known], values[known]


def _missing(cells: np.ndarray) -> np.ndarray:
    return np.array([cell is None for cell in cells]) if cells.dtype == object else np.isnan(cells)


def _broken(held: np.ndarray, values: np.ndarray) -> float:
    """Return the share of the rows that do not hold what they should."""
    if held.dtype == object:
        return float(np.mean(held != values))
    digits = digits_of(held)
    slack = 1e-9 * np.abs(values) + (0.0 if digits is None else 0.5 * 10.0**-digits)
    return float(np.mean(np.abs(held - values) > slack))
