"""Learns the rows of one table, each given what it hangs on, and brings what was learnt to what was released.

Codes are levelled to noisy counts of all rows, and pairs of them are weighed by the same; or codes are levelled to the
profile, where there are none. A refresh that remembers goes on from the last one's network instead of training one, and its
histories are raked to the noisy counts of all releases so far.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_synth_pipeline.model.autoregressive.plan import capacity
from dp_synth_pipeline.model.autoregressive.spec import GeneratorSpec, Method, Start
from dp_synth_pipeline.model.base import Released
from dp_synth_pipeline.model.histories import history_counts, pair_weights
from dp_synth_pipeline.model.histories.context import Context
from dp_synth_pipeline.model.histories.levelling import Histories, level
from dp_synth_pipeline.model.histories.pair_weights import PairWeights
from dp_synth_pipeline.model.histories.raking import rake
from dp_synth_pipeline.model.marginals.dependencies import NOTHING, Impossible
from dp_synth_pipeline.privacy.audit import Audit
from dp_synth_pipeline.privacy.events import DiscreteGaussian, Gaussian
from dp_synth_pipeline.relations import public_groups
from dp_synth_pipeline.synthesis import generator_files, memory, retention
from dp_synth_pipeline.synthesis.database import histories, public_tables
from dp_synth_pipeline.synthesis.database.drawing import DatabaseDrawer
from dp_synth_pipeline.synthesis.database.release import DatabaseRelease
from dp_synth_pipeline.synthesis.database.row_by_row import Part
from dp_synth_pipeline.synthesis.database.table_release import TableRelease
from dp_synth_pipeline.synthesis.mechanisms.training import Training
from dp_synth_pipeline.synthesis.reading import alike_sentence
from dp_synth_pipeline.synthesis.release_plan import PROFILE
from dp_synth_pipeline.synthesis.run_state import dump_ran

if TYPE_CHECKING:
    from dp_synth_pipeline.model.base import GenerativeModel
    from dp_synth_pipeline.model.marginals.measuring import Layout, Marginals

MOST_EPOCHS = 16
"""Passes over the persons, at most: a person's rows teach more in one pass than a single row does."""

HISTORY_HIDDEN = 16
"""Hidden units of a column of rows that follow others, at least: with 8 they are learnt worse, and with 32 no better."""

PERSONS = 1 << 13
"""Persons drawn to level a table's codes, and rows to rake them: their shares miss by about as much as released ones."""


def found(table: TableRelease) -> Path | None:
    """Return where what was learnt of a table lies: not released yet, or released already; None if it is nowhere."""
    places = (table.restricted / retention.LEARNT, table.folder / generator_files.FOLDER)
    return next((place for place in places if generator_files.found(place, table.id)), None)


def context_of(table: TableRelease, release: DatabaseRelease) -> Context:
    """Return how what a table's rows are learnt from is composed."""
    known = _known(table, release)
    codecs = {name: one.codec for name, one in known.items()}
    sources = None if release.settings.refresh.remember else {name: one.source for name, one in known.items()}
    return histories.context_of(release.relations, table.name, codecs, sources)


def _known(table: TableRelease, release: DatabaseRelease) -> dict[str, TableRelease]:
    """Return a table, and those that its rows are given with."""
    relations, tables = release.relations, release.known_tables
    return {t.name: tables[t.name] for t in (relations[table.name], *histories.around(relations, table.name, tables))}


def prepare(table: TableRelease, release: DatabaseRelease, shares: Sequence[np.ndarray] | None = None) -> Context:
    """Give a table what its rows are learnt from; return how that is composed.

    Args:
        shares: of the codes of the table's own columns, as they were released; by default the profile's.
    """
    relations, tables, context = release.relations, release.known_tables, context_of(table, release)
    codecs = {name: one.codec for name, one in _known(table, release).items()}
    given = histories.given_rows(table, relations, tables, context, shares)
    orders = histories.orders_of(relations, table.name, codecs, context, table.source)
    table.given = replace(given, columns=given.columns._replace(orders=orders))
    return context


def learn(table: TableRelease, release: DatabaseRelease) -> None:
    """Learn the rows of a table by DP-SGD, a person's whole gradient clipped once, and keep what was learnt durably.

    Raises:
        AuditFailed: if training was not seen to keep what it promises; its weights are not released then.
    """
    from dp_synth_pipeline.synthesis.generator import end_failed, keeping_together, noisy_marginals

    population, measured = table.profile.population, noisy_marginals(table)
    counts, pairs = (None, measured) if release.settings.refresh.remember else (measured, None)
    context = prepare(table, release, None if counts is None else _own_shares(table, counts))
    spec = _sized(table, len(table.columns.cardinalities), population)
    training = Training.of(table, table.codec, spec, population)
    model, facts = _learnt(table, training, _start(table, context, pairs))
    if training.audit is not None and not training.audit.passed:
        generator_files.keep_failed(training.audit, table.folder, table.id)
        raise end_failed(table, training.audit)
    found, known = _impossible(table, counts), _grouped(table, release)
    impossible = found.with_(known)
    drawn = _Drawn(model, table, release, context, impossible)
    _bring(drawn, table, counts, pairs)
    about = {
        "release": table.id,
        "schema": table.state.schema,
        "guarantee": table.settings.privacy,
        **facts,
        "context": context.to_dict(),
        "impossible": impossible.to_list(),
        **_alike(table, histories.alike_columns(table, release.relations, release.known_tables, context)),
        **keeping_together(table, table.codec, [pair for pair in found.cells if pair not in known]),
        "ran": dump_ran([*table.state.ran, *training.ran]),
        **memory.facts(table.state, table.restricted, table.given_by),
    }
    _keep(drawn, table, about, training.audit)


