"""All figures of the fidelity report, from one reading of the two tables.

Restricted: every one is computed from real rows without noise. None may be published or put in metadata that people without
access to the source can read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dp_synth_pipeline.errors import InvalidInput, nearest
from dp_synth_pipeline.tabular.schema import TableSchema
from dp_synth_pipeline.validation import fidelity, learners, patterns, texts
from dp_synth_pipeline.validation.accuracy import Accuracy, accuracy
from dp_synth_pipeline.validation.groups import Groups, by_group
from dp_synth_pipeline.validation.pair_shares import MOST_PAIRS, PairShares, pair_shares
from dp_synth_pipeline.validation.panels import Panel, panel
from dp_synth_pipeline.validation.relations import Relations, relations
from dp_synth_pipeline.validation.sample_rows import SampleRows, sample_rows
from dp_synth_pipeline.validation.suggested_formulas import SuggestedFormula, suggested_formulas
from dp_synth_pipeline.validation.suggested_rules import SuggestedRule, suggested_rules

MOST_ROWS = 20_000
"""Rows of each table that models, relations, rare values, null patterns, rules and groups see; more are sampled."""

MOST_PANELS = 100
"""Columns that are drawn one by one, the worst first: a page of more would be too large to open."""

SHARED_PANELS, SHARED_COLUMNS, SHARED_PAIRS = 60, 32, 8
"""Of all tables that share a page: columns drawn one by one, columns of one square of all pairs, and worst pairs."""


@dataclass(frozen=True)
class Figures:
    """What the report shows; whatever could not be computed is None.

    Attributes:
        samples: a few rows of each table.
        fidelity: distances of columns and pairs, which rank them.
        panels: the bars of each column, the worst first.
        pairs: the cells of the worst pairs.
        accuracy: of one, two and three columns.
        relations: of all pairs of the columns that `Fidelity.telling` names.
        prediction: of the declared column, by models of real and of synthetic rows.
        told_apart: whether a model tells synthetic from real rows.
        rare, nulls: rare values, and patterns of nulls.
        groups: of the declared sensitive columns.
        rules: columns that hang on each other in every real row, and not in synthetic ones.
        formulas: numbers that others give in every real row, and not in synthetic ones.
        sampled: whether `MOST_ROWS` was reached.
    """

    samples: SampleRows
    fidelity: fidelity.Fidelity
    panels: list[Panel]
    pairs: list[PairShares]
    accuracy: Accuracy
    relations: Relations
    prediction: learners.Prediction | None
    told_apart: learners.ToldApart | None
    rare: list[patterns.RareValues]
    nulls: patterns.NullPatterns | None
    groups: Groups | None
    rules: list[SuggestedRule]
    formulas: list[SuggestedFormula]
    sampled: bool


def check_declared(names: Sequence[str], predict: str | None, sensitive: Sequence[str]) -> None:
    """Refuse a declared column that the table does not have or does not learn, before anything is spent on it.

    Args:
        names: the columns that are learned, and texts.

    Raises:
        InvalidInput: naming the first such column.
    """
    for where, wanted in [("predict", predict), *(("sensitive", s) for s in sensitive)]:
        if wanted is not None and wanted not in names:
            raise InvalidInput(
                f"validation: {where}: {wanted!r} is no column that is learned and no text; name one of: {', '.join(names)}."
                f"{nearest(wanted, names)}"
            )


def measure(
    real: pd.DataFrame,
    synthetic: pd.DataFrame,
    schema: TableSchema,
    *,
    predict: str | None = None,
    sensitive: Sequence[str] = (),
    part: float = 1.0,
) -> Figures:
    """Return all figures of a synthetic table against the real one; the same two tables give the same figures.

    Args:
        predict: the column that models are to predict.
        sensitive: the columns whose groups are compared.
        part: the part of a page that the table may take: with less, fewer columns are drawn.

    Raises:
        InvalidInput: if a column is missing from a table or is not learned, or a table has no rows.
    """
    check_declared([c.name for c in schema.compared], predict, sensitive)
    rng = np.random.Generator(np.random.PCG64(21))  # for the same figures each time; not a noise that protects
    drawn: dict[str, Any] = {"samples": sample_rows(real, synthetic, schema, rng)}
    (real, synthetic), schema = (texts.by_length(t, schema) for t in (real, synthetic)), texts.lengths_of(schema)
    found, sampled = fidelity.compare(real, synthetic, schema), max(len(real), len(synthetic)) > MOST_ROWS
    real, synthetic = (_sample(t, rng, fidelity.MOST_ROWS) for t in (real, synthetic))
    reached, drawn = accuracy(real, synthetic, schema, rng), drawn | _drawn(real, synthetic, schema, found, part)
    real, synthetic = (_sample(t, rng, MOST_ROWS) for t in (real, synthetic))
    telling = found.telling([*sensitive, *([] if predict is None else [predict])], _room(part)[2])
    models = _models(real, synthetic, schema, predict, telling, rng)
    return Figures(
        **{"fidelity": found, "accuracy": reached, **drawn, **models},
        relations=relations(real, synthetic, schema, telling),
        rare=patterns.rare_values(real, synthetic, schema),
        nulls=patterns.null_patterns(real, synthetic, schema),
        groups=by_group(real, synthetic, schema, list(sensitive), models["prediction"]),
        rules=suggested_rules(real, synthetic, schema, rng),
        formulas=suggested_formulas(real, synthetic, schema, rng),
        sampled=sampled,
    )


def _room(part: float) -> tuple[int, int, int]:
    """Return how many columns of a table are drawn one by one, how many pairs, and how many columns stand in squares."""
    if part == 1:
        return MOST_PANELS, MOST_PAIRS, fidelity.MOST_COLUMNS
    pairs = min(MOST_PAIRS, max(1, round(SHARED_PAIRS * part)))
    return max(1, round(SHARED_PANELS * part)), pairs, math.isqrt(round(SHARED_COLUMNS**2 * part))


def _drawn(
    real: pd.DataFrame,
    synthetic: pd.DataFrame,
    schema: TableSchema,
    found: fidelity.Fidelity,
    part: float,
) -> dict[str, Any]:
    """Return what is drawn of the worst columns and pairs."""
    most_panels, most_pairs, _ = _room(part)
    drawn = [
        panel(schema[c.name], pd.Series(real[c.name]), pd.Series(synthetic[c.name]), c.distance)
        for c in found.ranked[:most_panels]
    ]
    pairs = pair_shares(real, synthetic, schema, found.varied_pairs(most_pairs))
    return {"panels": drawn, "pairs": pairs}


def _models(
    real: pd.DataFrame,
    synthetic: pd.DataFrame,
    schema: TableSchema,
    predict: str | None,
    telling: Sequence[str],
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Return how well models predict a column, and tell synthetic rows from real ones."""
    predicted = None if predict is None else learners.predict(real, synthetic, schema, predict, rng)
    told_apart = learners.tell_apart(learners.features(real, synthetic, schema), rng, telling)
    return {"prediction": predicted, "told_apart": told_apart}


def _sample(table: pd.DataFrame, rng: np.random.Generator, most: int) -> pd.DataFrame:
    if len(table) > most:
        table = table.iloc[np.sort(rng.choice(len(table), most, replace=False))]
    return table.reset_index(drop=True)
