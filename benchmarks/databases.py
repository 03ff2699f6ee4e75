#!/usr/bin/env python
"""Related tables under one budget, everything charged: do the rows of one person hang together?

    python benchmarks/databases.py --data FOLDER --scorer score_related.py --scorer-python PYTHON --epsilon 3 --reps 3
    python benchmarks/databases.py --clinic 8000 --scorer score_related.py --scorer-python PYTHON

FOLDER, or the environment variable DP_SYNTH_RELATED_DATA, holds spec.json, which names the root, its children, their keys
and orders, and the folders train and holdout with a CSV of each table. `--clinic N` makes N patients and their visits up
instead. Ours is `Synthesizer.fit` in a fresh home, with its ledger; the printed table has the scorer's own references beside
it: real persons resampled (the floor), and real rows dealt out to persons at random, the most that single rows can reach.
*Lasting*, which the scorer does not look at, is how numbers are correlated by ranks with those of the same person's fifth
row before, and *returning* how many categories are as there; `--forgets` is the same release with rows that are told of
the row before, and of none before that. CPU seconds are those of reading, learning and drawing, imports left out. Runs
that are in OUT/databases.csv already are not run again; delete it to start over.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
from scoring import Log, markdown, one_thread, write

from dp_synth_pipeline.synthesis.database import histories

HERE = Path(__file__).parent
DELTA = 1e-5
DATA = "DP_SYNTH_RELATED_DATA"

LATER = 5
"""Rows between the numbers of which *lasting* is the correlation."""

COLUMNS = {
    "data": "",
    "system": "",
    "epsilon": "",
    "spent": ".3f",
    "tvd2": "",
    "count": ".4f",
    "cross": ".4f",
    "same": ".4f",
    "all": ".4f",
    "gap": ".4f",
    "lasting": ".3f",
    "returning": ".3f",
    "orphans": ".0f",
    "disc": ".3f",
    "tstr": ".3f",
    "cpu": ".0f",
    "runs": ".0f",
}
"""Of figures of several child tables, their means are printed; tvd2 is printed table by table, the root first."""


def read(folder: Path, spec: dict[str, Any], part: str) -> dict[str, pa.Table]:
    """Return the tables of a folder without the columns that the scorer leaves aside, with the types that cells have."""
    tables = {}
    for facts in (spec["root"], *spec["children"]):
        name = facts["table"]
        found = sorted((folder / part).glob(f"{name}.csv*"))[0]
        whole = pa_csv.read_csv(found)
        tables[name] = whole.drop_columns([c for c in spec.get("ignore", {}).get(name, []) if c in whole.column_names])
    return tables


def relations(
    spec: dict[str, Any], max_rows: dict[str, int], unique: dict[str, list[str]]
) -> dict[str, dict[str, Any]]:
    """Return how the tables hang together, as `fit` takes it."""
    root = spec["root"]
    found: dict[str, dict[str, Any]] = {root["table"]: {"key": root["key"]}}
    for child in spec["children"]:
        name = child["table"]
        found[name] = {"parent": {child["key"]: root["table"]}, "max_rows": max_rows.get(name, 25)}
        if "order" in child:
            found[name]["order"] = child["order"]
        if name in unique:
            found[name]["unique"] = unique[name]
    return found


def ours(asked: Namespace, spec: dict[str, Any], epsilon: float, out: Path) -> dict[str, Any]:
    """Fit and draw as many persons as are released, and write them where the scorer looks for them."""
    from dp_synth_pipeline.ledger import Ledger
    from dp_synth_pipeline.synthesis.store import Store
    from dp_synth_pipeline.synthesizer import Synthesizer

    began = time.process_time()
    tables = read(asked.data, spec, "train")
    with TemporaryDirectory() as home:
        ledger = Ledger.open(f"sqlite:///{home}/ledger.db")
        ledger.open_account("persons", epsilon=epsilon + 1, delta=DELTA, unit=spec["root"]["key"], why="a benchmark")
        settings = {"delta": DELTA, "training": json.loads(asked.training), "store": Store(Path(home) / "store")}
        if asked.shares:
            settings["shares"] = dict(zip(tables, asked.shares, strict=True))
        fitter = Synthesizer("persons", epsilon, ledger, table="benchmark", show=False, **settings)
        bounds = {name: int(most) for name, most in (pair.split("=") for pair in asked.max_rows)}
        unique = {name: columns.split(",") for name, columns in (pair.split("=") for pair in asked.unique)}
        model = fitter.fit(tables, relations=relations(spec, bounds, unique))
    model.save(out.with_name(f"{out.name}.dps"))
    fitted = time.process_time()
    drawn = model.sample_arrow()
    out.mkdir(parents=True, exist_ok=True)
    for name, table in drawn.items():
        pa_csv.write_csv(table, out / f"{name}.csv")
    ended = time.process_time()
    return {"spent": model.epsilon, "cpu": ended - began, "cpu_drawing": ended - fitted}


def score(asked: Namespace, out: Path) -> dict[str, dict[str, Any]]:
    """Return the scorer's figures of one synthetic database, and of its references."""
    report = out.with_name(f"{out.name}.score.json")
    command = [asked.scorer_python, asked.scorer, asked.data / "spec.json", asked.data / "train"]
    command += [asked.data / "holdout", out, report]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=one_thread())
    if done.returncode:
        raise SystemExit(f"the scorer failed on {out}:\n{done.stderr[-2000:]}")
    found = json.loads(report.read_text())
    return {name: figures(found[name]) for name in ("synthetic", "floor", "shuffled")}


