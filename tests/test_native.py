"""The native tests, with warnings as errors; our link layer's frames, read by another program."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from native_build import BUILD, build, jobs, run

pytestmark = pytest.mark.exhaustive  # the core is compiled again, with its tests


def test_native_suites() -> None:
    build()
    run("ctest", "--test-dir", str(BUILD), "--output-on-failure", "-j", jobs(), timeout_s=600)


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    build("drlnet-sim")
    command = [str(BUILD / "sim" / "drlnet-sim"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)


def test_simulated_systems_keep_their_promises() -> None:
    ended = simulate("--seeds", "2000", "--jobs", jobs(), "--rare", "1")
    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-6000:]
    assert "2000 seeds, 0 failures" in ended.stdout


def test_a_simulated_system_runs_twice_alike() -> None:
    ended = simulate("--seeds", "40", "--from", "7000", "--twice")
    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-6000:]
    # In another process, too: each run's trace is in the last line's.
    traces = [
        re.search(r"trace (\w+)", simulate("--seed", "7000").stdout),
        re.search(r"trace (\w+)", simulate("--seed", "7000").stdout),
    ]
    assert traces[0] and traces[1] and traces[0][1] == traces[1][1]


def test_a_broken_promise_is_found_and_shrunk_to_what_breaks_it() -> None:
    # Without checksums, altered bytes are believed.
    ended = simulate("--seeds", "60", "--jobs", jobs(), "--no-checksums")
    assert ended.returncode == 1, ended.stdout + ended.stderr
    found = re.findall(
        r"^seed (\d+): (.*)\n((?:  \d+: .*\n)+)  again: drlnet-sim (.*) --trace$",
        ended.stdout,
        re.MULTILINE,
    )
    assert found, ended.stdout
    seed, promise, faults, flags = found[0]
    assert "flips" in faults
    assert "seeds, 0 failures" in simulate("--seeds", "1", "--from", seed).stdout
    again = simulate(*flags.split())
    assert again.returncode == 1
    assert again.stdout.startswith(f"seed {seed}: {promise}\n{faults}"), again.stdout


def test_a_thousand_simulated_clients_keep_their_promises() -> None:
    ended = simulate("--clients", "1000", "--seeds", "5", "--jobs", jobs())
    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-6000:]
    times = {
        name: int(n) for name, n in re.findall(r"^  (\S.*\S) +(\d+)$", ended.stdout, re.MULTILINE)
    }
    assert times["clients that joined"] > 5000
    for rare in (
        "clients that died",
        "clients that left in order",
        "clients that a limit refused",
        "leases lost to silence",
        "streams of dead clients leased anew",
    ):
        assert times.get(rare, 0) > 0, (rare, times)


def test_a_simulated_crowd_runs_twice_alike_and_is_shrunk() -> None:
    ended = simulate("--clients", "200", "--seeds", "2", "--twice")
    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-6000:]
    # Of those that come to it, few are needed to break a promise.
    flags = ("--clients", "30", "--no-checksums")
    ended = simulate(*flags, "--seeds", "10", "--jobs", jobs())
    assert ended.returncode == 1, ended.stdout + ended.stderr
    found = re.findall(
        r"^seed (\d+): (.*)\n((?:  \d+: .*\n)+)  again: drlnet-sim (.*) --trace$",
        ended.stdout,
        re.MULTILINE,
    )
    assert found, ended.stdout
    seed, promise, faults, again = found[0]
    assert "flips" in faults
    assert faults.count("\n") < 20, faults
    assert simulate(*again.split()).stdout.startswith(f"seed {seed}: {promise}\n{faults}")


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark: apt-get install tshark")
def test_tshark_finds_nothing_wrong_with_our_frames(tmp_path: Path) -> None:
    build("test_transport")
    capture = tmp_path / "link.pcap"
    case = "the frames that we write go into a capture"
    suite = str(BUILD / "tests" / "test_transport")
    run(suite, f"--test-case={case}", timeout_s=60, DRLNET_LINK_CAPTURE=str(capture))

    # Every checksum is looked at, which tshark leaves to the hardware by default. A payload is
    # ours, whatever program of the same port tshark may know.
    fields = ["frame.protocols", "_ws.expert.message", "_ws.malformed"]
    statuses = [f"{protocol}.checksum.status" for protocol in ("ip", "udp", "icmp", "icmpv6")]
    output = run(
        *("tshark", "-r", str(capture), "-n", "-d", "udp.port==7447,data"),
        *("-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-T", "fields"),
        *(word for field in fields + statuses for word in ("-e", field)),
        timeout_s=60,
    )
    seen: Counter[str] = Counter()
    for number, line in enumerate(output.splitlines(), start=1):
        row = dict(zip(fields + statuses, line.split("\t"), strict=True))
        assert not row["_ws.malformed"], (number, row)
        assert not row["_ws.expert.message"], (number, row)
        seen.update(row["frame.protocols"].split(":"))
        seen.update(f"{name} {row[name]}" for name in statuses if row[name])
    good, unchecked = "1", "3"
    assert (seen["eth"], seen["arp"], seen["ip"], seen["ipv6"]) == (24, 3, 9, 12)
    assert (seen["udp"], seen["icmp"], seen["icmpv6"]) == (16, 1, 4)
    assert seen[f"ip.checksum.status {good}"] == 9
    assert seen[f"icmp.checksum.status {good}"] == 1
    assert seen[f"icmpv6.checksum.status {good}"] == 4
    # One datagram was sent without a checksum, over IPv4.
    assert seen[f"udp.checksum.status {good}"] == 15
    assert seen[f"udp.checksum.status {unchecked}"] == 1
