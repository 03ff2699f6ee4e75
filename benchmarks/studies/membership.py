"""What do attacks on the trained network find, beside what its epsilon allows? Membership by shadow models, and attributes.

The attack is LiRA's (Carlini et al. 2022, "Membership Inference Attacks From First Principles"): whoever attacks knows the
table, trains networks of their own on halves of it, and asks of each row whether the loss of the attacked network is
that of networks which learnt from the row, or of those which did not. With few networks, one deviation of losses is shared.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import torch
from scipy.stats import mannwhitneyu

from benchmarks.scoring import markdown
from benchmarks.studies import grid
from benchmarks.studies.network_alone import Coded, fitted, planned, spec, split
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.privacy.tradeoff import TradeOff

ROWS = 2_000
"""Of which each network learns from about a half, drawn anew."""

NETWORKS, GUESSED = 16, 400
"""Networks that learn, and rows of which a column's value is guessed."""

EPSILONS = (0.5, 1.0, 2.51, 8.0, 30.0)
EPOCHS, MANY = 10, 100
"""Of all networks, and of one more line without privacy, where networks learn rows by heart."""

FALSE_ALARMS = 0.01
REPEATS = 1


class Attacked(NamedTuple):
    """Networks and what they learnt from.

    Attributes:
        losses: of each row under each network, float (networks, rows).
        member: whether the network learnt from the row, bool (networks, rows).
        guessed: the share of the columns of which the likeliest value, given the rest of the row, is the right one, float
            (networks, guessed rows).
    """

    losses: np.ndarray
    member: np.ndarray
    guessed: np.ndarray


def measure(cell: grid.Cell) -> dict[str, float]:
    """Train the networks, attack each with all others, and compare with what epsilon allows."""
    found = _networks(cell["epsilon"], cell["epochs"])
    scores, member = scored(found.losses, found.member), found.member
    allowed = allows(cell["epsilon"], cell["epochs"])
    return {
        "auc": area(scores, member),
        "found": at_false_alarms(scores, member),
        "allowed": allowed.true_positive(FALSE_ALARMS) if allowed else 1.0,
        "guess_in": float(found.guessed[member[:, :GUESSED]].mean()),
        "guess_out": float(found.guessed[~member[:, :GUESSED]].mean()),
        "loss": float(found.losses[~member].mean()),
    }


def _networks(epsilon: float, epochs: int) -> Attacked:
    rows, _ = split("rand", ROWS, 0)
    rng, how = np.random.default_rng(), spec(max_epochs=epochs)
    plan = planned(ROWS // 2, how, epsilon=epsilon if math.isfinite(epsilon) else None)
    member = rng.random((NETWORKS, ROWS)) < 0.5  # each row by itself, so that one row is all that two worlds differ by
    networks = [fitted(Coded(rows.codes[own], rows.cardinalities), how, plan) for own in member]
    losses = np.stack([_losses(network, rows.codes) for network in networks])
    guessed = np.stack([_guessed(n, Coded(rows.codes[:GUESSED], rows.cardinalities)) for n in networks])
    return Attacked(losses, member, guessed)


@torch.no_grad()
def _losses(network: AutoregressiveNetwork, codes: np.ndarray) -> np.ndarray:
    return network.losses(torch.from_numpy(codes)).double().numpy()


def _guessed(network: AutoregressiveNetwork, rows: Coded) -> np.ndarray:
    """Return for each row the share of its columns that the likeliest row, all other columns given, has right."""
    right = np.zeros(len(rows.codes))
    for column, cardinality in enumerate(rows.cardinalities):
        tried = np.repeat(rows.codes[None], cardinality, axis=0)
        tried[:, :, column] = np.arange(cardinality)[:, None]
        losses = _losses(network, tried.reshape(-1, rows.codes.shape[1])).reshape(cardinality, -1)
        right += losses.argmin(0) == rows.codes[:, column]
    return right / len(rows.cardinalities)


def scored(losses: np.ndarray, member: np.ndarray) -> np.ndarray:
    """Return how much likelier each row was learnt from than not, as all networks but the attacked one tell.

    Args:
        losses, member: (networks, rows), as in `Attacked`.
    """
    scores = np.empty_like(losses)
    for attacked in range(len(losses)):
        others = np.arange(len(losses)) != attacked
        inside = np.ma.array(losses[others], mask=~member[others])
        outside = np.ma.array(losses[others], mask=member[others])
        deviation = np.sqrt((inside.var(0).mean() + outside.var(0).mean()) / 2)
        ours = losses[attacked]
        scores[attacked] = ((ours - outside.mean(0)) ** 2 - (ours - inside.mean(0)) ** 2) / (2 * deviation**2)
    return scores


def area(scores: np.ndarray, member: np.ndarray) -> float:
    """Return the chance that a row which was learnt from has a higher score than one which was not."""
    return float(mannwhitneyu(scores[member], scores[~member]).statistic / (member.sum() * (~member).sum()))


def at_false_alarms(scores: np.ndarray, member: np.ndarray) -> float:
    """Return the share of members that is found where `FALSE_ALARMS` of the others are accused."""
    return float((scores[member] > np.quantile(scores[~member], 1 - FALSE_ALARMS)).mean())


@cache
def allows(epsilon: float, epochs: int) -> TradeOff | None:
    """Return the trade-off of one such training, under which every attack lies; None without privacy."""
    if not math.isfinite(epsilon):
        return None
    return TradeOff.of(planned(ROWS // 2, spec(max_epochs=epochs), epsilon=epsilon).event, epsilon + 1)


def run(path: Path) -> None:
    """Train what is missing."""
    private = grid.product(epsilon=(*EPSILONS, math.inf), epochs=(EPOCHS,))
    by_heart = grid.product(epsilon=(math.inf,), epochs=(MANY,))
    grid.run(path, [*private, *by_heart], measure, REPEATS)


def tables(lines: pd.DataFrame) -> dict[str, str]:
    """Return what attacks found by epsilon, and what it allows."""
    form = {"AUC": ".3f", "members found": ".1%", "allowed": ".1%", "guessed of members": ".1%", "of others": ".1%"}
    shown = [
        {
            "ε": f"{line.epsilon:g}" if math.isfinite(line.epsilon) else f"none, {line.epochs} epochs",
            **dict(zip(form, (line.auc, line.found, line.allowed, line.guess_in, line.guess_out), strict=True)),
        }
        for line in lines.groupby(["epsilon", "epochs"], as_index=False).median().itertuples()
    ]
    return {"membership": markdown(shown, {"ε": "", **form})}


def charts(lines: pd.DataFrame) -> dict[str, go.Figure]:
    """Draw the members that attacks find, and may find, against epsilon."""
    private = lines[np.isfinite(lines["epsilon"])].groupby("epsilon", as_index=False).median()
    figure = go.Figure()
    for column, name in (("allowed", "allowed"), ("found", "found")):
        figure.add_scatter(x=list(private["epsilon"]), y=list(private[column]), name=name, mode="lines+markers")
    figure.update_xaxes(type="log", title="ε", tickvals=list(EPSILONS))
    figure.update_yaxes(type="log", title="members found", tickvals=[0.01, 0.03, 0.1, 0.3, 1], tickformat=".0%")
    return {"membership": figure}