def figures(found: dict[str, Any]) -> dict[str, Any]:
    """Return the scorer's figures as one line: each child table's by its name, and their means."""
    line: dict[str, Any] = {"disc": found["disc"], "tstr": found["tstr"], "told_by": " ".join(found["told_by"])}
    line["orphans"] = sum(found["orphans"].values())
    line["tvd2"] = " ".join(f"{value:.4f}" for value in found["tvd2"].values() if value is not None)
    each = {"count": found["count"], "cross": found["cross"]}
    for what in ("same", "all", "gap"):
        each[what] = {table: steps[what] for table, steps in found["step"].items() if what in steps}
    for what, tables in {**each, "tvd1": found["tvd1"], "tvd2": found["tvd2"]}.items():
        line |= {f"{what} {table}": value for table, value in tables.items()}
    line |= {what: mean(tables.values()) for what, tables in each.items() if tables}
    return line


def later(tables: dict[str, pd.DataFrame], spec: dict[str, Any]) -> dict[str, float]:
    """Return how a row is told by the same parent's fifth row before: ranks of numbers, and categories, on an average."""
    numbered, named = [], []
    for child in spec["children"]:
        rows, key, order = tables[child["table"]], child["key"], child.get("order")
        rows = rows.sort_values([key, *([order] if order else [])], kind="stable")
        numbers = [c for c in rows.select_dtypes("number") if c not in (key, order)]
        names = [c for c in rows.select_dtypes("object") if c not in (key, order)]
        before = rows.groupby(key)[[*numbers, *names]].shift(LATER)
        numbered += [rows[c].corr(before[c], method="spearman") for c in numbers]
        named += [(rows[c] == before[c])[before[c].notna()].mean() for c in names]
    of = {"lasting": numbered, "returning": named}
    return {name: float(np.nanmean(found)) if found else math.nan for name, found in of.items()}


def read_csv(folder: Path, spec: dict[str, Any]) -> dict[str, pd.DataFrame]:
    """Return the child tables of a folder as the scorer reads them."""
    names = [child["table"] for child in spec["children"]]
    found = {name: sorted(folder.glob(f"{name}.csv*"))[0] for name in names}
    return {name: pd.read_csv(path, keep_default_na=False, na_values=[""]) for name, path in found.items()}


