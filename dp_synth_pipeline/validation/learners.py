"""What models make of the two tables: can one learn from the synthetic rows, and can one tell them from real ones?

Gradient boosting by scikit-learn. Restricted: models are trained and tested on real rows, and thrown away.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.tabular.schema import Column, TableSchema
from dp_synth_pipeline.validation.binning import axis, text

MOST_CLASSES = 10
"""A target's classes beyond so many of the commonest are predicted as one."""

MOST_VALUES = 200
"""A category's values beyond so many of the commonest look the same to a model."""

TESTED = 0.3
"""Part of the real rows that models are tested on, drawn at random; they learn from the rest."""

FEWEST_ROWS = 100
"""Tables of fewer rows teach a model nothing worth saying."""

MOST_LESSONS = 8_000
"""Rows of one table that a model learns from at most."""

MOST_SHUFFLED = 3_000
"""Rows in which a column is shuffled to see what a model makes of it."""

BOOSTING = {"max_iter": 50, "learning_rate": 0.15, "max_leaf_nodes": 16, "early_stopping": False}


@dataclass(frozen=True)
class Features:
    """Both tables as numbers: NaN is null, categories are codes that mean the same in both.

    Attributes:
        names: of the columns.
        categorical: which of them hold codes, bool (columns,).
        real, synthetic: float64 (rows, columns).
    """

    names: list[str]
    categorical: np.ndarray
    real: np.ndarray
    synthetic: np.ndarray

    def without(self, name: str) -> Features:
        """Return the features but one."""
        keep = [i for i, n in enumerate(self.names) if n != name]
        return Features(
            [self.names[i] for i in keep], self.categorical[keep], self.real[:, keep], self.synthetic[:, keep]
        )


@dataclass(frozen=True)
class Prediction:
    """A column predicted on real rows that no model saw: by one taught by real rows, and by one taught by synthetic ones.

    Attributes:
        target: the column.
        score: what the two figures are: "AUC" (0.5 is guessing, 1 perfect) or "R²" (0 is guessing the mean).
        real, synthetic: the score after learning from real, and from as many synthetic rows; None where it is not
            defined, as when the synthetic rows hold one class alone.
        error: what the rows' errors are, in words.
        tested: numbers of the real rows predicted, int64.
        errors_real, errors_synthetic: each tested row's error under either model.
    """

    target: str
    score: str
    real: float | None
    synthetic: float | None
    error: str
    tested: np.ndarray
    errors_real: np.ndarray
    errors_synthetic: np.ndarray


def features(real: pd.DataFrame, synthetic: pd.DataFrame, schema: TableSchema) -> Features:
    """Return the learned columns of both tables as numbers."""
    columns = schema.learned
    pairs = [_numbers(c, pd.Series(real[c.name]), pd.Series(synthetic[c.name])) for c in columns]
    left, right = (np.column_stack(side) for side in zip(*pairs, strict=True))
    return Features([c.name for c in columns], np.array([not c.kind.numeric for c in columns]), left, right)


