"""Writes a text column with a language model that was fine-tuned for a release, and keeps what is released of it in a file.

The file holds adapters, the model's path and its hash. The pretrained weights stay where the user has them.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dp_synth_pipeline.synthesis.generator_files import NOTES
from dp_synth_pipeline.tabular import text_lengths
from dp_synth_pipeline.texts import tokens
from dp_synth_pipeline.texts.leanings import Leanings
from dp_synth_pipeline.texts.measuring import Counted, WordCounts
from dp_synth_pipeline.texts.prompts import Prompts

if TYPE_CHECKING:
    from dp_synth_pipeline.model.language.drawing import Drawn
    from dp_synth_pipeline.model.language.note_model import NoteModel

WORDS = "words."
"""Before the names of arrays that say how words lean."""

SPREAD = 0.2
"""How far a text's length is from the one that was drawn for it, on average, as a part of it, if it may end anywhere."""

SHORT, LONGER = 0.8, 2
"""Part of its length below which a text is written anew, and how often; the one nearest to its length is kept."""

ROUNDS, RAKED = 3, {"cpu": 192, "cuda": 3072}
"""Rounds of raking, and the texts that are written for all of them, by the sort of device."""

Report = Callable[[int, int], None]

AGAIN = 8
"""Times that a text which has the form of an identifier is written anew; then it is left empty."""


@dataclass(frozen=True)
class WordLeanings:
    """How the words of a language model lean to the rest of a row.

    Attributes:
        known: tokens that were surely counted, in order, int64 (words - 1,); all others are one word together, the last.
        leanings: of these words.
    """

    known: np.ndarray
    leanings: Leanings

    @classmethod
    def of(cls, counts: WordCounts, merged: Sequence[tuple[int, tuple[int, ...]]]) -> Self:
        """Return leanings by noisy counts of tokens, before raking."""
        known = np.flatnonzero(counts.totals.sure())
        totals, noise = _folded(counts.totals, known)
        shares = np.maximum(totals, noise[:, 0] / 10 + 1e-9)
        by_column = [_folded(counted, known) for counted in counts.by_column]
        return cls(known, Leanings.of([merged[c] for c in counts.columns], shares / shares.sum(), by_column))

    def word_of(self, vocabulary: int) -> np.ndarray:
        """Return the word that each token of a vocabulary stands for, int64 (tokens,)."""
        found = np.full(vocabulary, len(self.known), dtype=np.int64)
        found[self.known] = np.arange(len(self.known))
        return found

    def nearer(self, codes: np.ndarray, drawn: Sequence[np.ndarray], vocabulary: int) -> Self:
        """Return leanings one round nearer to the released shares, by the tokens that were drawn for rows of codes."""
        words = self.word_of(vocabulary)
        return replace(self, leanings=self.leanings.nearer(codes, [words[tokens] for tokens in drawn]))


