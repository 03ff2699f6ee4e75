"""Quality against peers, everything charged, by one command:

    python benchmarks/quality.py --train T.csv --holdout H.csv --target COLUMN --scorer score.py --scorer-python PYTHON \\
        --epsilon 2.51 1 0.5 --peers mostlyai,mostlyai-plain,dpmm-aim,dpmm-mst,smartnoise-mst

Ours is the whole command line, from the CSV to the published CSV, with its ledger, checks and reports, in a fresh home.
Each peer runs in an environment of its own, outside the project, which this makes with pinned versions. CPU seconds are
those of the process and all its children, imports and writing included. `--made NAME` generates a table of another shape
(`made_tables.py`) and uses that. Lines that are in OUT/quality.csv already are not run again; delete it to start over.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import made_tables
import platformdirs
from scoring import Log, markdown, one_thread, options, score, write

HERE = Path(__file__).parent
DELTA = 1e-5
OURS = "dp-synth"

TORCH = "torch==2.13.0"
"""Installed first, so that one build serves all."""


@dataclass(frozen=True)
class Peer:
    """Another system: the script that runs it, what it needs and must not have, more options, and whether it is private."""

    script: str
    variant: str
    needs: tuple[str, ...]
    private: bool = True
    without: tuple[str, ...] = ()
    more: tuple[str, ...] = ()

    @property
    def home(self) -> str:
        """Name of its environment, shared by its variants."""
        return f"{self.script}-{self.needs[-1].split('==')[1]}"


MOSTLYAI = (TORCH, "mostlyai-engine==2.7.3")
DPMM = ("dpmm==0.1.9",)
SMARTNOISE = (TORCH, "smartnoise-synth==1.0.8")
CUDA_ONLY = ("torchvision", "torchaudio")
"""Fail to load beside a CPU build of torch; not used for tables."""

PEERS = {
    "mostlyai": Peer("mostlyai", "dp", MOSTLYAI, without=CUDA_ONLY),
    "mostlyai-plain": Peer("mostlyai", "plain", MOSTLYAI, private=False, without=CUDA_ONLY),
    "dpmm-aim": Peer("dpmm", "aim", DPMM),
    "dpmm-aim-short": Peer("dpmm", "aim", DPMM, more=("--iterations", "100")),
    "dpmm-mst": Peer("dpmm", "mst", DPMM),
    "smartnoise-mst": Peer("smartnoise", "mst", SMARTNOISE),
}

COLUMNS = {
    "system": "",
    "epsilon": "g",
    "spent": ".3f",
    "tvd1": ".4f",
    "tvd2": ".4f",
    "tvd3": ".4f",
    "disc_auc": ".3f",
    "tstr_auc": ".3f",
    "qa_accuracy": ".3f",
    "qa_disc": ".3f",
    "cpu": ".0f",
    "wall": ".0f",
    "runs": ".0f",
}


def environment(peer: Peer, home: Path, interpreter: str) -> Path:
    """Return the python of a peer's own environment, making it if it is missing or holds other versions."""
    folder = home / peer.home
    python, stamp = folder / "bin" / "python", folder / "installed.txt"
    wanted = "\n".join(peer.needs)
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"making {folder}", file=sys.stderr, flush=True)
        subprocess.run([interpreter, "-m", "venv", "--clear", folder], check=True)
        for count in range(1, len(peer.needs) + 1):
            subprocess.run([python, "-m", "pip", "install", "-q", *peer.needs[:count]], check=True)
        if peer.without:
            subprocess.run([python, "-m", "pip", "uninstall", "-q", "-y", *peer.without], check=True)
        stamp.write_text(wanted)
    return python


