"""dpmm 0.1.9: `python -I dpmm.py TRAIN.csv OUT.csv --epsilon E --delta D --variant aim|mst`, run by dpmm's own python.

Settings are the library's own. Its category lists are read without noise, since no domain is declared. `proc_epsilon`
(0.1 by default) comes on top of the pipeline's epsilon, so it is taken off the epsilon asked. With `--labels N`, numbers
of at most N values, which the library would bin, are categories, too; the lists of their values are read without noise.
"""

import argparse
import json

import pandas as pd
from dpmm.pipelines import AIMPipeline, MSTPipeline

BINNING = 0.1


def main() -> None:
    """Fit, draw as many rows as were given, and say what was spent."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("train")
    options.add_argument("out")
    options.add_argument("--epsilon", type=float, required=True)
    options.add_argument("--delta", type=float, required=True)
    options.add_argument("--variant", choices=("aim", "mst"), default="mst")
    options.add_argument(
        "--iterations", type=int, help="of the fit; by default the library's 1,000 (AIM) or 5,000 (MST)"
    )
    options.add_argument("--labels", type=int, default=0, help="numbers of at most so many values are categories")
    asked = options.parse_args()
    real = pd.read_csv(asked.train)
    few = [name for name in real if real[name].nunique() <= asked.labels]
    for name in {*few, *real.select_dtypes(["object", "bool"])}:
        real[name] = real[name].astype("category")
    pipeline = {"aim": AIMPipeline, "mst": MSTPipeline}[asked.variant](
        epsilon=asked.epsilon - BINNING,
        delta=asked.delta,
        proc_epsilon=BINNING,
        n_jobs=1,
        gen_kwargs={"n_iters": asked.iterations} if asked.iterations else {},
    )
    pipeline.fit(real)
    pipeline.generate(n_records=len(real))[list(real.columns)].to_csv(asked.out, index=False)
    print(json.dumps({"epsilon": asked.epsilon}))


if __name__ == "__main__":
    main()
