"""Each line of "One line for each wish" on the first page of the documentation runs as it is written, in one place."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import duckdb
import numpy as np
import pandas as pd
import pytest
import yaml

import dp_synth_pipeline as dps
from dp_synth_pipeline.orchestration import in_process
from dp_synth_pipeline.orchestration.component import SyntheticTable
from dp_synth_pipeline.orchestration.in_process import Outcome
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.synthesis.store import Store
from dp_synth_pipeline.synthesizer import Synthesizer
from tests.light import light  # noqa: F401

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
WISHES = re.findall(
    r"^\| (.+?) \| (.+) \|$",
    (ROOT / "docs/index.md").read_text(encoding="utf-8").split("| you wish for | write |\n|---|---|\n")[1],
    re.MULTILINE,
)

ELSEWHERE = {  # what another test runs; the release of the demo itself is made by .ci/run
    "dg scaffold defs dp_synth_pipeline.SyntheticTable people": (
        "tests/integration/test_own_project.py",
        "test_a_scaffolded_table_is_checked_launched_and_read_in_a_fresh_project",
        '"dg", "scaffold", "defs", f"{PACKAGE}.SyntheticTable"',
    ),
}

QUICK = {"training": {"max_epochs": 1}, "show": False}
CODES = ("A00", "B01", "C02", "Z99")


def people(rows: int = 1500) -> pd.DataFrame:
    chance = np.random.Generator(np.random.PCG64(3))
    place = chance.choice(["home", "ward"], rows)
    return pd.DataFrame(
        {
            "age": chance.integers(0, 90, rows),
            "y": np.where(chance.random(rows) < 0.3, "yes", "no"),
            "diagnosis": chance.choice(CODES[:3], rows),
            "mrn": [f"MRN-{number:06}" for number in range(rows)],
            "note": [f"slept well at {where}" for where in place],
        }
    )


class Desk:
    """Where one person types every line, one after the other: files, a ledger and the definition that YAML goes into.

    `/mnt/audit` of the page is a folder here, and `~` the home of the test. `...` of the page's Python are two tables.
    """

    def __init__(self, shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shell, self.folder, self.monkeypatch = shell, shell.folder, monkeypatch
        self.attributes: dict[str, Any] = {}
        monkeypatch.setenv("HOME", str(self.folder))
        (self.folder / ".ssh").mkdir()
        key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / ".ssh/id_ed25519")]
        subprocess.run(key, check=True)
        people()[["age", "y"]].to_csv(self.folder / "people.csv", index=False)
        pd.DataFrame({"code": CODES, "name": "a disease"}).to_csv(self.folder / "icd10.csv", index=False)

    def write(self, code: str) -> None:
        """Do what one piece of code of the page's second column says, by what it is: nothing is passed over."""
        if code.startswith(("dp-synth ", "make ")):
            self._type(code)
        elif code in ELSEWHERE:
            file, name, command = ELSEWHERE[code]
            assert f"def {name}(" in (text := (ROOT / file).read_text(encoding="utf-8"))
            assert command in text.split(f"def {name}(")[1].split("\n\n\n")[0]
        elif re.match(r"\w*", code)[0] in TableSettings.model_fields:
            self._put(yaml.safe_load(code))
        else:
            self._evaluate(code)

    def _type(self, line: str) -> None:
        if line.startswith("make "):  # it would make its environment first
            asked = ["make", "-n", "-s", "-C", str(ROOT), "-o", ".venv/.installed", *line.split()[1:]]
            printed = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
            line = re.sub(r"^\S*/(dp-synth .*) \|\| test .*\n$", r"\1", printed)
        words = [str(Path(word).expanduser()) if word[:1] == "~" else word for word in shlex.split(line)]
        words = [word.replace("/mnt/audit", str(self.folder / "audit")) for word in words]
        assert words[0] == "dp-synth", line
        with self.monkeypatch.context() as patch:
            if words[1] == "demo":  # all but the releases themselves
                patch.setenv("DP_SYNTH_HOME", str(self.folder / "demo"))
                patch.setattr(in_process, "refresh", lambda *_, **__: Outcome("run", 3, "Account 'x' refuses this."))
            done = self.shell(*words[1:])
        assert done.code == (3 if words[1] == "demo" else 0), f"{line}\n{done.out}{done.err}"
        if words[1] == "synthesize":  # its card is what somebody is handed
            card = self.folder / "home/store/releasable/people/release_card.json"
            (self.folder / "release_card.json").write_bytes(card.read_bytes())
        if words[1:3] == ["governance", "export"]:
            assert Path(words[-1]).read_text(encoding="utf-8").startswith("# Data protection impact assessment, draft")
        elif "--out" in words:
            self._look_at(dict(pairwise(words)))
        if (lines := done.out.partition("Write:\n")[2].splitlines()) or "--remember" in words:
            assert len(lines) == 3  # as the page says; tests of remembering run such a table
            self._loaded(yaml.safe_load("\n".join(lines)))

    def _look_at(self, option: Mapping[str, str]) -> None:
        """See in what was drawn that it is what the options of the command ask for."""

        def count(where: str = "true") -> int:
            (found,) = duckdb.sql(f"SELECT count(*) FROM '{option['--out']}' WHERE {where}").fetchall()
            return found[0]

        assert count() == int(option.get("--rows", count())) > 0
        assert count(option.get("--where", "true")) == count()
        for column, shares in yaml.load(option.get("--share", "{}"), yaml.BaseLoader).items():
            for value, share in shares.items():
                assert count(f"{column} = '{value}'") == round(float(share) * count())

    def _put(self, attributes: Mapping[str, Any]) -> None:
        for key, value in attributes.items():
            known = self.attributes.get(key)
            self.attributes[key] = known | value if isinstance(known, dict) and isinstance(value, dict) else value

    def _loaded(self, attributes: Mapping[str, Any]) -> dg.Definitions:
        """Return the definitions of a table of which the YAML says so much."""
        ours = {"epsilon": 4, "source": "whole.csv", "account": "whole", "target": "published.csv"}
        component = SyntheticTable.resolve_from_yaml(yaml.safe_dump(ours | dict(attributes)))
        definitions = component.build_defs(SimpleNamespace(path=Path("whole")))
        assert [schedule.cron_schedule for schedule in definitions.schedules or ()] == ["0 3 * * 1"]
        return definitions

    def refresh(self) -> None:
        """Run all that the page's YAML adds up to as one table, and see each line of it in what was drawn."""
        people().to_csv(self.folder / "whole.csv", index=False)
        self.shell.ledger().open_account("whole", epsilon=6, delta=1e-5)
        job = self._loaded(self.attributes | {"training": {"max_epochs": 1}}).resolve_job_def("whole_refresh")
        with in_process.instance() as instance:
            done = job.execute_in_process(instance=instance, raise_on_error=False, run_config=in_process.QUIET)
        good = {check.check_name: check.passed for check in done.get_asset_check_evaluations()}["quality_gate"]
        assert done.success == (self.folder / "published.csv").exists() == good, "noise decides how good it looks"
        rows = pd.read_parquet(self.folder / "home/store/releasable/whole/synthetic.parquet")
        assert rows["mrn"].str.fullmatch(r"MRN-\d{6}").all()
        assert set(rows["diagnosis"].dropna()) <= set(CODES)
        assert rows["note"].dropna().str.len().max() <= 80
        (drawn,) = done.asset_materializations_for_node("whole__synthetic")
        described = {c.name: c.description for c in drawn.metadata["dagster/column_schema"].schema.columns}
        assert described["age"] == self.attributes["columns"]["age"]["description"]

    def _evaluate(self, code: str) -> None:
        def fit(tables: Mapping[str, Any], relations: Any) -> Any:
            assert set(tables.values()) == {relations} == {...}
            patients = pd.DataFrame({"patient_id": range(400), "sex": ["F", "M"] * 200})
            visits = pd.DataFrame({"patient_id": np.arange(800) // 2, "ward": ["A", "B"] * 400})
            frames = {"patients": patients, "visits": visits}
            keyed = {"patients": {"key": "patient_id"}, "visits": {"parent": {"patient_id": "patients"}, "max_rows": 2}}
            return fitter("patients", 1.5, ledger).fit({name: frames[name] for name in tables}, relations=keyed)

        def fitter(*asked: Any, **named: Any) -> Synthesizer:
            return Synthesizer(*asked, **named, **QUICK, store=Store(self.folder / "store"))

        ledger = self.shell.ledger()
        if "patients" not in [account.name for account in ledger.accounts()]:
            ledger.open_account("patients", epsilon=3.0, delta=1e-5, unit="patient_id")
        frame = people()[["age", "y"]]
        if "people.dps" in code:
            fitter("people", 1.0, ledger).fit(frame).save(self.folder / "people.dps")
            frame = pd.DataFrame({"age": [30, None], "y": [None, "yes"]})
        names = {"dps": dps, "ledger": ledger, "frame": frame, "fit": fit}
        with self.monkeypatch.context() as patch:
            patch.setattr(dps, "Synthesizer", fitter, raising=False)
            made = eval(code, names)
        if isinstance(made, pd.DataFrame):
            assert len(made) == len(frame) if "complete" in code else 1000
            assert made.notna().all().all()
        else:
            assert set(made.sample(10)) == {"patients", "visits"}


def test_each_line_of_the_page_runs_as_it_is_written(shell, monkeypatch) -> None:
    desk = Desk(shell, monkeypatch)
    assert len(WISHES) > 20
    for wish, written in WISHES:
        pieces = re.findall(r"`([^`]+)`", written)
        assert pieces, f"{wish}: nothing to write"
        for code in pieces:
            try:
                desk.write(code)
            except Exception as error:
                raise AssertionError(f"{wish}: {code}") from error
    desk.refresh()


@pytest.mark.parametrize(
    "code",
    ["dp-synth ledger opne people", "dg scaffold defs dp_synth_pipeline.Table x", "make nothing", "dps.fit(frame)"],
)
def test_a_line_that_does_not_work_is_noticed(code, shell, monkeypatch) -> None:
    desk = Desk(shell, monkeypatch)
    with pytest.raises((AssertionError, SyntaxError, AttributeError, subprocess.CalledProcessError)):
        desk.write(code)
