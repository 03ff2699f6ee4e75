"""Noisy marginals on disk, as safetensors: they are released, like a profile."""

from __future__ import annotations

import json
from pathlib import Path

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.marginals.measuring import Layout, Marginals


def save(path: Path, measured: Marginals) -> Path:
    """Write noisy marginals as one safetensors file; they are released, like a profile."""
    from safetensors.numpy import save_file

    facts = {
        "cardinalities": json.dumps(measured.layout.cardinalities),
        "cliques": json.dumps(measured.layout.cliques),
        "scale": repr(measured.scale),
        "rows": str(measured.rows),
    }
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
    cliques = tuple(tuple(c) for c in json.loads(facts["cliques"]))
    layout = Layout(tuple(json.loads(facts["cardinalities"])), cliques)
    return Marginals(layout, counts, float(facts["scale"]), int(facts["rows"]))
