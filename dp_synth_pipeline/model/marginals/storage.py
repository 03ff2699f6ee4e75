"""Noisy marginals, and what several releases know of them, on disk as safetensors: they are released, like a profile."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.marginals.measuring import Layout, Marginals
from dp_synth_pipeline.model.marginals.remembering import Memory, Rows


def save(path: Path, measured: Marginals) -> Path:
    """Write noisy marginals as one safetensors file; they are released, like a profile."""
    from safetensors.numpy import save_file

    facts = {**_layout_facts(measured.layout), "scale": repr(measured.scale), "rows": str(measured.rows)}
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({"counts": measured.counts}, path, metadata=facts)
    return path


def load(path: Path) -> Marginals:
    """Read back what `save` wrote."""
    from safetensors import safe_open

    try:
        with safe_open(path, "np") as file:
            facts, counts = file.metadata(), file.get_tensor("counts")
    except FileNotFoundError:
        raise InvalidInput("the marginals' file is gone; materialize `marginals` again (a new charge).") from None
    return Marginals(_layout(facts), counts, float(facts["scale"]), int(facts["rows"]))


def save_memory(path: Path, memory: Memory) -> Path:
    """Write what releases know of the marginals as one safetensors file."""
    from safetensors.numpy import save_file

    facts = {**_layout_facts(memory.layout), "rows": asdict(memory.rows)}
    numbers = {"shares": memory.shares, "variance": memory.variance, "common": memory.common}
    save_file(numbers, path, metadata={"memory": json.dumps(facts)})  # one entry: several come in no fixed order
    return path


def load_memory(path: Path) -> Memory:
    """Read back what `save_memory` wrote.

    Raises:
        InvalidInput: if there is no such file, or it is none of this version's.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np") as file:
            facts = json.loads(file.metadata()["memory"])
            shares, variance, common = (file.get_tensor(name) for name in ("shares", "variance", "common"))
        return Memory(_layout(facts), shares, variance, common, Rows(**facts["rows"]))
    except (OSError, SafetensorError, ValueError, KeyError, TypeError):
        raise InvalidInput("there is no memory of earlier releases that can be read.") from None


def _layout_facts(layout: Layout) -> dict[str, str]:
    return {"cardinalities": json.dumps(layout.cardinalities), "cliques": json.dumps(layout.cliques)}


def _layout(facts: Mapping[str, str]) -> Layout:
    cliques = tuple(tuple(c) for c in json.loads(facts["cliques"]))
    return Layout(tuple(json.loads(facts["cardinalities"])), cliques)
