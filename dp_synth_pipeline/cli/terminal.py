"""Writes text on the terminal as it is, whatever a name, a path or a message has in it."""

from __future__ import annotations

from rich.console import Console


def console(*, stderr: bool = False) -> Console:
    """Return a console that takes no text for markup: `[/x]` in somebody's name is a name, not the end of a style."""
    return Console(stderr=stderr, markup=False, highlight=False)