def predict(
    real: pd.DataFrame, synthetic: pd.DataFrame, schema: TableSchema, target: str, rng: np.random.Generator
) -> Prediction | None:
    """Return how well `target` is predicted on real rows by models of real and of synthetic rows (TRTR, TSTR).

    None for tables of under 100 rows or one column, and for a target of one value.

    Args:
        rng: splits the real rows; protects nothing.

    Raises:
        InvalidInput: if the target is no learned column.
    """
    if target not in [c.name for c in schema.learned]:
        raise InvalidInput(f"validation: predict: {target!r} is no column that is learned; name one that is.")
    known = [_known(t, target) for t in (real, synthetic)]
    if min(map(len, known)) < FEWEST_ROWS or len(schema.learned) < 2:
        return None
    column, where = schema[target], np.flatnonzero(pd.Series(real[target]).notna().to_numpy())
    what = features(known[0], known[1], schema).without(target)
    y_real, y_synthetic = _numbers(column, pd.Series(known[0][target]), pd.Series(known[1][target]), MOST_CLASSES)
    if len(np.unique(y_real)) < 2:
        return None
    measured = column.kind.numeric and len(np.unique(y_real)) > 2
    if column.kind.numeric and not measured:
        y_real, y_synthetic = _nearest(y_real, y_real), _nearest(y_synthetic, y_real)
    order = rng.permutation(len(y_real))
    tested, taught = np.split(order, [int(TESTED * len(order))])
    taught = taught[:MOST_LESSONS]
    some = rng.permutation(len(y_synthetic))[: len(taught)]
    lessons = [(what.real[taught], y_real[taught]), (what.synthetic[some], y_synthetic[some])]
    judge = _judge_numbers if measured else _judge_classes
    with _one_thread():
        (by_real, of_real), (by_synthetic, of_synthetic) = (
            judge(*lesson, what.real[tested], y_real[tested], what.categorical) for lesson in lessons
        )
    score, error = ("R²", "mean error; 1 is guessing the median") if measured else ("AUC", "rows predicted wrong")
    return Prediction(target, score, by_real, by_synthetic, error, where[tested], of_real, of_synthetic)


