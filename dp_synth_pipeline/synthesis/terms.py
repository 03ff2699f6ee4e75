"""A release under way, as the steps after its first find it: under the terms that it was reserved for, and no others.

The settings of a table may change between two steps; what a release was charged for may not. So its terms are kept with it
when it is reserved, the ledger knows their hash, and every later step takes them from there. While anything may still be
learnt, a changed term is refused by its name; afterwards what is drawn and said is what the terms were.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dp_synth_pipeline.errors import ReleaseStateError
from dp_synth_pipeline.ledger import Release as LedgerRelease
from dp_synth_pipeline.synthesis.protection import OPEN, Record
from dp_synth_pipeline.synthesis.run_state import RunState
from dp_synth_pipeline.synthesis.settings import ReleaseSettings, terms_version

UNBOUND = ("version", "source")
"""Terms that bind no later step: the software's version, and where the rows were read from, since they are read."""


def of_release(settings: ReleaseSettings, state: RunState, release: Record) -> ReleaseSettings:
    """Return the settings with the terms of a release in place of their own; refuse others while it is open.

    Raises:
        ReleaseStateError: if more of it may be learnt and the settings' terms are others now, or if the state's terms
            are not those that it was reserved under.
    """
    now, kept = settings.terms(), state.terms
    if kept is None:  # a state of an older version: all that is known of its terms is their hash
        if release.state in OPEN and terms_version(now) != release.code_version:
            raise _changed(["a setting"], release)
        return settings
    if terms_version(kept) != release.code_version:
        raise ReleaseStateError(
            f"the terms beside these rows are not those that release {release.id} was reserved under, so its files were "
            f"changed by hand. Materialize {settings.name} again from `ingested`: a new release is a new charge."
        )
    changed = [name for name in kept if name not in UNBOUND and kept[name] != now.get(name)]
    if changed and release.state in OPEN:
        raise _changed(list(_names(kept, now, changed)), release)
    return _with(settings, {name: kept[name] for name in changed})


def _with(settings: ReleaseSettings, terms: dict[str, Any]) -> ReleaseSettings:
    if not terms:
        return settings
    own = settings.model_dump(include=set(ReleaseSettings.model_fields))
    if "report_epsilon" in terms:
        own["validation"]["report_epsilon"] = terms.pop("report_epsilon")
    return ReleaseSettings(**(own | terms))


def _names(kept: dict[str, Any], now: dict[str, Any], changed: list[str]) -> Iterator[str]:
    """Yield what a person would look for in the settings: `unit.max_rows` rather than `unit`."""
    for name in changed:
        before, after = kept[name], now.get(name)
        if isinstance(before, dict) and isinstance(after, dict):
            yield from (
                f"{name}.{part}" for part in before.keys() | after.keys() if before.get(part) != after.get(part)
            )
        else:
            yield name


def _changed(names: list[str], release: Record) -> ReleaseStateError:
    end = "Materialize the table again from `ingested`"
    if isinstance(release, LedgerRelease):
        how = "void" if release.state == "reserved" else "settle"
        end = f"To begin again under the new ones, end it first: dp-synth ledger {how} {release.id[:12]} --why REASON"
    return ReleaseStateError(
        f"{', '.join(sorted(names))} changed since release {release.id[:12]} began, and a release keeps the terms that it "
        f"was reserved under. To go on with it, put them back as they were. {end}; a new release is a new charge."
    )
