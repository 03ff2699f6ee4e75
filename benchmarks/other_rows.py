"""Whether rows have values of other rows, on a made-up shop: towns of customers, totals of orders, payments and refunds.

    python benchmarks/other_rows.py --epsilon 5

Nine of ten orders go to the customer's home, four of five payments are of the whole order above them, and four of five
refunds of the whole of the customer's last order. They are released in process three times: as if such values were of no
other row; with codes that say so; and with counts of how often they do. It needs no data and no scorer.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import pandas as pd
from fresh_home import synthesizer

from dp_synth_pipeline.model.histories.context import Context
from dp_synth_pipeline.synthesis.database import histories

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.integration.shop import RELATIONS, agreeing, shop

CUSTOMERS = (1_500, 6_000)


def released(real: dict[str, pd.DataFrame], epsilon: float, *, told: bool, counted: bool) -> dict[str, float]:
    """Return the figures of one release, whose rows may be told of other rows' values, and counted by how they agree."""
    with ExitStack() as stack:
        if not told:
            stack.enter_context(mock.patch.object(histories, "alike_of", return_value={}))
            stack.enter_context(mock.patch.object(histories, "above_of", return_value=None))
        if not counted:
            stack.enter_context(mock.patch.object(Context, "agreeing", []))
        model = stack.enter_context(synthesizer("shop", epsilon, unit="customer_id"))
        return agreeing(model.fit(real, relations=RELATIONS).sample())


def main() -> None:
    """Print one line of Markdown for each number of customers and each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=5.0)
    asked = parser.parse_args()
    print("| customers | drawn | orders go home | paid in whole | back in whole |\n|---|---|---|---|---|")
    for customers in CUSTOMERS:
        real = shop(customers)
        lines = {"real ones": agreeing(real)}
        for name, told, counted in (("told of none", 0, 0), ("with codes", 1, 0), ("**codes and counts**", 1, 1)):
            lines[name] = released(real, asked.epsilon, told=bool(told), counted=bool(counted))
        for name, line in lines.items():
            print(f"| {customers:,} | {name} | {' | '.join(f'{x:.3f}' for x in line.values())} |", flush=True)


if __name__ == "__main__":
    main()
