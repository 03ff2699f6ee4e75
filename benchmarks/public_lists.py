"""What a public list of a column's categories is worth, on the second table's shops, products and towns:

    python benchmarks/public_lists.py --epsilon 2.51

Two releases in process of the same freshly drawn rows: categories measured, and categories read from public lists of all
500, 1,200 and 2,000 values, of which many occur in no row. It needs no data and no scorer.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import pandas as pd
from second_table import generate

import dp_synth_pipeline as dps
from dp_synth_pipeline.synthesis.store import Store

LISTS = {
    "shop": [f"shop-{i:04}" for i in range(500)],
    "product": [f"p{i:05}" for i in range(1200)],
    "town": [f"town {i}" for i in range(2000)],
}


def released(rows: pd.DataFrame, epsilon: float, folder: Path, listed: bool) -> pd.DataFrame:
    """Return as many synthetic rows as real ones, of one release with a store and an account of its own."""
    ledger = dps.Ledger.open(f"sqlite:///{folder / 'ledger.db'}")
    ledger.open_account("lists", epsilon=2 * epsilon, delta=1e-5)
    columns = {}
    for name, values in LISTS.items() if listed else ():
        pd.DataFrame({name: values}).to_csv(folder / f"{name}.csv", index=False)
        columns[name] = {"categories": {"from": str(folder / f"{name}.csv")}}
    made = dps.Synthesizer("lists", epsilon, ledger, store=Store(folder / "store"), columns=columns)
    return made.fit(rows).sample(len(rows))


def main() -> None:
    """Print the 1-way distance of each column, and the CPU seconds."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--epsilon", type=float, default=2.51)
    options.add_argument("--rows", type=int, default=40_000)
    asked = options.parse_args()
    rows = generate(asked.rows)
    print("| categories | " + " | ".join(LISTS) + " | CPU s |")
    for listed in (False, True):
        began = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            drawn = released(rows, asked.epsilon, Path(folder), listed)
        shares = [(rows[n].value_counts(normalize=True), drawn[n].value_counts(normalize=True)) for n in LISTS]
        apart = [0.5 * real.sub(synthetic, fill_value=0).abs().sum() for real, synthetic in shares]
        found = [*(f"{d:.3f}" for d in apart), f"{time.process_time() - began:.0f}"]
        print(f"| {'public lists' if listed else 'measured'} | " + " | ".join(found) + " |")


if __name__ == "__main__":
    main()
