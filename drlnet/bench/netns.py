"""Network namespaces, as hosts of their own on this machine, and ip(8) to make and join them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from drlnet.bench.processes import left_behind, own
from drlnet.errors import TransportError
from drlnet.launch.process import DRLNET
from drlnet.launch.signals import Stop

_TAG = "drl"  # of namespaces and interfaces
_NAMED = Path("/run/netns")  # where ip(8) has namespaces by name


def program_in(namespace: str) -> tuple[str, ...]:
    """`drlnet` inside. ip(8) replaces itself by it, so that it stays our child."""
    return ("ip", "netns", "exec", namespace, *DRLNET)


def veth(mtu: int, *ends: tuple[str, str]) -> None:
    """Joins two namespaces by a pair of interfaces; an end is (namespace, interface's name)."""
    (first, name), (second, peer) = ends
    ip(
        *("link", "add", name, "netns", first, "mtu", str(mtu)),
        *("type", "veth", "peer", "name", peer, "netns", second),
    )
    for namespace, interface in ends:
        ip("-n", namespace, "link", "set", interface, "mtu", str(mtu), "up")


def ip(*words: str) -> None:
    """ip(8) with these words. Raises TransportError with what it says.

    In a session of its own: Ctrl-C is this process's alone, and cuts nothing short half made.
    """
    ended = subprocess.run(
        ["ip", *words], capture_output=True, text=True, check=False, start_new_session=True
    )
    if ended.returncode != 0:
        lines = ended.stderr.strip().splitlines()
        raise TransportError(
            f"ip {' '.join(words)}: {lines[-1] if lines else f'exit code {ended.returncode}'}",
            "the kernel must allow network namespaces and veth interfaces",
        )


def require_namespaces() -> None:
    """Raises TransportError without the privilege to make namespaces, or without ip(8)."""
    if os.geteuid() != 0:
        raise TransportError(
            "--netns makes network namespaces, which takes root", "run it as root: sudo drlnet ..."
        )
    if shutil.which("ip") is None:
        raise TransportError("--netns needs the ip command", "apt-get install iproute2")


@contextmanager
def namespaces(letters: str, stop: Stop | None = None) -> Iterator[list[str]]:
    """A namespace for each letter, its loopback up; gone, with its interfaces, after the block.

    stop: its second signal, which ends the process at once, takes them away, too. Those of a
    process that was killed go at the next start. Raises TransportError without the privilege, or
    without ip(8).
    """
    require_namespaces()
    for left in left_behind(_NAMED, _TAG):
        _delete(left.name)
    names = [f"{own(_TAG)}{letter}" for letter in letters]
    with ExitStack() as stack:
        if stop is not None:
            stop.before_abort = stack.close
        for name in names:
            stack.callback(_delete, name)
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        yield names


def _delete(namespace: str) -> None:
    """It may be gone already: another benchmark that starts takes away what is left behind, too."""
    try:
        ip("netns", "delete", namespace)
    except TransportError:
        if (_NAMED / namespace).exists():
            raise
