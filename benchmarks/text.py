"""How near are written texts to real ones, and do they tell the same of their row?

    python benchmarks/text.py --train verses_train.csv --holdout verses_holdout.csv --text text --target part \
        --scorer score_text.py --scorer-python PYTHON --epsilon 3

Learns the target and the text of a table under each epsilon, everything charged, draws as many rows and has them scored. The
scorer is any program called as `PYTHON SCORER TRAIN HOLDOUT SYNTHETIC OUT.json --text COLUMN --target COLUMN`; it reads real
texts, so what it writes is restricted unless the table is public. CPU seconds are those of learning and of drawing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

import dp_synth_pipeline as dps
from dp_synth_pipeline.synthesis.store import Store

FIGURES = ("tvd_chars", "tvd_words", "tvd_length", "disc", "tstr", "copies")


def drawn(table: pd.DataFrame, text: str, facts: dict, epsilon: float, folder: Path) -> tuple[pd.DataFrame, float]:
    """Return as many synthetic rows as a table has, and the CPU seconds that they took."""
    ledger, began = dps.Ledger.open(f"sqlite:///{folder / 'ledger.db'}"), time.process_time()
    ledger.open_account("texts", epsilon=1.2 * epsilon, delta=1e-5)
    how = {"store": Store(folder / "store"), "columns": {text: {"kind": "text", **facts}}, "show": False}
    model = dps.Synthesizer("texts", epsilon, ledger, **how).fit(table)
    rows = model.sample(len(table))
    return rows, time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("train", "holdout", "scorer", "scorer-python", "text", "target"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[3.0])
    parser.add_argument("--max-length", type=int, default=300)
    parser.add_argument("--model", help="path of a pretrained language model; fine-tuned unless --prompt asks it")
    parser.add_argument("--prompt", help="what the model is asked for, such as 'Write a verse of {part}.'")
    parser.add_argument("--examples", type=int, default=10)
    asked = parser.parse_args()
    facts = {"max_length": asked.max_length, "model": asked.model, "prompt": asked.prompt}
    facts = {name: fact for name, fact in facts.items() if fact is not None}
    table = pd.read_csv(asked.train, keep_default_na=False, na_values=[""], usecols=[asked.target, asked.text])
    for epsilon in asked.epsilon:
        with TemporaryDirectory() as name:
            folder = Path(name)
            rows, seconds = drawn(table, asked.text, facts, epsilon, folder)
            rows.to_csv(folder / "synthetic.csv", index=False)
            files = [asked.train, asked.holdout, folder / "synthetic.csv", folder / "out.json"]
            options = ["--text", asked.text, "--target", asked.target]
            command = [asked.scorer_python, asked.scorer, *files, *options]
            subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
            found = json.loads((folder / "out.json").read_text(encoding="utf-8"))["synthetic"]
        print(f"| {epsilon:g} | {' | '.join(str(found[f]) for f in FIGURES)} | {seconds:.0f} |")
        for row in rows.sample(min(asked.examples, len(rows))).itertuples(index=False):
            print(f"  {row[0]}: {row[1]}")


if __name__ == "__main__":
    main()
