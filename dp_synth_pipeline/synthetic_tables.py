"""Related tables as a Python call: fitted under one person-level budget, then drawn, saved and loaded.

model = dps.Synthesizer(account="patients", epsilon=3, ledger=ledger).fit(
    {"patients": patients, "visits": visits},
    relations={
        "patients": {"key": "patient_id"},
        "visits": {"parent": {"patient_id": "patients"}, "order": "visited", "max_rows": 30},
    },
)
tables = model.sample(1000)   # {"patients": ..., "visits": ...}
"""

from __future__ import annotations

import json
import shutil
import warnings
import weakref
import zipfile
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.relations import ruling
from dp_synth_pipeline.relations.structure import PublicTable, Related, Relations
from dp_synth_pipeline.reporting import database_card
from dp_synth_pipeline.reporting.card import ReleaseCard, from_json, to_json
from dp_synth_pipeline.synthesis.database import public_tables
from dp_synth_pipeline.synthesis.database.drawing import DatabaseDrawer, DrawnTables
from dp_synth_pipeline.synthesis.database.release import DatabaseRelease
from dp_synth_pipeline.synthesis.generator_files import DATABASE
from dp_synth_pipeline.synthesis.progress import unheard
from dp_synth_pipeline.synthesis.run_state import load_schema
from dp_synth_pipeline.synthesis.sampling import Asked, Report, few
from dp_synth_pipeline.tabular.condition import Where

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

CARD, GENERATOR = "release_card.json", "generator"
"""The card of a database, and the folder of each table's generator, in what a release let out."""


