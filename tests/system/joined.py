"""Two network namespaces joined by veth: kernel sockets at one end, a DPDK server at the other."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from system.command import Command, command

import drlnet
from drlnet.bench.netns import Side, joined
from drlnet.errors import TransportError

DRIVERS = ("af_packet", "af_xdp")
MTU = 1500


def skip_where_there_are_none() -> None:
    """Skips the module that calls it."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces take root", allow_module_level=True)
    if not Path(drlnet.__file__).with_name("libdrlnet_dpdk.so").exists():
        pytest.skip("this drlnet was built without DPDK", allow_module_level=True)


def run_in(side: Side, *words: str) -> subprocess.CompletedProcess[str]:
    """A program in a namespace, run to its end."""
    return subprocess.run(
        [*within(side), *words], capture_output=True, text=True, check=False, timeout=60
    )


def within(side: Side) -> list[str]:
    return ["ip", "netns", "exec", side.namespace]


def _kernel_addresses(client: Side) -> None:
    for address in (f"{client.ip}/24", "fd07::1/64"):
        nodad = ["nodad"] if ":" in address else []
        ended = run_in(client, "ip", "address", "add", address, "dev", client.interface, *nodad)
        assert ended.returncode == 0, ended.stderr


@pytest.fixture
def sides() -> Iterator[tuple[Side, Side]]:
    """The client's end, on which the kernel has addresses, and the server's: there it has none."""
    with ExitStack() as stack:
        try:
            client, server = stack.enter_context(joined(MTU))
        except TransportError as error:
            pytest.skip(str(error))
        _kernel_addresses(client)
        yield client, server


def serve(folder: Path, server: Side, *listen: str, shards: int = 1) -> Command:
    words = [word for address in listen for word in ("--listen", address)]
    words += ["--shards", str(shards)]
    return Command(["serve", "--insecure", "--json", *words], folder, within=within(server))


@contextmanager
def serving(folder: Path, server: Side, *listen: str, shards: int = 1) -> Iterator[Command]:
    """A server that is ready, ended by SIGTERM unless it has ended."""
    started = serve(folder, server, *listen, shards=shards)
    try:
        started.wait_for("ready")
        yield started
        if started.popen.poll() is None:
            assert started.end(signal.SIGTERM) == 0, started.text()
    finally:
        started.popen.kill()
        started.popen.wait()


def stats(folder: Path, side: Side, address: str) -> dict[str, float]:
    with command(folder, "stats", "--server", address, "--json", within=within(side)) as asking:
        assert asking.end() == 0, asking.text()
        return dict(asking.last_json())


def join_again(client: Side, server: Side) -> None:
    pair = ("type", "veth", "peer", "name", server.interface, "netns", server.namespace)
    for side, words in (
        (client, ("link", "add", client.interface, "mtu", str(MTU), *pair)),
        (client, ("link", "set", client.interface, "up")),
        (server, ("link", "set", server.interface, "up")),
    ):
        ended = run_in(side, "ip", *words)
        assert ended.returncode == 0, ended.stderr
    _kernel_addresses(client)
