"""A table of another shape than the census, which `made_tables` makes.

12 numbers (skew, spikes, mixtures, a long integer tail, cents, a deterministic sum), 3 categories of 500 to 2,000 values
with long tails, and a target that depends on numbers and on categories.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

TARGET = "label"


def generate(rows: int) -> pd.DataFrame:
    """Return freshly drawn rows."""
    g = np.random.default_rng()
    segment = g.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1])
    base = g.normal(0, 1, rows)
    shop, product, town = (_category(g, segment, base, n, rows) for n in (500, 1200, 2000))
    price = np.round(np.exp(2.5 + 0.6 * base + 0.3 * g.normal(0, 1, rows)), 2)
    units = g.poisson(2 + 3 * (segment == 2), rows) + 1
    delay = np.where(g.random(rows) < 0.55, 0, g.exponential(4 + 2 * segment, rows)).round(1)
    score = np.where(segment % 2 == 0, g.normal(-1, 0.5, rows), g.normal(2, 0.8, rows)) + 0.3 * base
    table = pd.DataFrame(
        {
            "price": price,
            "units": units,
            "total": np.round(price * units, 2),
            "discount": np.where(g.random(rows) < 0.7, 0, g.choice([5, 10, 15, 25, 50], rows)),
            "delay": delay,
            "score": score,
            "age": np.clip(g.normal(45 - 5 * base, 14, rows), 16, 95).round().astype(int),
            "visits": g.zipf(1.9, rows).clip(0, 5000),
            "tenure": (g.beta(1, 3, rows) * 3650).astype(int),
            "ratio": g.beta(0.5 + segment, 2, rows),
            "temperature": np.round(15 + 10 * np.sin(2 * np.pi * g.random(rows)) + g.normal(0, 2, rows), 1),
            "balance": np.round(g.standard_t(3, rows) * 400 + 200 * base, 2),
            "shop": [f"shop-{i:04}" for i in shop],
            "product": [f"p{i:05}" for i in product],
            "town": [f"town {i}" for i in town],
        }
    )
    logit = 0.9 * base + 0.6 * (segment == 3) - 0.08 * delay + np.sin(shop / 40) + 0.7 * (product % 7 == 0) - 0.6
    table[TARGET] = np.where(g.random(rows) < 1 / (1 + np.exp(-logit)), "yes", "no")
    return table


def _category(g: np.random.Generator, segment: np.ndarray, base: np.ndarray, size: int, rows: int) -> np.ndarray:
    """Return codes with a long tail; where it begins depends on the segment, and how far it reaches on `base`."""
    share = 1 / np.arange(1, size + 1) ** 1.1
    rank = g.choice(size, rows, p=share / share.sum())
    return (rank + segment * (size // 4) + (base > 1) * (size // 8)) % size