@dataclass(frozen=True)
class SyntheticTables:
    """Released generators of related tables: drawing from them costs nothing more, however often.

    Attributes:
        folder: their files, which live as long as this does.
    """

    folder: Path

    def __post_init__(self) -> None:
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def sample(
        self, persons: int | None = None, *, where: Where | None = None, seed: int | None = None
    ) -> dict[str, pd.DataFrame]:
        """Return synthetic tables of so many persons: each row has its parent, keys are new, and rows keep their order.

        Args:
            persons: rows of the root; by default the released number.
            where: only persons that satisfy a condition on the root's columns, such as `"sex = 'F'"` or `{"sex": "F"}`;
                the rows of other tables follow them.
            seed: the same seed draws the same tables again. Noise is never seeded.

        Returns:
            a frame for each table, public ones as they were copied; with `where`, the root's
            `attrs["effective_sample_size"]` says how many persons drawn one by one they are worth.

        Warns:
            UserWarning: if they are worth less than half as many.

        Raises:
            InvalidInput: if nothing fits, or the condition is on columns of another table.
        """
        drawn = self._sampled(persons, where, seed)
        frames = {name: table.to_pandas() for name, table in drawn.tables.items()}
        if drawn.effective is not None:
            frames[self.relations.root.name].attrs["effective_sample_size"] = drawn.effective
        return frames

    def sample_arrow(
        self, persons: int | None = None, *, where: Where | None = None, seed: int | None = None
    ) -> dict[str, pa.Table]:
        """Return what `sample` does as Arrow tables, in the sources' exact types."""
        return self._sampled(persons, where, seed).tables

    def drawn(self, persons: int | None, asked: Asked, report: Report = unheard) -> DrawnTables:
        """Return tables of so many persons, as they are asked for, and how many persons drawn one by one they are worth."""
        drawer = self.drawer()
        return drawer.draw(drawer.persons if persons is None else persons, asked, report)

    def _sampled(self, persons: int | None, where: Where | None, seed: int | None) -> DrawnTables:
        drawn = self.drawn(persons, Asked(where=where, seed=seed))
        if said := few(drawn.tables[self.relations.root.name].num_rows, drawn.effective):
            warnings.warn(said, stacklevel=3)
        return drawn

    def card(self) -> ReleaseCard:
        """Return the release card: what was released, at what cost, under which assumptions.

        Raises:
            InvalidInput: if a version before this one saved the database, which wrote none.
        """
        try:
            return from_json((self.folder / CARD).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InvalidInput("this database was saved without a card; fit it again, or ask the ledger.") from None

    def drawer(self) -> DatabaseDrawer:
        """Return what draws the tables, one after the other, by the rules that they were released with."""
        sources = {name: load_schema(text) for name, text in self._facts()["sources"].items()}
        relations = self.relations
        rules = [ruling.read(text, relations) for text in self._facts().get("rules", [])]
        folders = {table.name: self.folder / table.name for table in relations}
        public = {table.name: self.folder / table.name / public_tables.FILE for table in relations.public}
        return DatabaseDrawer(relations, sources, folders, rules, public)

    def _facts(self) -> dict[str, Any]:
        return json.loads((self.folder / DATABASE).read_text(encoding="utf-8"))

    @property
    def relations(self) -> Relations:
        """How the tables hang together."""
        facts = self._facts()
        public = [PublicTable(**table) for table in facts.get("public", [])]  # an earlier version had none
        return Relations([Related.of(table) for table in facts["tables"]], public)

    @property
    def release(self) -> str:
        """The ledger's id of the release that paid for the tables."""
        return self._facts()["release"]

    @property
    def epsilon(self) -> float:
        """What the release cost, per row of the root and all that belongs to it."""
        return self._facts()["epsilon"]

    @property
    def delta(self) -> float:
        """The delta at which it cost that."""
        return self._facts()["delta"]

    def save(self, path: str | Path) -> Path:
        """Write the generators to one file that `load_tables` reads: weights, profiles and structure; nothing private."""
        path = Path(path)
        partial = path.with_name(f".{path.name}.partial")
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(f for f in self.folder.rglob("*") if f.is_file()):
                archive.write(file, file.relative_to(self.folder))
        return partial.replace(path)


def load_tables(path: str | Path) -> SyntheticTables:
    """Read what `SyntheticTables.save` wrote, or what a pipeline released: `store/releasable/DATABASE`.

    Raises:
        InvalidInput: if there is neither.
    """
    folder = Path(mkdtemp(prefix="dps-"))
    try:
        if Path(path).is_dir():
            _copy(Path(path), folder)
        else:
            with zipfile.ZipFile(path) as archive:
                archive.extractall(folder)
        if not (folder / DATABASE).exists():
            raise KeyError
    except (OSError, KeyError, zipfile.BadZipFile):
        shutil.rmtree(folder, ignore_errors=True)
        raise InvalidInput(
            f"{path} is no saved database; name a file that `save` wrote, or the folder of a database under "
            f"store/releasable."
        ) from None
    return SyntheticTables(folder)


def holds_tables(path: str | Path) -> bool:
    """Say whether a file or a folder holds related tables, and not a single one."""
    if Path(path).is_dir():
        return (Path(path) / DATABASE).exists()
    try:
        with zipfile.ZipFile(path) as archive:
            return DATABASE in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def packed(release: DatabaseRelease) -> SyntheticTables:
    """Copy what a release let out into a folder of its own: the store's copy is replaced by the next release."""
    folder = Path(mkdtemp(prefix="dps-"))
    _copy(release.folder, folder)
    (folder / CARD).write_text(to_json(database_card.build(release)), encoding="utf-8")
    return SyntheticTables(folder)


def _copy(released: Path, folder: Path) -> None:
    """Copy the released generators of all tables, and what says how they hang together."""
    described = (released / DATABASE).read_text(encoding="utf-8")
    facts = json.loads(described)
    for table in facts["tables"]:
        shutil.copytree(released / table["name"] / GENERATOR, folder / table["name"])
    for table in facts.get("public", []):
        public_tables.release_to(released / table["name"] / public_tables.FILE, folder / table["name"])
    (folder / DATABASE).write_text(described, encoding="utf-8")
    if (released / CARD).exists():
        shutil.copy(released / CARD, folder)
