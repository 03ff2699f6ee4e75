"""What commands on a single file share: options turned into settings, and an account opened for one release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError
from rich.console import Console

from dp_synth_pipeline.errors import InvalidInput
from dp_synth_pipeline.ledger import Ledger
from dp_synth_pipeline.orchestration.config import DEFAULT_DELTA, TableSettings
from dp_synth_pipeline.orchestration.resources import ledger_url
from dp_synth_pipeline.privacy.budget import check_delta, check_epsilon


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
        InvalidInput: if the file is missing.
        LedgerCorrupted: if the file is missing and its key is not.
    """
    wanted = url or ledger_url()
    plain = wanted.removeprefix("sqlite:///")
    path = Path(plain).expanduser()
    if "://" not in plain and not path.exists() and not path.with_name(f"{path.name}.key").exists():
        raise InvalidInput(f"there is no ledger at {path}; name it with --ledger, or set DP_SYNTH_LEDGER.")
    return Ledger.open(wanted)


def open_once(book: Ledger, settings: TableSettings, command: str, console: Console) -> None:
    """Open the account for exactly one release of these settings, unless it exists."""
    account, epsilon = settings.charge
    if account in {a.name for a in book.accounts()}:
        return
    delta = DEFAULT_DELTA if settings.delta == "auto" else float(settings.delta)
    unit = settings.privacy_unit
    book.open_account(
        account,
        epsilon=epsilon,
        delta=delta,
        unit=str(unit),
        max_rows=unit.max_rows,
        rule="plan",
        why=f"opened for one release by dp-synth {command} --open-account",
    )
    console.print(
        f"Opened account [bold]{account}[/] for this one release: epsilon {epsilon:g}, delta {delta:g}.",
        highlight=False,
    )
