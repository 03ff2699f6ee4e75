"""Keeps a release under the terms that it was reserved for, in every step after its first.

The settings of a table may change between two steps. What a release was charged for may not. So its terms are kept with it
when it is reserved, the ledger knows their hash, and every later step takes them from there. While anything may still be
learnt, a changed term is refused by its name. Afterwards what is drawn and said follows the terms as they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dp_synth_pipeline.errors import ReleaseStateError
from dp_synth_pipeline.ledger import Release as LedgerRelease
from dp_synth_pipeline.synthesis.database.settings import DatabaseSettings
from dp_synth_pipeline.synthesis.protection import OPEN, Record
from dp_synth_pipeline.synthesis.run_state import RunState
from dp_synth_pipeline.synthesis.settings import ReleaseSettings, terms_version
from dp_synth_pipeline.synthesis.training_settings import TrainingSettings

UNBOUND = ("version", "source")
"""Terms that bind no later step: the software's version, and where the rows were read from, since they are read."""


def of_release(settings: ReleaseSettings, state: RunState, release: Record) -> ReleaseSettings:
    """Return the settings with the terms of a release in place of their own; refuse others while it is open.

    Raises:
        ReleaseStateError: if more of it may be learnt and the settings' terms are others now, or if the state's terms
            are not those that it was reserved under.
    """
    if state.terms is None:  # a state of an older version: all that is known of its terms is their hash
        if release.state in OPEN and settings.code_version() != release.code_version:
            raise _change_refusal(["a setting"], release)
        return settings
    changed_terms = _changed(settings.name, settings.terms(), state.terms, release)
    return _with_terms(settings, changed_terms)


def of_database(settings: DatabaseSettings, release_terms: dict[str, Any] | None, release: Record) -> DatabaseSettings:
    """Return a database's settings with the terms of a release in place of their own; refuse others while it is open.

    Raises:
        ReleaseStateError: as `of_release` does.
    """
    changed_terms = _changed(settings.name, settings.terms(), release_terms or {}, release)
    return settings.with_terms(changed_terms) if changed_terms else settings


def _changed(
    name: str, current_terms: dict[str, Any], release_terms: dict[str, Any], release: Record
) -> dict[str, Any]:
    """Return the terms of a release that the settings have otherwise now."""
    if terms_version(release_terms) != release.code_version:
        raise ReleaseStateError(
            f"the terms beside these rows are not those that release {release.id} was reserved under, so its files were "
            f"changed by hand. Materialize {name} again from `ingested`: a new release is a new charge."
        )
    release_terms, current_terms = _comparable(release_terms), _comparable(current_terms)
    changed_names = [
        term for term in release_terms if term not in UNBOUND and release_terms[term] != current_terms.get(term)
    ]
    if changed_names and release.state in OPEN:
        raise _change_refusal(list(_names(release_terms, current_terms, changed_names)), release)
    return {term: release_terms[term] for term in changed_names}


def _comparable(terms: dict[str, Any]) -> dict[str, Any]:
    """Return terms as this version would write them: a version that did not know of a setting left it out."""
    if "training" in terms:
        terms = terms | {"training": TrainingSettings.of_terms(terms["training"]).model_dump(mode="json")}
    return {name: _without_nulls(value) for name, value in terms.items()}


def _without_nulls(value: Any) -> Any:
    """Return a section without what is not set: a later version may know of more that can be."""
    if not isinstance(value, dict):
        return value
    return {name: _without_nulls(part) for name, part in value.items() if part is not None}


def _with_terms(settings: ReleaseSettings, terms: dict[str, Any]) -> ReleaseSettings:
    if not terms:
        return settings
    fields = settings.model_dump(include=set(ReleaseSettings.model_fields))
    if "report_epsilon" in terms:
        fields["validation"]["report_epsilon"] = terms.pop("report_epsilon")
    return ReleaseSettings(**(fields | terms))


def _names(release_terms: dict[str, Any], current_terms: dict[str, Any], changed_names: list[str]) -> Iterator[str]:
    """Yield what a person would look for in the settings: `unit.max_rows` rather than `unit`."""
    for name in changed_names:
        old_value, new_value = release_terms.get(name), current_terms.get(name)
        if isinstance(old_value, dict) and isinstance(new_value, dict):
            changed_parts = [k for k in old_value.keys() | new_value.keys() if old_value.get(k) != new_value.get(k)]
            yield from (f"{name}.{part}" for part in _names(old_value, new_value, changed_parts))
        else:
            yield name


def _change_refusal(names: list[str], release: Record) -> ReleaseStateError:
    end = "Materialize the table again from `ingested`"
    if isinstance(release, LedgerRelease):
        how = "void" if release.state == "reserved" else "settle"
        end = f"To begin again under the new ones, end it first: dp-synth ledger {how} {release.id[:12]} --why REASON"
    return ReleaseStateError(
        f"{', '.join(sorted(names))} changed since release {release.id[:12]} began, and a release keeps the terms that it "
        f"was reserved under. To go on with it, put them back as they were. {end}; a new release is a new charge."
    )
