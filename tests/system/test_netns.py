"""DPDK on the kernel's interfaces: two network namespaces joined by veth, kernel sockets across."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from system.command import SMALL, Command, command
from system.joined import (
    DRIVERS,
    join_again,
    run_in,
    serve,
    serving,
    sides,
    skip_where_there_are_none,
    stats,
    within,
)

from drlnet.bench.netns import Side
from drlnet.launch.process import DRLNET

__all__ = ["sides"]

skip_where_there_are_none()


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("v4", [True, False], ids=["v4", "v6"])
def test_dpdk_answers_pings_and_clients_of_both_kinds(
    tmp_path: Path, sides: tuple[Side, Side], driver: str, v4: bool
) -> None:
    client, server = sides
    ip, other = ("10.7.0.2", "10.7.0.3") if v4 else ("fd07::2", "fd07::3")
    host = ip if v4 else f"[{ip}]"
    with serving(tmp_path, server, f"dpdk:{driver}:{server.interface},ip={ip}"):
        if not v4:  # the filter of a NIC passes no group that was not joined
            joined = run_in(server, "ip", "maddress", "show", "dev", server.interface)
            assert "33:33:ff:00:00:02" in joined.stdout
        if shutil.which("ping") is not None:
            pinged = run_in(client, "ping", "-c", "2", "-i", "0.1", "-W", "5", ip)
            assert pinged.returncode == 0, pinged.stdout
        for address in (
            f"udp://{host}:7447",
            f"dpdk:{driver}:{client.interface},ip={other},to={host}:7447",
        ):
            assert stats(tmp_path, client, address)


def test_on_a_pair_a_port_has_a_mac_address_of_its_own_and_keeps_it(
    tmp_path: Path, sides: tuple[Side, Side]
) -> None:
    client, server = sides
    seen = set()
    for _ in range(2):
        with serving(tmp_path, server, f"dpdk:af_packet:{server.interface},ip={server.ip}"):
            assert stats(tmp_path, client, f"udp://{server.ip}:7447")
        (there,) = json.loads(
            run_in(client, "ip", "-j", "neighbour", "show", "to", server.ip).stdout
        )
        seen.add(there["lladdr"])
        assert run_in(client, "ip", "neighbour", "flush", "all").returncode == 0
    (link,) = json.loads(run_in(server, "ip", "-j", "link", "show", "dev", server.interface).stdout)
    (mac,) = seen
    assert mac != link["address"]
    group, local = 1, 2
    assert int(mac[:2], 16) & (group | local) == local


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.exhaustive
def test_a_killed_server_starts_again_and_a_deleted_interface_comes_back(
    tmp_path: Path, sides: tuple[Side, Side], driver: str, shards: int
) -> None:
    client, server = sides
    address = f"dpdk:{driver}:{server.interface},ip={server.ip}"
    with serving(tmp_path, server, address, shards=shards) as killed:
        assert killed.end(signal.SIGKILL) == -signal.SIGKILL
    local = "udp://127.0.0.1:7449"
    with serving(tmp_path, server, address, local, shards=shards):
        assert stats(tmp_path, client, f"udp://{server.ip}:7447")
        assert run_in(server, "ip", "link", "delete", server.interface).returncode == 0
        assert stats(tmp_path, server, local)
        join_again(client, server)
        assert stats(tmp_path, client, f"udp://{server.ip}:7447")


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.exhaustive
def test_a_client_whose_interface_goes_is_told_so(
    tmp_path: Path, sides: tuple[Side, Side], driver: str
) -> None:
    kernel, ours = sides
    address = f"dpdk:{driver}:{ours.interface},ip=10.7.0.3,to={kernel.ip}"
    with command(tmp_path, "stats", "--server", address, within=within(ours)) as asking:
        # No server is there; once the port is open it asks for its neighbour.
        _wait_for_a_neighbour(kernel, "10.7.0.3")
        assert run_in(ours, "ip", "link", "delete", ours.interface).returncode == 0
        assert asking.end() == 4, asking.text()
        assert f"({ours.interface} is down or gone)" in asking.err.decode()


def _wait_for_a_neighbour(side: Side, ip: str) -> None:
    """Until the kernel of that side has heard from the address."""
    deadline = time.monotonic() + 20
    while ip not in run_in(side, "ip", "neighbour", "show").stdout:
        assert time.monotonic() < deadline, f"nothing was heard from {ip}"


@pytest.mark.exhaustive
def test_a_smaller_mtu_at_the_servers_end_is_thought_of(
    tmp_path: Path, sides: tuple[Side, Side]
) -> None:
    client, server = sides
    assert run_in(client, "ip", "link", "set", client.interface, "mtu", "9000").returncode == 0
    address = f"dpdk:af_packet:{client.interface},ip=10.7.0.3,to=10.7.0.2"
    with serving(tmp_path, server, f"dpdk:af_packet:{server.interface},ip=10.7.0.2"):
        ask = ("stats", "--json", "--server", address)
        with command(tmp_path, *ask, within=within(client)) as asking:
            assert asking.end() == 4
            assert "add ,mtu=" in asking.text() and "serve --listen" not in asking.text()
        assert stats(tmp_path, client, f"{address},mtu=1500")


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.exhaustive
def test_training_between_the_namespaces_with_losses_and_a_capture(
    tmp_path: Path, sides: tuple[Side, Side], driver: str
) -> None:
    for program, package in (("nft", "nftables"), ("tshark", "tshark")):
        if shutil.which(program) is None:
            pytest.skip(f"losing frames and dissecting them takes apt-get install {package}")
    client, server = sides
    _lose_some(client)
    address = f"udp://{server.ip}:7447"
    with (
        _dissecting(tmp_path / "dissected", client, server),
        serving(tmp_path, server, f"dpdk:{driver}:{server.interface},ip={server.ip}"),
    ):
        actor = ("actor", "CartPole-v1", "--server", address, "--json", *SMALL)
        learn = ("learn", "CartPole-v1", "--server", address, "--json", *SMALL)
        budget = ("--set", "run.max_learner_steps=200")
        with (
            command(tmp_path, *actor, within=within(client)),
            command(tmp_path, *learn, *budget, within=within(client)) as learning,
        ):
            assert learning.end() == 0, learning.text()
            assert learning.last_json()["learner_steps"] >= 200
    assert all(count > 0 for count in _lost(client)), "nothing was lost"
    rows = [line.split("\t") for line in (tmp_path / "dissected").read_text().splitlines()]
    # Below a warning it only muses: some ports of clients could be traceroute's.
    warning, good = 0x600000, "1"
    assert len(rows) >= 200  # a batch has a frame at least
    wrong = [row for row in rows if int(row[0] or 0) >= warning or row[1:] != ["", good]]
    assert wrong == []


def _lose_some(side: Side) -> None:
    """A twentieth of what comes from the server, and of what goes there."""
    hook = "type filter hook {hook}gress device " + side.interface + " priority 0 ;"
    for words in (
        "add table netdev lossy",
        "add chain netdev lossy come { " + hook.format(hook="in") + " }",
        "add chain netdev lossy go { " + hook.format(hook="e") + " }",
        "add rule netdev lossy come udp sport 7447 numgen random mod 100 < 5 counter drop",
        "add rule netdev lossy go udp dport 7447 numgen random mod 100 < 5 counter drop",
    ):
        ended = run_in(side, "nft", words)
        assert ended.returncode == 0, ended.stderr


def _lost(side: Side) -> list[int]:
    """How many frames each of the two rules has dropped."""
    listed = run_in(side, "nft", "list", "table", "netdev", "lossy").stdout
    counts = [int(count) for count in re.findall(r"counter packets (\d+)", listed)]
    assert len(counts) == 2, listed
    return counts


@contextmanager
def _dissecting(to: Path, client: Side, server: Side) -> Iterator[None]:
    """What tshark at the client's end makes of all that the server sends, a line a frame.

    Of the server alone: the kernel's own frames have unfinished checksums on a veth.
    """
    # Told what the payload is, tshark does not guess at it by its first bytes.
    payload = ["-d", "udp.port==7447,data"]
    checks = [f"-o{layer}.check_checksum:TRUE" for layer in ("ip", "udp")]
    fields = ["-Tfields", "-e_ws.expert.severity", "-e_ws.malformed", "-eudp.checksum.status"]
    tshark = ["tshark", "-i", client.interface, "-f", f"udp and src host {server.ip}"]
    with to.open("w") as lines:
        capture = subprocess.Popen(
            [*within(client), *tshark, *payload, *checks, *fields],
            stdout=lines,
            stderr=subprocess.PIPE,
            text=True,
        )
    try:
        assert capture.stderr is not None
        for line in capture.stderr:
            if "Capturing on" in line:
                break
        yield
        capture.send_signal(signal.SIGINT)
        _, said = capture.communicate(timeout=60)
        assert capture.returncode == 0, said
    finally:
        capture.kill()
        capture.wait()


@pytest.mark.parametrize(
    ("address", "cause", "remedy"),
    [
        ("af_packet:none,ip=10.7.0.2", "no interface is called none", "ip link"),
        ("af_packet:{there}", "needs an IP address of its own", "An address looks like"),
        ("af_packet:{there},ip=10.7.0", "is not an IP address", "An address looks like"),
        ("af_packet:{there},ip=127.0.0.1", "the kernel answers for", "Choose a free address"),
        ("af_packet:{there},ip=10.7.0.2,mtu=576", "MTU of 576 is too small", "1280"),
        ("af_packet:{there},ip=10.7.0.2,mtu=9000", "at most 1500", "ip link set"),
        ("af_packet:{there},ip=10.7.0.2,port=0", "is not a number", "An address looks like"),
        ("af_packet:{there},ip=10.7.0.2,wrong=1", 'invalid setting "wrong"', "An address looks"),
        ("af_packet:{there},ip=10.7.0.2,port", "has no value", "An address looks like"),
        ("af_packet:,ip=10.7.0.2", "names no device", "An address looks like"),
    ],
)
def test_what_cannot_be_listened_on(
    tmp_path: Path, sides: tuple[Side, Side], address: str, cause: str, remedy: str
) -> None:
    _, server = sides
    listen = "dpdk:" + address.format(there=server.interface)
    _refused(serve(tmp_path, server, listen), cause, remedy)


def _refused(serving: Command, cause: str, remedy: str) -> None:
    assert serving.end() == 4, serving.text()
    error = json.loads(serving.out.decode().splitlines()[-1])["error"]
    assert cause in error["cause"], error
    assert remedy in error["remedy"], error
    assert "\n" not in error["cause"] + error["remedy"]


@pytest.mark.parametrize("driver", DRIVERS)
def test_interfaces_that_cannot_be_used_now(
    tmp_path: Path, sides: tuple[Side, Side], driver: str
) -> None:
    client, server = sides
    default = ("ip", "route", "add", "default", "dev", client.interface)
    assert run_in(client, *default).returncode == 0
    if driver == "af_xdp":
        taken = f"dpdk:af_xdp:{client.interface},ip=10.7.0.9"
        _refused(serve(tmp_path, client, taken), "carries the default route", "dpdk:af_packet")
    assert run_in(server, "ip", "link", "set", server.interface, "down").returncode == 0
    down = f"dpdk:{driver}:{server.interface},ip={server.ip}"
    _refused(serve(tmp_path, server, down), "is down", "ip link set")


@pytest.mark.parametrize(
    ("driver", "remedy"), [("af_packet", "run as root"), ("af_xdp", "It takes root")]
)
def test_an_ordinary_user_is_told_that_a_driver_takes_root(
    tmp_path: Path, sides: tuple[Side, Side], driver: str, remedy: str
) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("becoming another user takes setpriv: apt-get install util-linux")
    _, server = sides
    nobody = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
    if subprocess.run([*nobody, *DRLNET, "--help"], capture_output=True, check=False).returncode:
        pytest.skip("an ordinary user may not read this installation of drlnet")
    listen = f"dpdk:{driver}:{server.interface},ip={server.ip}"
    words = ["serve", "--insecure", "--json", "--listen", listen]
    serving = Command(words, Path(tmp_path.anchor), within=[*within(server), *nobody])
    _refused(serving, "cannot", remedy)


def test_a_client_must_say_where_the_server_is(tmp_path: Path, sides: tuple[Side, Side]) -> None:
    client, _ = sides
    address = f"dpdk:af_packet:{client.interface},ip=10.7.0.3"
    asking = Command(["stats", "--server", address, "--json"], tmp_path, within=within(client))
    _refused(asking, "needs the server's address", "to=")
