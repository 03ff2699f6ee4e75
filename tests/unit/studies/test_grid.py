"""A grid that is killed goes on where it was, and repeats no cell."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.studies import grid

CELLS = list(grid.product(table=("a", "b"), epsilon=(1.0, 2.51, float("inf")), private=(True, False)))


class Counted:
    """Measures cells, and stops like a killed program after some of them."""

    def __init__(self, most: int = 1000) -> None:
        self.most, self.cells = most, list[dict[str, Any]]()

    def __call__(self, cell: Mapping[str, Any]) -> dict[str, float]:
        if len(self.cells) == self.most:
            raise KeyboardInterrupt
        self.cells.append(dict(cell))
        return {"loss": 1 / 3 + len(self.cells)}


def test_a_killed_grid_goes_on_and_repeats_no_cell(tmp_path: Path) -> None:
    path, first, second, third = tmp_path / "grid.csv", Counted(most=15), Counted(), Counted()
    with pytest.raises(KeyboardInterrupt):
        grid.run(path, CELLS, first, repeats=2)
    assert len(grid.read(path)) == 15
    grid.run(path, CELLS, second, repeats=2)
    grid.run(path, CELLS, third, repeats=2)
    assert first.cells + second.cells == CELLS * 2  # all of them once before any of them twice
    assert not third.cells
    assert len(grid.read(path)) == 2 * len(CELLS)


def test_a_line_that_was_cut_short_is_measured_again(tmp_path: Path) -> None:
    path, again = tmp_path / "grid.csv", Counted()
    grid.run(path, CELLS, Counted())
    whole = path.read_text()
    path.write_text(whole[:-4])
    grid.run(path, CELLS, again)
    assert again.cells == CELLS[-1:]
    assert len(grid.read(path)) == len(CELLS)


def test_a_larger_grid_measures_what_is_new(tmp_path: Path) -> None:
    path, more = tmp_path / "grid.csv", Counted()
    grid.run(path, CELLS[:4], Counted())
    grid.run(path, CELLS, more)
    assert more.cells == CELLS[4:]
