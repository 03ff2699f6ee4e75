"""What commands on a single file share: options turned into settings, and an account opened for one release."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError
from rich.console import Console

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration.settings import TableSettings
from dp_synth_pipeline.privacy.budget import check_delta, check_epsilon
from dp_synth_pipeline.synthesis.settings import DEFAULT_DELTA
from dp_synth_pipeline.synthesis.store import ledger_url

ONCE = "opened for one release by dp-synth "
"""How the reason of an account begins that a command opened for its own release."""


def checked(**facts: Any) -> TableSettings:
    """Return the settings that options amount to; raise InvalidInput naming the option that is wrong."""
    if facts.get("epsilon") is not None:
        check_epsilon(facts["epsilon"])
    if facts.get("delta", "auto") != "auto":
        check_delta(facts["delta"])
    try:
        return TableSettings(**facts)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(p) for p in first["loc"])
        told = first["msg"].removeprefix("Value error, ").rstrip(".")
        raise InvalidInput(f"--{where}: {told}." if where else f"{told}.") from None


def existing_ledger(url: str) -> Ledger:
    """Open a ledger that is there already: a question about the past never makes an empty one.

    Raises:
        InvalidInput: if there is none.
        LedgerCorrupted: if it is missing and its key is not.
    """
    return Ledger.open(url or ledger_url(), create=False)


def open_once(book: Ledger, settings: TableSettings, command: str, console: Console) -> None:
    """Open the account for exactly one release of these settings, unless it exists.

    One that was opened like this before, and of which nothing was ever charged, is opened anew with the terms asked now:
    input that could not be read must not fix them for ever.
    """
    account, epsilon = settings.charge
    delta = DEFAULT_DELTA if settings.delta == "auto" else float(settings.delta)
    unit = settings.privacy_unit
    terms = {"epsilon": float(epsilon), "delta": delta, "unit": str(unit), "max_rows": unit.max_rows}
    known = next((a for a in book.accounts() if a.name == account), None)
    if known is not None:
        same = {name: getattr(known, name) for name in terms} == terms
        if same or not (known.why.startswith(ONCE) and book.untouched(account)):
            return
    book.open_account(account, **terms, rule="plan", why=f"{ONCE}{command} --open-account", anew=known is not None)
    console.print(
        f"Opened account {account} for this one release: epsilon {epsilon:g}, delta {delta:g}. Ledger: {book.place}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