def _start(table: TableRelease, context: Context, pairs: Marginals | None) -> Released:
    """Return what a table's network may start from."""
    orders, columns = table.codec.orders(), table.columns
    moving, apart = context.before(orders), context.apart(orders)
    return Released(columns.shares, pairs, given=columns.given, orders=columns.orders, moving=moving, apart=apart)


def _impossible(table: TableRelease, counts: Marginals | None) -> Impossible:
    """Return which codes go together in no row, as noisy counts tell of columns that may determine others."""
    return NOTHING if counts is None else Impossible.of(counts).among(histories.determining(table))


def _alike(table: TableRelease, pairs: list[str]) -> dict[str, list[str]]:
    """Say, in the log as well, which columns may have the values of other rows; nothing if none may."""
    if pairs:
        table.progress.log(f"{table.settings.name}: {alike_sentence(pairs)}")
    return {"alike": pairs} if pairs else {}


def _grouped(table: TableRelease, release: DatabaseRelease) -> dict[tuple[int, int], np.ndarray]:
    """Return which codes of groups and of keys go together in no row of a public table, by their columns."""
    codec, found = table.codec, {}
    for group in public_groups.of(release.relations[table.name], release.state.sources):
        key = release.relations.public_key(group.table)
        if {group.column.name, group.refers} <= set(codec.encoded):
            rows = public_tables.read({group.table: release.state.public[group.table]})[group.table]
            columns = codec.encoded.index(group.column.name), codec.encoded.index(group.refers)
            of_rows = [rows[group.name], rows[str(key)]]
            groups, keys = (codec.columns[i].encode(x.combine_chunks()) for i, x in zip(columns, of_rows, strict=True))
            shape = (codec.columns[columns[0]].cardinality, codec.columns[columns[1]].cardinality)
            found[columns] = public_groups.never(groups, keys, shape)
    return found


def _keep(drawn: _Drawn, table: TableRelease, about: dict[str, Any], audit: Audit | None) -> None:
    """Keep what was learnt durably, with the texts of drawn rows raked.

    Args:
        about: public facts of it.
    """
    from dp_synth_pipeline.synthesis.generator import raked_notes, raked_texts

    texts = raked_texts(table, table.codec, drawn.one_row_each)
    beside = [memory.waiting(table.restricted), *raked_notes(table, table.codec, drawn.one_row_each)]
    if drawn.weights.cells:
        with retention.private():
            beside.append(drawn.weights.save(table.restricted / pair_weights.FILE))
    learnt, profile = table.restricted / retention.LEARNT, table.profile.to_json()
    generator_files.keep(learnt, drawn.model, about, profile, audit, beside, texts)


def _learnt(table: TableRelease, training: Training, start: Released) -> tuple[GenerativeModel, dict[str, Any]]:
    """Return a table's network and the facts of its training: the last release's, if it goes on from that; else a new one.

    Before training rows are as frequent as released, alike upon whatever is given but for what was measured.
    """
    from dp_synth_pipeline.model import artifact
    from dp_synth_pipeline.synthesis.generator import last

    goes_on = table.state.facts.remembered is not None  # then all went into the marginals
    model = last(table, table.folder / generator_files.FOLDER) if goes_on else None
    if model is None:
        model = artifact.model_of(training.spec.kind).begin(table.columns.cardinalities, training.spec, start)
    return (model, {}) if goes_on else training.train(model, table.reporter("training"))


def _bring(drawn: _Drawn, table: TableRelease, counts: Marginals | None, pairs: Marginals | None) -> None:
    """Bring drawn histories to what was released; no real row is looked at.

    Args:
        counts: of the codes of all rows; pairs: of columns. None if they were not measured.
    """
    if counts is not None:
        noise, weights = counts.scale / counts.rows, PairWeights.begin(counts, without=drawn.still)
        drawn.weigh(weights)

        def weighing() -> Histories:
            found = drawn.counted(counts.layout)
            weights.move(found, counts)
            return found

        own, agreed = _own_shares(table, counts), history_counts.shares_of(counts)[len(table.codec.columns) :]
        agreeing = dict(zip(drawn.agreeing, agreed, strict=bool(agreed)))  # an earlier version counted none
        level(drawn.model, weighing, own, noise, drawn.standing, drawn.still, agreeing)
    elif not table.state.facts.remembered:  # else the last network's codes were levelled
        level(drawn.model, drawn.weighted, table.codec.marginals(), _noise(table), drawn.standing, drawn.still)
    if pairs is not None:
        drawn.use(rake(drawn.model, drawn.upon, pairs))


