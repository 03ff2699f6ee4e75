"""A release as a Python call: fit under an account's budget, then draw, save and load, without a pipeline.

>>> import pandas as pd
>>> import dp_synth_pipeline as dps
>>> ledger = dps.Ledger.open("sqlite:///ledger.db")
>>> account = ledger.open_account("patients", epsilon=6, delta=1e-5, unit="patient_id")
>>> visits = pd.DataFrame({"patient_id": range(500), "age": [20 + i % 60 for i in range(500)], "sex": ["F", "M"] * 250})
>>> quick = {"max_epochs": 1}
>>> model = dps.Synthesizer(account="patients", epsilon=1.5, ledger=ledger, training=quick, show=False).fit(visits)
>>> list(model.sample(10).columns)
['patient_id', 'age', 'sex']
>>> model.epsilon <= 1.5
True
>>> path = model.save("patients.dps")
>>> len(dps.load("patients.dps").sample(10))
10
"""

from __future__ import annotations

import json
import shutil
import uuid
import warnings
import weakref
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

from filelock import FileLock, Timeout
from pydantic import ValidationError

from dp_synth_pipeline.errors import DpSynthError, InvalidInput, ReleaseStateError, UnexpectedFailure
from dp_synth_pipeline.ledger import Account, Ledger
from dp_synth_pipeline.progress_bars import ProgressBars
from dp_synth_pipeline.reporting import release_card
from dp_synth_pipeline.reporting.card import ReleaseCard, from_json, to_json
from dp_synth_pipeline.synthesis import retention, stages
from dp_synth_pipeline.synthesis.database import stages as database
from dp_synth_pipeline.synthesis.database.release import DatabaseRelease
from dp_synth_pipeline.synthesis.database.settings import DatabaseSettings
from dp_synth_pipeline.synthesis.database.state import DatabaseState
from dp_synth_pipeline.synthesis.partial_rows import completed, log_likelihoods
from dp_synth_pipeline.synthesis.protection import OPEN
from dp_synth_pipeline.synthesis.reading import text_sentence
from dp_synth_pipeline.synthesis.rebalancing import Share
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.run_state import RunState
from dp_synth_pipeline.synthesis.sampling import Asked, Drawer, few
from dp_synth_pipeline.synthesis.section import Section, said
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.synthesis.store import Store, default_store, ledger_url
from dp_synth_pipeline.synthetic_tables import SyntheticTables, holds_tables, load_tables, packed
from dp_synth_pipeline.tabular.condition import Where
from dp_synth_pipeline.tabular.constraints.parse import parse
from dp_synth_pipeline.tabular.offsets import published
from dp_synth_pipeline.tabular.profiling.profile import TableProfile
from dp_synth_pipeline.tabular.schema import Column
from dp_synth_pipeline.tabular.sources import ingestion
from dp_synth_pipeline.tabular.sources import source as sources

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa

Settings = TypeVar("Settings", bound=Section)

GENERATOR, CARD, RULES = "generator", "release_card.json", "rules.json"
"""What lies in a saved model: the released generator's folder, its card, and the rules that its rows keep."""

ACROSS = ("shares", "rules", "find_formulas")
"""Settings that related tables have, and a single one has not."""

DRAWING = ("synthetic", "published")
"""Stages that `fit` leaves to whoever draws."""

STATE = "state.json"
"""In a release's restricted folder: how far it is, for `resume`."""


class _Heard(ProgressBars):
    """Progress bars whose warnings are Python's, which a notebook shows and a program may filter."""

    def warn(self, message: str) -> None:
        """Warn of what is surely not meant, or came out empty."""
        warnings.warn(message, stacklevel=2)


