"""A Slurm cluster of three nodes, all of this machine, with daemons and settings of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from system.sshd import free_port

DEADLINE_S = 60.0
_DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch")
_NODES = ("n1", "n2", "n3")
_SETTINGS = """
ClusterName=drlnet
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=1,sched_interval=1
SlurmdParameters=config_overrides
PartitionName=all Nodes=n[1-3] Default=YES State=UP
"""


class Slurm:
    """A running cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        here = str(Path(sys.executable).parent)
        path = f"{here}:{os.environ['PATH']}:/usr/sbin"
        self.environment = {**os.environ, "SLURM_CONF": f"{folder}/slurm.conf", "PATH": path}

    def run(self, *command: str, within: Path | None = None) -> str:
        """What a command says that must succeed."""
        ended = subprocess.run(
            command, env=self.environment, cwd=within or self.folder, capture_output=True,
            text=True, timeout=DEADLINE_S, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, f"{command}: {ended.stdout}{ended.stderr}"
        return ended.stdout

    def states(self) -> set[str]:
        """Those of all jobs in the queue."""
        return {*self.run("squeue", "-h", "-o", "%T").split()}

    def wait_for(self, what: str, found: object, deadline_s: float) -> None:
        """Waits until found() holds."""
        deadline = time.monotonic() + deadline_s
        assert callable(found)
        while not found():
            if time.monotonic() > deadline:
                logs = "\n".join(path.read_text()[-3000:] for path in self.folder.glob("*.log"))
                pytest.fail(f"{what}: not within {deadline_s:g} s\n{logs}")
            time.sleep(0.1)  # between two looks


@contextmanager
def slurm(folder: Path) -> Iterator[Slurm]:
    """A cluster whose files lie in that folder. Skips where Slurm is missing."""
    path = f"{os.environ['PATH']}:/usr/sbin"
    missing = [one for one in _DAEMONS if shutil.which(one, path=path) is None]
    if missing or os.geteuid() != 0:
        refuse = pytest.fail if os.environ.get("DRLNET_CI") and missing else pytest.skip
        packages = "slurmctld slurmd slurm-client munge"
        refuse(f"needs Slurm and root: apt-get install -y {packages}")
    folder.mkdir()
    (folder / "state").mkdir()
    (folder / "munge").mkdir(mode=0o700)
    key = folder / "munge" / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    host = socket.gethostname().partition(".")[0]
    text = _SETTINGS.format(host=host, port=free_port(), folder=folder)
    for name in _NODES:
        text += (
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()} CPUs=4 "
            "RealMemory=4000\n"
        )
    (folder / "slurm.conf").write_text(text)
    made = Slurm(folder)
    munge = [
        f"--{word}={folder}/munge/{word.partition('-')[0]}"
        for word in ("key-file", "socket", "pid-file", "log-file", "seed-file")
    ]
    commands = [["munged", "-F", "-f", *munge], ["slurmctld", "-D", "-i"]]
    commands += [["slurmd", "-D", "-N", name] for name in _NODES]
    with ExitStack() as stack:
        for command in commands:
            process = subprocess.Popen(
                command,
                env=made.environment,
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            stack.callback(_end, process)
            if command[0] == "munged":
                made.wait_for("munged", (folder / "munge" / "socket").exists, DEADLINE_S)
        idle = lambda: made.run("sinfo", "-h", "-o", "%T %D").split() == ["idle", "3"]  # noqa: E731
        made.wait_for("nodes", lambda: _answers(made) and idle(), DEADLINE_S)
        try:
            yield made
        finally:
            made.run("scancel", "--user=root")
            made.wait_for("no job", lambda: not made.states(), DEADLINE_S)


def _answers(made: Slurm) -> bool:
    asked = subprocess.run(
        ["scontrol", "ping"], env=made.environment, capture_output=True, text=True, check=False,
        timeout=DEADLINE_S,
    )  # fmt: skip
    return " UP" in asked.stdout


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
