"""What others do better comes first, and what ran is never run again."""

from __future__ import annotations

import json
import math
import runpy
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import yaml

FOLDER = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def anchors(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the program, whose modules are found as they are when it is run; environments are this one."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import anchors

    monkeypatch.setattr(anchors.Outside, "environment", lambda self, home, interpreter: Path(sys.executable))
    return anchors


def line(system: str, epsilon: float | str = 1.0, table: str = "fair", **figures: Any) -> dict[str, Any]:
    """Return a line of results."""
    return {"table": table, "system": system, "epsilon": epsilon, **figures}


def test_losses_come_first_and_the_widest_before_the_others(anchors: Any) -> None:
    lines = [
        line("dp-synth", tvd1=0.02, tvd2=0.05, disc_auc=0.7, tstr_auc=0.80),
        line("dpmm-mst", tvd1=0.03, tvd2=0.04, disc_auc=0.9, tstr_auc=0.95),
        line("smartnoise-mst", tvd1=0.50, tvd2=0.60, disc_auc=0.4, tstr_auc=0.50),
    ]
    found = [(c["figure"], c["peer"], round(c["worse by"], 4)) for c in anchors.losses(lines)]
    assert found == [("tstr_auc", "dpmm-mst", 0.15), ("disc_auc", "smartnoise-mst", 0.1), ("tvd2", "dpmm-mst", 0.01)]
    shown = anchors.page(lines)
    assert "worse in 3 of 8 comparisons" in shown
    assert shown.index("| fair | 1 | tstr_auc | dp-synth | 0.8000 | dpmm-mst | 0.9500 | 0.1500 |") < shown.index(
        "All lines"
    )
    assert shown.index("| fair | smartnoise-mst |") > shown.index("All lines")


def test_only_lines_of_the_same_table_and_epsilon_are_compared(anchors: Any) -> None:
    lines = [line("dp-synth", tvd1=0.5), line("dpmm-mst", 2.5, tvd1=0.1), line("dpmm-mst", table="cps", tvd1=0.1)]
    assert anchors.compared(lines) == []
    lines += [line("mostlyai-plain", "none", tvd1=0.1), line("dp-synth-plain", "none", tvd1=0.2)]
    assert [(c["epsilon"], c["peer"]) for c in anchors.losses(lines)] == [("none", "mostlyai-plain")]
    lines += [line("dp-synth-declared", 2.5, tvd1=0.3)]
    assert {(c["epsilon"], c["system"]) for c in anchors.losses(lines)} == {
        ("none", "dp-synth-plain"),
        (2.5, "dp-synth-declared"),
    }


@pytest.mark.parametrize("nothing", ["", None, float("nan"), "failed: no memory"])
def test_a_figure_that_ours_lacks_is_the_widest_loss_and_one_that_a_peer_lacks_is_no_win(
    anchors: Any, nothing: Any
) -> None:
    lines = [line("dp-synth", tvd1=0.5), line("dpmm-mst", tvd1=nothing, outcome="failed: no memory")]
    assert anchors.compared(lines) == []
    assert "failed: no memory" in anchors.page(lines)
    lines = [line("dp-synth", tvd1=nothing, tvd2=0.9), line("dpmm-mst", tvd1=0.7, tvd2=0.1)]
    assert [(c["figure"], c["worse by"]) for c in anchors.losses(lines)] == [("tvd1", math.inf), ("tvd2", 0.8)]


PEER = """
import sys
with open({ran!r}, "a") as file:
    file.write("peer" + sys.argv[4] + " ")
{body}
with open(sys.argv[2], "w") as file:
    file.write(open(sys.argv[1]).read())
print('{{"epsilon": 0.9}}')
"""

SCORER = """
import json, sys
with open({ran!r}, "a") as file:
    file.write({name!r} + " ")
{body}
with open(sys.argv[4], "w") as file:
    json.dump({{"{figure}": 0.25}}, file)
"""


@pytest.fixture
def started(
    anchors: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[list[str], pd.DataFrame]]:
    """Return what starts the program with a peer and two scorers of its own, and says what ran and what was kept."""
    ran, source = tmp_path / "ran", tmp_path / "people.csv"
    source.write_text("a,b\n1,2\n")

    def program(name: str, text: str, **values: str) -> str:
        path = tmp_path / f"{name}.py"
        path.write_text(text.format(ran=str(ran), name=name, **values))
        return str(path)

    def start(*arguments: str, peer: str = "", one: str = "", two: str = "") -> tuple[list[str], pd.DataFrame]:
        peers = {"peer": anchors.Peer(program("peer", PEER, body=peer), ("peer==1",))}
        monkeypatch.setattr(anchors, "PEERS", peers)
        monkeypatch.setattr(anchors, "SYSTEMS", tuple(peers))
        bodies = {"one": ("tvd1", one), "two": ("sd_pairs", two)}
        scorers = {n: program(n, SCORER, figure=figure, body=body) for n, (figure, body) in bodies.items()}
        monkeypatch.setattr(anchors, "SCORERS", {n: anchors.Outside(path, (f"{n}==1",)) for n, path in scorers.items()})
        ran.write_text("")
        given = ["--train", str(source), "--holdout", str(source), "--target", "a", "--out", str(tmp_path / "out")]
        monkeypatch.setattr(sys, "argv", ["anchors", *given, "--systems", "peer", *arguments])
        anchors.main()
        return ran.read_text().split(), pd.read_csv(tmp_path / "out" / "anchors.csv")

    return start


def test_lines_and_scorers_that_ran_are_not_run_again(started: Any) -> None:
    ran, kept = started("--epsilon", "1", "0.5", "--scorers", "one")
    assert ran == ["peer1.0", "one", "peer0.5", "one"]
    assert list(kept["tvd1"]) == [0.25, 0.25]
    assert (kept["one_cpu"] > 0).all()
    assert (kept["cpu"] > 0).all()
    ran, kept = started("--epsilon", "1", "0.5", "--scorers", "one,two")
    assert ran == ["two", "two"]
    assert list(kept["sd_pairs"]) == [0.25, 0.25]
    ran, kept = started("--epsilon", "1", "--scorers", "one,two", "--reps", "2")
    assert ran == ["peer1.0", "one", "two"]
    assert len(kept) == 3
    assert started("--epsilon", "1", "0.5", "--scorers", "one,two")[0] == []


def test_a_killed_run_goes_on_with_what_is_missing(started: Any, anchors: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    honest, calls = anchors.score, []

    def killed(*given: Any) -> Any:
        calls.append(given[1])
        if len(calls) == 2:
            raise KeyboardInterrupt
        return honest(*given)

    monkeypatch.setattr(anchors, "score", killed)
    with pytest.raises(KeyboardInterrupt):
        started("--epsilon", "1", "0.5", "--scorers", "one,two")
    assert started("--epsilon", "1", "0.5", "--scorers", "one,two")[0] == ["two", "peer0.5", "one", "two"]


def test_a_line_that_failed_is_kept_with_its_reason_and_not_run_again(started: Any) -> None:
    ran, kept = started("--epsilon", "1", "--reps", "3", peer="raise ValueError('too wide')")
    assert ran == ["peer1.0"]
    assert list(kept["outcome"]) == ["failed: ValueError: too wide"]
    assert started("--epsilon", "1", "--reps", "3")[0] == []


def test_a_line_that_takes_too_long_is_not_done_after_its_minutes(started: Any) -> None:
    ran, kept = started("--epsilon", "1", "--minutes", "0.017", peer="while True: pass")
    assert ran == ["peer1.0"]
    assert list(kept["outcome"]) == ["not done after 0.017 CPU minutes"]


def test_a_scorer_that_fails_costs_its_own_figures_only(started: Any) -> None:
    ran, kept = started("--epsilon", "1", one="raise ValueError('constant')")
    assert ran == ["peer1.0", "one", "two"]
    assert list(kept["one_cpu"]) == ["failed: ValueError: constant"]
    assert list(kept["sd_pairs"]) == [0.25]
    assert "tvd1" not in kept
    assert started("--epsilon", "1")[0] == []


def test_an_environment_is_made_once_for_its_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    import outside

    made = tmp_path / "some-1.2" / "installed.txt"
    made.parent.mkdir()
    made.write_text("base\nsome==1.2")
    program = outside.Outside("a.py", ("base", "some==1.2"), more=("--fast",))
    command = program.command(tmp_path, "/no/python")
    assert command == [tmp_path / "some-1.2/bin/python", "-I", FOLDER / "a.py", "--fast"]
    made.write_text("base==2\nsome==1.2")
    with pytest.raises(FileNotFoundError):
        program.command(tmp_path, "/no/python")


def test_code_that_is_no_package_is_cloned_at_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    import outside

    def git(*words: str) -> str:
        who = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
        return subprocess.run(
            ["git", *who, *words], cwd=code, check=True, capture_output=True, text=True
        ).stdout.strip()

    (code := tmp_path / "code").mkdir()
    git("init", "-q")
    for text in ("pinned", "later"):
        (code / "method.py").write_text(text)
        git("add", ".")
        git("commit", "-qm", text)
    commit = git("rev-parse", "HEAD~1")
    program = outside.Outside("a.py", (), repository=f"{code}@{commit}")
    command = program.command(tmp_path / "home", sys.executable)
    assert command[-2] == "--source"
    assert (command[-1] / "method.py").read_text() == "pinned"
    assert program.command(tmp_path / "home", "/no/python") == command


def test_margnet_gives_back_the_rows_that_its_files_hold(tmp_path: Path) -> None:
    adapter = runpy.run_path(str(FOLDER / "peers" / "marginals.py"))
    real = pd.DataFrame(
        {
            "word": ["b", None, "a"],
            "count": [3, 5, 8],
            "holes": [2.0, None, 7.0],
            "yes": [True, False, True],
            "rate": [0.25, 0.5, -1.5],
        }
    )
    numbers, categories = adapter["to_files"](real, tmp_path)
    assert (numbers, categories) == (["count", "holes", "rate"], ["word", "yes", "holes is missing"])
    drawn = adapter["from_files"](tmp_path, numbers, categories, real)
    kept = pd.read_csv(StringIO(drawn.to_csv(index=False)))
    pd.testing.assert_frame_equal(kept, pd.read_csv(StringIO(real.to_csv(index=False))))


def test_the_figures_of_a_given_scorer_are_read(anchors: Any) -> None:
    disc = {"lgbm_raw": 0.6, "lgbm_binned": 0.58, "lr_onehot_binned": 0.55}
    found = {"tvd": {"tvd1": 0.1, "tvd2": 0.2, "tvd3": 0.3}, "own_disc_auc": disc, "tstr_auc": None}
    read = anchors.figures(found)
    assert (read["tvd3"], read["disc_auc"], read["tstr_auc"]) == (0.3, 0.6, None)
    assert "qa_accuracy" not in read
    headline = {"overall": 0.98, "discriminator_auc": 0.51}
    assert anchors.figures(found | {"qa_headline": headline})["qa_accuracy"] == 0.98


@pytest.mark.parametrize("wrong", [["--tables", "nowhere"], ["--systems", "magic"], ["--scorers", "taste"]])
def test_a_name_that_is_not_known_is_refused_before_anything_runs(
    anchors: Any, wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        anchors.read(wrong)
    assert f"{wrong[0]} has {wrong[1]}; known: " in capsys.readouterr().err


def test_what_is_declared_is_what_peers_are_told(tmp_path: Path, anchors: Any) -> None:
    rows = {"word": ["b", "a", None] * 50, "yes": [True, False, True] * 50, "few": [1, 7, None] * 50}
    many = {"many": range(150), "weight": [0.5, 2.0, 3.0] * 50}
    pd.DataFrame(rows | many).to_csv(tmp_path / "t.csv", index=False)
    assert anchors.declared(tmp_path / "t.csv") == {
        "word": {"kind": "category", "categories": ["a", "b"]},
        "yes": {"kind": "boolean"},
        "few": {"kind": "integer", "lower": 1, "upper": 7},
        "many": {"kind": "integer"},
        "weight": {"kind": "decimal"},
    }


def test_ours_is_private_but_where_it_is_asked_not_to_be_and_told_only_what_it_should_be(
    tmp_path: Path, anchors: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: dict[str, list[str]] = {}
    schemas: dict[str, Any] = {}

    def recorded(command: Any, env: Any, minutes: float) -> tuple[str, dict[str, float]]:
        line = said[system] = [str(part) for part in command]
        if "--schema" in line:
            schemas[system] = yaml.safe_load(Path(line[line.index("--schema") + 1]).read_text())
        return '{"epsilon": 0.5}', {"cpu": 1.0, "wall": 2.0}

    monkeypatch.setattr(anchors, "timed", recorded)
    train = tmp_path / "t.csv"
    train.write_text("word\na\nb\n")
    asked = anchors.read([])
    for system in ("dp-synth", "dp-synth-declared", "dp-synth-plain"):
        made = anchors.synthesize(asked, system, 0.5, train, tmp_path / "out.csv")
        assert made == {"spent": 0.5, "cpu": 1.0, "wall": 2.0}
    assert {name: "--no-privacy" in line for name, line in said.items()} == {
        "dp-synth": False,
        "dp-synth-declared": False,
        "dp-synth-plain": True,
    }
    assert said["dp-synth"][said["dp-synth"].index("--epsilon") + 1] == "0.5"
    assert schemas == {"dp-synth-declared": {"columns": {"word": {"kind": "category", "categories": ["a", "b"]}}}}


def test_every_tenth_row_of_a_public_table_is_held_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, anchors: Any
) -> None:
    import public_tables

    monkeypatch.setattr(public_tables, "load", lambda table: pd.DataFrame({"n": range(25), "x": [1.0] * 24 + [None]}))
    train, holdout = tmp_path / "train.csv", tmp_path / "holdout.csv"
    monkeypatch.setattr(sys, "argv", ["public_tables", "fair", str(train), str(holdout)])
    public_tables.main()
    assert list(pd.read_csv(holdout)["n"]) == [0, 10, 20]
    assert list(pd.read_csv(train)["n"]) == [n for n in range(25) if n % 10]
    assert train.read_text().splitlines()[1] == "1,1"  # whole numbers are not written as 1.0


@pytest.fixture
def scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, float]]:
    """Return what runs one of our scorers with a stand-in for the package that it calls."""
    train = pd.DataFrame({"n": [1, 2, 3, 4], "yes": [True, False, True, True], "word": ["a", "b", "a", None]})
    paths = [tmp_path / f"{name}.csv" for name in ("train", "holdout", "synthetic")]
    for path in paths:
        train.to_csv(path, index=False)

    def run(name: str, package: str, **contents: Any) -> dict[str, float]:
        module = ModuleType(package)
        vars(module).update(contents)
        parts = package.split(".")
        for count in range(1, len(parts)):
            monkeypatch.setitem(sys.modules, ".".join(parts[:count]), ModuleType(".".join(parts[:count])))
        monkeypatch.setitem(sys.modules, package, module)
        out = tmp_path / "out.json"
        monkeypatch.setattr(sys, "argv", [name, *map(str, paths), str(out), "--target", "yes"])
        runpy.run_path(str(FOLDER / "scorers" / f"{name}.py"), run_name="__main__")
        return json.loads(out.read_text())

    return run


def test_sdmetrics_is_told_what_is_a_number_and_its_two_scores_are_read(scored: Any) -> None:
    class Report:
        def generate(self, real: Any, synthetic: Any, metadata: Any, verbose: bool) -> None:
            kinds = {name: column["sdtype"] for name, column in metadata["columns"].items()}
            assert kinds == {"n": "numerical", "yes": "categorical", "word": "categorical"}
            assert len(real) == len(synthetic)

        def get_properties(self) -> pd.DataFrame:
            return pd.DataFrame({"Property": ["Column Pair Trends", "Column Shapes"], "Score": [0.7, 0.9]})

    found = scored("sdmetrics", "sdmetrics.reports.single_table", QualityReport=Report)
    assert found == {"sd_shapes": 0.9, "sd_pairs": 0.7}


def test_anonymeter_attacks_with_a_control_and_its_risks_are_read(scored: Any) -> None:
    asked = {}

    def attack(name: str, risk: float) -> Callable[..., Any]:
        def made(**how: Any) -> Any:
            asked[name] = how
            return SimpleNamespace(
                evaluate=lambda **_: None, risk=lambda: SimpleNamespace(value=risk, ci=(risk - 0.01, risk + 0.01))
            )

        return made

    attacks = {"SinglingOutEvaluator": 0.1, "LinkabilityEvaluator": 0.2, "InferenceEvaluator": 0.3}
    found = scored(
        "anonymeter", "anonymeter.evaluators", **{name: attack(name, risk) for name, risk in attacks.items()}
    )
    assert [found[n] for n in ("singling_out", "linkability", "inference")] == [0.1, 0.2, 0.3]
    assert found["inference_ci"] == pytest.approx(0.01)
    assert all(len(how["control"]) == 4 and how["n_attacks"] == 4 for how in asked.values())
    assert asked["InferenceEvaluator"]["secret"] == "yes"
    assert asked["InferenceEvaluator"]["aux_cols"] == ["n", "word"]
    assert asked["LinkabilityEvaluator"]["aux_cols"] == (["n"], ["yes", "word"])