def timed(command: list[Any], env: dict[str, str]) -> tuple[str, dict[str, float]]:
    """Run a command to its end; return what it printed, its CPU seconds, children included, and wall seconds."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([str(c) for c in command], env=env, capture_output=True, text=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, {"cpu": cpu, "wall": wall}


def ours(asked: Namespace, epsilon: float, out: Path) -> dict[str, Any]:
    """Synthesize by the command line in a fresh home."""
    with tempfile.TemporaryDirectory() as home:
        env = {**one_thread(), "DAGSTER_HOME": home}
        program = Path(sys.executable).with_name("dp-synth")
        command = [program, "synthesize", asked.train, "--out", out, "--epsilon", epsilon, "--delta", DELTA]
        said, took = timed([*command, "--open-account", "--json", "--purpose", asked.purpose], env)
    found = json.loads(said.strip().splitlines()[-1])
    return {"spent": found["epsilon"], **took, "seconds": json.dumps(found["seconds"])}


def theirs(asked: Namespace, name: str, epsilon: float, out: Path) -> dict[str, Any]:
    """Synthesize by a peer, in its own environment."""
    peer = PEERS[name]
    python = environment(peer, asked.peer_home, asked.peer_python)
    env = {**one_thread(), "HF_HUB_OFFLINE": "1"}
    # -I: neither this folder, where files bear the names of the packages they run, nor ours is on the path.
    command = [python, "-I", HERE / "peers" / f"{peer.script}.py", asked.train, out, "--epsilon", epsilon]
    said, took = timed([*command, "--delta", DELTA, "--variant", peer.variant, *peer.more], env)
    return {"spent": json.loads(said.strip().splitlines()[-1]).get("epsilon"), **took}


def synthetic(asked: Namespace, system: str, epsilon: float | str, number: int) -> Path:
    """Return where one run's rows go; they are kept, so that they can be scored again."""
    return asked.out / f"{asked.table}_{system}_{epsilon}_{number}.csv"


def run(asked: Namespace, log: Log, system: str, epsilon: float | str) -> None:
    """Run one line as often as asked, and keep its figures; add mostlyai-qa's to runs that have none."""
    ran = log.runs(table=asked.table, system=system, epsilon=epsilon)
    for number, row in enumerate(ran):
        out = synthetic(asked, system, epsilon, number)
        if asked.qa and out.exists() and not isinstance(row.get("qa_accuracy"), float):
            log.amend(row, score(asked, out))
            print(markdown([row], COLUMNS).splitlines()[-1], flush=True)
    for number in range(len(ran), asked.reps):
        out = synthetic(asked, system, epsilon, number)
        value = float(epsilon) if epsilon != "none" else 1.0
        try:
            took = ours(asked, value, out) if system == OURS else theirs(asked, system, value, out)
        except RuntimeError as error:
            print(f"{system} at {epsilon} failed: {error}", file=sys.stderr, flush=True)
            return
        log.add({"table": asked.table, "system": system, "epsilon": epsilon, **took, **score(asked, out)})
        print(markdown(log.rows[-1:], COLUMNS).splitlines()[-1], flush=True)


def main() -> None:
    """Run what is missing, then print the table of all that there is."""
    found = options(__doc__ or "", "quality")
    found.add_argument("--epsilon", type=float, nargs="+", default=[2.51, 1.0, 0.5])
    found.add_argument("--peers", default="", help=f"comma-separated, of: {', '.join(PEERS)}")
    found.add_argument("--peer-home", type=Path, default=Path(platformdirs.user_cache_dir("dp_synth")) / "peers")
    found.add_argument("--peer-python", default=sys.executable, help="Python 3.11 that peers' environments are made of")
    found.add_argument("--made", choices=made_tables.TABLES, help="generate this table in OUT and use it")
    found.add_argument("--purpose", default="analytics")
    found.add_argument("--no-ours", action="store_true", help="peers alone")
    asked = found.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    if asked.made:
        asked.train, asked.holdout = made_tables.write(asked.out, asked.made)
        asked.target = made_tables.TABLES[asked.made].target
    if asked.train is None or asked.holdout is None:
        found.error("give --train and --holdout, or --made")
    asked.table, asked.peer_home = asked.train.stem, asked.peer_home.expanduser().absolute()
    os.umask(0o077)  # synthetic rows of peers, and scores, tell of real rows
    log = Log(asked.out / "quality.csv", ("table", "system", "epsilon"))
    peers = [p for p in asked.peers.split(",") if p]
    for system in [*([] if asked.no_ours else [OURS]), *peers]:
        if system != OURS and not PEERS[system].private:
            run(asked, log, system, "none")
            continue
        for epsilon in asked.epsilon:
            run(asked, log, system, epsilon)
    lines = [r for r in log.medians() if r["table"] == asked.table]
    write(asked.out / f"quality_{asked.table}.md", markdown(lines, COLUMNS))


if __name__ == "__main__":
    main()
