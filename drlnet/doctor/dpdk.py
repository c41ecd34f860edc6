"""DPDK: whether it is there and works, what it has drivers for, what it needs on this machine."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from drlnet.doctor.finding import Finding, failed, passed, warned
from drlnet.doctor.host import Host, user
from drlnet.doctor.probe import TrialFailed

# What the addresses that begin with dpdk: need, by the names of DPDK's libraries.
_DRIVERS = {
    "local": {"vhost", "virtio"},
    "memif": {"memif"},
    "af_packet": {"af_packet"},
    "af_xdp": {"af_xdp"},
}
_PCI_DRIVERS = ("vfio-pci", "uio_pci_generic", "igb_uio")
_NETWORK_CLASS = "0x02"
# As in native/dpdk/rendezvous.cc: a socket's path has 107 letters, of which a name of the server's
# choosing ("4194304-0") and a device's number take some.
_LONGEST_FOLDER = 107 - 12 - len("/4194304-0")


def starts(host: Host) -> Finding:
    """A server and a client over dpdk:local, in a process of their own."""
    try:
        answer = host.probes.answer("dpdk")
    except TrialFailed as error:
        return failed(error.cause, error.remedy)
    return passed(f"{answer['version']}, a server answers over dpdk:local")


def drivers(host: Host) -> Finding:
    """For which addresses DPDK has loaded what they need."""
    try:
        loaded = set(host.probes.answer("dpdk")["drivers"])
    except TrialFailed:
        return warned("not known: DPDK does not work here", "see DPDK")
    others = len(loaded - set().union(*_DRIVERS.values()))
    missing = [name for name, needed in _DRIVERS.items() if not needed <= loaded]
    there = [name for name in _DRIVERS if name not in missing]
    found = f"for {', '.join(there)}; {others} more"
    if missing:
        return warned(f"{found}; none for {', '.join(missing)}", "apt-get install dpdk-dev")
    return passed(found)


def local_folder(host: Host) -> Finding:
    """Where servers and clients of dpdk:local meet, by the rules of native/dpdk/rendezvous.cc."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(runtime) / "drlnet" if runtime else Path(f"/tmp/drlnet-{os.geteuid()}")
    other = "set XDG_RUNTIME_DIR to a folder of your own"
    try:
        made = _make(folder)
        try:
            facts = folder.lstat()
            if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
                return failed(f"{folder} belongs to another user than {user()}", other)
            if facts.st_mode & 0o077:
                return failed(f"{folder} is open to other users", f"chmod 700 {folder}, or {other}")
            with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-"):
                stale = _stale_files(host, folder)
        finally:
            if made:
                with suppress(OSError):  # a server that starts now has moved in: it stays
                    folder.rmdir()
    except OSError as error:
        return failed(f"cannot write in {folder}: {error.strerror}", other)
    if len(os.fsencode(folder)) > _LONGEST_FOLDER:
        return failed(f"{folder} is too long for the sockets in it", other)
    if stale:
        return warned(
            f"{folder} holds {stale:,} files of servers that were killed: harmless",
            f"rm -r {folder}, while no server of dpdk:local runs",
        )
    return passed(str(folder))


def _make(folder: Path) -> bool:
    """Whether it had to be made."""
    try:
        folder.mkdir(0o700)
    except FileExistsError:
        return False
    return True


def _stale_files(host: Host, folder: Path) -> int:
    """Files of names whose lock no process holds. Read off the kernel's table: to try a lock would
    refuse a server that starts at that moment."""
    held = set()
    for line in (host.text("proc/locks") or "").splitlines():
        # "1: FLOCK  ADVISORY  WRITE 30970 00:1f:1234 0 EOF"
        held |= {int(word.rpartition(":")[2]) for word in line.split() if word.count(":") == 2}
    live, names = set(), []
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        names.append(path.name.partition(".")[0])
        if path.name.endswith(".lock") and path.lstat().st_ino in held:
            live.add(names[-1])
    return sum(name not in live for name in names)


def pci_devices(host: Host) -> Finding:
    """NICs on PCI, which of them DPDK's drivers have, and whether this user may open those."""
    bound, others, closed = [], [], []
    for device in host.entries("sys/bus/pci/devices"):
        if not (host.text(f"sys/bus/pci/devices/{device.name}/class") or "").startswith(
            _NETWORK_CLASS
        ):
            continue
        link = device / "driver"
        driver = link.resolve().name if link.exists() else "no driver"
        shown = f"{device.name} ({driver})"
        if driver not in _PCI_DRIVERS:
            others.append(shown)
            continue
        bound.append(shown)
        closed += [str(file) for file in _device_files(host, device) if not _may_open(file)]
    if closed:
        return warned(
            f"{', '.join(bound)}; {user()} may not open {', '.join(closed)}",
            f"as root: chown {os.geteuid()} {' '.join(closed)}",
        )
    if bound:
        return passed(", ".join(bound))
    rest = f"the kernel has {', '.join(others)}" if others else "there is no NIC"
    return warned(
        f"none for dpdk:pci: {rest}",
        "needed for dpdk:pci only: dpdk-devbind.py --bind=vfio-pci ADDRESS, as root, for a NIC "
        "that nothing else uses",
    )


def _device_files(host: Host, device: Path) -> list[Path]:
    """What has to be opened to drive it."""
    group = device / "iommu_group"
    if group.exists():
        number = group.resolve().name
        kinds = (host.root / "dev/vfio" / number, host.root / "dev/vfio" / f"noiommu-{number}")
        return [kind for kind in kinds if kind.exists()] or [kinds[0]]
    uio = device / "uio"
    return [host.root / "dev" / each.name for each in uio.iterdir()] if uio.is_dir() else []


def _may_open(file: Path) -> bool:
    return os.access(file, os.R_OK | os.W_OK)
