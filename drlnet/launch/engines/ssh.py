"""Hosts that ssh reaches: one connection to each, without a password, and no daemon there.

A hosts file names a host a line, as ssh knows it, the first one for server and learner; behind it
may stand address=ADDRESS (where other hosts reach it; else where ssh did) and drlnet=PATH (the
command there; else `drlnet`).
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from drlnet.errors import ConfigError, DrlnetError, NotInstalled, TransportError
from drlnet.launch.engines.shell import AWAIT_LEARNER, ENDING
from drlnet.launch.plan import Plan, in_url, reachable
from drlnet.launch.process import Process
from drlnet.launch.supervisor import Supervisor

_OPTIONS = (
    *("-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"),
    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"),
)
_PORT = 7447
_ID = 'pids="$pids $!"'  # in a script, of the command before it


@dataclass(frozen=True)
class SshHost:
    """A line of the hosts file."""

    name: str
    address: str = ""
    drlnet: str = "drlnet"

    def agent(self) -> str:
        """The command that the connection runs there."""
        where = ["--address", self.address] if self.address else []
        return shlex.join([*shlex.split(self.drlnet), "agent", self.name, *where])


def read_hosts(path: Path) -> list[SshHost]:
    """The hosts of a hosts file. Raises ConfigError, with the line that is wrong."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", "check --hosts") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read {path}: not UTF-8", "check --hosts") from error
    found: dict[str, SshHost] = {}
    for number, line in enumerate(lines, 1):
        try:
            name, *more = shlex.split(line, comments=True) or [""]
            if name:
                found[name] = _host(name, more, found)
        except ValueError as error:  # of shlex, too
            raise ConfigError(
                f"{path}:{number}: {error}",
                "write HOST address=ADDRESS drlnet=PATH, the latter two where they are needed",
            ) from error
    if not found:
        raise ConfigError(f"{path} names no host", "write one a line, as ssh knows it")
    return [*found.values()]


def _host(name: str, more: list[str], before: Container[str]) -> SshHost:
    """Raises ValueError, with what is wrong."""
    facts = dict(word.partition("=")[::2] for word in more)
    if unknown := facts.keys() - {"address", "drlnet"}:
        raise ValueError(f"{unknown.pop()} is nothing that a host has")
    if empty := [key for key, value in facts.items() if not value]:
        raise ValueError(f"{empty[0]} has no value")
    if name in before:
        raise ValueError(f"{name} is there already")
    shlex.split(facts.get("drlnet", ""))
    return SshHost(name, **facts)


def require_program(ssh: str) -> None:
    """Raises ConfigError or NotInstalled where that command cannot be started."""
    try:
        words = shlex.split(ssh)
    except ValueError as error:
        raise ConfigError(f"--ssh {ssh}: {error}", "write it as for a shell") from error
    if not words or shutil.which(words[0]) is None:
        raise NotInstalled(
            f"--ssh {ssh}: there is no such program",
            "correct --ssh, or install ssh (Debian's package: openssh-client)",
        )


def links(group: Supervisor, hosts: list[SshHost], ssh: str) -> list[Process]:
    """Connects to all of them."""
    return [
        group.start(
            f"host-{host.name}",
            [],
            program=[*shlex.split(ssh), *_OPTIONS, host.name, f"exec {host.agent()}"],
            told=True,
        )
        for host in hosts
    ]


def refused(link: Process) -> DrlnetError:
    """The end of a connection as an error: in ssh's words, or the remote shell's."""
    name = link.name.removeprefix("host-")
    words = link.tail[-1] if link.tail else link.ending
    if link.returncode == 127:
        return TransportError(
            f"{name} has no drlnet: {words}",
            "install it there, or say where it is: drlnet=PATH behind the host's name",
        )
    return TransportError(
        f"no connection to {name}: {words}",
        f"let `ssh -o BatchMode=yes {name} true` succeed first: a key, and the host known",
    )


def script(plan: Plan, hosts: list[SshHost], ssh: str) -> str:
    """A script that does the same by hand: a connection to each host, which ends with it."""
    first = hosts[0]
    address = f"udp://{in_url(first.address or first.name)}:{_PORT}"
    lines = [
        "#!/bin/sh",
        f"# {plan.title} on {len(hosts)} hosts.",
        "set -eu",
        "pids= learner=",
    ]

    def far(host: SshHost, words: list[str]) -> str:
        command = shlex.join([*shlex.split(host.drlnet), *words])
        return f"{ssh} -tt -o BatchMode=yes {host.name} {shlex.quote(command)}"

    for role in plan:
        args = role.args(server=address)
        if role.name == "server":
            args = reachable(role.args(host=first.address or first.name))
            args[args.index("--listen") + 1] = address
        if role.name == "actor":
            for at, host in enumerate(hosts):
                count = role.count // len(hosts) + (at < role.count % len(hosts))
                if count:
                    lines.append(f"{far(host, [*args, '--num-actors', str(count)])} &")
                    lines.append(_ID)
        elif role.name == "shard":
            for number in range(role.count):
                host = hosts[(1 + number) % len(hosts)]
                there = role.args(server=address, host=host.address or host.name)
                lines += [f"{far(host, reachable(there))} &", _ID]
        elif role.name != "learner":
            lines += [f"{far(first, args)} &", _ID]
    lines += ENDING
    if plan.has("learner"):
        learning = far(first, plan.role("learner").args(server=address))
        lines += [f"{learning} &", *AWAIT_LEARNER]
    else:
        lines.append("wait")
    return "\n".join(lines) + "\n"
