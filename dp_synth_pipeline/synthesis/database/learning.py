"""Learns the rows of one table, each given what it hangs on, and levels what was learnt to what the profile released."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dp_synth_pipeline.model.autoregressive.plan import capacity
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec, Method, Start
from dp_synth_pipeline.model.histories.context import Context
from dp_synth_pipeline.model.histories.levelling import Histories, level
from dp_synth_pipeline.privacy.events import DiscreteGaussian, Gaussian
from dp_synth_pipeline.synthesis import generator_files, retention
from dp_synth_pipeline.synthesis.database import histories
from dp_synth_pipeline.synthesis.database.drawing import DatabaseDrawer, Part
from dp_synth_pipeline.synthesis.database.release import DatabaseRelease
from dp_synth_pipeline.synthesis.database.table_release import TableRelease
from dp_synth_pipeline.synthesis.mechanisms.training import Training
from dp_synth_pipeline.synthesis.release_plan import PROFILE
from dp_synth_pipeline.synthesis.run_state import dump_ran

if TYPE_CHECKING:
    from dp_synth_pipeline.model.base import GenerativeModel, Released

MOST_EPOCHS = 16
"""Passes over the persons, at most: a person's rows teach more in one pass than a single row does."""

HISTORY_HIDDEN = 16
"""Hidden units of a column of rows that follow others, at least: with 8 they are learnt worse, and with 32 no better."""

REPEATS = 0.5
"""Share at which a value is taken to be as in the row before, or beside, before anything is learnt."""

PERSONS = 1 << 13
"""Persons drawn to level a table's codes: shares of so many miss by about as much as those that were released."""


def found(table: TableRelease) -> Path | None:
    """Return where what was learnt of a table lies: not released yet, or released already; None if it is nowhere."""
    places = (table.restricted / retention.LEARNT, table.folder / generator_files.FOLDER)
    return next((place for place in places if generator_files.found(place, table.id)), None)


def learn(table: TableRelease, release: DatabaseRelease) -> None:
    """Learn the rows of a table by DP-SGD, a person's whole gradient clipped once, and keep what was learnt durably.

    Raises:
        AuditFailed: if training was not seen to keep what it promises; its weights are not released then.
    """
    from dp_synth_pipeline.model import artifact
    from dp_synth_pipeline.synthesis.generator import end_failed, raked_notes, raked_texts

    relations, tables, name = release.relations, release.known_tables, table.name
    beside = relations.beside(name, tables[str(relations[name].parent)].codec.schema.names)
    known = [relations[name], *relations.ancestors(name), *([] if beside is None else [beside])]
    codecs = {t.name: tables[t.name].codec for t in known}
    context = histories.context_of(relations, name, codecs)
    table.given = histories.given_rows(table, relations, tables, context)
    cardinalities = (*context.cardinalities, *context.own_cardinalities)
    population = table.profile.population
    spec = _sized(table, len(cardinalities), population)
    training = Training.of(table, table.codec, spec, population)
    start_facts = _start(table, context, histories.orders_of(relations, name, codecs, context))
    model = artifact.model_of(spec.kind).begin(cardinalities, spec, start_facts)
    model, facts = training.train(model, table.reporter("training"))
    if training.audit is not None and not training.audit.passed:
        generator_files.keep_failed(training.audit, table.folder, table.id)
        raise end_failed(table, training.audit)
    # Codes of drawn histories come to the shares that the profile released; no real row is looked at.
    drawn = _Drawn(model, table, release, context)
    level(model, drawn.weighted, table.codec.marginals(), _noise(table), context.standing)
    about = {
        "release": table.id,
        "schema": table.state.schema,
        "guarantee": table.settings.privacy,
        **facts,
        "context": context.to_dict(),
        "ran": dump_ran([*table.state.ran, *training.ran]),
    }
    texts = raked_texts(table, table.codec, drawn.one_row_each)
    notes = raked_notes(table, table.codec, drawn.one_row_each)
    learnt, profile = table.restricted / retention.LEARNT, table.profile.to_json()
    generator_files.keep(learnt, model, about, profile, training.audit, notes, texts)