def forgetting(compose: Callable[..., Any]) -> Callable[..., Any]:
    """Return what composes histories of which a row is not told what all rows before it were like."""
    return lambda *args, **rest: replace(compose(*args, **rest), levels=())


def made_up(asked: Namespace) -> Path:
    """Write a clinic's patients and visits into OUT, as a folder of data; return it."""
    sys.path.insert(0, str(HERE.parent))
    from tests.integration.clinic import clinic

    folder = asked.out / f"clinic_{asked.clinic}"
    for part, persons in (("train", asked.clinic), ("holdout", asked.clinic // 5)):
        (folder / part).mkdir(parents=True, exist_ok=True)
        tables = clinic(persons)
        tables["visits"] = tables["visits"].drop(columns="visit_id")
        for name in ("patients", "visits"):
            tables[name].to_csv(folder / part / f"{name}.csv", index=False)
    visits = {"table": "visits", "key": "patient_id", "order": "visited"}
    spec = {"root": {"table": "patients", "key": "patient_id"}, "children": [visits], "target": "sex"}
    (folder / "spec.json").write_text(json.dumps(spec))
    return folder


def options() -> argparse.ArgumentParser:
    """Return the parser of what may be asked."""
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--data", type=Path, default=os.environ.get(DATA), help=f"by default ${DATA}")
    found.add_argument("--clinic", type=int, default=0, help="make up so many patients instead")
    found.add_argument("--max-rows", nargs="*", default=[], metavar="TABLE=ROWS", help="25 of each parent by default")
    found.add_argument("--unique", nargs="*", default=[], metavar="TABLE=COLUMN,COLUMN", help="keys within a parent")
    found.add_argument("--epsilon", type=float, nargs="+", default=[3.0])
    found.add_argument("--reps", type=int, default=1, help="runs of each line; figures are their medians")
    found.add_argument("--training", default="{}", help="training settings as JSON")
    found.add_argument("--shares", type=float, nargs="*", help="each table's part of the signal, the root first")
    found.add_argument(
        "--forgets", action="store_true", help="rows are told of the row before, and of none before that"
    )
    found.add_argument("--label", default="dp-synth", help="what this line is called")
    found.add_argument("--scorer", type=Path, required=True)
    found.add_argument("--scorer-python", default=sys.executable, help="interpreter of the scorer's own environment")
    found.add_argument("--out", type=Path, default=HERE / "results" / "databases")
    return found


def main() -> None:
    """Run what is missing, then print the table of all that there is."""
    asked = options().parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    os.umask(0o077)  # scores tell of real rows
    if asked.clinic:
        asked.data = made_up(asked)
    if asked.data is None:
        raise SystemExit(f"give --data or --clinic, or set {DATA}")
    spec, data = json.loads((asked.data / "spec.json").read_text()), asked.data.name
    log = Log(asked.out / "databases.csv", ("data", "system", "epsilon"))
    compose = forgetting(histories.context_of) if asked.forgets else histories.context_of
    for epsilon in asked.epsilon:
        for number in range(log.done(data=data, system=asked.label, epsilon=epsilon), asked.reps):
            out = asked.out / f"{data}_{asked.label}_{epsilon}_{number}"
            with patch.object(histories, "context_of", compose):
                took = ours(asked, spec, epsilon, out)
            found = score(asked, out)
            found["synthetic"] |= later(read_csv(out, spec), spec)
            found["floor"] |= later(read_csv(asked.data / "train", spec), spec)
            log.add({"data": data, "system": asked.label, "epsilon": epsilon, **took, **found["synthetic"]})
            print(markdown(log.rows[-1:], COLUMNS).splitlines()[-1], flush=True)
            for reference in ("floor", "shuffled"):
                if not log.done(data=data, system=reference, epsilon="-"):
                    log.add({"data": data, "system": reference, "epsilon": "-", **found[reference]})
    write(asked.out / f"{data}.md", markdown([r for r in log.medians() if r["data"] == data], COLUMNS))


if __name__ == "__main__":
    main()
