"""A language model with low-rank adapters (LoRA: Hu et al. 2021) as a network that DP-SGD can train."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.dpsgd.batches import Batch, row_classes
from dp_synth_pipeline.model.dpsgd.trainable import Trainable
from dp_synth_pipeline.model.language.public_model import PublicModel

MISSING = "model: notes need the extra `text`; install it: pip install 'dp-synth-pipeline[text]'."

SCALE = 2.0
"""What an adapter adds is multiplied by this, whatever its rank."""

ON_A_GPU = 256
"""Units whose gradients a GPU derives together, if they fit."""

WIDTH = 16
"""Tokens are padded to once, twice, three, four, six, eight ... times as many."""


def check_installed() -> None:
    """Raise InvalidInput if the extra is not installed."""
    try:
        import peft  # noqa: F401  # pyright: ignore[reportMissingImports]
        import transformers  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InvalidInput(MISSING) from None


def pretrained(public: PublicModel) -> nn.Module:
    """Return the public model, in single precision; no code that lies beside it is run, and no network is asked.

    Raises:
        InvalidInput: if the extra is not installed, or the files are no causal language model.
    """
    check_installed()
    from transformers import AutoModelForCausalLM  # pyright: ignore[reportMissingImports]
    from transformers.utils import logging  # pyright: ignore[reportMissingImports]

    logging.disable_progress_bar()  # the release shows its own
    options: dict[str, Any] = {"gguf_file": public.gguf} if public.gguf else {"use_safetensors": True}
    options |= {"dtype": torch.float32, "attn_implementation": "eager"}  # others may add up in any order on a GPU
    try:
        return AutoModelForCausalLM.from_pretrained(
            public.folder, local_files_only=True, trust_remote_code=False, **options
        )
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise InvalidInput(
            f"model: the files at {public.folder} are not read as a causal language model by transformers "
            f"({type(error).__name__}); bring a model that it supports."
        ) from None


class NoteNetwork(Trainable):
    """Adapters on a public model, which stays as it is and is no part of what is trained, kept or released.

    Codes of a row are (1 + length): how many of its tokens are the prompt, then tokens, `vocabulary` where there is none.
    The loss of a row is the mean over the tokens after its prompt, in nats; 0 if there are none.

    Args:
        language: a causal language model of transformers.
        length: tokens of a row, at most.
        again: makes a network of this shape in another process.
    """

    one_by_one = True

    def __init__(
        self, language: nn.Module, rank: int, length: int, again: Callable[[], Trainable] | None = None
    ) -> None:
        from peft import LoraConfig, get_peft_model  # pyright: ignore[reportMissingImports]

        super().__init__()
        most = getattr(language.config, "max_position_embeddings", None) or length
        if length > most:  # type: ignore[operator]
            raise InvalidInput(
                f"model: prompt and text have up to {length} tokens, and this language model reads {most}; declare a "
                f"smaller max_length, or bring another model."
            )
        self.vocabulary, self._again = int(language.config.vocab_size), again  # type: ignore[union-attr, arg-type]
        self.cardinalities = (length + 1, *(self.vocabulary + 1 for _ in range(length)))
        config = LoraConfig(r=rank, lora_alpha=round(SCALE * rank), target_modules="all-linear", task_type="CAUSAL_LM")
        whole = get_peft_model(language, config).eval()  # type: ignore[arg-type]
        self.whole = (whole,)  # in a tuple: the public weights are not to be found as parameters of this network
        self.names = [name for name, p in whole.named_parameters() if p.requires_grad]
        self.adapters = nn.ParameterList([p for p in whole.parameters() if p.requires_grad])
        self.widths = [min(WIDTH * n, length) for n in row_classes(-(-length // WIDTH))]
        self._seen: list[tuple[nn.Parameter, torch.Tensor, GradientEdge]] = []
        for layer in whole.modules():
            if any(p.requires_grad for p in layer.parameters(recurse=False)):
                layer.register_forward_hook(self._remember)

    @property
    def language(self) -> Any:
        """The public model with its adapters."""
        return self.whole[0]

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> NoteNetwork:
        """Move the public model to where the adapters go."""
        self.language._apply(fn, recurse)
        return super()._apply(fn, recurse)

    @property
    def at_once(self) -> int:
        return ON_A_GPU if self.adapters[0].is_cuda else 1

    def by_shape(self, batch: torch.Tensor, weight: torch.Tensor | None) -> Iterator[Batch]:
        """Yield units with as many tokens as the narrowest of `widths` that holds all of theirs."""
        ends = (batch[..., 1:] < self.vocabulary) * torch.arange(1, batch.shape[-1], device=batch.device)
        narrowest = torch.searchsorted(torch.tensor(self.widths, device=batch.device), ends.flatten(1).amax(1))
        for which in narrowest.unique().tolist() or [0]:
            some = narrowest == which
            yield batch[some][..., : 1 + self.widths[which]], None if weight is None else weight[some]

    def losses(self, codes: torch.Tensor) -> torch.Tensor:
        self._seen.clear()
        rows = codes.flatten(0, -2)
        prompt, tokens = rows[:, :1], rows[:, 1:]
        place = torch.arange(tokens.shape[1], device=codes.device)
        learnt = ((tokens < self.vocabulary) & (place >= prompt))[:, 1:]
        given = torch.where(tokens < self.vocabulary, tokens, 0)
        logits = self.language(input_ids=given[:, :-1], use_cache=False).logits
        nats = nn.functional.cross_entropy(logits.transpose(1, 2), given[:, 1:], reduction="none")
        return ((nats * learnt).sum(1) / learnt.sum(1).clamp(min=1)).view(codes.shape[:-1])

    def _remember(self, layer: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        if torch.is_grad_enabled():
            self._seen.append((layer.weight, inputs[0].detach(), get_gradient_edge(output)))  # type: ignore[arg-type]

    def gradients(self, losses: torch.Tensor) -> torch.Tensor:
        """Return them from what the adapters' linear maps read, and the gradients at their outputs."""
        seen, self._seen = self._seen, []
        each: dict[nn.Parameter, torch.Tensor] = {}
        for (p, a, _), g in zip(seen, torch.autograd.grad(losses.sum(), [edge for *_, edge in seen]), strict=True):
            a, g = (x.reshape(len(losses), -1, x.shape[-1]) for x in (a, g))
            each[p] = each.get(p, 0) + torch.einsum("utr,utd->urd", g, a)
        return torch.cat([each[p].flatten(1) for p in self.adapters], 1)

    def forget_unused(self) -> None:
        """Keep all: every output depends on every adapter."""

    def blueprint(self) -> Callable[[], Trainable]:
        if self._again is None:
            raise InvalidInput("this network was made of a model in memory, so no other process can make it again.")
        return self._again
