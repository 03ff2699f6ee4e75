"""Every error raised on purpose, on one page.

Each message says what was expected, what was found and what to do next, and never quotes a data value.
Messages are written here so that one wording serves the library, the command line and Dagster.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


class DpSynthError(Exception):
    """Base of everything this package raises on purpose; its text is safe to show and to log."""

    exit_code = 2


class InvalidInput(DpSynthError, ValueError):
    """The request, the source or the configuration cannot be used as it stands; nothing was charged."""


class Unlearnable(DpSynthError):
    """What was released of a table shows that nothing can be learnt from it; what was charged stays charged."""


class ReadingFailed(DpSynthError):
    """A source could not be read to its end. Why is a fact about rows, so it is told to the owner of the rows alone."""

    def __init__(self, details: object) -> None:
        super().__init__(
            f"the source could not be read to its end. Its owner finds the reason in {details}; mend it and run again. "
            f"The reservation stays held, since rows were read; a person may give it back."
        )


class UnknownAccount(DpSynthError, LookupError):
    """The named privacy account does not exist in this ledger."""

    def __init__(self, account: str, known: tuple[str, ...] = (), place: str = "") -> None:
        self.account, self.known = account, known
        ledger = f"The ledger {place}" if place else "This ledger"
        have = (
            f"{ledger} has: {', '.join(known)}.{nearest(account, known)}" if known else f"{ledger} has no account yet."
        )
        super().__init__(
            f"There is no privacy account {account!r}. {have} "
            f"Open one on purpose: dp-synth ledger open {account} --epsilon E --delta D."
        )


class AccountMismatch(DpSynthError, ValueError):
    """The account protects another privacy unit, or another limit, than the request assumes."""


class BudgetExceeded(DpSynthError):
    """The ledger refused: the request does not fit what is left. Nothing was read and nothing changed.

    Attributes:
        details: the rule that refused and its units, a sentence each, for whoever looks closer.
        facts: what was asked, how much of the account is used and what would fit, as plain numbers.
    """

    exit_code = 3

    def __init__(self, message: str, *, details: str = "", facts: dict[str, Any] | None = None) -> None:
        self.details, self.facts = details, facts or {}
        super().__init__(message)


class ApprovalNeeded(BudgetExceeded):
    """There is room for it, and it waits for a second person to approve it. Nothing was read and nothing was charged."""


class LedgerCorrupted(DpSynthError):
    """The ledger's chain, balances or costs do not agree with its entries; runs must stop."""

    exit_code = 4


class LedgerUnavailable(DpSynthError):
    """The ledger cannot be reached, read or written now; nothing says that it is damaged, and runs must wait."""

    exit_code = 4

    def __init__(self, place: str, what: str, action: str) -> None:
        super().__init__(f"The ledger {place} {what}. {action}")


class ReleaseStateError(DpSynthError):
    """A release was asked to do something its state does not allow, such as training twice for one charge."""


class NotCharged(DpSynthError):
    """A mechanism was about to release more than its ledger entry was charged for; nothing was drawn or released."""

    exit_code = 4

    def __init__(self, kind: str) -> None:
        super().__init__(
            f"a mechanism asked for a {kind} release that its ledger entry was not charged for, so nothing was drawn. "
            f"This is a defect of the program: what was charged stays charged. Report it, and do not run this version again."
        )


class TrainingError(DpSynthError):
    """Training could not go on, and no weights were released."""

    exit_code = 1


class Diverged(TrainingError):
    """Weights of a training are not finite, or grew beyond use."""


class AuditFailed(TrainingError):
    """What training was seen to do is not what was charged; its weights were thrown away."""

    def __init__(self, failed: list[str], release: str, *, settled: bool) -> None:
        end = (
            f"Release {release} is settled: all that started in it stays charged."
            if settled
            else f"Release {release} could not be settled and stays reserved; end it, charged for all that started: "
            f"dp-synth ledger settle {release} --why REASON."
        )
        super().__init__(
            f"the audit of what ran failed ({', '.join(failed)}): training did not do what was charged for it. Its weights "
            f"were thrown away, and nothing was published. {end} Find the cause before another run: see docs/evidence.md."
        )


class UnexpectedFailure(DpSynthError):
    """A library failed; its own message is withheld, because such messages quote data values."""

    exit_code = 1

    def __init__(self, stage: str, error: BaseException) -> None:
        super().__init__(
            f"{stage} stopped on an unexpected {type(error).__name__}. Its message is withheld because it may quote "
            f"private values; run again with DP_SYNTH_DEBUG=1 in a terminal to print it there and nowhere else."
        )


def nearest(name: object, known: Iterable[str]) -> str:
    """Return a question that ends a refusal of an unknown name, or nothing where no known name is like it.

    Example:
        >>> nearest("intger", ["integer", "number"]), nearest("x", ["integer"])
        (' Did you mean integer?', '')
    """
    found = get_close_matches(str(name), list(known), n=1)
    return f" Did you mean {found[0]}?" if found else ""
