"""A released model on disk: its numbers and its description as safetensors and JSON; never pickle, never a data row."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.base import GenerativeModel

FORMAT = 3

AUTOREGRESSIVE = "autoregressive"

MODELS = {
    AUTOREGRESSIVE: "dp_synth_pipeline.model.autoregressive.generator:Generator",
}
"""All models by kind, each with its module and its class; the one place that knows them."""


def model_of(kind: str) -> type[GenerativeModel]:
    """Return the class of models of this kind; its module is imported now.

    Raises:
        InvalidInput: if there is no such kind.
    """
    if kind not in MODELS:
        raise InvalidInput(
            f"this version knows no model of kind {kind!r}, but {', '.join(sorted(MODELS))}; use the version that wrote it, "
            f"or train again (a new charge)."
        )
    module, _, name = MODELS[kind].partition(":")
    return getattr(import_module(module), name)


def save(folder: Path, model: GenerativeModel, facts: dict[str, Any]) -> Path:
    """Write `generator.safetensors` and `generator.json` into `folder`; every number in them is released.

    Raises:
        InvalidInput: if `load` would not know the model's kind.
    """
    from safetensors.numpy import save_file

    model_of(model.kind)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(model.arrays(), folder / "generator.safetensors")
    described = {"format": FORMAT, "kind": model.kind, **model.description(), "facts": facts}
    (folder / "generator.json").write_text(json.dumps(described, indent=1), encoding="utf-8")
    return folder


def load(folder: Path) -> tuple[GenerativeModel, dict[str, Any]]:
    """Read back the model and the facts that `save` wrote; what names no kind is older than kinds, and autoregressive.

    Raises:
        InvalidInput: if the files are gone, or another version wrote them.
    """
    from safetensors.numpy import load_file

    try:
        described = json.loads((folder / "generator.json").read_text(encoding="utf-8"))
        arrays = load_file(folder / "generator.safetensors")
    except FileNotFoundError:
        raise InvalidInput("the generator's files are gone; materialize `generator` again (a new charge).") from None
    if described["format"] != FORMAT or described.get("draws") == "mixture":
        raise InvalidInput("this generator was written by another version; train it again (a new charge).")
    return model_of(described.get("kind", AUTOREGRESSIVE)).restore(described, arrays), described["facts"]
