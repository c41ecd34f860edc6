"""The native tests, with warnings as errors; our link layer's frames, read by another program."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from native_build import BUILD, build, jobs, run

pytestmark = pytest.mark.exhaustive  # the core is compiled again, with its tests


def test_native_suites() -> None:
    build()
    run("ctest", "--test-dir", str(BUILD), "--output-on-failure", "-j", jobs(), timeout_s=600)


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
