"""A released generator on disk: weights, spec and event as safetensors and JSON; never pickle, never a data row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.network import AutoregressiveNetwork
from dp_synth_pipeline.model.spec import GeneratorSpec

FORMAT = 1


def save(folder: Path, network: AutoregressiveNetwork, spec: GeneratorSpec, facts: dict[str, Any]) -> Path:
    """Write `generator.safetensors` and `generator.json` into `folder`; every number in them is released."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    save_file({k: v.contiguous() for k, v in network.state_dict().items()}, folder / "generator.safetensors")
    described = {"format": FORMAT, "spec": spec.to_dict(), "cardinalities": list(network.cardinalities), "facts": facts}
    (folder / "generator.json").write_text(json.dumps(described, indent=1), encoding="utf-8")
    return folder


def load(folder: Path) -> tuple[AutoregressiveNetwork, dict[str, Any]]:
    """Read back the network and the facts that `save` wrote."""
    from safetensors.torch import load_file

    try:
        described = json.loads((folder / "generator.json").read_text(encoding="utf-8"))
        weights = load_file(folder / "generator.safetensors")
    except FileNotFoundError:
        raise InvalidInput("the generator's files are gone; materialize `generator` again (a new charge).") from None
    if described["format"] != FORMAT:
        raise InvalidInput("this generator was written by another version; train it again (a new charge).")
    network = AutoregressiveNetwork(described["cardinalities"], GeneratorSpec(**described["spec"]))
    network.load_state_dict(weights)
    return network.eval(), described["facts"]
