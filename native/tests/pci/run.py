"""Drives the DPDK server on emulated NICs: a guest in qemu, our client outside.

    python native/tests/pci/run.py
    python native/tests/pci/run.py --nic e1000e --binding vfio-pci --ip 6 --mtu 9000

Needs no root, no NIC and no hardware virtualization. The guest boots Debian's kernel, mounts this
machine's root read-only and runs `drlnet serve` of this interpreter on the NIC. Packages:
qemu-system-x86, busybox-static, cpio; the kernel's is downloaded, not installed.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import tempfile
import time
from ipaddress import ip_address
from pathlib import Path

from guest import BINDINGS, NIC_SLOT, NICS, Guest, GuestFailed, GuestJob
from kernel import CannotRun, check_tools, fetch_kernel
from peer import Bridge

# By IP's version: the guest's address, its peer's, and the network's bits.
ADDRESSES = {
    4: (ip_address("10.7.0.2"), ip_address("10.7.0.1"), 24),
    6: (ip_address("fd07::2"), ip_address("fd07::1"), 64),
}
PORT = 7447
DPDK_BINDINGS = [name for name in BINDINGS if name != "kernel"]
EXIT_FAILED, EXIT_CANNOT_RUN = 1, 77  # 77: skipped, as Automake and Meson read it


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nic", action="append", choices=list(NICS), help="repeatable; all")
    parser.add_argument(
        "--binding",
        action="append",
        choices=list(BINDINGS),
        help="the NIC's driver in the guest; repeatable; both that DPDK knows. With 'kernel', the "
        "server listens on a socket instead: it shows whether this script is at fault",
    )
    parser.add_argument("--python", default=sys.executable, help="interpreter that has drlnet")
    parser.add_argument(
        "--mtu", type=int, default=1500, metavar="BYTES", help="9000 for jumbo frames (1500)"
    )
    parser.add_argument(
        "--ip", type=int, default=4, choices=list(ADDRESSES), help="version of its addresses (4)"
    )
    parser.add_argument(
        "--shards", type=int, default=1, metavar="COUNT", help="of the server, on the one NIC (1)"
    )
    parser.add_argument(
        "--queues",
        type=int,
        metavar="COUNT",
        help="to receive on: vmxnet3 has several (one for each shard, as far as there are)",
    )
    parser.add_argument("--boot-timeout", type=float, default=600.0, metavar="SECONDS")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "drlnet-pci"
    parser.add_argument(
        "--cache", type=Path, default=cache, help=f"where the kernel is kept, 400 MB ({cache})"
    )
    return parser.parse_args()


def server_job(nic: str, binding: str, args: argparse.Namespace) -> GuestJob:
    """`drlnet serve` on that NIC; by the guest's kernel, with a socket of its own."""
    ip, _, prefix_bits = ADDRESSES[args.ip]
    address = f"dpdk:pci:{NIC_SLOT},ip={ip}/{prefix_bits},port={PORT}"
    address += f",mtu={args.mtu}" + (f",queues={args.queues}" if args.queues else "")
    setup = ":"
    if binding == "kernel":
        address = f"udp://{ip if ip.version == 4 else f'[{ip}]'}:{PORT}"
        # No other has the address: the kernel need not ask before it uses it.
        setup = "echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad"
        setup += f" && busybox ip addr add {ip}/{prefix_bits} dev eth0"
        setup += f" && busybox ip link set eth0 mtu {args.mtu} up"
    # The root is read-only, and the guest knows this machine's environment only from here.
    environment = [
        *("HOME=/run", "LANG=C.UTF-8", "NO_COLOR=1", "PYTHONDONTWRITEBYTECODE=1"),
        f"PYTHONPATH={os.environ.get('PYTHONPATH', '')}",
        f"PATH={os.environ['PATH']}",
    ]
    command = [args.python, "-m", "drlnet", "serve", "--listen", address, "--insecure", "--json"]
    command += ["--shards", str(args.shards)]
    return GuestJob(nic, binding, shlex.join(["/usr/bin/env", "-i", *environment, *command]), setup)


class Stages:
    """What is going on, and how long each stage took."""

    def __init__(self) -> None:
        self.taken: dict[str, float] = {}
        self.now = "boot"
        self._since = time.monotonic()

    def begin(self, what: str) -> None:
        now = time.monotonic()
        self.taken[self.now] = now - self._since
        self.now, self._since = what, now


def run_one(nic: str, binding: str, args: argparse.Namespace) -> str:
    """Boots a guest with that NIC and exercises its server; returns how long each stage took.

    Raises GuestFailed where something is wrong.
    """
    # This interpreter has drlnet, or the exercise cannot be imported.
    from exercise import check_server

    stages = Stages()
    guest_ip, own, _ = ADDRESSES[args.ip]
    with tempfile.TemporaryDirectory(prefix="drlnet-pci.") as temporary:
        folder = Path(temporary)
        job = server_job(nic, binding, args)
        with (
            Bridge(
                folder / "peer", folder / "nic", own, guest_ip, PORT, args.mtu, args.shards
            ) as bridge,
            Guest(job, folder, args.cache, folder / "peer") as guest,
        ):
            try:
                guest.wait_for('"ready"', args.boot_timeout)
                check_server(guest, bridge, stages.begin)
                stages.begin("end")
                status = guest.stop(30.0)
                if status != 0:
                    raise GuestFailed(guest.explain(f"the server ended with status {status}"))
                stages.begin("over")
            except GuestFailed as failure:
                raise GuestFailed(f"{stages.now}: {failure}") from failure
            except Exception as error:
                what = f"{stages.now}: {type(error).__name__}: {error}\n"
                what += f"  bridge: {dict(bridge.counts)}"
                raise GuestFailed(guest.explain(what)) from error
    return ", ".join(f"{name} {seconds:.1f}" for name, seconds in stages.taken.items())


def main() -> int:
    args = options()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))  # what is open is closed
    pairs = [
        (nic, binding)
        for nic in args.nic or list(NICS)
        for binding in args.binding or DPDK_BINDINGS
    ]
    try:
        check_tools()
        fetch_kernel(args.cache)
    except CannotRun as reason:
        print(f"cannot run: {reason}", file=sys.stderr)
        return EXIT_CANNOT_RUN
    failed = 0
    for nic, binding in pairs:
        started = time.monotonic()
        try:
            verdict = f"pass  ({run_one(nic, binding, args)})"
        except GuestFailed as failure:
            failed += 1
            verdict = f"FAIL  {failure}"
        print(f"{nic:<15} {binding:<16} {time.monotonic() - started:6.1f} s  {verdict}", flush=True)
    print(f"{len(pairs) - failed} passed, {failed} failed")
    return EXIT_FAILED if failed else 0


if __name__ == "__main__":
    sys.exit(main())