class Synthesizer:
    """Learns a table under an account's budget: reserves, charges and settles like the pipeline, without it.

    Args:
        account: the account that pays; open it first: `ledger.open_account`.
        epsilon: the most that one `fit` may cost.
        ledger: where the account is; by default the one at home.
        table: the table's name in the ledger and in the store.
        store: where releases are kept; by default the one at home.
        show: draw progress bars.
        settings: any field of `ReleaseSettings`, such as `columns`, `nulls`, `population` or `training`; of related tables,
            of `DatabaseSettings`, such as `rules` and `shares`. The unit is the account's unless `unit` names another.

    Raises:
        InvalidInput: if a setting or a declared fact is unknown or cannot be, naming it.
        UnknownAccount: if the ledger has no such account.
    """

    def __init__(
        self,
        account: str,
        epsilon: float,
        ledger: Ledger | None = None,
        *,
        table: str = "table",
        store: Store | None = None,
        show: bool = True,
        **settings: Any,
    ) -> None:
        self.ledger = ledger or Ledger.open(ledger_url())
        self._store, self._show = store or default_store(), show
        self._terms = {**_unit(self.ledger.account(account)), **settings}
        self._terms |= {"account": account, "epsilon": epsilon, "table": table}
        self._checked("")

    @overload
    def fit(self, data: pd.DataFrame | pa.Table | str | Path, *, resume: str = "") -> SyntheticModel: ...

    @overload
    def fit(
        self, data: Mapping[str, Any], *, relations: Mapping[str, Mapping[str, Any]], resume: str = ""
    ) -> SyntheticTables: ...

    def fit(
        self, data: Any, *, relations: Mapping[str, Mapping[str, Any]] | None = None, resume: str = ""
    ) -> SyntheticModel | SyntheticTables:
        """Learn a table and settle the release; return the model that rows are drawn from.

        Args:
            data: a pandas or pyarrow table, a path, or a URI as in the YAML's `source`. Text is learnt as categories;
                dates and numbers that are text need a declared kind, and their cells are read by it one by one.
            relations: with several tables by name in `data`: of each its `key`, its `parent` ({COLUMN: TABLE}), the column
                of its `order`, and `max_rows`, as in `DatabaseTable`. All that belongs to one row of the root, the table
                without a parent, is protected together; without data, it has a row for whom the other tables name. A table
                with `public` ({"why": ..., "by": ...}) and a `key` is copied as it is; rows of others refer to it by
                `refers` ({COLUMN: TABLE}).
            resume: the id of a release that an earlier `fit` of this table left open; it goes on from there.

        Warns:
            UserWarning: before anything is charged, if a row is the unit though a column's name says that it names people
                (`unit="row"` says that this is meant); and once it is settled, if a column came out empty.

        Raises:
            BudgetExceeded: if the account cannot pay; nothing was read or charged.
            InvalidInput: if the data cannot be used; nothing was charged.
        """
        if relations is not None or isinstance(data, Mapping):
            return self._fit_database(data, relations or {}, resume)
        return self._fit_table(data, resume)

    def _fit_table(self, data: pd.DataFrame | pa.Table | str | Path, resume: str) -> SyntheticModel:
        for name in ACROSS:
            if name in self._terms:
                raise InvalidInput(
                    f"{name}: only related tables have this setting. Leave it out, or give several tables and relations."
                )
        with _source(data) as uri, self._alone(), _Heard(show=self._show) as bars:
            settings, run_id = self._checked(uri), uuid.uuid4().hex
            if not isinstance(data, (str, Path)) and not resume:
                bars.say(text_sentence(settings, ingestion.column_types(sources.parse(uri))))
            if resume:
                state = RunState.from_dict(_left(self._store, settings.name, resume))
                how: dict[str, Any] = {"attempt": run_id, "progress": bars}
                release = Release.open(settings, state, self.ledger, self._store, **how)
            else:
                release = Release.reserve(settings, self.ledger, self._store, key=run_id, run_id=run_id, progress=bars)
            self._learn(release, stages.of_release(release.settings))
            kept = _packed(release)
            release.drop()
            return kept

    def _fit_database(
        self, data: Mapping[str, Any], relations: Mapping[str, Mapping[str, Any]], resume: str
    ) -> SyntheticTables:
        without = {name for name in relations if "parent" not in relations[name]}  # a root need have no table
        if not isinstance(data, Mapping) or not set(relations) - without <= set(data) <= set(relations):
            raise InvalidInput(
                "relations: tables and relations name the same tables: fit({'patients': ..., 'visits': ...}, relations="
                "{'patients': {'key': ...}, 'visits': {'parent': {COLUMN: 'patients'}}})."
            )
        with ExitStack() as stack:
            stack.enter_context(self._alone())
            bars = stack.enter_context(_Heard(show=self._show))
            files = {name: stack.enter_context(_source(table)) for name, table in data.items()}
            terms = {k: v for k, v in self._terms.items() if k not in ("unit", "table")}
            tables = {name: {**facts, "source": files.get(name, "")} for name, facts in relations.items()}
            named_terms: dict[str, Any] = {**terms, "database": self._terms["table"], "tables": tables}
            settings = _named(DatabaseSettings, **named_terms)
            run_id = uuid.uuid4().hex
            if resume:
                state = DatabaseState.from_dict(_left(self._store, settings.name, resume))
                how: dict[str, Any] = {"attempt": run_id, "progress": bars}
                release = DatabaseRelease.open(settings, state, self.ledger, self._store, **how)
            else:
                release = DatabaseRelease.reserve(
                    settings, self.ledger, self._store, key=run_id, run_id=run_id, progress=bars
                )
            self._learn(release, database.of_database(release.settings))
            kept = packed(release)
            release.drop()
            return kept

    def _learn(self, release: Release | DatabaseRelease, all_stages: Sequence[Any]) -> None:
        """Take a release to its settlement, and keep how far it is after each stage, for `resume`."""
        try:
            for stage in all_stages:
                if stage.name in DRAWING or stage.done(release):
                    continue
                with _withheld(stage.name):
                    release.run(stage)
                with retention.private():
                    (release.restricted / STATE).write_text(json.dumps(release.state.to_dict()), encoding="utf-8")
        except BaseException as error:
            if (state := release.record.state) in OPEN:
                end = "void" if state == "reserved" else "settle"
                error.add_note(
                    f"Release {release.id} is still open: what started in it stays charged, the rest reserved. Go on with "
                    f"fit(..., resume={release.id!r}); or end it: dp-synth ledger {end} {release.id} --why REASON."
                )
            raise

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the table's lock: two fits at once would learn from each other's marginals, which only one paid for."""
        lock = FileLock(self._store.locks() / f"{self._terms['table']}.fit.lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise ReleaseStateError(
                f"table {self._terms['table']!r} is being fitted by another call; wait until it ends, or name another table."
            ) from None
        try:
            yield
        finally:
            lock.release()

    def _checked(self, source: str) -> ReleaseSettings:
        own = {name: value for name, value in self._terms.items() if name not in ACROSS}
        return _named(ReleaseSettings, **own, source=source)


@dataclass(frozen=True, repr=False)
class SyntheticModel:
    """A released generator: rows drawn from it cost nothing more, however many.

    Attributes:
        folder: its files, which live as long as the model does.
    """

    folder: Path

    def __post_init__(self) -> None:
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)  # or when the process ends

    def sample(
        self, rows: int, *, where: Where | None = None, share: Share | None = None, seed: int | None = None
    ) -> pd.DataFrame:
        """Return `rows` synthetic rows with the source's columns, types and formats. It costs nothing, however often.

        Args:
            where: only rows that satisfy a condition, as often as the model has them: SQL over the columns, such as
                `"y = 'yes' AND age BETWEEN 60 AND 80"`, or values by column, such as `{"y": "yes", "age": [60, 61]}`.
            share: parts of the rows that values are to have, such as `{"y": {"yes": 0.5}}`; values that are not named share
                the rest in proportion.
            seed: the same seed draws the same rows from the same model, with the same version on the same kind of
                machine. Drawing is post-processing of what was released, so a seed gives nothing away. Noise is never
                seeded, in no call and by no setting: who knew the seed could subtract it.

        Returns:
            the rows; with `where` or `share`, `attrs["effective_sample_size"]` says how many rows drawn one by one they are
            worth, at most `rows`.

        Warns:
            UserWarning: if they are worth less than half as many.

        Raises:
            InvalidInput: if nothing fits, saying what to relax.
        """
        drawn = self._drawn(rows, Asked(where, share, seed))
        frame = drawn.table.to_pandas()
        if drawn.effective is not None:
            frame.attrs["effective_sample_size"] = drawn.effective
        return frame

    def sample_arrow(
        self, rows: int, *, where: Where | None = None, share: Share | None = None, seed: int | None = None
    ) -> pa.Table:
        """Return what `sample` does as an Arrow table, in the source's exact types."""
        return self._drawn(rows, Asked(where, share, seed)).table

    def _drawn(self, rows: int, asked: Asked) -> _Rows:
        import pyarrow as pa

        drawer = self.drawer()
        drawn = drawer.draw(rows, asked)
        table = pa.Table.from_batches(drawn, drawer.schema)
        if said := few(rows, drawn.effective):
            warnings.warn(said, stacklevel=3)
        return _Rows(table, drawn.effective)

    def complete(self, frame: pd.DataFrame, *, seed: int | None = None) -> pd.DataFrame:
        """Return a copy of partial rows with their nulls filled: each row's from the model, given what is known of that row.

        The frame is your own: nothing is learnt from it, nothing is kept, and it costs nothing. What comes back is as
        private as the frame. Known cells come back as they are, in their type. Columns that the frame lacks are added;
        columns that the model did not learn stay as they are. Where a cell lies beyond what was released, the model is
        told the nearest bin of a number, and that a name is among the suppressed ones; if it knows of none, the cell tells
        it nothing. Filled cells keep the declared rules across columns, as far as the known cells of their row leave room.

        Args:
            frame: rows with the model's columns, or some of them.
            seed: the same seed fills the same values.

        Warns:
            UserWarning: if nothing was found for some rows that keeps the rules beside what is known of them.

        Raises:
            InvalidInput: if a column holds values of another kind, naming it.
        """
        return completed(frame, self.drawer(), Asked(seed=seed).chance())

    def log_likelihood(self, frame: pd.DataFrame) -> np.ndarray:
        """Return how likely the released generator makes each row, float64 (rows,), in nats: higher is likelier.

        It is log P(codes of the row), raking included, plus for each column the log-probability of its value within its
        code: the released weight of a name among those that share a code, or of a number among those of its bin. For
        numbers without a smallest step it is a density, per unit of the column (days for dates, microseconds for times);
        so figures of one model compare, and those of models with other columns do not. A row that the model cannot draw,
        such as with a name that was not released, has -inf. Suppressed categories count as they were learnt, before
        generation writes released ones in their place.

        The rows are your own: nothing is learnt from them, and figures of real rows are as private as those rows.
        """
        return log_likelihoods(frame, self.drawer())

    @property
    def schema(self) -> pd.DataFrame:
        """What was released about each column: its kind and type, the ends of a number, the names of a category, nulls."""
        import pandas as pd

        drawer = self.drawer()
        return pd.DataFrame([_described(column, drawer) for column in drawer.codec.schema.published]).set_index(
            "column"
        )

    def __repr__(self) -> str:
        """Return whose model it is, and of which release."""
        facts = self.card().facts
        return f"<SyntheticModel of {facts.table}, release {facts.release[:12]}>"

    def _repr_html_(self) -> str:
        """Return a small card for a notebook."""
        facts = self.card().facts
        promise = (
            "no guarantee"
            if facts.epsilon is None
            else f"ε = {facts.epsilon:.3g}, δ = {facts.delta or 0:.2g}, per {facts.unit}"
        )
        profile = TableProfile.from_json((self.folder / GENERATOR / "profile.json").read_text(encoding="utf-8"))
        modelled = sum(column.kind.learned for column in self.drawer().codec.schema.published)
        learnt = f"about {profile.rows:,}, of {modelled:,} columns"
        lines = {"guarantee": promise, "rows learnt from": learnt, "release": facts.release[:12]}
        cells = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in lines.items())
        return f"<table><caption>Synthetic model of <b>{escape(facts.table)}</b></caption>{cells}</table>"

    def drawer(self) -> Drawer:
        """Return what draws rows of this model, batch by batch."""
        kept = self.folder / RULES
        declared = [parse(text) for text in json.loads(kept.read_text(encoding="utf-8"))] if kept.exists() else None
        generator = self.folder / GENERATOR
        return Drawer(generator, generator / "profile.json", declared)

    def card(self) -> ReleaseCard:
        """Return the release card: what was released, at what cost, under which assumptions."""
        return from_json((self.folder / CARD).read_text(encoding="utf-8"))

    @property
    def epsilon(self) -> float:
        """What the release cost."""
        return self.card().facts.epsilon or 0.0

    @property
    def delta(self) -> float:
        """The delta at which it cost that."""
        return self.card().facts.delta or 0.0

    def save(self, path: str | Path) -> Path:
        """Write the model to one file that `load` reads: weights, profile and card; no code, and nothing private."""
        path = Path(path)
        partial = path.with_name(f".{path.name}.partial")
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(f for f in self.folder.rglob("*") if f.is_file()):
                archive.write(file, file.relative_to(self.folder))
        return partial.replace(path)


