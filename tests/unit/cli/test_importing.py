"""What asks for no data imports nothing that handles data."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import typer.main

from dp_synth_pipeline import __version__, cli

HEAVY = ("dagster", "torch", "sqlalchemy", "pandas", "numpy", "scipy", "pyarrow", "duckdb", "dp_accounting")

ASK = """
import json, sys
from dp_synth_pipeline.__main__ import main
code = 0
try:
    main()
except SystemExit as stop:
    code = stop.code
print(json.dumps([code, [name for name in {heavy!r} if name in sys.modules]]), file=sys.stderr)
"""


def asked(*words: str) -> tuple[int, list[str], str]:
    """Return the exit code of a command line in a process of its own, which heavy modules it imported, and its output."""
    done = subprocess.run(
        [sys.executable, "-c", ASK.format(heavy=HEAVY), *words], capture_output=True, text=True, check=True
    )
    code, imported = json.loads(done.stderr.splitlines()[-1])
    return code or 0, imported, done.stdout + done.stderr


@pytest.mark.parametrize("words", [("--version",), ("version",), ("--help",), ("demo", "--help"), ("no-such-command",)])
def test_neither_data_frames_nor_databases_nor_dagster_are_imported_where_none_is_needed(
    words: tuple[str, ...],
) -> None:
    code, imported, said = asked(*words)
    assert imported == []
    assert code == (2 if words == ("no-such-command",) else 0)
    if words[0].endswith("version"):
        assert said.splitlines()[0] == __version__


def test_a_warning_is_a_sentence_on_standard_error_without_the_name_of_a_logger() -> None:
    warned = (
        "import logging; from dp_synth_pipeline import cli; cli._run = logging.getLogger('dagster.builtin').warning; "
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{warned}cli.main()", "It is large."], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("", "It is large.\n")


def test_the_probe_sees_what_a_command_imports() -> None:
    assert "sqlalchemy" in asked("ledger", "--help")[1]


def test_the_list_of_commands_says_of_each_what_its_own_help_begins_with() -> None:
    commands = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    assert list(commands) == ["version", *cli.COMMANDS]
    for name, (_, line) in cli.COMMANDS.items():
        assert " ".join(commands[name].help.split()).startswith(line), name
        assert len(commands[name].params) + len(getattr(commands[name], "commands", ())), f"{name} is a placeholder"
