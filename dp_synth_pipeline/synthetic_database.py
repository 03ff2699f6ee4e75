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
import weakref
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.synthesis.database.drawing import DatabaseDrawer
from dp_synth_pipeline.synthesis.database.release import DatabaseRelease
from dp_synth_pipeline.synthesis.run_state import dump_schema, load_schema
from dp_synth_pipeline.tabular.relations.structure import Related, Relations

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

DESCRIBED = "database.json"
"""In a saved database: how its tables hang together, and what it cost."""


@dataclass(frozen=True)
class SyntheticDatabase:
    """Released generators of related tables: drawing from them costs nothing more, however often.

    Attributes:
        folder: their files, which live as long as this does.
    """

    folder: Path

    def __post_init__(self) -> None:
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def sample(self, persons: int | None = None, *, seed: int | None = None) -> dict[str, pd.DataFrame]:
        """Return synthetic tables of so many persons: each row has its parent, keys are new, and rows keep their order.

        Args:
            persons: rows of the root; by default the released number.
            seed: the same seed draws the same tables again. Noise is never seeded.
        """
        return {name: table.to_pandas() for name, table in self.sample_arrow(persons, seed=seed).items()}

    def sample_arrow(self, persons: int | None = None, *, seed: int | None = None) -> dict[str, pa.Table]:
        """Return what `sample` does as Arrow tables, in the sources' exact types."""
        drawer = self._drawer()
        return drawer.draw(drawer.persons if persons is None else persons, seed)

    def _drawer(self) -> DatabaseDrawer:
        facts = self._facts()
        relations = Relations([Related(**table) for table in facts["tables"]])
        sources = {name: load_schema(text) for name, text in facts["sources"].items()}
        return DatabaseDrawer(relations, sources, {table.name: self.folder / table.name for table in relations})

    def _facts(self) -> dict[str, Any]:
        return json.loads((self.folder / DESCRIBED).read_text(encoding="utf-8"))

    @property
    def epsilon(self) -> float:
        """What the release cost, per row of the root and all that belongs to it."""
        return self._facts()["epsilon"]

    @property
    def delta(self) -> float:
        """The delta at which it cost that."""
        return self._facts()["delta"]

    def save(self, path: str | Path) -> Path:
        """Write the generators to one file that `load_database` reads: weights, profiles and structure; nothing private."""
        path = Path(path)
        partial = path.with_name(f".{path.name}.partial")
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(f for f in self.folder.rglob("*") if f.is_file()):
                archive.write(file, file.relative_to(self.folder))
        return partial.replace(path)


def load_database(path: str | Path) -> SyntheticDatabase:
    """Read what `SyntheticDatabase.save` wrote.

    Raises:
        InvalidInput: if it is no such file.
    """
    folder = Path(mkdtemp(prefix="dps-"))
    try:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
        if not (folder / DESCRIBED).exists():
            raise KeyError
    except (OSError, KeyError, zipfile.BadZipFile):
        shutil.rmtree(folder, ignore_errors=True)
        raise InvalidInput(f"{path} is no saved database; name a file that SyntheticDatabase.save wrote.") from None
    return SyntheticDatabase(folder)


def packed(release: DatabaseRelease) -> SyntheticDatabase:
    """Copy what a release let out into a folder of its own."""
    folder, record = Path(mkdtemp(prefix="dps-")), release.record
    for name, table in release.tables.items():
        shutil.copytree(table.folder / "generator", folder / name)
    facts = {
        "release": release.id,
        "epsilon": record.final_epsilon,
        "delta": record.final_delta,
        "tables": [asdict(table) for table in release.relations],
        "sources": {name: dump_schema(schema) for name, schema in release.sources.items()},
    }
    (folder / DESCRIBED).write_text(json.dumps(facts, indent=1), encoding="utf-8")
    return SyntheticDatabase(folder)