def _start(table: TableRelease, context: Context, orders: Sequence[Sequence[int]]) -> Released:
    """Return what rows are before anything is learnt of them: their released shares, alike upon whatever is given."""
    from dp_synth_pipeline.model.base import Released

    shares = [np.full(c, 1 / c) for c in context.cardinalities]
    own = zip(table.codec.marginals(), context.own_cardinalities, strict=True)
    shares += [_with_repeats(share, codes - len(share)) for share, codes in own]
    return Released(shares, given=len(context.cardinalities), orders=orders)


class _Drawn:
    """Draws rows of a table from what was learnt of it, upon persons and rows above that are drawn: free."""

    def __init__(self, model: GenerativeModel, table: TableRelease, release: DatabaseRelease, context: Context) -> None:
        folders = {t.name: place for t in release.known_tables.values() if t.name != table.name and (place := found(t))}
        drawer, self._rng = DatabaseDrawer(release.relations, release.state.sources, folders), np.random.default_rng()
        self._following = drawer.following(table.name, model, table.codec, context)
        population = release.table(release.relations.root.name).profile.population
        self._above = drawer.above(table.name, min(PERSONS, population), self._rng)

    def weighted(self) -> Histories:
        """Return drawn rows, and their weights: the profile is of one row of each person."""
        parts = self._parts()
        codes, _, weights = self._rows(parts)
        return Histories(self._stacked(p.drawn for p in parts), codes, weights)

    def one_row_each(self, *, rng: np.random.Generator) -> np.ndarray:
        """Return codes of drawn rows and of those above, as texts were counted: a person's rows count as one."""
        codes, parents, weights = self._rows(self._parts())
        whole = np.concatenate([codes, self._above.codes[parents]], 1)
        return whole[rng.choice(len(whole), len(whole), p=weights / weights.sum())] if len(whole) else whole

    def _parts(self) -> list[Part]:
        return self._following.parts(self._above, self._rng)

    def _rows(self, parts: Sequence[Part]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return codes of drawn rows, the numbers of their parents, and their weights, all of one person's together 1."""
        parents = np.concatenate([np.zeros(0, np.int64), *(p.who for p in parts)])
        persons = self._above.root[parents]
        return self._stacked(p.codes for p in parts), parents, 1 / np.bincount(persons)[persons]

    def _stacked(self, codes: Iterable[np.ndarray]) -> np.ndarray:
        return np.concatenate([np.zeros((0, len(self._following.codec.columns)), np.int64), *codes])


def _noise(table: TableRelease) -> float:
    """Return the noise of the share of a code, as a part of the persons; 0 if there was none."""
    charged = (ran.event for ran in table.state.ran if ran.mechanism == PROFILE)
    first = next((e for e in charged if isinstance(e, (Gaussian, DiscreteGaussian))), None)
    units = max(table.profile.population, 1)
    return 0.0 if first is None else first.combined_noise_multiplier * first.size**0.5 / units


def _with_repeats(share: np.ndarray, repeats: int) -> np.ndarray:
    """Return the shares of a column's codes before anything is learnt, with those of so many that repeat another row."""
    return np.append(share * (1 - REPEATS), [REPEATS / repeats] * repeats) if repeats else share


def _sized(release: TableRelease, columns: int, population: int) -> GeneratorSpec:
    spec = release.settings.training.spec()
    noise = release.allocation.noise(population)
    hidden = spec.hidden or capacity(population, noise, columns, spec.embedding, least=HISTORY_HIDDEN)
    epochs = min(spec.max_epochs, MOST_EPOCHS)
    own = {"method": Method.AUTOREGRESSIVE, "start": Start.MARGINALS, "train_only": None}
    return spec.with_(**own, hidden=hidden, max_epochs=epochs)
