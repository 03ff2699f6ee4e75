"""What does a whole release lose by privacy, as others measure it, and how many epochs without it are as good?

Accuracy and the discriminator are mostlyai-qa's, which runs in an environment of its own. So the study makes and scores
releases only where the variable `QA_PYTHON` names the interpreter of one (`pip install torch mostlyai-qa==1.10.11`).
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from benchmarks.agreement import theirs
from benchmarks.scoring import markdown
from benchmarks.studies import grid, pages
from benchmarks.studies.network_alone import TABLES
from benchmarks.studies.whole_release import released

PYTHON = os.environ.get("QA_PYTHON")
"""Interpreter of an environment that has mostlyai-qa."""

EPSILONS = (0.1, 0.5, 1.0, 2.51, 10.0, 30.0)
PLAIN_EPOCHS = (1, 2, 4, 8, 30)
EPOCHS = 30

ROWS, HELD_OUT, REPEATS = 16_384, 3_000, 3

TARGET = "mdvis"
"""Visits to a doctor: a classifier guesses from the other columns whether there was any."""

FIGURES = {"accuracy": "accuracy", "discriminator": "discriminator's AUC", "lost": "AUC of real rows less TSTR"}


def measure(cell: grid.Cell) -> dict[str, float]:
    """Release rows of RAND at the cell's epsilon, or without privacy where it is infinite, and score the table."""
    shuffled = TABLES["rand"]().to_pandas().sample(frac=1.0, ignore_index=True)
    train, held_out = shuffled[HELD_OUT : HELD_OUT + ROWS], shuffled[:HELD_OUT]
    begun = time.process_time()
    drawn = released(train, cell["epsilon"], {"max_epochs": cell["epochs"]})
    seconds = time.process_time() - begun
    own = {"tstr": _area(drawn, held_out), "trtr": _area(train, held_out), "seconds": seconds}
    return _by_others(train, held_out, drawn) | own


def _by_others(train: pd.DataFrame, held_out: pd.DataFrame, drawn: pd.DataFrame) -> dict[str, float]:
    assert PYTHON is not None
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{name}.csv" for name in ("train", "held_out", "drawn")]
        for path, rows in zip(paths, (train, held_out, drawn), strict=True):
            rows.to_csv(path, index=False)
        found = theirs(PYTHON, *paths)
    return {
        "accuracy": found["accuracy"]["overall"],
        "best": found["accuracy"]["overall_max"],
        "discriminator": found["similarity"]["discriminator_auc_training_synthetic"],
    }


def _area(rows: pd.DataFrame, held_out: pd.DataFrame) -> float:
    """Return the AUC with which a classifier that learnt from some rows tells of others whether there was a visit."""
    classifier = HistGradientBoostingClassifier().fit(rows.drop(columns=TARGET), rows[TARGET] > 0)
    guessed = classifier.predict_proba(held_out.drop(columns=TARGET))[:, 1]
    return float(roc_auc_score(held_out[TARGET] > 0, guessed))


def run(path: Path) -> None:
    """Release and score what is missing, or say that nothing can be scored here."""
    if PYTHON is None:
        print("released: nothing is scored, for QA_PYTHON names no interpreter of an environment with mostlyai-qa.")
        return
    private = grid.product(epsilon=EPSILONS, epochs=(EPOCHS,))
    plain = grid.product(epsilon=(math.inf,), epochs=PLAIN_EPOCHS)
    grid.run(path, [*private, *plain], measure, REPEATS)


def medians(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the median of each cell; what TSTR loses is told of each release beside its own real rows."""
    figures = lines.assign(lost=lines["trtr"] - lines["tstr"])
    return figures.groupby(["epsilon", "epochs"], as_index=False)[[*FIGURES, "tstr", "seconds"]].median()


def tables(lines: pd.DataFrame) -> dict[str, str]:
    """Return all medians, and what real rows reach."""
    shown: list[dict[str, Any]] = [
        line | {"ε": "none" if math.isinf(line["epsilon"]) else f"{line['epsilon']:g}"}
        for line in medians(lines).to_dict("records")
    ]
    real = lines[["best", "trtr"]].median()
    shown.append({"ε": "real rows", "accuracy": real["best"], "tstr": real["trtr"]})
    named = [line | {title: line.get(name) for name, title in NAMES.items()} for line in shown]
    form = {"ε": "", "epochs": "g", **dict.fromkeys(NAMES.values(), ".3f"), "seconds": ".0f"}
    return {"released": markdown(named, form)}


NAMES = {"accuracy": "accuracy", "discriminator": "discriminator", "tstr": "TSTR", "lost": "real rows less TSTR"}


MOST = {"name": f"without DP, {PLAIN_EPOCHS[-1]} epochs", "line": {"color": "black", "width": 1}}
FEWER = {"name": f"without DP, {PLAIN_EPOCHS[0]} to {PLAIN_EPOCHS[-2]} epochs", "line": pages.GREY}
"""How a release without privacy is drawn."""


def charts(lines: pd.DataFrame) -> dict[str, go.Figure]:
    """Draw each figure against epsilon, with a grey line for each number of epochs without privacy."""
    found = medians(lines)
    private = found[found["epsilon"].map(math.isfinite)].sort_values("epsilon")
    plain = found[found["epsilon"].map(math.isinf)].sort_values("epochs")
    figure = make_subplots(1, len(FIGURES), subplot_titles=list(FIGURES.values()))
    for column, name in enumerate(FIGURES, 1):
        figure.add_scatter(
            x=list(private["epsilon"]),
            y=list(private[name]),
            name=f"DP, {EPOCHS} epochs",
            mode="lines+markers",
            line={"color": "#1f77b4"},
            showlegend=column == 1,
            row=1,
            col=column,
        )
        for line in plain.to_dict("records"):
            figure.add_scatter(
                x=[min(EPSILONS), max(EPSILONS)],
                y=[line[name]] * 2,
                mode="lines",
                **(MOST if line["epochs"] == max(PLAIN_EPOCHS) else FEWER),
                showlegend=column == 1 and line["epochs"] in (min(PLAIN_EPOCHS), max(PLAIN_EPOCHS)),
                row=1,
                col=column,
            )
    figure.update_xaxes(type="log", title="ε at δ = 1e-5")
    return {"released": figure}