def _nearest(y: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Return for each number which of two values it lies nearest to, 0 or 1; a model takes numbers for no classes."""
    low, high = np.unique(two)
    return (y > low / 2 + high / 2).astype(np.int64)


@dataclass(frozen=True)
class ToldApart:
    """How well a model tells synthetic rows from real ones that it did not see.

    Attributes:
        auc: 0.5 is guessing, 1 is always right.
        spread: standard deviation of `auc` under guessing.
        giveaways: columns and what the AUC loses when their values are shuffled, the most telling first; three at most.
    """

    auc: float
    spread: float
    giveaways: list[tuple[str, float]]


def tell_apart(both: Features, rng: np.random.Generator, among: Collection[str] | None = None) -> ToldApart | None:
    """Return how well a model tells the tables apart, from as many rows of each; None for too few rows.

    Args:
        rng: draws and splits the rows; protects nothing.
        among: the columns that are shuffled to find the giveaways; all without.
    """
    rows = min(len(both.real), len(both.synthetic), int(MOST_LESSONS / (1 - TESTED)))
    if rows < FEWEST_ROWS:
        return None
    x = np.concatenate([t[rng.permutation(len(t))[:rows]] for t in (both.real, both.synthetic)])
    y = np.repeat([0.0, 1.0], rows)
    aside = _copies_together(x, rng)
    if any(len(np.unique(y[part])) < 2 for part in (aside, ~aside)):  # so few distinct rows that one part got them all
        return None
    tested, taught = rng.permutation(np.flatnonzero(aside)), np.flatnonzero(~aside)
    answers, model = y[tested] == 1, _boosting(classes=True, categorical=both.categorical)
    with _one_thread():
        model.fit(_filled(x[taught]), y[taught])
        reached = auc(model.predict_proba(x[tested])[:, 1], answers)
        places = {i: n for i, n in enumerate(both.names) if among is None or n in among}
        telling = _shuffled(model, x[tested[:MOST_SHUFFLED]], answers[:MOST_SHUFFLED], places, rng)
    return ToldApart(reached, _spread(answers), telling[:3])


def _filled(x: np.ndarray) -> np.ndarray:
    """Return lessons in which a column of nulls alone, of which no model makes anything, is a column of zeros."""
    return np.where(np.isnan(x).all(0), 0.0, x)


def _copies_together(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return which rows to test on, so that equal rows are all tested or all taught.

    A model that was taught a row as real would take its synthetic copy for real too, and fall below guessing.
    """
    _, row = np.unique(np.nan_to_num(x, nan=np.finfo(np.float64).min), axis=0, return_inverse=True)
    row = row.ravel()
    return rng.random(int(row.max()) + 1)[row] < TESTED


def _shuffled(model, x: np.ndarray, answers: np.ndarray, names: dict[int, str], rng: np.random.Generator):
    """Return the columns whose shuffling costs the model something, and what, the most first."""
    whole, lost = auc(model.predict_proba(x)[:, 1], answers), []
    for i, name in names.items():
        kept, x[:, i] = x[:, i].copy(), rng.permutation(x[:, i])
        lost.append((name, whole - auc(model.predict_proba(x)[:, 1], answers)))
        x[:, i] = kept
    return sorted([found for found in lost if found[1] > 0], key=lambda found: -found[1])


def auc(scores: np.ndarray, positive: np.ndarray) -> float:
    """Return the chance that a positive row has a higher score than another; ties count half; 0.5 without either kind."""
    from scipy.stats import rankdata

    hits, misses = int(positive.sum()), int((~positive).sum())
    if not hits or not misses:
        return 0.5
    return float((rankdata(scores)[positive].sum() - hits * (hits + 1) / 2) / (hits * misses))


def _spread(positive: np.ndarray) -> float:
    hits, misses = max(int(positive.sum()), 1), max(int((~positive).sum()), 1)
    return float(np.sqrt((hits + misses + 1) / (12 * hits * misses)))


def _known(table: pd.DataFrame, column: str) -> pd.DataFrame:
    return table.iloc[np.flatnonzero(pd.Series(table[column]).notna().to_numpy())].reset_index(drop=True)


def _judge_classes(
    x: np.ndarray, y: np.ndarray, tested: np.ndarray, answers: np.ndarray, categorical: np.ndarray
) -> tuple[float | None, np.ndarray]:
    """Return the mean AUC of each class against the rest, and whether each row was predicted wrong."""
    taught = np.unique(y)
    if len(taught) < 2:
        return None, (answers != taught[0]).astype(np.float64)
    model = _boosting(classes=True, categorical=categorical).fit(_filled(x), y)
    chances = model.predict_proba(tested)
    known = {c: chances[:, i] for i, c in enumerate(model.classes_)}
    none = np.zeros(len(tested))
    score = float(np.mean([auc(known.get(c, none), answers == c) for c in np.unique(answers)]))
    return score, (model.classes_[chances.argmax(1)] != answers).astype(np.float64)


def _judge_numbers(
    x: np.ndarray, y: np.ndarray, tested: np.ndarray, answers: np.ndarray, categorical: np.ndarray
) -> tuple[float | None, np.ndarray]:
    """Return R², and each row's absolute error as a multiple of what guessing the median errs on average."""
    said = _boosting(classes=False, categorical=categorical).fit(_filled(x), y).predict(tested)
    spread, guess = ((answers - answers.mean()) ** 2).sum(), np.abs(answers - np.median(answers)).mean()
    score = float(1 - ((said - answers) ** 2).sum() / spread) if spread > 0 else None
    return score, np.abs(said - answers) / (guess if guess > 0 else 1.0)


def _one_thread():
    """Return a context in which a model takes one thread: waiting for one another costs small models more."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1)


def _boosting(*, classes: bool, categorical: np.ndarray) -> Any:
    from sklearn import ensemble

    kind: Any = ensemble.HistGradientBoostingClassifier if classes else ensemble.HistGradientBoostingRegressor
    return kind(categorical_features=categorical if categorical.any() else None, **BOOSTING)


def _numbers(
    column: Column, real: pd.Series, synthetic: pd.Series, most: int = MOST_VALUES
) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers, or codes of the values that are common in either table; NaN for null."""
    if column.kind.numeric:
        return axis(real, column.kind), axis(synthetic, column.kind)
    sides = [text(values, column.kind) for values in (real, synthetic)]
    common = sides[0].value_counts(normalize=True).add(sides[1].value_counts(normalize=True), fill_value=0)
    named = pd.Series(common).sort_values(ascending=False, kind="stable").head(most).index

    def code(values: pd.Series) -> np.ndarray:
        found = named.get_indexer(pd.Index(values)).astype(np.float64)
        return np.where(values.isna(), np.nan, np.where(found < 0, len(named), found))

    return code(sides[0]), code(sides[1])
