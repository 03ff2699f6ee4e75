"""Nothing that leaves depends on the rows, but through a metered mechanism: DESIGN section 9, numbers 8, 19 and 20.

Each test plays one story twice, on two tables, in a world where metered mechanisms answer constants (`pinned`). All that
leaves must then be the same to the byte: hashes, types, refusals, run status, metadata, logs, names and sizes of files, the
ledger, what is printed, exit codes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pandas as pd
import pytest

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Ledger, decide
from dp_synth_pipeline.model.language import asked as asking
from dp_synth_pipeline.model.language import note_network
from dp_synth_pipeline.orchestration.assets import table
from dp_synth_pipeline.orchestration.in_process import QUIET, partition_tags
from dp_synth_pipeline.reporting import release_card
from dp_synth_pipeline.synthesis import stages
from dp_synth_pipeline.synthesis.mechanisms import study
from dp_synth_pipeline.synthesis.release import Release
from dp_synth_pipeline.tabular.profiling import measure
from tests.adversarial.pinned import Stage, bench, command, differences, seen
from tests.integration.conftest import Bench, people
from tests.light import light  # noqa: F401

ROWS = people(60)[["person", "age", "city"]]
QUICK: dict[str, Any] = {"training": {"method": "marginals"}}
"""A small release without training, where a test is about something else."""


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(tmp_path, monkeypatch)


STARTED = {"method": "autoregressive", "start": "public", "public": "start.parquet", "max_epochs": 1}
NOTHING_PAID = {"privacy": "none", "public": {"by": "Eve", "why": "a guess"}, "account": None, "epsilon": None}

Act = Callable[[Path], dict[str, Any]]


def refreshed(*contents: pd.DataFrame | str | bytes, upto: str = "release_card", **changes: Any) -> Act:
    """Return an act: refresh a table once for each content that its source has in turn, up to a stage, and look.

    Args:
        contents: rows of a Parquet file, or the text of a CSV file.
        changes: settings; `partition` names the one to refresh.
    """

    def act(here: Path) -> dict[str, Any]:
        with bench(here) as lent:
            return seen(lent, *[refresh(lent, content, upto=upto, **changes) for content in contents])

    return act


def refresh(
    lent: Bench,
    content: pd.DataFrame | str | bytes,
    *,
    table: str = "people",
    upto: str,
    partition: str = "",
    **changes: Any,
) -> dg.ExecuteInProcessResult:
    source = lent.folder / f"{table}.{'parquet' if isinstance(content, pd.DataFrame) else 'csv'}"
    if isinstance(content, pd.DataFrame):
        content.to_parquet(source)
    else:
        source.write_bytes(content.encode() if isinstance(content, str) else content)
    if partition:
        changes["target"] = str(lent.folder / "out/{partition}.parquet")
    definitions = lent.definitions(**{"table": table, "source": str(source), "columns": {}, **QUICK, **changes})
    chosen = dg.AssetSelection.assets(dg.AssetKey([table, upto])).upstream()
    part = dg.Definitions.merge(definitions, dg.Definitions(jobs=[dg.define_asset_job("part", chosen)]))
    return part.resolve_job_def("part").execute_in_process(
        instance=lent.instance,
        raise_on_error=False,
        run_config=QUIET,
        tags=partition_tags([partition] if partition else []),
    )


def compare(stage: Stage, one: Act, other: Act) -> dict[str, Any]:
    """Play two worlds, and return what left the first if it is what left the second."""
    first, second = stage.play("one", one), stage.play("other", other)
    found = list(differences(first, second))
    assert not found, "\n".join(found[:20])
    return first


def one_more(rows: pd.DataFrame, **cells: Any) -> pd.DataFrame:
    return pd.concat([rows, rows.iloc[[0]].assign(person=10**6, **cells)], ignore_index=True)


MORE = one_more(ROWS, age=117, city="Atlantis")


def written(rows: pd.DataFrame | str, act: Act) -> Act:
    """Return an act in a world with a CSV file of these rows, or of this text."""

    def acted(here: Path) -> dict[str, Any]:
        text = rows if isinstance(rows, str) else rows.to_csv(index=False)
        (here / "people.csv").write_text(text)
        return act(here)

    return acted


def leak(patch: pytest.MonkeyPatch, of: Any, name: str, told: Callable[..., Any]) -> None:
    """Break the code: let a function say more than it does."""
    honest = getattr(of, name)
    patch.setattr(of, name, lambda *given, **named: told(honest, *given, **named))


class TestOneRowMore:
    def test_changes_not_a_byte_of_what_leaves(self, stage: Stage) -> None:
        rows = people()
        odd = one_more(rows, age=117, city="Atlantis", income=None, smoker=True)
        training = {"max_epochs": 1, "hidden": 8}
        how = {
            "training": training,
            "validation": {"report_epsilon": 0.1},
            "account": "persons",
            "unit": {"column": "person", "max_rows": 2},
        }
        first = compare(stage, refreshed(rows, **how), refreshed(odd, **how))
        assert first["status"] == [True], first["log"][-8:]
        assert len(first["log"]) > 50
        assert {"people/release_card.json", "people/generator/generator.safetensors"} <= first["files"].keys()

    def test_changes_nothing_in_the_third_of_three_refreshes_although_the_second_read_the_same_rows(
        self, stage: Stage
    ) -> None:
        compare(stage, refreshed(ROWS, ROWS, ROWS, epsilon=1.0), refreshed(ROWS, ROWS, MORE, epsilon=1.0))

    def test_changes_nothing_but_by_its_charged_counts_in_a_refresh_that_remembers(self, stage: Stage) -> None:
        how = {"epsilon": 1.0, "refresh": {"remember": True}, "upto": "generator"}
        first = compare(stage, refreshed(ROWS, ROWS, **how), refreshed(ROWS, MORE, **how))
        assert {"people/generator/memory.safetensors"} <= first["files"].keys()

    def test_changes_not_a_byte_of_what_a_study_of_several_trainings_leaves(self, stage: Stage) -> None:
        first = compare(stage, refreshed(ROWS, **STUDIED), refreshed(MORE, **STUDIED))
        assert first["status"] == [True], first["log"][-8:]
        assert "secret number of trainings" in first["files"]["people/release_card.json"][1]

    def test_changes_not_a_byte_of_what_votes_for_written_texts_leave(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Sayings:
            def __init__(self, *_: Any) -> None: ...

            def write(self, instructions: list[str], beginnings: list[str], rng: np.random.Generator) -> list[str]:
                said = rng.choice(["slept", "walked", "fell"], len(beginnings))
                return [f"{b} {word} in {i}" for i, b, word in zip(instructions, beginnings, said, strict=True)]

        monkeypatch.setattr(note_network, "check_installed", lambda: None)
        monkeypatch.setattr(asking, "Asked", Sayings)
        (stage.folder / "model.gguf").write_bytes(b"a model")
        note = {"kind": "text", "max_length": 40, "model": str(stage.folder / "model.gguf"), "prompt": "{city}"}
        how = {**QUICK, "columns": {"note": note}}
        noted = ROWS.assign(note="fell in the garden")
        more = one_more(noted, age=117, city="Lima", note="a canary sang")
        first = compare(stage, refreshed(noted, **how), refreshed(more, **how))
        assert first["status"] == [True], first["log"][-8:]
        assert "in Oslo" in first["files"]["people/generator/survivors.json"][1]

    def test_changes_nothing_that_the_command_line_prints_or_leaves(self, stage: Stage) -> None:
        words = ("synthesize", "people.csv", "--out", "out.parquet", "--epsilon", "2", "--open-account", "--json")
        compare(stage, written(ROWS, command(*words)), written(MORE, command(*words)))


STUDIED: dict[str, Any] = {
    "training": {"max_epochs": 1, "hidden": 8, "tune": {"trials": 1, "learning_rate": [0.001, 0.1]}},
    "epsilon": 4.0,
}


class TestTheTrialsOfAStudy:
    """The first trial is the best of those that compete in every world: only the others differ."""

    def competing(
        self, monkeypatch: pytest.MonkeyPatch, number: int, diverging: bool = False, alone: bool = False
    ) -> Act:
        act = refreshed(ROWS, **STUDIED)

        def acted(here: Path) -> dict[str, Any]:
            honest, losses = study._trial, itertools.count()

            def trial(*given: Any) -> study.Trial | None:
                found, loss = honest(*given), next(losses)
                assert found is not None
                return None if diverging and loss else found._replace(look=found.look._replace(loss=float(loss)))

            with monkeypatch.context() as patch:
                patch.setattr(study, "_drawn_number", lambda rng, trials: number)
                patch.setattr(study, "_trial", trial)
                if alone:
                    patch.setattr(study.StudyPlan, "trainings", number)
                return act(here)

        return acted

    @pytest.mark.parametrize(("number", "diverging"), [(3, False), (2, True)], ids=["three compete", "one diverges"])
    def test_leave_not_a_byte_of_how_many_there_were_and_what_the_others_came_to(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch, number: int, diverging: bool
    ) -> None:
        first = compare(stage, self.competing(monkeypatch, 1), self.competing(monkeypatch, number, diverging))
        assert first["status"] == [True], first["log"][-8:]

    def test_would_be_caught_if_only_those_ran_that_compete(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one, three = (self.competing(monkeypatch, number, alone=True) for number in (1, 3))
        with pytest.raises(AssertionError, match="/files/people/generator"):
            compare(stage, one, three)


class TestWhatWouldBeCaught:
    """Each of these was, or could be, in the code."""

    def caught(self, stage: Stage, place: str, upto: str = "profile") -> None:
        with pytest.raises(AssertionError, match=place):
            compare(stage, refreshed(ROWS, upto=upto), refreshed(MORE, upto=upto))

    def test_a_fingerprint_on_the_card(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        def told(honest: Any, release: Release, *rest: Any) -> Any:
            facts = honest(release, *rest)
            return facts | {"limits": [*facts["limits"], release.protection.seal(release.state.digest)]}

        leak(monkeypatch, release_card, "_cost_facts", told)
        self.caught(stage, "/files/people/release_card.json", upto="release_card")

    def test_a_version_of_the_data_that_is_a_function_of_the_rows(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def told(honest: Any, release: Release, *rest: Any, **how: Any) -> Any:
            version = release.protection.seal(release.state.digest)[:16]
            return honest(release, *rest, **how | {"data_version": dg.DataVersion(version)})

        leak(monkeypatch, table, "materialized", told)
        self.caught(stage, "/log/.*/dagster/data_version")

    def test_a_fingerprint_that_the_ledger_keeps_in_the_open(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def told(honest: Any, release: Any, fingerprint: str, key: bytes) -> Any:
            return replace(release, fingerprint=fingerprint)

        leak(monkeypatch, decide, "noted", told)
        self.caught(stage, "/ledger/")

    def test_a_plan_that_follows_the_true_count(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        leak(monkeypatch, measure, "measure_population", lambda honest, units, *rest, **how: units)
        self.caught(stage, "/files/people/profile.json")

    def test_a_line_of_the_log_that_counts_rows(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        honest = stages.Ingestion.run
        monkeypatch.setattr(stages.Ingestion, "run", lambda self, release: _logged(release, honest(self, release)))
        self.caught(stage, "/log/")


def _logged(release: Release, facts: Any) -> Any:
    release.progress.log(f"{release.state.units} units")
    return facts


WRONG = ROWS.assign(age=[ROWS.age[0] + 1, *ROWS.age[1:]])


def guessed(owned: pd.DataFrame, **how: Any) -> Act:
    """Return an act: the owner of a table reads it, and then Eve reads her guess of it, `ROWS`."""

    def act(here: Path) -> dict[str, Any]:
        with bench(here) as lent:
            ROWS.to_parquet(here / "start.parquet")
            owner = refresh(lent, owned, upto="profile")
            eve = refresh(lent, ROWS, table="guess", **{"upto": "release_card", **how})
            return seen(lent, owner, eve)

    return act


class TestAGuessOfTheWholeTable:
    """Eve has an account of her own in the ledger that keeps `people`, and reads a guess of that table under it."""

    @pytest.mark.parametrize(
        "how",
        [
            pytest.param({"account": "eve"}, id="under her account"),
            pytest.param(NOTHING_PAID, id="as public"),
            pytest.param({"account": "eve", "training": STARTED, "upto": "generator"}, id="as a public start"),
        ],
    )
    def test_learns_nothing_whether_it_is_right_or_wrong_by_one_cell(self, stage: Stage, how: dict[str, Any]) -> None:
        first = compare(stage, guessed(ROWS, **how), guessed(WRONG, **how))
        assert first["status"] == [True, True], "a guess is used like any other table"

    def test_would_be_caught_if_the_run_were_told_of_a_match(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def told(honest: Any, ledger: Ledger, release_id: str, digest: str) -> Any:
            noted = honest(ledger, release_id, digest)
            if any(len(ids) > 1 for ids in ledger.same_content({r.id: r.fingerprint for r in ledger.releases()})):
                raise InvalidInput("this very content was read under another account.")
            return noted

        leak(monkeypatch, Ledger, "note_source", told)
        with pytest.raises(AssertionError, match="/ledger/export/releases/1/state: 'reserved' is not 'started'"):
            compare(stage, guessed(ROWS, account="eve", upto="profile"), guessed(WRONG, account="eve", upto="profile"))


def csv(*rows: str) -> str:
    return "\n".join(("city,age,income", *rows)) + "\n"


LINES = [f"{'Rome' if i % 2 else 'Oslo'},{20 + i % 50},{1000 + 7 * i}" for i in range(60)]
UNIQUE = pd.DataFrame({"age": range(20, 60), "name": [f"person {i}" for i in range(40)]})
EMPTY = pd.DataFrame({"age": range(20, 60), "income": pd.array([None] * 40, dtype="Float64")})
MANY = pd.DataFrame({"age": [20 + i % 50 for i in range(1000)]})
BLOCKS = {"partitions": {"column": "city", "values": ["Rome", "Oslo"]}, "account": "blocks", "partition": "Oslo"}
"""A release of one block, into a place of its own."""

NEIGHBOURS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "a word among numbers": (csv(*LINES), csv(*LINES, "Rome,unknown,1000"), {}),
    "a decimal among whole numbers": (csv(*LINES), csv(*LINES, "Rome,50.5,1000"), {}),
    "a line with a field too many": (csv(*LINES), csv(*LINES, "Rome,50,1000,1"), {}),
    "a line that is not UTF-8": (csv(*LINES).encode(), csv(*LINES).encode() + b"R\xf4me,50,1000\n", {}),
    "a cell that its declared format does not fit": (
        "day\n" + "31.12.2020\n" * 40,
        "day\n" + "31.12.2020\n" * 40 + "2020-12-31\n",
        {"columns": {"day": {"kind": "date", "format": "%d.%m.%Y"}}},
    ),
    "an infinite number": (
        MANY.astype(float),
        pd.concat([MANY.astype(float), pd.DataFrame({"age": [float("inf")]})], ignore_index=True),
        {},
    ),
    "a row of another block that spoils a type": (csv(*LINES), csv(*LINES, "Rome,unknown,1000"), BLOCKS),
    "one row where there was none": (csv(*LINES), csv(*LINES, "Bern,50,1000"), {"filter": "city = 'Bern'"}),
    "a second row": (
        csv(*LINES, "Bern,50,1000"),
        csv(*LINES, "Bern,50,1000", "Bern,51,1000"),
        {"filter": "city = 'Bern'"},
    ),
    "many rows where there was none": (csv(*LINES), csv(*LINES, *["Bern,50,1000"] * 60), {"filter": "city = 'Bern'"}),
    "the row at which a fixed delta is too large": (MANY[:999], MANY, {"delta": 1e-3, "account": "loose"}),
    "a text that repeats at last": (UNIQUE, pd.concat([UNIQUE, UNIQUE[:1]], ignore_index=True), {}),
    "the first value of a column of nulls": (
        EMPTY,
        pd.concat([EMPTY, pd.DataFrame({"age": [50], "income": pd.array([1.0], dtype="Float64")})], ignore_index=True),
        {"nulls": "drop"},
    ),
}


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_what_a_row_holds_changes_neither_types_nor_what_is_refused(stage: Stage, name: str) -> None:
    one, other, how = NEIGHBOURS[name]
    how = {"upto": "profile", **how}
    compare(stage, refreshed(one, **how), refreshed(other, **how))
