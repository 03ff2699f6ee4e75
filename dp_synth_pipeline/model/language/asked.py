"""Asks a public language model for texts, as it is: nothing is trained, and it never sees a private text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from dp_synth_pipeline.model.language.note_model import NoteModel
from dp_synth_pipeline.model.language.public_model import PublicModel


class Asked:
    """A public model that writes what its user asks for.

    Args:
        public: the model.
        most: characters of a text, at most.
        instructions: all that it will be asked; public.

    Raises:
        InvalidInput: if the extra is not installed, the files are none that can write, or have no room for what is asked.
    """

    def __init__(self, public: PublicModel, most: int, instructions: Sequence[str]) -> None:
        model = NoteModel(public, 1, 1, most)  # fresh adapters add nothing
        self._template = partial(_said, model.tokenizer)
        model.prompt = model.longest([self._template(i) for i in instructions]) + model.written
        model.load()
        self._model = model

    def write(self, instructions: Sequence[str], beginnings: Sequence[str], rng: np.random.Generator) -> list[str]:
        """Return a text for each instruction, which begins as is said, drawn token by token."""
        prompts = [self._template(i) + b for i, b in zip(instructions, beginnings, strict=True)]
        written = self._model.write(prompts, rng)
        return [b + w for b, w in zip(beginnings, written, strict=True)]


def _said(tokenizer: Any, instruction: str) -> str:
    """Return an instruction as the model was taught to be given one, or a line of it if it was taught none."""
    if not tokenizer.chat_template:
        return f"{instruction}\n"
    turn = [{"role": "user", "content": instruction}]
    return tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
