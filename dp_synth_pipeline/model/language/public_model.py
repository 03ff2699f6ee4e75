"""A pretrained language model in a folder: which files it is, and their hash. Nothing here loads it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dp_synth_pipeline.errors import InvalidInput

SAFETENSORS, GGUF = ".safetensors", ".gguf"
"""Formats of weights that are read: neither can hold code."""

SAID = (".json", ".model", ".txt")
"""Beside the weights: how the model is built, and how it takes texts apart."""


@dataclass(frozen=True)
class PublicModel:
    """Where a pretrained model lies.

    Attributes:
        folder: of its files.
        gguf: name of the one file of a model in GGUF; None for safetensors.
    """

    folder: Path
    gguf: str | None = None

    @classmethod
    def at(cls, path: str) -> Self:
        """Return the model at a path: a folder, a Hugging Face cache of one model, or a GGUF file.

        Raises:
            InvalidInput: if there is none, or several.
        """
        place = Path(path).expanduser()
        if place.suffix == GGUF and place.is_file():
            return cls(place.parent, place.name)
        snapshots = sorted((place / "snapshots").glob("*/"))
        if len(snapshots) > 1:
            raise InvalidInput(f"model: {path} holds {len(snapshots)} snapshots of a model; name the folder of one.")
        folder = snapshots[0] if snapshots else place
        if list(folder.glob(f"*{SAFETENSORS}")):
            return cls(folder)
        single = sorted(folder.glob(f"*{GGUF}"))
        if len(single) == 1:
            return cls(folder, single[0].name)
        found = f"{len(single)} GGUF files" if single else "none"
        raise InvalidInput(
            f"model: expected a folder with the weights of a language model as safetensors or as one GGUF file at {path}, "
            f"found {found}. Download a model that you trust, and name its folder."
        )

    @property
    def files(self) -> list[Path]:
        """The files that say what the model is: all weights, and how it is built; or the one GGUF file, which says both."""
        if self.gguf is not None:
            return [self.folder / self.gguf]
        return sorted(p for p in self.folder.iterdir() if p.is_file() and p.suffix in (SAFETENSORS, *SAID))

    def sha256(self) -> str:
        """Return the SHA-256 of a GGUF file; of several files, that of the lines `SHA256  NAME`, sorted by name."""
        digests = []
        for path in self.files:
            with path.open("rb") as file:
                digests.append(hashlib.file_digest(file, "sha256").hexdigest())
        if self.gguf is not None:
            return digests[0]
        lines = [f"{digest}  {path.name}\n" for digest, path in zip(digests, self.files, strict=True)]
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def check(self, sha256: str) -> None:
        """Refuse a model that is not the one with this hash.

        Raises:
            InvalidInput: naming both hashes.
        """
        found = self.sha256()
        if found != sha256:
            raise InvalidInput(
                f"model: the files at {self.folder} are not those that this generator was fine-tuned from: expected "
                f"SHA-256 {sha256}, found {found}. Put the model that its card names there."
            )
