"""Runs what is missing of the studies, and shows what all of them found: `python -m benchmarks.studies [NAME ...]`."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import ModuleType

from benchmarks.studies import (
    activations,
    adam,
    attributes,
    cost,
    frozen,
    grid,
    hyperparameters,
    images,
    membership,
    moments,
    noise_and_norm,
    pages,
    persons,
    released,
    shadows,
    shoe,
    size,
    starts,
)

STUDIES: dict[str, ModuleType] = {
    "hyperparameters": hyperparameters,
    "noise_and_norm": noise_and_norm,
    "cost": cost,
    "released": released,
    "shoe": shoe,
    "activations": activations,
    "starts": starts,
    "frozen": frozen,
    "adam": adam,
    "moments": moments,
    "images": images,
    "size": size,
    "persons": persons,
    "membership": membership,
    "attributes": attributes,
    "shadows": shadows,
}

FIGURES = Path(__file__).parent / "figures"


def show(name: str) -> None:
    """Write what one study found into its page, and draw its charts; without kaleido, the charts stay as they are."""
    lines = grid.read(FIGURES / f"{name}.csv")
    text = pages.PAGE.read_text(encoding="utf-8")
    pages.PAGE.write_text(pages.current(text, STUDIES[name].tables(lines)), encoding="utf-8")
    try:
        for chart, figure in STUDIES[name].charts(lines).items():
            pages.draw(figure, pages.CHARTS / f"{chart}.svg")
    except (ImportError, RuntimeError, ValueError) as error:
        print(f"{name}: the charts were not drawn, and stay as they are: {str(error).strip().splitlines()[0]}")


def main() -> None:
    """Run and show the studies that are named, or all."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(STUDIES)}; all by default")
    options.add_argument("--show", action="store_true", help="train nothing; show what the CSV files hold")
    asked = options.parse_args()
    if unknown := set(asked.names) - set(STUDIES):
        options.error(f"there is no study {', '.join(sorted(unknown))}; known: {', '.join(STUDIES)}")
    for name in asked.names or STUDIES:
        if not asked.show:
            STUDIES[name].run(FIGURES / f"{name}.csv")
        show(name)


if __name__ == "__main__":
    main()
