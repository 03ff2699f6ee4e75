"""Nothing that leaves a release of related tables depends on anybody's rows, but through a metered mechanism.

As in `test_one_row_more`, two neighbours are released in a world where metered mechanisms answer constants. All that leaves
is then the same to the byte. The neighbour has one person more, with more rows than are kept in every table; or one row
whose mere existence would tell: the first of a child table, the only one that a filter keeps, one that belongs to nobody.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.relations import relating
from dp_synth_pipeline.synthesis.database import drawing, histories, stages
from dp_synth_pipeline.synthesis.database.release import DatabaseRelease
from dp_synth_pipeline.tabular.schema import TableSchema
from tests.adversarial.databases import Tables, clinic, one_more, released
from tests.adversarial.pinned import Stage, differences
from tests.lanes import by_night
from tests.light import light  # noqa: F401

pytestmark = pytest.mark.slow

FIRST_TIMES = "visits, else calls: first seen"


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(tmp_path, monkeypatch)


def compare(stage: Stage, one: Tables, other: Tables, **how: Any) -> dict[str, Any]:
    """Release two databases, and return what left of the first if it is what left of the second."""
    first, second = stage.play("one", released(one, **how)), stage.play("other", released(other, **how))
    found = list(differences(first, second))
    assert not found, "\n".join(found[:20])
    return first


def test_one_person_more_changes_not_a_byte_of_what_leaves(stage: Stage) -> None:
    first = compare(stage, clinic(), one_more(clinic()))
    assert first["told"] == ""
    assert {"clinic/visits/generator/generator.safetensors", "clinic/release_card.json"} <= first["files"].keys()
    assert set(first["published"]) == {f"{name}.parquet" for name in FULL}
    assert len(first["log"]) > 10


def without(tables: Tables, *names: str) -> Tables:
    return {name: table.head(0) if name in names else table for name, table in tables.items()}


FULL = clinic()


def but(tables: Tables, name: str, rows: int, **cells: Any) -> Tables:
    """Return the tables with copies of the first row of one of them, with some cells changed."""
    more = pd.concat([FULL[name].head(1)] * rows, ignore_index=True).assign(**cells)
    return {**tables, name: pd.concat([tables[name], more], ignore_index=True).astype(tables[name].dtypes)}


UNSEEN, NOBODY = without(FULL, "visits", "drugs"), without(FULL, *FULL)
TIMELESS = {
    **FULL,
    "visits": FULL["visits"].assign(seen=pd.Series(pd.NaT, FULL["visits"].index, dtype=FULL["visits"]["seen"].dtype)),
}
RARE: dict[str, Any] = {"visits": {"filter": "ward = 'Bern'"}}
DROPS: dict[str, Any] = {
    "patients": {"columns": {"city": {"nulls": "drop"}}},
    "visits": {"columns": {"seen": {"nulls": "drop"}, "ward": {"nulls": "drop"}}},
}
WHOLE = {**FULL, "visits": FULL["visits"].assign(seen=range(len(FULL["visits"])))}
LONELY = but(WHOLE, "patients", 1, patient=7, city="Atlantis")
FIRST, LAST = ({"patient": 7.0, "ward": "Atlantis", "seen": seen} for seen in (-(2**63), 2**63 - 1))

Story = tuple[Tables, dict[str, Tables], dict[str, Any]]
STORIES: dict[str, Story] = {
    "a clinic": (
        FULL,
        {
            "rows that belong to nobody": but(FULL, "visits", 50, patient=7.5),
            "rows whose key is NaN": but(FULL, "visits", 50, patient=float("nan")),
            "rows of the root without a key": but(FULL, "patients", 5, patient=None),
            "a key that a hundred others have": but(FULL, "visits", 100, visit="v0001"),
        },
        {},
    ),
    "patients who were never there": (
        UNSEEN,
        {
            "the first visit": but(UNSEEN, "visits", 1, ward="Atlantis"),
            "the first visit, and its first drug": but(
                but(UNSEEN, "visits", 1, ward="Atlantis"), "drugs", 1, visit=FULL["visits"]["visit"][0], drug="hemlock"
            ),
        },
        {},
    ),
    "nobody": (NOBODY, {"one person": but(NOBODY, "patients", 1, city="Atlantis")}, {}),
    "a ward that nobody was on": (
        FULL,
        {"the only row that a filter keeps": but(FULL, "visits", 1, ward="Bern")},
        RARE,
    ),
    "visits without a time": (
        TIMELESS,
        {"the first time of all": but(TIMELESS, "visits", 1, seen=pd.Timestamp("1850-01-01"))},
        {},
    ),
    "rows with a null that are left out": (
        FULL,
        {
            "a person whose rows hold the only nulls": but(
                but(FULL, "patients", 1, patient=7, city=None), "visits", 9, patient=7.0, seen=pd.NaT, ward=None
            )
        },
        DROPS,
    ),
    "an order of whole numbers": (
        WHOLE,
        {"a distance that no column holds": but(but(LONELY, "visits", 1, **FIRST), "visits", 1, **LAST)},
        {},
    ),
}


NIGHT = {"patients who were never there", "nobody", "a ward that nobody was on", "an order of whole numbers"}


@pytest.mark.parametrize("name", by_night(STORIES, NIGHT))
def test_what_rows_exist_changes_neither_the_outcome_nor_what_is_refused(stage: Stage, name: str) -> None:
    tables, neighbours, changes = STORIES[name]
    first = stage.play("first", released(tables, changes=changes, upto="settled"))
    for told, other in neighbours.items():
        found = list(differences(first, stage.play(told, released(other, changes=changes, upto="settled"))))
        assert not found, "\n".join([told, *found[:20]])


@pytest.mark.nightly
class TestWhatWouldBeCaught:
    """Each of these was, or could be, in the code."""

    def caught(self, stage: Stage, place: str, upto: str = "settled") -> None:
        with pytest.raises(AssertionError, match=place):
            compare(stage, clinic(), one_more(clinic()), upto=upto)

    def test_a_bound_that_nobody_noised(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        honest = relating.relate

        def told(*given: Any) -> Any:
            found = honest(*given)
            times = pq.read_table(found["patients"].path)[FIRST_TIMES].to_pandas()
            columns = [
                replace(c, lower=times.min().to_pydatetime()) if c.name == FIRST_TIMES else c
                for c in found["patients"].schema
            ]
            return found | {"patients": replace(found["patients"], schema=TableSchema(tuple(columns)))}

        monkeypatch.setattr(relating, "relate", told)
        self.caught(stage, "/files/clinic/patients/", upto="profile")

    def test_a_number_of_persons_that_nobody_noised(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        def told(relations: Any, name: str, tables: Any) -> int:
            return tables[str(relations[name].parent)].state.units

        monkeypatch.setattr(histories, "persons", told)
        self.caught(stage, "/files/clinic/calls/profile.json")  # of all children; the first ones are named

    @pytest.mark.parametrize("which", ["real ones", "their order"])
    def test_keys_of(self, stage: Stage, monkeypatch: pytest.MonkeyPatch, which: str) -> None:
        honest = drawing.DatabaseDrawer._written

        def told(self: Any, drawn: Any, rng: Any) -> Any:
            real = pd.read_parquet(stage.here / "patients.parquet")["patient"]
            keys = real if which == "real ones" else real.rank(ascending=False)
            table = honest(self, drawn, rng)["patients"][: len(keys)]
            column = pa.array(keys[: table.num_rows].astype("int64"))
            return {"patients": table.set_column(0, "patient", column)}

        monkeypatch.setattr(drawing.DatabaseDrawer, "_written", told)
        self.caught(stage, "/files/clinic/patients/synthetic.parquet", upto="synthetic")

    def test_a_record_of_how_many_persons_there_are(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        honest = stages.described

        def told(release: DatabaseRelease) -> Any:
            return honest(release) | {"persons": release.state.rows["visits"].units}

        monkeypatch.setattr(stages, "described", told)
        self.caught(stage, "/files/clinic/database.json")
