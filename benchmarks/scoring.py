"""Scores a synthetic table by a program given on the command line, and keeps figures in a CSV from run to run.

The scorer is called as `PYTHON SCORER TRAIN HOLDOUT SYNTHETIC OUT.json --target COLUMN [--no-qa]`. It reads real rows, so
what it writes is restricted; neither it nor any row is kept in the project.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

FIGURES = ("tvd1", "tvd2", "tvd3", "disc_auc", "tstr_auc")
"""What the scorer always gives. Distances and the discriminator's AUC: lower is better; TSTR: higher."""


def options(description: str, out: str, *, scorer: bool = True) -> argparse.ArgumentParser:
    """Return a parser with what every benchmark that scores needs; with `scorer`, by one program that must be given."""
    found = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--train", type=Path, help="CSV that is synthesized")
    found.add_argument("--holdout", type=Path, help="CSV of rows that were held out")
    found.add_argument("--target", default="income", help="column that TSTR predicts")
    if scorer:
        found.add_argument("--scorer", type=Path, required=True)
        found.add_argument(
            "--scorer-python", default=sys.executable, help="interpreter of the scorer's own environment"
        )
        found.add_argument(
            "--qa", action=argparse.BooleanOptionalAction, default=False, help="mostlyai-qa's figures too"
        )
    found.add_argument("--reps", type=int, default=1, help="runs of each line; figures are their medians")
    found.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / out)
    return found


def score(asked: argparse.Namespace, synthetic: Path) -> dict[str, float]:
    """Return the scorer's figures of one synthetic CSV."""
    out = synthetic.with_suffix(".score.json")
    command = [asked.scorer_python, asked.scorer, asked.train, asked.holdout, synthetic, out, "--target", asked.target]
    done = subprocess.run(
        [str(c) for c in command] + ([] if asked.qa else ["--no-qa"]), capture_output=True, text=True, env=one_thread()
    )
    if done.returncode:
        raise SystemExit(f"the scorer failed on {synthetic}:\n{done.stderr[-2000:]}")
    found = json.loads(out.read_text())
    if asked.qa and not found.get("qa_headline"):
        print(f"no mostlyai-qa figures: {found.get('qa_error')}", file=sys.stderr)
    return figures(found)


def figures(found: Mapping[str, Any]) -> dict[str, float]:
    """Return the figures in what the scorer wrote: distances, AUCs, and mostlyai-qa's if it was asked for them."""
    kept = {
        **found["tvd"],
        "disc_auc": found["own_disc_auc"]["lgbm_raw"],
        "disc_binned": found["own_disc_auc"]["lgbm_binned"],
        "disc_linear": found["own_disc_auc"]["lr_onehot_binned"],
        "tstr_auc": found.get("tstr_auc"),
    }
    if found.get("qa_headline"):
        kept |= {"qa_accuracy": found["qa_headline"]["overall"], "qa_disc": found["qa_headline"]["discriminator_auc"]}
    return kept


def one_thread() -> dict[str, str]:
    """Return the environment with one thread per linear algebra library."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {**os.environ, **dict.fromkeys(names, "1")}


class Log:
    """Figures of every run, one line each, written as they come: an interrupted benchmark goes on where it stopped."""

    def __init__(self, path: Path, keys: Sequence[str]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self.keys = path, tuple(keys)
        self.rows: list[dict[str, Any]] = []
        if path.exists():
            with path.open(newline="") as file:
                self.rows = [{k: _number(v) for k, v in row.items()} for row in csv.DictReader(file)]

    def done(self, **named: Any) -> int:
        """Return how many runs of one line there are."""
        return len(self.runs(**named))

    def runs(self, **named: Any) -> list[dict[str, Any]]:
        """Return the runs of one line."""
        wanted = {k: str(v) for k, v in named.items()}
        return [r for r in self.rows if all(str(r.get(k)) == v for k, v in wanted.items())]

    def add(self, row: Mapping[str, Any]) -> None:
        """Keep one run."""
        self.rows.append({k: _number(v) for k, v in row.items()})
        self._save()

    def amend(self, row: dict[str, Any], figures: Mapping[str, Any]) -> None:
        """Add figures to a run that is kept."""
        row.update(figures)
        self._save()

    def _save(self) -> None:
        names = list(dict.fromkeys(k for r in self.rows for k in r))
        with self.path.open("w", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(self.rows)

    def medians(self) -> list[dict[str, Any]]:
        """Return the median of each figure over the runs of each line, in the order in which lines first came."""
        lines: dict[tuple, list[dict[str, Any]]] = {}
        for row in self.rows:
            lines.setdefault(tuple(str(row.get(k)) for k in self.keys), []).append(row)
        return [{"runs": len(runs), **runs[0], **_medians(runs)} for runs in lines.values()]


def _medians(runs: list[dict[str, Any]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name in runs[0]:
        values = [r[name] for r in runs if isinstance(r.get(name), float)]
        if values and len(values) == len(runs):
            found[name] = statistics.median(values)
    return found


def _number(value: Any) -> Any:
    try:
        return value if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return value


def markdown(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> str:
    """Return a Markdown table; `columns` maps figures to how they are printed, such as '.3f'."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        cells = [_cell(row.get(name), form) for name, form in columns.items()]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(value: Any, form: str) -> str:
    if value is None or value == "":
        return "-"
    return format(value, form) if isinstance(value, (int, float)) else str(value)


def write(path: Path, text: str) -> None:
    """Write a table and print it."""
    path.write_text(text + "\n", encoding="utf-8")
    print(text, flush=True)
