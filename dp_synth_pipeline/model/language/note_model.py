"""Learns notes from prompts and texts, and writes new ones: what is released of it is adapters and a hash."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
import torch

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.model.devices import fastest
from dp_synth_pipeline.model.dpsgd.training import Trained, train, train_public
from dp_synth_pipeline.model.dpsgd.work import Hooks, Training
from dp_synth_pipeline.model.language.drawing import Draw, Drawn, DrawWanted, Wanted
from dp_synth_pipeline.model.language.note_network import NoteNetwork, check_installed, pretrained
from dp_synth_pipeline.model.language.public_model import PublicModel

T = TypeVar("T")

CHARACTERS_A_TOKEN = 3
"""Of a text, at least on average; what is longer than that many tokens is not learnt to its end, nor written."""

AT_ONCE = {"cpu": 32, "cuda": 1024}
"""Texts that are written together; half as many where a GPU has no room for them, and so on."""


def network_of(public: PublicModel, rank: int, length: int) -> NoteNetwork:
    """Return fresh adapters on a public model, which is loaded now."""
    return NoteNetwork(pretrained(public), rank, length, partial(network_of, public, rank, length))


@dataclass
class NoteModel:
    """A language model that writes the texts of one column after prompts.

    Attributes:
        public: the model that the user brought.
        rank: of the adapters.
        prompt: tokens of a prompt, at most; public. Longer ones are cut at their beginning.
        most: characters of a text, at most.
    """

    public: PublicModel
    rank: int
    prompt: int
    most: int

    @property
    def written(self) -> int:
        """Tokens of a text, at most, its end included."""
        return -(-self.most // CHARACTERS_A_TOKEN) + 1

    def load(self) -> None:
        """Load the public model and its tokenizer now.

        Raises:
            InvalidInput: if the extra is not installed, or the files are none that can write notes.
        """
        _ = self.network, self.tokenizer

    @cached_property
    def network(self) -> NoteNetwork:
        """The network, loaded when it is asked for first."""
        return network_of(self.public, self.rank, self.prompt + self.written)

    @cached_property
    def tokenizer(self) -> Any:
        """What takes texts apart, as it came with the public model: it was never fitted to a row."""
        check_installed()
        from transformers import AutoTokenizer  # pyright: ignore[reportMissingImports]

        options = {"gguf_file": self.public.gguf} if self.public.gguf else {}
        tokenizer = AutoTokenizer.from_pretrained(
            self.public.folder, local_files_only=True, trust_remote_code=False, **options
        )
        tokenizer.model_max_length = sys.maxsize  # else it logs by how much a text is longer
        if tokenizer.eos_token_id is None:
            raise InvalidInput(f"model: the tokenizer at {self.public.folder} has no end of text; bring another model.")
        return tokenizer

    def encode(self, prompts: Sequence[str], texts: Sequence[str | None]) -> np.ndarray:
        """Return the codes of rows for `NoteNetwork`, int32 (rows, 1 + tokens); a row without a text teaches nothing."""
        network = self.network
        codes = np.full((len(texts), len(network.cardinalities)), network.vocabulary, dtype=np.int32)
        codes[:, 0] = len(network.cardinalities) - 1
        for row, (prompt, text) in enumerate(zip(prompts, texts, strict=True)):
            if text is not None:
                before = self._prompt(prompt)
                after = [*self._tokens(text), self.tokenizer.eos_token_id][: self.written]
                codes[row, 0] = len(before)
                codes[row, 1 : 1 + len(before) + len(after)] = [*before, *after]
        return codes

    def fit(self, training: Training, hooks: Hooks) -> Trained[NoteNetwork]:
        """Learn by DP-SGD, exactly as the plan says."""
        return train(self.network, training, hooks)

    def fit_public(self, training: Training, hooks: Hooks) -> None:
        """Learn without noise, from rows that a person declared public."""
        train_public(self.network, training, hooks)

    @property
    def device(self) -> str:
        """The sort of device that texts are written on: `cpu` or `cuda`."""
        return fastest().type

    def write(self, prompts: Sequence[str], rng: np.random.Generator) -> list[str]:
        """Return a text for each prompt, drawn token by token as the model has them; on a GPU, if this process sees one."""
        draw = Draw(self.tokenizer.eos_token_id, rng)

        def some(_: slice, given: list[list[int]], where: torch.device) -> list[str]:
            return self.decode(self._generated(given, draw, where))

        return self._in_parts(prompts, some)

    def draw(self, prompts: Sequence[str], wanted: Wanted, rng: np.random.Generator) -> list[Drawn]:
        """Return tokens for each prompt, and where its text may end sooner than it did."""

        def some(part: slice, given: list[list[int]], where: torch.device) -> list[Drawn]:
            draw = DrawWanted(self.tokenizer.eos_token_id, rng, wanted[part], self.characters, where)
            return draw.drawn(self._generated(given, draw, where, [draw.enough]))

        return self._in_parts(prompts, some)

    @torch.no_grad()
    def _in_parts(
        self, prompts: Sequence[str], some: Callable[[slice, list[list[int]], torch.device], list[T]]
    ) -> list[T]:
        """Return what is drawn after all prompts, as many at once as there is room for."""
        where, found = fastest(), list[T]()
        self.network.to(where)
        at_once = AT_ONCE[where.type]
        while len(found) < len(prompts):
            part = slice(len(found), len(found) + at_once)
            try:
                found += some(part, [self._prompt(p) for p in prompts[part]], where)
            except torch.cuda.OutOfMemoryError:
                if at_once == 1:
                    raise
                at_once //= 2
        return found

    def _generated(
        self, prompts: list[list[int]], draw: Draw, where: torch.device, until: Sequence[Callable[..., Any]] = ()
    ) -> torch.Tensor:
        """Return the tokens after some prompts, int64 (prompts, tokens)."""
        end, longest = self.tokenizer.eos_token_id, max(map(len, prompts))
        given = torch.tensor([[end] * (longest - len(p)) + p for p in prompts], device=where)
        seen = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=where)
        found = self.network.language.generate(
            input_ids=given,
            attention_mask=seen,
            max_new_tokens=self.written,
            do_sample=False,
            logits_processor=[draw],
            stopping_criteria=list(until),
            eos_token_id=end,
            pad_token_id=end,
        )
        return found[:, longest:]

    def decode(self, rows: Sequence[np.ndarray] | np.ndarray | torch.Tensor) -> list[str]:
        """Return the text of each row of tokens."""
        return self.tokenizer.batch_decode(rows, skip_special_tokens=True)

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text that are learnt, without its end."""
        return self._tokens(text)[: self.written]

    @cached_property
    def characters(self) -> np.ndarray:
        """The characters of each token, about: one of a part of a character counts as one; int64 (tokens,)."""
        texts = self.decode(np.arange(self.network.vocabulary)[:, None])
        return np.array([len(text) for text in texts], dtype=np.int64)

    def _prompt(self, prompt: str) -> list[int]:
        return (self._tokens(prompt) or [self.tokenizer.eos_token_id])[-self.prompt :]

    def _tokens(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def longest(self, texts: Sequence[str]) -> int:
        """Return the most tokens that any of some public texts has."""
        return max((len(self._tokens(text)) for text in texts), default=0)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the adapters by name."""
        network = self.network
        return {n: p.detach().cpu().numpy() for n, p in zip(network.names, network.adapters, strict=True)}

    @torch.no_grad()
    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Put released adapters in place.

        Raises:
            InvalidInput: if they are those of another model.
        """
        network = self.network
        shapes = {n: tuple(p.shape) for n, p in zip(network.names, network.adapters, strict=True)}
        if shapes != {n: tuple(a.shape) for n, a in arrays.items()}:
            raise InvalidInput("model: the adapters are of another model, or another version of peft wrote them.")
        for name, p in zip(network.names, network.adapters, strict=True):
            p.copy_(torch.from_numpy(np.array(arrays[name])))
