"""The wheel in somebody else's Dagster project: scaffolded, checked, launched and read, beside what that project has."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dp_synth_pipeline.ledger import Ledger
from tests.integration.conftest import people

pytest.importorskip("create_dagster", reason="the extra dev is not installed")

ROOT = Path(__file__).parents[2]
PACKAGE = "dp_synth_pipeline"
IN_PROCESS = json.dumps({"execution": {"config": {"in_process": {}}}})

SMALL = """
  columns: {person: {kind: excluded}, age: {description: In years.}}
  training: {method: marginals}
  target: bank.parquet
"""

THEIRS = """
import dagster as dg
from dp_synth_pipeline import LedgerResource


@dg.asset
def booked(ledger: dg.ResourceParam[str]) -> None:
    assert ledger == "an accountant's"


defs = dg.Definitions(
    assets=[booked],
    resources={"ledger": "an accountant's", "store": "a shop", "budget": LedgerResource(url=dg.EnvVar("BUDGET"))},
    executor=dg.in_process_executor,
)
"""


@dataclass
class Project:
    """A fresh `create-dagster` project, and a virtual environment of its own that has the wheel."""

    folder: Path
    bin: Path
    home: Path

    @property
    def defs(self) -> Path:
        return self.folder / "src" / "clinic" / "defs"

    def run(self, *command: str, **environment: str) -> str:
        """Run a command of the project's own environment in its folder; return what it printed."""
        own = {"PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}", "VIRTUAL_ENV": str(self.bin.parent)}
        done = subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            env={**_clean(), **own, "DAGSTER_HOME": str(self.home), "OMP_NUM_THREADS": "1", **environment},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel of this tree, built from a copy: a build folder of earlier days would lend it files."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copytree(ROOT / PACKAGE, folder / PACKAGE, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    build = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "-o", "dist", "."]
    subprocess.run(build, cwd=folder, check=True, capture_output=True)
    (built,) = (folder / "dist").iterdir()
    return built


@pytest.fixture(scope="module")
def project(wheel, tmp_path_factory) -> Project:
    """A project that takes the wheel's code from its own environment, and only dependencies from this one."""
    here = tmp_path_factory.mktemp("somebody")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", here / "venv"], check=True)
    binaries, home, folder = here / "venv" / "bin", here / "home", here / "clinic"
    install = ["--python", binaries / "python", "install", "-q", "--no-deps", "--no-index", wheel]
    subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *install], env=_clean(), check=True)
    asked = [str(binaries / "python"), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip())
    seen = dict.fromkeys([str(folder / "src"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    (site / "somebody.pth").write_text("\n".join(seen))
    for script in ("create-dagster", "dg", "dagster"):
        text = (Path(sys.executable).parent / script).read_text().split("\n", 1)[1]
        (binaries / script).write_text(f"#!{binaries / 'python'}\n{text}")
        (binaries / script).chmod(0o755)
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    made = Project(folder, binaries, home)
    folder.mkdir()
    made.run("create-dagster", "project", "--no-uv-sync", ".")
    people(2000).to_csv(folder / "bank.csv", index=False)
    return made


def test_the_wheel_holds_every_file_of_the_package_and_its_licence(wheel):
    files = {p for p in (ROOT / PACKAGE).rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    pages = (ROOT / PACKAGE / "docs").rglob("*.md")  # a link to the documentation; of it, the pages are enough
    tree = {p.relative_to(ROOT).as_posix() for p in files.union(pages) if p.suffix == ".md" or "docs" not in p.parts}
    held = set(zipfile.ZipFile(wheel).namelist())
    assert tree - held == set()
    assert {name for name in held if ".dist-info/" not in name} - tree == set()
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in held)
    for kind in (
        "py.typed",
        "defs.yaml",
        ".html.j2",
        ".md.j2",
        ".css",
        "registry_schema.json",
        "script.py.mako",
    ):
        assert any(name.endswith(kind) for name in held), kind


@pytest.mark.slow
def test_a_scaffolded_table_is_checked_launched_and_read_in_a_fresh_project(project):
    loaded = project.run("python", "-c", f"import {PACKAGE}; print({PACKAGE}.__file__)")
    assert Path(loaded.strip()).is_relative_to(project.bin.parent), "the wheel's code, not this tree's"

    project.run("dg", "scaffold", "defs", f"{PACKAGE}.SyntheticTable", "bank")
    path = project.defs / "bank" / "defs.yaml"
    path.write_text(path.read_text().replace("data/bank.csv", "bank.csv") + SMALL)
    project.run("dp-synth", "ledger", "open", "bank", "--epsilon", "6", "--delta", "1e-5")
    right = path.read_text()
    path.write_text(right.replace("{person:", "{persno:"))
    with pytest.raises(AssertionError, match=r"defs.yaml:\d+: columns.persno: .* Did you mean person\?"):
        project.run("dg", "check", "defs")
    path.write_text(right)
    assert "All definitions loaded successfully" in project.run("dg", "check", "defs")
    project.run("dg", "launch", "--job", "bank_refresh", "--config-json", IN_PROCESS)

    published = pq.read_table(project.folder / "bank.parquet")
    assert published.num_rows > 100
    assert published.column_names == [c for c in people(1).columns if c != "person"]
    assert _spent(project.home / "ledger.db") == ["settled"]


@pytest.mark.slow
def test_two_tables_live_beside_their_projects_own_ledger_store_executor_and_budget(project):
    for name in ("one", "two"):
        (project.defs / name).mkdir()
        text = f"  source: bank.csv\n  account: bank\n  epsilon: 1.0{SMALL}".replace("bank.parquet", f"{name}.parquet")
        (project.defs / name / "defs.yaml").write_text(f"type: {PACKAGE}.SyntheticTable\nattributes:\n{text}")
    (project.defs / "theirs.py").write_text(THEIRS)
    budget = f"sqlite:///{project.home / 'budget.db'}"
    project.run("dp-synth", "ledger", "open", "bank", "--epsilon", "6", "--delta", "1e-5", "--ledger", budget)

    listed = json.loads(project.run("dg", "list", "defs", "--json", BUDGET=budget))
    assert [s["name"] for s in listed["sensors"]] == [
        f"dp_synth_{kind}_alert" for kind in ("account", "audit", "check", "ledger", "refusal")
    ]
    assert {"booked", "one/published", "two/published"} <= {a["asset_key"] for a in listed["assets"]}
    project.run("dg", "launch", "--assets", "group:one or key:booked", BUDGET=budget)

    assert (project.folder / "one.parquet").exists()
    assert _spent(project.home / "budget.db") == ["settled"], "the project's own LedgerResource paid"


def _clean() -> dict[str, str]:
    """This environment, without what would put this tree's code before the wheel's."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _spent(ledger: Path) -> list[str]:
    """How the releases of account `bank` stand in a ledger."""
    return [release.state for release in Ledger.open(f"sqlite:///{ledger}").releases("bank")]
