"""A few rows of both tables as text, to be read beside each other.

Restricted: the real ones are real people's rows. They may stand on the restricted report, and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from dp_synth_pipeline.tabular.schema import TableSchema

ROWS = 10
MOST_COLUMNS = 60
LONGEST, LONGEST_TEXT = 40, 300
"""Characters of a value, and of one of a text column; what is longer ends in an ellipsis."""


@dataclass(frozen=True)
class SampleRows:
    """Ten rows of each table, drawn at random.

    Attributes:
        names: of the columns shown, the first ones of a wide table.
        left_out: how many columns are not shown.
        real, synthetic: the values of each row as text; None where one is missing. `real` is empty if none may be shown.
    """

    names: list[str]
    left_out: int
    real: list[list[str | None]]
    synthetic: list[list[str | None]]

    def without_real(self) -> SampleRows:
        """Return the synthetic rows alone."""
        return replace(self, real=[])


def sample_rows(
    real: pd.DataFrame, synthetic: pd.DataFrame, schema: TableSchema, rng: np.random.Generator
) -> SampleRows:
    """Return some rows of the learned columns of each table.

    Args:
        rng: draws them; protects nothing.
    """
    names = [c.name for c in schema.learned]
    shown = names[:MOST_COLUMNS]
    most = [LONGEST_TEXT if schema[name].kind.composed else LONGEST for name in shown]
    rows = (_rows(pd.DataFrame(table[shown]), most, rng) for table in (real, synthetic))
    return SampleRows(shown, len(names) - len(shown), *rows)


def _rows(table: pd.DataFrame, most: list[int], rng: np.random.Generator) -> list[list[str | None]]:
    drawn = table.iloc[rng.choice(len(table), min(ROWS, len(table)), replace=False)]
    columns = [drawn[name].astype(object) for name in drawn.columns]
    return [[_text(c.iloc[i], longest) for c, longest in zip(columns, most, strict=True)] for i in range(len(drawn))]


def _text(value: object, most: int) -> str | None:
    if pd.isna(value):  # type: ignore[arg-type]
        return None
    text = f"{value:.6g}" if isinstance(value, float) and value != round(value) else str(value)
    text = text.removesuffix(" 00:00:00").removesuffix(".0")
    return text if len(text) <= most else f"{text[: most - 1]}…"
