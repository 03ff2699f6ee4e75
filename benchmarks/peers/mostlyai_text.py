"""The language model of mostlyai-engine 2.7.3: `python -I mostlyai_text.py TRAIN.csv OUT.csv --target T --text C`.

The model is `MOSTLY_AI/LSTMFromScratch-3m`, which starts from nothing, on one column of categories and one of texts. It is
stopped after so many minutes, and is not told how long texts are. `dp`: its DP-SGD with `max_epsilon` as asked and its
defaults for the rest; what it says it reached is printed.
"""

import argparse
import json
import tempfile
from pathlib import Path

import pandas as pd
from mostlyai.engine import LanguageModel
from mostlyai.engine.domain import DifferentialPrivacyConfig


def reached(workspace: Path) -> dict:
    """Return what its progress file says of the weights that it kept."""
    (found,) = workspace.rglob("progress-messages.csv")
    steps = pd.read_csv(found)
    kept = steps[steps["is_checkpoint"] == 1] if "is_checkpoint" in steps else steps
    last = kept.iloc[-1]
    return {
        name: float(last[name]) for name in ("epoch", "dp_eps", "total_time") if name in last and pd.notna(last[name])
    }


def main() -> None:
    """Fit, draw rows, and say what was spent."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("train")
    options.add_argument("out")
    options.add_argument("--target", required=True)
    options.add_argument("--text", required=True)
    options.add_argument("--epsilon", type=float, default=3.0)
    options.add_argument("--delta", type=float, default=1e-5)
    options.add_argument("--variant", choices=("dp", "plain"), default="dp")
    options.add_argument("--minutes", type=float, default=15.0)
    options.add_argument("--rows", type=int, default=2048)
    asked = options.parse_args()
    real = pd.read_csv(asked.train, keep_default_na=False, usecols=[asked.target, asked.text])
    settings = (
        DifferentialPrivacyConfig(max_epsilon=asked.epsilon, delta=asked.delta) if asked.variant == "dp" else None
    )
    with tempfile.TemporaryDirectory() as folder:
        model = LanguageModel(
            tgt_encoding_types={asked.target: "LANGUAGE_CATEGORICAL", asked.text: "LANGUAGE_TEXT"},
            differential_privacy=settings,
            max_training_time=asked.minutes,
            device="cpu",
            workspace_dir=folder,
        )
        model.fit(real)
        print(json.dumps(reached(Path(folder))), flush=True)
        model.sample(n_samples=asked.rows)[list(real.columns)].to_csv(asked.out, index=False)


if __name__ == "__main__":
    main()
