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
import weakref
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout
from pydantic import ValidationError

from dp_synth_pipeline.errors import DpSynthError, InvalidInput, ReleaseStateError, UnexpectedFailure
from dp_synth_pipeline.ledger import Account, Ledger
from dp_synth_pipeline.progress_bars import ProgressBars
from dp_synth_pipeline.reporting import release_card
from dp_synth_pipeline.reporting.card import ReleaseCard, from_json, to_json
from dp_synth_pipeline.synthesis import retention, stages
from dp_synth_pipeline.synthesis.protection import OPEN
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.synthesis.run_state import RunState
from dp_synth_pipeline.synthesis.sampling import Drawer
from dp_synth_pipeline.synthesis.settings import ReleaseSettings
from dp_synth_pipeline.synthesis.store import Store, default_store, ledger_url
from dp_synth_pipeline.tabular.constraints.parse import parse

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

GENERATOR, CARD, RULES = "generator", "release_card.json", "rules.json"
"""What lies in a saved model: the released generator's folder, its card, and the rules that its rows keep."""

STATE = "state.json"
"""In a release's restricted folder: how far it is, for `resume`."""


class Synthesizer:
    """Learns a table under an account's budget: reserves, charges and settles like the pipeline, without it.

    Args:
        account: the account that pays; open it first: `ledger.open_account`.
        epsilon: the most that one `fit` may cost.
        ledger: where the account is; by default the one at home.
        table: the table's name in the ledger and in the store.
        store: where releases are kept; by default the one at home.
        show: draw progress bars.
        settings: any field of `ReleaseSettings`, such as `columns`, `nulls`, `population` or `training`. The privacy unit is
            the account's unless `unit` names another.

    Raises:
        InvalidInput: if a setting is unknown or cannot be, naming it.
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
        self._terms = {"unit": _unit(self.ledger.account(account)), **settings}
        self._terms |= {"account": account, "epsilon": epsilon, "table": table}
        self._checked("")

    def fit(self, data: pd.DataFrame | pa.Table | str | Path, *, resume: str = "") -> SyntheticModel:
        """Learn a table and settle the release; return the model that rows are drawn from.

        Args:
            data: a pandas or pyarrow table, a path, or a URI as in the YAML's `source`.
            resume: the id of a release that an earlier `fit` of this table left open; it goes on from there.

        Raises:
            BudgetExceeded: if the account cannot pay; nothing was read or charged.
            InvalidInput: if the data cannot be used; nothing was charged.
        """
        with _source(data) as uri, self._alone(), ProgressBars(show=self._show) as bars:
            settings, run_id = self._checked(uri), uuid.uuid4().hex
            if resume:
                state = _left(self._store, settings.name, resume)
                how: dict[str, Any] = {"attempt": run_id, "progress": bars}
                release = Release.open(settings, state, self.ledger, self._store, **how)
            else:
                release = Release.reserve(settings, self.ledger, self._store, key=run_id, run_id=run_id, progress=bars)
            return self._learnt(release)

    def _learnt(self, release: Release) -> SyntheticModel:
        folder = release.restricted
        try:
            for stage in stages.of_release(release):
                if stage.name == "synthetic" or stage.done(release):
                    continue
                with _withheld(stage.name):
                    release.run(stage)
                with retention.private():
                    (folder / STATE).write_text(json.dumps(release.state.to_dict()), encoding="utf-8")
        except BaseException as error:
            if (state := release.record.state) in OPEN:
                end = "void" if state == "reserved" else "settle"
                error.add_note(
                    f"Release {release.id} is still open: what started in it stays charged, the rest reserved. Go on with "
                    f"fit(..., resume={release.id!r}); or end it: dp-synth ledger {end} {release.id} --why REASON."
                )
            raise
        kept = _packed(release)
        retention.drop(release.store, release.settings.name, release.id)
        return kept

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
        try:
            return ReleaseSettings(**self._terms, source=source)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            reason = first["msg"].removeprefix("Value error, ").rstrip(".")
            raise InvalidInput(f"{place}: {reason}." if place else f"{reason}.") from None


@dataclass(frozen=True)
class SyntheticModel:
    """A released generator: rows drawn from it cost nothing more, however many.

    Attributes:
        folder: its files, which live as long as the model does.
    """

    folder: Path

    def __post_init__(self) -> None:
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)  # or when the process ends

    def sample(self, rows: int) -> pd.DataFrame:
        """Return `rows` synthetic rows with the source's columns, types and formats."""
        return self.sample_arrow(rows).to_pandas()

    def sample_arrow(self, rows: int) -> pa.Table:
        """Return `rows` synthetic rows as an Arrow table, in the source's exact types."""
        import pyarrow as pa

        kept = self.folder / RULES  # a pipeline's own rows keep the rules of its YAML
        declared = [parse(text) for text in json.loads(kept.read_text(encoding="utf-8"))] if kept.exists() else []
        generator = self.folder / GENERATOR
        drawer = Drawer(generator, generator / "profile.json", declared)
        return pa.Table.from_batches(drawer.draw(rows), drawer.schema)

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


def load(path: str | Path) -> SyntheticModel:
    """Read a model that `SyntheticModel.save` wrote, or that a pipeline released: `store/releasable/TABLE`.

    Raises:
        InvalidInput: if there is neither.
    """
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
    rules = release.settings.validation.rules if release.settings.validation.enforce_rules else []
    (folder / RULES).write_text(json.dumps(rules), encoding="utf-8")
    return SyntheticModel(folder)


def _unit(account: Account) -> Any:
    return "row" if account.unit == "row" else {"column": account.unit, "max_rows": account.max_rows}


def _left(store: Store, table: str, release: str) -> RunState:
    try:
        return RunState.from_dict(json.loads((store.restricted(table, release) / STATE).read_text(encoding="utf-8")))
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

    if not isinstance(data, pa.Table):
        try:
            data = pa.Table.from_pandas(data, preserve_index=False)
        except (pa.ArrowException, AttributeError, TypeError):
            raise InvalidInput(
                "fit: expected a pandas or pyarrow table whose columns hold one type each, a path or a URI; got something "
                "else. Give each column one type, as by `astype`."
            ) from None
    with retention.private(), TemporaryDirectory(prefix="dps-") as folder:
        pq.write_table(data, Path(folder) / "rows.parquet")
        yield f"{folder}/rows.parquet"
