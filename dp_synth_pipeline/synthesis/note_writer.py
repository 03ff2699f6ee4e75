"""Writes a text column with a language model that was fine-tuned for a release, and keeps what is released of it in a file.

The file holds adapters, the model's path and its hash. The pretrained weights stay where the user has them.
"""

from __future__ import annotations

import json
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dp_synth_pipeline.synthesis.generator_files import NOTES
from dp_synth_pipeline.tabular.texts import tokens
from dp_synth_pipeline.tabular.texts.prompts import Prompts

if TYPE_CHECKING:
    from dp_synth_pipeline.model.language.note_model import NoteModel

AGAIN = 8
"""Times that a text which has the form of an identifier is written anew; then it is left empty."""


@dataclass
class NoteWriter:
    """What writes the texts of one column.

    Attributes:
        name: of the column.
        path: where the public model was, and is looked for.
        sha256: of the public model's files.
        rank: of the adapters.
        prompt: tokens of a prompt, at most.
        most: characters of a text, at most.
        prompts: how the rest of a row is said.
        arrays: the released adapters, by name.
    """

    name: str
    path: str
    sha256: str
    rank: int
    prompt: int
    most: int
    prompts: Prompts
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    _model: NoteModel | None = field(default=None, init=False, repr=False)

    def write(self, codes: np.ndarray, lengths: np.ndarray, rng: np.random.Generator) -> list[str]:
        """Return texts without control characters, cut to the declared length; none has the form of an identifier.

        Args:
            codes: of the rest of each row, int (rows, columns), as the codec has them.
            lengths: characters that were drawn for each text, which its prompt says; 0 gives an empty text.

        Raises:
            InvalidInput: if the public model is gone, or is another one now.
        """
        found = np.full(len(codes), "", dtype=object)
        rows = np.flatnonzero(lengths > 0)
        rows = rows[np.argsort(lengths[rows], kind="stable")]  # texts that are written together end together
        for _ in range(1 + AGAIN):
            if not len(rows):
                break
            texts = self.model.write(self.prompts.say(codes[rows]), rng)
            found[rows] = [checked(text, self.most) for text in texts]
            rows = rows[[tokens.identifies(text) for text in found[rows]]]
        found[rows] = ""
        return found.tolist()

    def begin(self, model: NoteModel) -> None:
        """Begin with a model that was loaded already, whose adapters are to be trained."""
        self._model = model

    @property
    def model(self) -> NoteModel:
        """The public model with the released adapters; its files are hashed and loaded when it is asked for first."""
        if self._model is None:
            from dp_synth_pipeline.model.language.note_model import NoteModel
            from dp_synth_pipeline.model.language.public_model import PublicModel

            public = PublicModel.at(self.path)
            public.check(self.sha256)
            self._model = NoteModel(public, self.rank, self.prompt, self.most)
            self._model.restore(self.arrays)
        return self._model

    def save(self, path: Path) -> None:
        """Write all that is released of it."""
        from safetensors.numpy import save_file

        facts = {name: getattr(self, name) for name in _FACTS}
        save_file(self.arrays, path, metadata={"notes": json.dumps({**facts, "prompts": self.prompts.to_dict()})})

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read back what `save` wrote."""
        from safetensors import safe_open

        with safe_open(path, framework="numpy") as file:
            names = file.keys()
            arrays = {name: file.get_tensor(name) for name in names}
            facts: dict[str, Any] = json.loads(file.metadata()["notes"])
        return cls(**{n: facts[n] for n in _FACTS}, prompts=Prompts.from_dict(facts["prompts"]), arrays=arrays)


_FACTS = ("name", "path", "sha256", "rank", "prompt", "most")


def checked(text: str, most: int) -> str:
    """Return a text without control characters and other invisible ones, with single blanks, cut to `most` characters.

    Example:
        >>> checked("a bell" + chr(7) + "\\n rang ", 9)
        'a bell ra'
    """
    return tokens.cleaned("".join(c for c in text if c.isspace() or unicodedata.category(c)[0] != "C"), most)


def written_by(folder: Path) -> list[NoteWriter]:
    """Return what writes notes beside a generator: one, or none."""
    return [NoteWriter.load(folder / NOTES)] if (folder / NOTES).exists() else []