def _named(settings: type[Settings], **facts: Any) -> Settings:
    """Return settings, or refuse what is wrong with them by its name."""
    try:
        return settings(**facts)
    except ValidationError as error:
        raise InvalidInput(said(error, settings)) from None


def _described(column: Column, drawer: Drawer) -> dict[str, Any]:
    """Return what was released about one column."""
    told = {"column": column.name, "kind": str(column.kind), "type": column.storage}
    if not column.kind.learned:
        return told
    facts = published(drawer.codec.schema, drawer.profile)[column.name]
    if column.kind.numeric:
        ends = [None if x is None else column.kind.shown(x) for x in (facts.lower, facts.upper)]
        return told | {"lower": ends[0], "upper": ends[1], "nulls": round(facts.null_rate, 4)}
    return told | {"values": list(facts.values), "nulls": round(facts.null_rate, 4)}


class _Rows(NamedTuple):
    table: pa.Table
    effective: int | None


def load(path: str | Path) -> SyntheticModel | SyntheticTables:
    """Read what `save` of a model wrote, or what a pipeline released: `store/releasable/NAME` of a table or a database.

    Raises:
        InvalidInput: if there is neither.
    """
    if holds_tables(path):
        return load_tables(path)
    folder = Path(mkdtemp(prefix="dps-"))
    try:
        if Path(path).is_dir():
            shutil.copytree(Path(path) / GENERATOR, folder / GENERATOR)
            shutil.copy(Path(path) / CARD, folder)
        else:
            with zipfile.ZipFile(path) as archive:
                archive.extractall(folder)
        model = SyntheticModel(folder)
        model.card()
    except (OSError, KeyError, zipfile.BadZipFile):
        shutil.rmtree(folder, ignore_errors=True)
        raise InvalidInput(
            f"{path} is no saved model; name a file that `save` wrote, or the folder of a table under store/releasable."
        ) from None
    return model


