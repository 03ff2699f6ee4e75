"""Has texts vote for what a public language model writes: of them, one noisy histogram a round is released, and no more.

As with a training of notes, rounds that were cut short are not gone on with: their charge stays, and the table is released
anew.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dp_synth_pipeline.model.histories.context import merge
from dp_synth_pipeline.model.language.public_model import PublicModel
from dp_synth_pipeline.privacy.events import Event
from dp_synth_pipeline.privacy.odometer import Odometer
from dp_synth_pipeline.synthesis.mechanism import Mechanism
from dp_synth_pipeline.synthesis.mechanisms.texts import MERGED
from dp_synth_pipeline.synthesis.note_writer import AGAIN, checked
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.release_plan import VOTES
from dp_synth_pipeline.tabular import text_lengths
from dp_synth_pipeline.tabular.encoding.codec import TableCodec
from dp_synth_pipeline.tabular.kinds.text import named
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.schema import Column
from dp_synth_pipeline.texts import evolution, tokens
from dp_synth_pipeline.texts.evolution import Voters
from dp_synth_pipeline.texts.plan import VotesPlan
from dp_synth_pipeline.texts.prompts import Prompts
from dp_synth_pipeline.texts.survivors import Survivors

if TYPE_CHECKING:
    from dp_synth_pipeline.model.language.asked import Asked

FEWEST = 2
"""Candidates of a group, at least, so that one can be better than another."""


class Beside(NamedTuple):
    """The column that texts go with, from public and released facts.

    Attributes:
        number: of the column among those of all codecs; None if there is none, and then it has one code.
        merged: the group of each code.
        shares: the released share of each code.
        instructions: what the model is asked for each code.
    """

    number: int | None
    merged: tuple[int, ...]
    shares: np.ndarray
    instructions: list[str]


class Votes(Mechanism[VotesPlan, Survivors]):
    """Releases candidates that private texts voted for, by the column that the prompt names.

    Args:
        codecs: of the texts' own table, and of those that it hangs on.
    """

    name = VOTES

    def __init__(self, codecs: Sequence[TableCodec], profile: TableProfile) -> None:
        self._codecs, self._profile = codecs, profile
        self._begun: tuple[Asked, str, Beside] | None = None

    @property
    def column(self) -> Column | None:
        """The text column for which a language model is asked; None if there is none."""
        return next((c for c in self._codecs[0].schema if c.prompt is not None), None)

    def plan(self, release: Release) -> VotesPlan | None:
        from dp_synth_pipeline.model.language.asked import Asked

        if (column := self.column) is None:
            return None
        public, most = PublicModel.at(str(column.model)), column.max_length or 0
        beside = self._beside(str(column.prompt), release.settings.name)
        # a model that cannot be loaded is refused before anything is charged
        self._begun = Asked(public, most, beside.instructions), public.sha256(), beside
        return release.allocation.votes(self._profile.population, release.spent)

    def events(self, release: Release, plan: VotesPlan) -> Sequence[Event]:
        return plan.events

    def run(self, release: Release, plan: VotesPlan, odometer: Odometer) -> Survivors:
        column, begun = self.column, self._begun
        assert column is not None
        assert begun is not None
        (asked, sha256, beside), most = begun, column.max_length or 0
        voters, rng = _voters(release, column, beside), np.random.default_rng()
        shares = text_lengths.shares(self._profile[text_lengths.name_of(column)], most)
        report, written = release.reporter(VOTES), itertools.count(1)

        def write(codes: np.ndarray, beginnings: Sequence[str]) -> list[str]:
            sizes = _sizes(shares, len(codes), rng)
            texts = _written(asked, [beside.instructions[c] for c in codes], beginnings, sizes, rng)
            report(next(written), plan.rounds)
            return texts

        codes, groups = _first(beside, plan.candidates, rng)
        candidates, votes = evolution.evolve(voters, codes, groups, write, plan, odometer)
        facts = {"name": column.name, "most": most, "sha256": sha256, "column": beside.number, "merged": beside.merged}
        return Survivors.of(candidates, votes, **facts)

    def _beside(self, prompt: str, table: str) -> Beside:
        """Return the column that a prompt names; none if it is not modelled by itself, as released figures may have told.

        Args:
            table: the texts' own, whose static columns the rows above them carry, by its name and theirs.
        """
        coded = [pair for codec in self._codecs for pair in zip(codec.modelled, codec.columns, strict=True)]
        asked = {name: f"{{{name}}}" for name in named(prompt)}
        asked |= {f"{table}.{name}": braces for name, braces in asked.items()}
        number = next((i for i, (c, _) in enumerate(coded) if c.name in asked), None)
        if number is None:
            return Beside(None, (0,), np.ones(1), [prompt.replace("{", "").replace("}", "")])
        column, codec = coded[number]
        merged = merge(codec.marginal, MERGED, column.kind.ordered)
        said = Prompts.of(self._codecs, column.name, most=1).words[0]
        return Beside(number, merged, codec.marginal, [prompt.replace(asked[column.name], word) for word in said])


def _voters(release: Release, column: Column, beside: Beside) -> Voters:
    """Return the texts that vote; private. A row without a text, or with an empty one, has no vote."""
    rows = release.text_rows([column.name])
    codes, units, cells = rows.codes, rows.units, rows.cells.column(0).to_pylist()
    texts = ["" if cell is None else text_lengths.cleaned(str(cell), column.max_length or 0) for cell in cells]
    held = np.array([i for i, text in enumerate(texts) if text], dtype=np.int64)
    own = np.zeros(len(codes), np.int64) if beside.number is None else np.array(codes[:, beside.number], np.int64)
    units = np.arange(len(codes)) if units is None else np.array(units)
    return Voters([texts[i] for i in held], np.array(beside.merged)[own[held]], units[held])


def _first(beside: Beside, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return codes and groups that the first candidates are written for, by released shares; each int64 (candidates,)."""
    merged = np.array(beside.merged)
    share = np.maximum(beside.shares, 0) + 1e-9  # a code that nobody was seen to have is written for, too
    codes = []
    for group in np.unique(merged):
        own = np.flatnonzero(merged == group)
        wanted = max(FEWEST, round(count * share[own].sum() / share.sum()))
        codes.append(rng.choice(own, wanted, p=share[own] / share[own].sum()))
    found = np.concatenate(codes)
    return found, merged[found]


def _sizes(shares: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return lengths of texts by their released shares, int64 (count,); above 0."""
    share = shares[1:] if shares[1:].any() else np.ones(len(shares) - 1)
    return 1 + rng.choice(len(share), count, p=share / share.sum())


def _written(
    asked: Asked, instructions: Sequence[str], beginnings: Sequence[str], sizes: np.ndarray, rng: np.random.Generator
) -> list[str]:
    """Return texts without control characters, each cut to its size; one that has the form of an identifier is written anew,
    and in the end left empty."""
    found, rows = [""] * len(instructions), list(range(len(instructions)))
    for _ in range(1 + AGAIN):
        if not rows:
            break
        said = asked.write([instructions[r] for r in rows], [beginnings[r] for r in rows], rng)
        for row, text in zip(rows, said, strict=True):
            found[row] = evolution.shortened(checked(text, int(sizes[row])), int(sizes[row]))
        rows = [r for r in rows if not found[r] or tokens.identifies(found[r])]
    for row in rows:
        found[row] = ""
    return found
