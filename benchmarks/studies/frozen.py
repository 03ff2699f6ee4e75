"""Does it help under noise to freeze what a public half has taught, and to train the heads alone? (Papernot et al. 2020)

A donor learns without noise from rows that are taken for public. The network starts as the donor, and learns from other
rows with privacy: all of it, or the last layer of each column alone (`train_only: heads`), of which a random start is the
control. Public rows are of the same kind, or of persons who have fewer diseases than those to be protected.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from benchmarks.scoring import markdown
from benchmarks.studies import grid, pages
from benchmarks.studies.network_alone import TABLES, Coded, coded, fitted, held_out_loss, learn, planned, spec
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec

EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.51, 8.0)

RANDOM, ALIKE, HEALTHIER = "at random", "public rows alike", "public rows of the healthier half"
STARTS = (RANDOM, ALIKE, HEALTHIER)
TRAINED = ("all", "heads")

ROWS, HELD_OUT, EPOCHS = 8_000, 2_000, 10
REPEATS = 5

COLORS = dict(zip(STARTS, ("#7f7f7f", "#1f77b4", "#d62728"), strict=True))


def halves(start: str) -> tuple[Coded, np.ndarray, Coded]:
    """Return rows to learn from, rows held out of the same kind, and public rows of the kind that `start` names."""
    whole, half = coded("rand"), ROWS + HELD_OUT
    order = np.random.default_rng().permutation(len(whole.codes))
    if start == HEALTHIER:
        diseases = TABLES["rand"]()["disea"].to_numpy()
        order = order[np.argsort(-diseases[order], kind="stable")]  # shuffled before: ties fall by chance
    own = np.random.default_rng().permutation(order[:half])
    learnt, held_out, public = (whole.codes[some] for some in (own[:ROWS], own[ROWS:], order[-half:]))
    return Coded(learnt, whole.cardinalities), held_out, Coded(public, whole.cardinalities)


def measure(cell: grid.Cell) -> dict[str, float]:
    """Train a network that starts in the cell's way, or judge the donor as it is where epsilon is 0."""
    learnt, held_out, public = halves(cell["start"])
    how = spec(max_epochs=EPOCHS, hidden=16)
    donor = fitted(public, how, planned(len(public.codes), how))
    if cell["epsilon"] == 0:
        return {"loss": held_out_loss(donor, held_out)}

    def begun(cardinalities: Sequence[int], how: GeneratorSpec) -> AutoregressiveNetwork:
        network = AutoregressiveNetwork(cardinalities, how)
        if cell["start"] != RANDOM:
            network.load_state_dict(donor.state_dict())
        return network

    only = None if cell["trained"] == "all" else cell["trained"]
    found = learn(learnt, held_out, how.with_(train_only=only), epsilon=cell["epsilon"], shape=begun)
    return {"loss": min(found.loss, found.nothing)}


def run(path: Path) -> None:
    """Train what is missing."""
    cells = [*grid.product(epsilon=EPSILONS, start=STARTS, trained=TRAINED)]
    donors = grid.product(epsilon=(0.0,), start=(ALIKE, HEALTHIER), trained=("nothing",))
    grid.run(path, [*donors, *cells], measure, REPEATS)


def tables(lines: pd.DataFrame) -> dict[str, str]:
    """Return the mean loss by epsilon of each start and of what is trained, with twice its standard error."""
    by = lines.groupby(["start", "trained", "epsilon"])["loss"].agg(["mean", "sem"])
    told = by["mean"].map("{:.2f}".format) + " ± " + (2 * by["sem"].fillna(0)).map("{:.2f}".format)
    shown = [
        {"start": start, "trained": trained, **{f"ε = {e:g}": told.get((start, trained, e), "-") for e in EPSILONS}}
        for start in STARTS
        for trained in TRAINED
    ]
    for start in STARTS[1:]:
        alone = dict.fromkeys(list(shown[0])[2:], told[start, "nothing", 0])
        shown.append({"start": start, "trained": "nothing", **alone})
    return {"frozen": markdown(shown, dict.fromkeys(shown[0], ""))}


def charts(lines: pd.DataFrame) -> dict[str, go.Figure]:
    """Draw the loss against epsilon, and what a donor from rows alike reaches by itself."""
    figure = go.Figure()
    means = lines.groupby(["start", "trained", "epsilon"], as_index=False)["loss"].mean()
    for start in STARTS:
        for trained in TRAINED:
            some = means[(means["start"] == start) & (means["trained"] == trained)].sort_values("epsilon")
            line = {"color": COLORS[start], "dash": "solid" if trained == "all" else "dash"}
            how = {"name": f"{start}, {trained}", "mode": "lines+markers", "line": line}
            figure.add_scatter(x=list(some["epsilon"]), y=list(some["loss"]), **how)
    for donor in means[(means["epsilon"] == 0) & (means["start"] == ALIKE)]["loss"]:  # the other one is far off
        figure.add_hline(y=donor, line=pages.GREY)
    figure.update_xaxes(type="log", title="ε", tickvals=list(EPSILONS), range=[math.log10(0.09), 1])
    figure.update_yaxes(title="held-out loss, nats a row")
    return {"frozen": figure}
