"""Writes on the terminal: text as it is, the share of an account with a bar, and why a command ended without a result."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dp_synth_pipeline.errors import BudgetExceeded

if TYPE_CHECKING:
    from dp_synth_pipeline.ledger import Share

WIDTH = 10
"""Cells of a bar; one that is not empty has at least one full cell, and one that is not full an empty one."""

NUMBER = r"\W*[\d][\d.,:eTZ+\-/%]*\W*|[0-9a-f]{12}|\[[#=.]+\]|[█▒░]+"
"""A word of a table that says something else if it is cut or broken: a number, a date, the start of a hash, a bar."""

_wanted = {"verbose": False}


VERBOSE = "Of a refusal, also say the rule, its units and advice."
"""What `--verbose` does, an option of every command that the ledger may refuse."""


def say_more(wanted: bool) -> bool:
    """Have `refused` and `tell` say the rule of a refusal and its units, or not."""
    _wanted["verbose"] = wanted
    return wanted


Verbose = Annotated[bool, typer.Option("--verbose", callback=say_more, help=VERBOSE)]


def console(*, stderr: bool = False) -> Console:
    """Return a console that takes no text for markup: `[/x]` in somebody's name is a name, not the end of a style."""
    return Console(stderr=stderr, markup=False, highlight=False)


def on_terminal() -> bool:
    """Say whether a person is there to answer a question."""
    return sys.stdin.isatty()


def table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str | Text]], right: Collection[str] = ()
) -> Table:
    """Return a table that a narrow terminal shows whole: text is folded, and no number or date is cut or broken.

    Args:
        right: the columns that are aligned to the right.
    """
    listing, made = [list(row) for row in rows], Table(title=title, title_justify="left")
    for i, name in enumerate(columns):
        words = [word for row in listing if i < len(row) for word in re.sub(r"\[/?[a-z ]+\]", "", str(row[i])).split()]
        widest = max((len(word) for word in words if re.fullmatch(NUMBER, word)), default=0)
        made.add_column(name, overflow="fold", min_width=widest, justify="right" if name in right else "left")
    for row in listing:
        made.add_row(*row)
    return made


def bar(share: Share, to: Console) -> Text:
    """Return the used share as a bar: used, set aside for declared plans, free. Plain text where there is no terminal."""
    used = min(max(round(WIDTH * share.used), share.used > 0), WIDTH - (share.used < 1))
    aside = min(round(WIDTH * share.set_aside), WIDTH - used)
    if not to.is_terminal or not _writes(to, "█░"):
        return Text("[" + "#" * used + "=" * aside + "." * (WIDTH - used - aside) + "]")
    colour = "red" if share.used >= 0.9 else "yellow" if share.used >= 0.6 else "green"
    return Text.assemble(("█" * used, colour), ("▒" * aside, "cyan"), ("░" * (WIDTH - used - aside), "dim"))


def standing(share: Share, to: Console) -> Text:
    """Return the bar and the sentence on how much of an account is used and what fits."""
    return Text.assemble(bar(share, to), f" {share}")


def _writes(to: Console, text: str) -> bool:
    try:
        text.encode(to.encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def refused(message: str, details: str) -> str:
    """Return why the ledger refused, with the rule and its units if the command was asked for them."""
    if not details:
        return message
    return f"{message}\n{details}" if _wanted["verbose"] else f"{message} (--verbose says by which rule.)"


def tell(error: Exception) -> None:
    """Print on standard error why a command ended: a sentence that begins as one."""
    text = refused(str(error), error.details) if isinstance(error, BudgetExceeded) else str(error)
    console(stderr=True).print(Text(sentence(text), "red"), soft_wrap=True)


def sentence(text: str) -> str:
    """Return a text with a capital at its beginning, unless it begins with a name of the code or an option.

    Example:
        >>> sentence("the ledger is gone"), sentence("max_rows must be 1"), sentence("--out o: no such folder")
        ('The ledger is gone', 'max_rows must be 1', '--out o: no such folder')
    """
    first = text.split(maxsplit=1)[0] if text.strip() else ""
    return text[:1].upper() + text[1:] if first.rstrip(",").isalpha() else text


def say_large(what: str, epsilon: float, delta: float, console: Console) -> None:
    """Print what a large epsilon allows; nothing for one that is not large."""
    from dp_synth_pipeline.reporting import wording

    if said := wording.large(what, epsilon, delta):
        console.print(said, style="yellow", highlight=False, markup=False, soft_wrap=True)
