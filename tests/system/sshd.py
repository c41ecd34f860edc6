"""An ssh server of this user's own on a port of loopback, with hosts that all lead to it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

DEADLINE_S = 30.0


@dataclass
class Sshd:
    """A running one. ssh: the command that reaches it without a password."""

    ssh: str
    hosts: Path  # a hosts file: one, two

    def write_hosts(self, *lines: str) -> None:
        """Names other hosts."""
        self.hosts.write_text("\n".join(lines) + "\n")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextmanager
def sshd(folder: Path) -> Iterator[Sshd]:
    """One whose keys and settings lie in that folder."""
    program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None or shutil.which("ssh") is None:
        refuse = pytest.fail if os.environ.get("DRLNET_CI") else pytest.skip
        refuse("needs sshd: apt-get install -y openssh-server openssh-client")
    folder.mkdir(mode=0o700)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # as its service would
    for name in ("host_key", "user_key"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name],
            check=True,
            timeout=DEADLINE_S,
        )
    shutil.copy(folder / "user_key.pub", folder / "authorized")
    port = free_port()
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host_key\n"
        f"AuthorizedKeysFile {folder}/authorized\nStrictModes no\nUsePAM no\n"
        f"PidFile {folder}/pid\nPasswordAuthentication no\n"
    )
    (folder / "config").write_text(
        f"Host one two three\nHostName 127.0.0.1\nPort {port}\nIdentityFile {folder}/user_key\n"
        f"IdentitiesOnly yes\nUserKnownHostsFile {folder}/known\nStrictHostKeyChecking accept-new\n"
        "LogLevel ERROR\n"
    )
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, "-D", "-e", "-f", folder / "sshd_config"], stderr=log)
    try:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None and time.monotonic() < deadline, (
                folder / "log"
            ).read_text()
        found = Sshd(f"ssh -F {folder}/config", folder / "hosts")
        command = Path(sys.executable).with_name("drlnet")
        found.write_hosts(f"one drlnet={command}  # server and learner", f"two drlnet={command}")
        yield found
    finally:
        process.kill()
        process.wait(DEADLINE_S)
