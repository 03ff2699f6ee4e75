"""The state from which a killed training resumes: noisy weights and moments as safetensors, never a row, never pickle.

Every tensor in it is a function of noisy gradients that the ledger charged before they were taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

from dp_synth_pipeline.model.network import AutoregressiveNetwork
from dp_synth_pipeline.model.optimization import Average

FILE = "training.safetensors"


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
    network: AutoregressiveNetwork,
    optimizer: torch.optim.Optimizer,
    average: Average,
    *,
    redrawn: bool = False,
    audit: Mapping[str, torch.Tensor] | None = None,
) -> None:
    """Replace the checkpoint in `folder` atomically."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    tensors = {f"weight.{i}": p for i, p in enumerate(network.parameters())}
    tensors |= {f"average.{i}": p for i, p in enumerate(average.weights)}
    tensors["taken"] = torch.tensor(average.taken)
    tensors["redrawn"] = torch.tensor(redrawn)
    tensors |= {f"audit.{name}": value for name, value in (audit or {}).items()}
    for i, parameter in enumerate(network.parameters()):
        for name, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, torch.Tensor):
                tensors[f"moment.{i}.{name}"] = value
    partial = folder / f".{FILE}"
    save_file({k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()}, partial)
    partial.replace(folder / FILE)


def exists(folder: Path) -> bool:
    """Whether a training can resume from this folder."""
    return (folder / FILE).is_file()


@torch.no_grad()
def load(folder: Path, network: AutoregressiveNetwork, optimizer: torch.optim.Optimizer, average: Average) -> State:
    """Put the checkpoint's weights and moments in place; a folder without one changes nothing."""
    from safetensors.torch import load_file

    if not exists(folder):
        return State()
    tensors = load_file(folder / FILE)
    average.taken = int(tensors["taken"])
    for i, parameter in enumerate(network.parameters()):
        parameter.copy_(tensors[f"weight.{i}"])
        average.weights[i].copy_(tensors[f"average.{i}"])
        moments = {k.split(".", 2)[2]: v for k, v in tensors.items() if k.startswith(f"moment.{i}.")}
        if moments:  # Adam counts its steps on the CPU
            optimizer.state[parameter] = {k: v if v.dim() == 0 else v.to(parameter.device) for k, v in moments.items()}
    audit = {k.removeprefix("audit."): v for k, v in tensors.items() if k.startswith("audit.")}
    return State(bool(tensors["redrawn"]), audit)
