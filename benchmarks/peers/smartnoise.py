"""smartnoise-synth 1.0.8: `python -I smartnoise.py TRAIN.csv OUT.csv --epsilon E --delta D`, run by its own python.

MST as its documentation uses it: categories, and integers of at most 100 values, are labels (their lists un-noised); other
numbers fall into the library's ten bins between bounds that a tenth of epsilon finds. A missing category is a label, too.
"""

import argparse
import json

import pandas as pd
from snsynth import Synthesizer

LABELS = 100


def main() -> None:
    """Fit, draw as many rows as were given, and say what was spent."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("train")
    options.add_argument("out")
    options.add_argument("--epsilon", type=float, required=True)
    options.add_argument("--delta", type=float, required=True)
    options.add_argument("--variant", choices=("mst", "aim"), default="mst")
    asked = options.parse_args()
    real = pd.read_csv(asked.train)
    numbers = [c for c in real if pd.api.types.is_numeric_dtype(real[c]) and not pd.api.types.is_bool_dtype(real[c])]
    few = [c for c in numbers if pd.api.types.is_integer_dtype(real[c]) and real[c].nunique() <= LABELS]
    words = [c for c in real if c not in numbers]
    real[words] = real[words].fillna("")
    synthesizer = Synthesizer.create(asked.variant, epsilon=asked.epsilon, delta=asked.delta)
    synthesizer.fit(
        real,
        categorical_columns=words,
        ordinal_columns=few,
        continuous_columns=[c for c in numbers if c not in few],
        preprocessor_eps=0.1 * asked.epsilon,
        nullable=bool(real.isna().any(axis=None)),
    )
    synthesizer.sample(len(real)).to_csv(asked.out, index=False)
    print(json.dumps({"epsilon": asked.epsilon}))


if __name__ == "__main__":
    main()