def _own_shares(table: TableRelease, counts: Marginals) -> list[np.ndarray]:
    """Return the shares of the codes of a table's own columns, as they were counted."""
    return history_counts.shares_of(counts)[: len(table.codec.columns)]


class _Drawn:
    """Draws rows of a table from what was learnt of it, upon persons and rows above that are drawn: free.

    Codes of suppressed categories stay, since they are among what was released and what was learnt. Were they imputed,
    levelling would make them more and more frequent, as none would ever be there.
    """

    def __init__(
        self,
        model: GenerativeModel,
        table: TableRelease,
        release: DatabaseRelease,
        context: Context,
        impossible: Impossible,
    ) -> None:
        folders = {t.name: place for t in release.known_tables.values() if t.name != table.name and (place := found(t))}
        drawer, self._rng = DatabaseDrawer(release.relations, release.state.sources, folders), np.random.default_rng()
        following = drawer.following(table.name, model, table.codec, context, table.profile, impossible)
        self._following = replace(following, imputes=False)
        population = release.table(release.relations.root.name).profile.population
        self._above = drawer.above(table.name, min(PERSONS, population), self._rng, table.profile)
        self._bound_of = partial(histories.bound, release.relations, table.name, release.known_tables)

    @property
    def model(self) -> GenerativeModel:
        """What draws them."""
        return self._following.model

    @property
    def standing(self) -> Sequence[int]:
        """The own columns of which a code stands for others."""
        return self._following.context.standing

    @property
    def agreeing(self) -> Sequence[int]:
        """The own columns of which it is counted how rows agree with others."""
        return self._following.context.agreeing

    @property
    def still(self) -> Sequence[int]:
        """The own columns whose values mostly follow from other rows."""
        return self._following.context.running

    @property
    def weights(self) -> PairWeights:
        """What makes some codes likelier together than the model draws them."""
        return self._following.weights

    def weigh(self, weights: PairWeights) -> None:
        """Draw with these weights from here on."""
        self._following = replace(self._following, weights=weights)

    def use(self, model: GenerativeModel) -> None:
        """Draw by another model from here on."""
        self._following = replace(self._following, model=model)

    def upon(self, model: GenerativeModel) -> np.ndarray:
        """Return what rows are drawn upon that a model draws, each person's together as often as another's."""
        self.use(model)
        parts = self._parts()
        _, _, weights = self._rows(parts)
        if not len(weights):  # no person that was drawn has a row
            return np.zeros((0, len(self._following.context.cardinalities)), np.int64)
        given = np.concatenate([p.given for p in parts])
        chosen = self._rng.choice(len(given), min(PERSONS, len(given)), p=weights / weights.sum())
        return given[chosen].astype(np.int64)

    def weighted(self) -> Histories:
        """Return drawn rows, and their weights: the profile is of one row of each person."""
        parts = self._parts()
        codes, _, weights = self._rows(parts)
        return Histories(self._stacked(p.drawn for p in parts), codes, weights)

    def counted(self, layout: Layout) -> Histories:
        """Return drawn rows, and their weights: all rows were counted, and those of a person who has many for less.

        Args:
            layout: what was counted.
        """
        parts = self._parts()
        codes, parents, _ = self._rows(parts)
        drawn = self._stacked(p.drawn for p in parts)
        counted = np.concatenate([codes, self._following.context.agreed(drawn)], 1)[:, : len(layout.cardinalities)]
        weights = history_counts.parts_of(counted, self._above.root[parents], layout, self._bound_of(layout))
        return Histories(drawn, codes, weights.astype(np.float64))

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
    paid = table.protection.entries(table.state.facts.profile_release or table.id)
    charged = (event for entry in paid if entry.mechanism == PROFILE for event in entry.events)
    first = next((e for e in charged if isinstance(e, (Gaussian, DiscreteGaussian))), None)
    units = max(table.profile.population, 1)
    return 0.0 if first is None else first.combined_noise_multiplier * first.size**0.5 / units


def _sized(release: TableRelease, columns: int, population: int) -> GeneratorSpec:
    spec = release.settings.training.spec()
    noise = release.allocation.noise(population)
    hidden = spec.hidden or capacity(population, noise, columns, spec.embedding, least=HISTORY_HIDDEN)
    epochs = min(spec.max_epochs, MOST_EPOCHS)
    own = {"method": Method.AUTOREGRESSIVE, "start": Start.MARGINALS, "train_only": None}
    return spec.with_(**own, hidden=hidden, max_epochs=epochs)
