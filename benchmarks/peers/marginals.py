"""MargNet and AIM: `python -I marginals.py TRAIN.csv OUT.csv --epsilon E --delta D --variant margnet|aim --source DIR`.

DIR is a clone of MargNet's repository (arXiv 2511.13893), whose authors compare it with AIM behind the same discretizer.
Settings are theirs: a tenth of rho for PrivTree's bins of numbers with 100 and more values and for merging rare
categories; 200 steps of MargNet's network a round; 1,000 of AIM's fit, and a model of at most 80 MiB. Lists of categories
and of whole numbers, and bounds, are read without noise. Missing cells are a category. A number's missing cells are its
least value, with a category beside it that says so.
"""

import argparse
import json
import os
import sys
import tempfile
import types
from pathlib import Path

import numpy as np
import pandas as pd

MISSING, FLAG = "(missing)", " is missing"


def to_files(real: pd.DataFrame, folder: Path) -> tuple[list[str], list[str]]:
    """Write the arrays that the repository reads; return the names of their columns of numbers and of categories."""
    numbers = real.select_dtypes("number")
    categories = (
        real.drop(columns=numbers.columns).astype(object).where(lambda cells: cells.notna(), MISSING).astype(str)
    )
    for name in numbers.columns[numbers.isna().any()]:
        categories[name + FLAG] = numbers[name].isna().astype(str)
    numbers = numbers.fillna(numbers.min())
    for kind, frame in (("num", numbers.astype(float)), ("cat", categories.astype(object))):
        if len(frame.columns):
            np.save(folder / f"X_{kind}_train.npy", frame.to_numpy())
    sizes = {f"num_attr_{n}": 10**9 for n in range(1, len(numbers.columns) + 1)}
    sizes |= {f"cat_attr_{n}": 10**9 for n in range(1, len(categories.columns) + 1)}
    (folder / "domain.json").write_text(json.dumps(sizes))
    return list(numbers), list(categories)


def from_files(folder: Path, numbers: list[str], categories: list[str], real: pd.DataFrame) -> pd.DataFrame:
    """Return the synthetic rows that the repository wrote, with the columns and types of the real ones."""
    parts = []
    for kind, names in (("num", numbers), ("cat", categories)):
        if names:
            parts.append(pd.DataFrame(np.load(folder / f"X_{kind}_train.npy", allow_pickle=True), columns=names))
    drawn = pd.concat(parts, axis=1)
    for name in numbers:
        if (real[name].dropna() % 1 == 0).all():
            drawn[name] = drawn[name].astype(float).round().astype("Int64")
        if name + FLAG in drawn:
            drawn[name] = drawn[name].mask(drawn[name + FLAG] == "True")
    return drawn[list(real.columns)].replace(MISSING, None)


def arguments(variant: str) -> argparse.Namespace:
    """Return what the repository's command line would have read."""
    found = {"method": {"margnet": "marggan"}.get(variant, variant), "dataset": "bank", "epsilon": 1.0, "device": "cpu"}
    found |= {"num_preprocess": "privtree", "rare_threshold": 0.002, "resample": False, "graph_sample": False}
    return argparse.Namespace(**found, test=False, lr=None, iter=None, batch=None)


def entered(source: Path, folder: Path) -> None:
    """Make the repository importable without a GPU and without what it evaluates with, and let it write to a folder."""
    import torch

    (folder / "method").symlink_to(source / "method")  # its settings are read from there
    os.chdir(folder)
    sys.path.insert(0, str(source))
    for name, unused in (("evaluator.eval_seeds", "eval_seeds"), ("autodp", "privacy_calibrator")):
        sys.modules[name] = types.ModuleType(name)
        setattr(sys.modules[name], unused, None)
    torch.cuda.reset_peak_memory_stats = lambda *_, **__: None
    torch.cuda.max_memory_allocated = lambda *_, **__: 0


def synthesized(
    real: pd.DataFrame, variant: str, budget: tuple[float, float], source: Path, folder: Path
) -> pd.DataFrame:
    """Return as many synthetic rows as there are real ones."""
    back = Path.cwd()
    entered(source, folder)
    from evaluator.eval_sample import eval_sampler
    from preprocess_common.load_data_common import data_preporcesser_common
    from util.rho_cdp import cdp_rho
    from util.util import algo_method

    told, where = arguments(variant), str(folder)
    named = to_files(real, folder)
    encoder, rho = data_preporcesser_common(told), cdp_rho(*budget)
    codes, domain, spent = encoder.load_data(where, rho)
    left = {"rho": (1 - spent) * rho, "parent_dir": where, "preprocesser": encoder, "df_pub": None}
    model = algo_method(told)(told, df=codes, domain=domain, **left)
    eval_sampler(told.method, {"sample": {"sample_num": len(real)}, "parent_dir": where}, "cpu", encoder, **model)
    os.chdir(back)
    return from_files(folder, *named, real)


def main() -> None:
    """Fit, draw as many rows as were given, and say what was spent."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("train", type=Path)
    options.add_argument("out", type=Path)
    options.add_argument("--epsilon", type=float, required=True)
    options.add_argument("--delta", type=float, required=True)
    options.add_argument("--variant", choices=("margnet", "aim"), default="margnet")
    options.add_argument("--source", type=Path, required=True)
    asked = options.parse_args()
    real = pd.read_csv(asked.train)
    with tempfile.TemporaryDirectory() as folder:
        drawn = synthesized(real, asked.variant, (asked.epsilon, asked.delta), asked.source.absolute(), Path(folder))
        drawn.to_csv(asked.out, index=False)
    print(json.dumps({"epsilon": asked.epsilon}))


if __name__ == "__main__":
    main()