def _folded(counted: Counted, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the counts of some tokens and of all others together, and the noise of each as a column."""
    cells, others = counted.cells[known], np.delete(counted.cells, known, axis=0)
    noise = np.append(np.full(len(known), counted.noise), counted.noise * np.sqrt(max(len(others), 1)))
    return np.concatenate([cells, others.sum(0, keepdims=True)]), noise[:, None]


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
        words: how what it writes leans to a row; None if no words were counted, as in earlier versions. Without, a text ends
            where the model ends it.
    """

    name: str
    path: str
    sha256: str
    rank: int
    prompt: int
    most: int
    prompts: Prompts
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    words: WordLeanings | None = None
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
            texts = self._texts(codes[rows], lengths[rows], rng)
            found[rows] = [checked(text, self.most) for text in texts]
            rows = rows[[tokens.identifies(text) for text in found[rows]]]
        found[rows] = ""
        return found.tolist()

    def _texts(self, codes: np.ndarray, lengths: np.ndarray, rng: np.random.Generator) -> list[str]:
        """Return a text for each row, as the model has it."""
        if self.words is None:
            return self.model.write(self.prompts.say(codes), rng)
        return self.model.decode(self._leaning(codes, lengths, rng))

    def _leaning(self, codes: np.ndarray, lengths: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
        """Return the tokens of a text for each row, which lean to the row and are about as long as was drawn for it."""
        from dp_synth_pipeline.model.language.drawing import Wanted

        words = self.words
        assert words is not None
        wanted = Wanted(lengths, words.leanings.upon(codes), words.word_of(self.model.network.vocabulary))
        prompts, rows = self.prompts.say(codes), np.arange(len(codes))
        texts, sizes = [np.zeros(0, np.int64)] * len(codes), np.full(len(codes), -np.inf)
        for _ in range(1 + LONGER):
            drawn = self.model.draw([prompts[r] for r in rows], wanted[rows], rng) if len(rows) else []
            for row, text in zip(rows, drawn, strict=True):
                end = _end(text, lengths[row], rng)
                if abs(text.characters[end] - lengths[row]) < abs(sizes[row] - lengths[row]):
                    texts[row], sizes[row] = text.tokens[:end], text.characters[end]
            rows = rows[sizes[rows] < SHORT * lengths[rows]]
        return texts

    def raked(self, codes: np.ndarray, lengths: np.ndarray, rng: np.random.Generator, report: Report) -> Self:
        """Return a writer whose texts have the counted shares of words: found on texts that it writes, so free.

        Args:
            codes, lengths: of rows that the table's generator drew.
            report: is told of each round that is done.
        """
        rows = np.flatnonzero(lengths > 0)[: RAKED[self.model.device]]
        writer = self
        for done, part in enumerate(np.array_split(rng.permutation(rows), ROUNDS)):
            if writer.words is not None and len(part):
                drawn = writer._leaning(codes[part], lengths[part], rng)
                vocabulary = writer.model.network.vocabulary
                writer = replace(writer, words=writer.words.nearer(codes[part], drawn, vocabulary))
                writer.begin(self.model)
            report(done + 1, ROUNDS)
        return writer

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

        facts = {**{name: getattr(self, name) for name in _FACTS}, "prompts": self.prompts.to_dict()}
        arrays = dict(self.arrays)
        if self.words is not None:
            facts["merged"] = self.words.leanings.merged
            kept = {"known": self.words.known, **self.words.leanings.arrays()}
            arrays |= {f"{WORDS}{name}": array for name, array in kept.items()}
        partial = path.with_name(f".{path.name}")
        save_file(arrays, partial, metadata={"notes": json.dumps(facts)})
        partial.replace(path)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read back what `save` wrote."""
        from safetensors import safe_open

        with safe_open(path, framework="numpy") as file:
            names = file.keys()
            arrays = {name: file.get_tensor(name) for name in names}
            facts: dict[str, Any] = json.loads(file.metadata()["notes"])
        kept = {name.removeprefix(WORDS): arrays.pop(name) for name in list(arrays) if name.startswith(WORDS)}
        words = WordLeanings(kept["known"], Leanings.from_arrays(facts["merged"], kept)) if kept else None
        prompts = Prompts.from_dict(facts["prompts"])
        return cls(**{n: facts[n] for n in _FACTS}, prompts=prompts, arrays=arrays, words=words)


_FACTS = ("name", "path", "sha256", "rank", "prompt", "most")


def _end(text: Drawn, length: float, rng: np.random.Generator) -> int:
    """Return after how many tokens a text ends: where it is likely to, and near a number of characters."""
    logs = np.log(text.ends + 1e-12) - np.abs(text.characters - length) / (SPREAD * length + 1)
    logs[0] = -np.inf if len(logs) > 1 else 0.0
    shares = np.exp(logs - logs.max())
    return int(rng.choice(len(shares), p=shares / shares.sum()))


def checked(text: str, most: int) -> str:
    """Return a text without control characters and other invisible ones, with single blanks, cut to `most` characters.

    Example:
        >>> checked("a bell" + chr(7) + "\\n rang ", 9)
        'a bell ra'
    """
    return text_lengths.cleaned("".join(c for c in text if c.isspace() or unicodedata.category(c)[0] != "C"), most)


def written_by(folder: Path) -> list[NoteWriter]:
    """Return what writes notes beside a generator: one, or none."""
    return [NoteWriter.load(folder / NOTES)] if (folder / NOTES).exists() else []
