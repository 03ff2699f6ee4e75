"""Is a donor's mean and variance a good start, and what of that are shares alone? (Papernot et al. 2020, section 4)

The donor is a network that learnt without noise from other rows, which are taken for public. The paper draws weights anew
with each layer's mean and variance. Whether biases alone do as well is the control that it lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go

from benchmarks.scoring import markdown
from benchmarks.studies import grid
from benchmarks.studies.network_alone import Coded, fitted, learn, planned, spec, split
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.dpsgd.trainable import redraw

EPSILONS = (0.5, 2.51)

ROWS, HELD_OUT, EPOCHS = 8_192, 3_000, 10
REPEATS = 8

Begin = Callable[[AutoregressiveNetwork, AutoregressiveNetwork], None]


def _nothing(network: AutoregressiveNetwork, donor: AutoregressiveNetwork) -> None:
    """Leave the network as it is."""


def _biases(network: AutoregressiveNetwork, donor: AutoregressiveNetwork) -> None:
    own = network.state_dict()
    network.load_state_dict({k: v if k.endswith("bias") else own[k] for k, v in donor.state_dict().items()})


def _weights(network: AutoregressiveNetwork, donor: AutoregressiveNetwork) -> None:
    network.load_state_dict(donor.state_dict())


def _moments(network: AutoregressiveNetwork, donor: AutoregressiveNetwork) -> None:
    _weights(network, donor)
    redraw(network)


STARTS: dict[str, Begin] = {
    "at random": _nothing,
    "at random, with the donor's biases": _biases,
    "the donor's mean and variance, and its biases": _moments,
    "the donor's weights": _weights,
}


def measure(cell: grid.Cell) -> dict[str, float]:
    """Train a network that starts in the cell's way."""
    whole, held_out = split("rand", 2 * ROWS, HELD_OUT)
    learnt, public = (Coded(codes, whole.cardinalities) for codes in (whole.codes[:ROWS], whole.codes[ROWS:]))
    how = spec(max_epochs=EPOCHS, hidden=16)
    donor = fitted(public, how, planned(len(public.codes), how))

    def begun(cardinalities: Sequence[int], how: GeneratorSpec) -> AutoregressiveNetwork:
        network = AutoregressiveNetwork(cardinalities, how)
        STARTS[cell["start"]](network, donor)
        return network

    found = learn(learnt, held_out, how, epsilon=cell["epsilon"], shape=begun)
    return {"loss": min(found.loss, found.nothing)}


def run(path: Path) -> None:
    """Train what is missing."""
    grid.run(path, grid.product(epsilon=EPSILONS, start=tuple(STARTS)), measure, REPEATS)


def tables(lines: pd.DataFrame) -> dict[str, str]:
    """Return the mean loss of each start with twice its standard error."""
    by = lines.groupby(["start", "epsilon"])["loss"].agg(["mean", "sem"])
    told = (by["mean"].map("{:.3f}".format) + " ± " + (2 * by["sem"].fillna(0)).map("{:.3f}".format)).unstack("epsilon")
    shown = [{"start": s, **{f"ε = {e:g}": told.loc[s, e] for e in told.columns}} for s in STARTS if s in told.index]
    return {"starts": markdown(shown, dict.fromkeys(shown[0], ""))}


def charts(lines: pd.DataFrame) -> dict[str, go.Figure]:
    """Draw nothing: four means are a table."""
    return {}