def _packed(release: Release) -> SyntheticModel:
    """Copy what a release let out into a folder of its own: the store's copy is replaced by the table's next release."""
    folder = Path(mkdtemp(prefix="dps-"))
    shutil.copytree(release.state.path("generator"), folder / GENERATOR)
    (folder / CARD).write_text(to_json(release_card.build(release)), encoding="utf-8")
    (folder / RULES).write_text(json.dumps(release.rules), encoding="utf-8")
    return SyntheticModel(folder)


def _unit(account: Account) -> dict[str, Any]:
    """Return the account's unit; none where it is a row, which nobody need have chosen."""
    return {} if account.unit == "row" else {"unit": {"column": account.unit, "max_rows": account.max_rows}}


def _left(store: Store, table: str, release: str) -> dict[str, Any]:
    """Return the state that an earlier `fit` left of a release."""
    try:
        return json.loads((store.restricted(table, release) / STATE).read_text(encoding="utf-8"))
    except OSError:
        raise InvalidInput(
            f"release {release} of {table!r} left nothing to go on with: it had not finished reading, or it is another "
            f"table's. Fit again without resume: a new release is a new charge."
        ) from None


@contextmanager
def _withheld(stage: str) -> Iterator[None]:
    """Let our own errors pass; withhold the text of a library's, which may quote a cell."""
    try:
        yield
    except DpSynthError:
        raise
    except Exception as error:
        raise UnexpectedFailure(stage, error) from None


@contextmanager
def _source(data: pd.DataFrame | pa.Table | str | Path) -> Iterator[str]:
    """Yield a URI of the rows; a table in memory lies in a file that only its owner can read, for as long as this lasts."""
    if isinstance(data, (str, Path)):
        yield str(data)
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    if isinstance(data, pa.Table):
        table = data
    else:
        try:
            table = pa.Table.from_pandas(data, preserve_index=False)
        except (pa.ArrowException, AttributeError, TypeError):
            raise InvalidInput(
                "fit: expected a pandas or pyarrow table whose columns hold one type each, a path or a URI; got something "
                "else. Give each column one type, as by `astype`."
            ) from None
    if not table.num_columns:
        raise InvalidInput("fit: the table has no columns; nothing was charged.")
    with retention.private(), TemporaryDirectory(prefix="dps-") as folder:
        pq.write_table(table, Path(folder) / "rows.parquet")
        yield f"{folder}/rows.parquet"
