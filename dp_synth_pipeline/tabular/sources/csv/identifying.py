"""Classes of a CSV's cells that identify somebody: public patterns, into which each cell falls by itself.

They part what would otherwise be text or a whole number, so they change no type and no cost. Which kind a column is of is
chosen from noisy counts, like its type.
"""

from __future__ import annotations

from collections.abc import Mapping

from dp_synth_pipeline.tabular.sql import literal

CARD, CARD_IN_GROUPS = "card number", "card number in groups"
"""Digits with the check digit of a payment card: a whole number if they stand alone, else text."""

WITH_IBAN = (
    "AD|AE|AL|AT|AZ|BA|BE|BG|BH|BI|BR|BY|CH|CR|CY|CZ|DE|DJ|DK|DO|EE|EG|ES|FI|FK|FO|FR|GB|GE|GI|GL|GR|GT|HR|HU|IE|IL|"
    "IQ|IS|IT|JO|KW|KZ|LB|LC|LI|LT|LU|LV|LY|MC|MD|ME|MK|MN|MR|MT|MU|NI|NL|NO|OM|PK|PL|PS|PT|QA|RO|RS|RU|SA|SC|SD|SE|"
    "SI|SK|SM|SO|ST|SV|TL|TN|TR|UA|VA|VG|XK|YE"
)
"""Countries whose accounts have an IBAN (ISO 13616)."""

PATTERNS = {
    "e-mail address": r"[^@\s,;<>]+@[^@\s,;<>]+\.[A-Za-z]{2,}",
    "UUID": r"\{?[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}\}?",
    "web address": r"(https?|ftp)://[^\s]+",
    "IBAN": rf"({WITH_IBAN})[0-9]{{2}} ?([A-Z0-9]{{4}} ?){{2,7}}[A-Z0-9]{{1,4}}",
    "social security number": r"[0-9]{3}-[0-9]{2}-[0-9]{4}",
    "IP address": (
        r"((25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
        r"|([0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}|([0-9A-Fa-f]{1,4}:){1,6}(:[0-9A-Fa-f]{1,4}){1,6}"
    ),
    "telephone number": (
        r"\+[0-9][0-9 ().\-/]{6,18}[0-9]"
        r"|(\+?1[ .\-])?(\([0-9]{3}\) ?|[0-9]{3}[ .\-])[0-9]{3}[ .\-][0-9]{4}( ?(x|ext\.?) ?[0-9]{1,6})?"
        r"|\(?0[0-9]{1,5}\)?[ /\-][0-9][0-9 \-/]{4,12}[0-9]"
    ),
}
"""Regular expressions of whole cells; the first that fits is the class of a cell that is of no other type."""

SPACED_CARD = r"[0-9]{4}([ -])?[0-9]{4}([ -])?[0-9]{4}([ -])?[0-9]{1,7}"

CLASSES = (CARD, CARD_IN_GROUPS, *PATTERNS)

KINDS = {
    CARD: "card",
    CARD_IN_GROUPS: "card",
    "e-mail address": "email",
    "UUID": "uuid",
    "IBAN": "iban",
    "social security number": "ssn",
    "IP address": "ip",
    "telephone number": "phone",
}
"""The kind that makes the values of a class anew; web addresses identify somebody only if they hardly repeat."""

HINTS = {"web address": "url"}

ALSO = {
    CARD: (CARD_IN_GROUPS,),
    CARD_IN_GROUPS: (CARD,),
    "IP address": ("number or grouped by points",),
    "telephone number": ("code", "whole", "grouped or with a decimal comma"),
}
"""Other classes that cells of a column of such a kind may fall into."""

MAJORITY = 0.5
"""Part of a column's cells that the class itself must hold."""


def is_card(cell: str) -> str:
    """Write a condition that holds where `cell` is 13 to 19 digits, in groups or not, whose check digit is right (Luhn)."""
    digits = f"regexp_replace({cell}, '[ -]', '', 'g')"
    padded = f"lpad({digits}, 19, '0')"
    places = [f"ascii(substr({padded}, {i}, 1)) - 48" for i in range(1, 20)]
    # From the right, every second digit counts double, and a sum of two digits as their own sum.
    terms = [f"({p})" if i % 2 == 0 else f"(2 * ({p}) - 9 * (({p}) > 4)::INT)" for i, p in enumerate(places)]
    return (
        f"(regexp_full_match({cell}, {literal(SPACED_CARD)}) AND length({digits}) BETWEEN 13 AND 19 "
        f"AND ({' + '.join(terms)}) % 10 = 0)"
    )


def kind_of(seen: Mapping[str, float], fits: float, blank: tuple[str, ...], kinds: Mapping[str, str]) -> str | None:
    """Return the kind of a column by the noisy counts of its classes; None if they tell of none.

    Args:
        seen: without the counts that noise would explain.
        fits: the part of the cells that must be of the kind.
        blank: the classes that hold no value.
        kinds: `KINDS`, or `HINTS`.
    """
    filled = sum(n for name, n in seen.items() if name not in blank)
    for name, kind in kinds.items():
        own = seen.get(name, 0)
        around = own + sum(seen.get(other, 0) for other in ALSO.get(name, ()))
        if own > MAJORITY * filled and around >= fits * filled:
            return kind
    return None
