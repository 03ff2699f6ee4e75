"""The state from which a killed training resumes: noisy weights and moments as safetensors, never a row, never pickle.

Every tensor in it is a function of noisy gradients that the ledger charged before they were taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

from dp_synth_pipeline.errors import TrainingError
from dp_synth_pipeline.model.dpsgd.optimization import Average, Flat

FILE = "training.safetensors"

NOISE = 2
"""Which noise the kept steps had: 2 is exact on a lattice. Version 1, which wrote no number, had that of 32-bit floats."""


WEIGHTS = 2
"""What the kept weights are: 2 are those that are learnt, of which logits are mixed. Version 1 wrote no number and mixed
none."""


@dataclass(frozen=True)
class State:
    """What a checkpoint knows besides weights.

    Attributes:
        redrawn: whether `start: mean_var` has begun again already.
        audit: what the audit saw so far, by `Canaries.state`.
    """

    redrawn: bool = False
    audit: dict[str, torch.Tensor] = field(default_factory=dict)


def save(
    folder: Path,
    weights: Flat,
    optimizer: torch.optim.Optimizer,
    average: Average,
    *,
    redrawn: bool = False,
    audit: Mapping[str, torch.Tensor] | None = None,
) -> None:
    """Replace the checkpoint in `folder` atomically."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    tensors = {"weights": weights.vector, "average": average.weights[0], "taken": torch.tensor(average.taken)}
    tensors |= {"redrawn": torch.tensor(redrawn), "noise": torch.tensor(NOISE)}
    tensors["version"] = torch.tensor(WEIGHTS)
    tensors |= {f"frozen.{place}": value for place, value in enumerate(weights.frozen)}
    tensors |= {f"audit.{name}": value for name, value in (audit or {}).items()}
    moments = optimizer.state.get(weights.vector, {})
    tensors |= {f"moment.{name}": value for name, value in moments.items() if isinstance(value, torch.Tensor)}
    partial = folder / f".{FILE}"
    save_file({k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()}, partial)
    partial.replace(folder / FILE)


def exists(folder: Path) -> bool:
    """Whether a training can resume from this folder."""
    return (folder / FILE).is_file()


@torch.no_grad()
def load(folder: Path, weights: Flat, optimizer: torch.optim.Optimizer, average: Average) -> State:
    """Put the checkpoint's weights and moments in place; a folder without one changes nothing.

    Raises:
        TrainingError: if the checkpoint is of another network, or a version with other noise wrote it.
    """
    from safetensors.torch import load_file

    if not exists(folder):
        return State()
    tensors = load_file(folder / FILE)
    if int(tensors.get("noise", torch.tensor(1))) != NOISE:
        raise TrainingError(
            "an earlier version began this training, and its noise does not keep the promise that was charged for. It "
            "cannot be resumed; start a new release (a new charge)."
        )
    kept, here = tensors.get("weights"), weights.vector
    version = int(tensors.get("version", torch.tensor(1)))
    if kept is None or kept.shape != here.shape or version != WEIGHTS:
        raise TrainingError(
            "the checkpoint does not fit this training: another version or other settings wrote it. Run that version again, "
            "or start a new release (a new charge)."
        )
    average.taken = int(tensors["taken"])
    here.copy_(kept)
    average.weights[0].copy_(tensors["average"])
    for place, value in enumerate(weights.frozen):  # a start that was taught is another one in each attempt
        value.copy_(tensors[f"frozen.{place}"])
    moments = {k.removeprefix("moment."): v for k, v in tensors.items() if k.startswith("moment.")}
    if moments:  # Adam counts its steps on the CPU
        optimizer.state[here] = {k: v if v.dim() == 0 else v.to(here.device) for k, v in moments.items()}
    audit = {k.removeprefix("audit."): v for k, v in tensors.items() if k.startswith("audit.")}
    return State(bool(tensors["redrawn"]), audit)
