"""mostlyai-engine 2.7.3: `python -I mostlyai.py TRAIN.csv OUT.csv --epsilon E --delta D --variant dp|plain`.

`dp`: its DP-SGD with `max_epsilon` as asked. At 2 and above its defaults (noise 1.5, epsilon 1 for value protection); below,
where those leave nothing to train on, noise 4 and three tenths of epsilon for value protection. It may end above the
epsilon asked; what it says it reached is printed. `plain`: its defaults without DP.
"""

import argparse
import json
import tempfile
from pathlib import Path

import pandas as pd
from mostlyai.engine import TabularARGN
from mostlyai.engine.domain import DifferentialPrivacyConfig


def private(epsilon: float, delta: float) -> DifferentialPrivacyConfig:
    """Return its settings for one epsilon."""
    settings = {"max_epsilon": epsilon, "delta": delta}
    if epsilon < 2:
        settings |= {"noise_multiplier": 4.0, "value_protection_epsilon": 0.3 * epsilon}
    return DifferentialPrivacyConfig(**settings)


def reached(workspace: Path) -> dict:
    """Return what its progress file says that the released weights spent."""
    (found,) = workspace.rglob("progress-messages.csv")
    steps = pd.read_csv(found)
    kept = steps[steps["is_checkpoint"] == 1] if "is_checkpoint" in steps else steps
    return {"epsilon": float(kept["dp_eps"].dropna().iloc[-1]), "epochs": float(kept["epoch"].iloc[-1])}


def main() -> None:
    """Fit, draw as many rows as were given, and say what was spent."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("train")
    options.add_argument("out")
    options.add_argument("--epsilon", type=float, required=True)
    options.add_argument("--delta", type=float, required=True)
    options.add_argument("--variant", choices=("dp", "plain"), default="dp")
    asked = options.parse_args()
    real = pd.read_csv(asked.train)
    settings = private(asked.epsilon, asked.delta) if asked.variant == "dp" else None
    with tempfile.TemporaryDirectory() as folder:
        engine = TabularARGN(differential_privacy=settings, device="cpu", workspace_dir=folder)
        engine.fit(real)
        engine.sample(n_samples=len(real))[list(real.columns)].to_csv(asked.out, index=False)
        print(json.dumps(reached(Path(folder)) if settings else {}))


if __name__ == "__main__":
    main()
