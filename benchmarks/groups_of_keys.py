"""Do customers order in the shops of their own region? Made-up ones, and a public list of shops:

    python benchmarks/groups_of_keys.py --epsilon 2.6 --reps 3

Whole releases in process: as they are, and without the groups of shops that the list tells. It needs no data and no scorer.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import pandas as pd
from fresh_home import synthesizer

from dp_synth_pipeline.relations import public_groups

CUSTOMERS, SHOPS, OWN = 6_000, 40, 0.9
REGIONS = ["north", "south", "east", "west"]
RELATIONS = {
    "customers": {"key": "customer_id"},
    "orders": {"parent": {"customer_id": "customers"}, "order": "ordered", "refers": {"shop": "shops"}, "max_rows": 10},
    "shops": {"key": "shop", "public": {"why": "they are on the web", "by": "the chain"}},
}
FIGURES = ("in the own region %", "1-way of shops", "same shop as before %")


def chain(rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    """Return shops, customers and their orders, 2.5 each on the average, six in ten of them where the last one was."""
    at = rng.permutation(np.arange(SHOPS) % len(REGIONS))
    shops = pd.DataFrame({"shop": [f"shop {i}" for i in range(SHOPS)], "region": np.array(REGIONS)[at]})
    home = rng.choice(len(REGIONS), CUSTOMERS, p=[0.4, 0.3, 0.2, 0.1])
    whose = np.repeat(np.arange(CUSTOMERS), rng.poisson(2.5, CUSTOMERS))
    own = np.array([rng.choice(np.flatnonzero(at == home[person])) for person in whose])
    found = np.where(rng.random(len(whose)) < OWN, own, rng.integers(0, SHOPS, len(whose)))
    for row in np.flatnonzero((whose[1:] == whose[:-1]) & (rng.random(len(whose) - 1) < 0.6)) + 1:
        found[row] = found[row - 1]
    people = pd.DataFrame(
        {"customer_id": np.arange(CUSTOMERS), "home": np.array(REGIONS)[home], "sex": rng.choice(list("fm"), CUSTOMERS)}
    )
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(len(whose)) % 366, unit="D")
    orders = pd.DataFrame({"customer_id": whose, "ordered": day, "shop": shops["shop"].to_numpy()[found]})
    return {"customers": people, "orders": orders.assign(items=rng.integers(1, 9, len(whose))), "shops": shops}


def figures(drawn: dict[str, pd.DataFrame], real: pd.DataFrame) -> list[float]:
    """Return how many orders of 100 are in the customer's region, how far shops are from real ones, and how many stay."""
    orders = drawn["orders"].sort_values(["customer_id", "ordered"], kind="stable")
    joined = orders.merge(drawn["customers"], on="customer_id").merge(drawn["shops"], on="shop")
    shares = [t["shop"].value_counts(normalize=True) for t in (real, orders)]
    later = orders["customer_id"] == orders["customer_id"].shift()
    same = float((orders["shop"] == orders["shop"].shift())[later].mean())
    own = float((joined["home"] == joined["region"]).mean())
    return [100 * own, float(shares[0].sub(shares[1], fill_value=0).abs().sum() / 2), 100 * same]


@contextmanager
def groups(told: bool) -> Iterator[None]:
    """Model groups of keys beside them, or not."""
    with patch.object(public_groups, "grouped", public_groups.grouped if told else lambda rows, key: {}):
        yield


def main() -> None:
    """Print one line of Markdown for each way: medians of the runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=2.6)
    parser.add_argument("--reps", type=int, default=1)
    asked = parser.parse_args()
    print(f"| rows | {' | '.join(FIGURES)} |\n|{'---|' * (len(FIGURES) + 1)}")
    real = chain(np.random.default_rng(1))
    print(f"| real rows | {' | '.join(f'{x:.3g}' for x in figures(real, real['orders']))} |", flush=True)
    for how, told in (("**drawn**", True), ("no groups", False)):
        runs = []
        for _ in range(asked.reps):
            with groups(told), synthesizer("chain", asked.epsilon, unit="customer_id") as fitter:
                runs.append(figures(fitter.fit(real, relations=RELATIONS).sample(CUSTOMERS), real["orders"]))
        print(f"| {how} | {' | '.join(f'{statistics.median(x):.3g}' for x in zip(*runs, strict=True))} |", flush=True)


if __name__ == "__main__":
    main()
