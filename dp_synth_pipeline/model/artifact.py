"""A released generator on disk: weights, spec and event as safetensors and JSON; never pickle, never a data row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.autoregressive.generation import Generator
from dp_synth_pipeline.model.autoregressive.network import AutoregressiveNetwork
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec
from dp_synth_pipeline.model.marginals.measuring import Layout, Marginals
from dp_synth_pipeline.model.marginals.raking import Tilt

FORMAT = 3


def save(folder: Path, generator: Generator, spec: GeneratorSpec, facts: dict[str, Any]) -> Path:
    """Write `generator.safetensors` and `generator.json` into `folder`; every number in them is released."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    tensors = {k: v.contiguous() for k, v in generator.proposal.state_dict().items()}
    cliques: list[list[int]] = []
    if generator.tilt is not None:
        tensors["tilt"] = torch.from_numpy(generator.tilt.values)
        cliques = [list(c) for c in generator.tilt.layout.cliques]
    save_file(tensors, folder / "generator.safetensors")
    described = {
        "format": FORMAT,
        "spec": spec.to_dict(),
        "cardinalities": list(generator.cardinalities),
        "raked_to": cliques,
        "facts": facts,
    }
    (folder / "generator.json").write_text(json.dumps(described, indent=1), encoding="utf-8")
    return folder


def load(folder: Path) -> tuple[Generator, dict[str, Any]]:
    """Read back the generator and the facts that `save` wrote."""
    from safetensors.torch import load_file

    try:
        described = json.loads((folder / "generator.json").read_text(encoding="utf-8"))
        tensors = load_file(folder / "generator.safetensors")
    except FileNotFoundError:
        raise InvalidInput("the generator's files are gone; materialize `generator` again (a new charge).") from None
    if described["format"] != FORMAT or described.get("draws") == "mixture":
        raise InvalidInput("this generator was written by another version; train it again (a new charge).")
    cardinalities = tuple(described["cardinalities"])
    tilt = tensors.pop("tilt", None)
    proposal = AutoregressiveNetwork(cardinalities, GeneratorSpec(**described["spec"]))
    proposal.load_state_dict(tensors)
    cliques = tuple(tuple(c) for c in described["raked_to"])
    raked = None if tilt is None else Tilt(Layout(cardinalities, cliques), tilt.numpy())
    return Generator(proposal.eval(), raked), described["facts"]


def save_marginals(path: Path, measured: Marginals) -> Path:
    """Write noisy marginals as one safetensors file; they are released, like a profile."""
    from safetensors.torch import save_file

    facts = {
        "cardinalities": json.dumps(measured.layout.cardinalities),
        "cliques": json.dumps(measured.layout.cliques),
        "scale": repr(measured.scale),
        "rows": str(measured.rows),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({"counts": torch.from_numpy(measured.counts)}, path, metadata=facts)
    return path


def load_marginals(path: Path) -> Marginals:
    """Read back what `save_marginals` wrote."""
    from safetensors import safe_open

    try:
        with safe_open(path, "pt") as file:
            facts, counts = file.metadata(), file.get_tensor("counts").numpy()
    except FileNotFoundError:
        raise InvalidInput("the marginals' file is gone; materialize `marginals` again (a new charge).") from None
    cliques = tuple(tuple(c) for c in json.loads(facts["cliques"]))
    layout = Layout(tuple(json.loads(facts["cardinalities"])), cliques)
    return Marginals(layout, counts, float(facts["scale"]), int(facts["rows"]))
