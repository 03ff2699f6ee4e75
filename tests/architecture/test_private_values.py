"""Who opens what is private in a release: its mechanisms, which are metered, and a few named places that keep it restricted.

Private are the exact number of units, the digest of the content, the files of real rows and their codes. The rooms below
compute with what they are handed and know no release; here are the rooms that hold one.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "dp_synth_pipeline"
ROOMS = ("synthesis", "orchestration", "reporting", "validation", "cli", "synthesizer.py")

METERED = "synthesis/mechanisms/"
"""Each module here charges before it reads, and lets out what was noised."""

RESTRICTED = {
    "synthesis/stages.py": {"digest", "units", "snapshot"},  # into the ledger, encrypted, and into restricted files
    "synthesis/release.py": {"codes", "completed", "snapshot"},  # into codes, typed rows and texts, as restricted
    "synthesis/database/stages.py": {"digest", "units"},  # into the ledger, encrypted, and into restricted state
    "synthesis/database/state.py": {"units"},  # into restricted state
    "synthesis/database/table_release.py": {"codes", "units"},  # into charged training, as `release.codes` is
    "synthesis/holdout.py": {"digest", "completed"},  # into the restricted report
    "reporting/quality_report.py": {"completed"},  # which is the restricted report
}
"""What each other module may open, since nothing made of it leaves."""

VALUES, FILES, CALLS = {"digest", "units"}, {"snapshot", "completed"}, {"codes"}


def opened(code: str) -> Iterator[str]:
    """Yield the private values that some code takes out of a release, a state or a snapshot."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute) and node.attr in VALUES:
            yield node.attr
        if isinstance(node, ast.Attribute) and node.attr in FILES and ast.unparse(node.value).endswith("files"):
            yield node.attr
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in CALLS:
                yield node.func.attr
            if node.func.attr == "path" and node.args and isinstance(node.args[0], ast.Constant):
                yield from FILES & {node.args[0].value}


def modules() -> list[str]:
    found = [
        path
        for room in ROOMS
        for path in ([PACKAGE / room] if room.endswith(".py") else (PACKAGE / room).rglob("*.py"))
    ]
    return sorted(path.relative_to(PACKAGE).as_posix() for path in found)


def test_nothing_but_a_mechanism_or_what_stays_restricted_opens_a_private_value() -> None:
    found = {name: set(opened((PACKAGE / name).read_text())) for name in modules() if not name.startswith(METERED)}
    assert {name: values for name, values in found.items() if values} == RESTRICTED


@pytest.mark.parametrize(
    "leak",
    [
        "metadata = {'rows': release.state.units}",
        "card['source'] = protection.seal(state.digest)",
        "size = release.state.path('snapshot').stat().st_size",
        "size = state.files.completed.stat().st_size",
        "codes, units = release.codes(release.codec)",
    ],
)
def test_a_leak_would_be_noticed(leak: str) -> None:
    assert list(opened(leak))


def test_each_mechanism_is_metered() -> None:
    """What lies in the folder of mechanisms is a `Mechanism`, or the training, which charges each step itself."""
    for path in (PACKAGE / METERED).glob("[!_]*.py"):
        assert "(Mechanism[" in (code := path.read_text()) or "_charge(" in code, path.name
