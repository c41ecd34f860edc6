"""What this process may open and write."""

from __future__ import annotations

import os
import resource
import tempfile
from pathlib import Path

from drlnet.doctor.finding import Finding, failed, passed, warned
from drlnet.doctor.host import Host

# Measured: 20 in the largest process of a run, 34 over dpdk:local; each client of a DPDK server
# adds some. 1024 is Linux's default.
LEAST_FILES = 40
USUAL_FILES = 1024
LEAST_DISK_BYTES = 100 << 20


def open_files(host: Host) -> Finding:
    """The limit on open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return passed("no limit")
    above = "" if hard != resource.RLIM_INFINITY and hard < USUAL_FILES else "ulimit -n 1024"
    remedy = above or f"raise the hard limit, {hard} (/etc/security/limits.conf), then ulimit -n"
    if soft < LEAST_FILES:
        return failed(f"at most {soft}; a run takes {LEAST_FILES} in one process", remedy)
    if soft < USUAL_FILES:
        return warned(f"at most {soft}: too few for a server with many clients", remedy)
    return passed(f"at most {soft}")


def run_folder(host: Host) -> Finding:
    """Whether `drlnet run` can keep what it finds, under the working directory."""
    remedy = "go to another folder, or name one with --set run.folder=PATH"
    runs = Path("runs").absolute()
    place = runs if runs.exists() else runs.parent
    try:
        # A file that has a name, if a short one: what a run makes has one as well.
        with tempfile.NamedTemporaryFile(dir=place, prefix=".drlnet-doctor-"):
            facts = os.statvfs(place)
    except OSError as error:
        return failed(f"cannot write in {place}: {error.strerror}", remedy)
    free = facts.f_bavail * facts.f_frsize
    found = f"{runs}, {free / 2**30:.1f} GiB free"
    if free < LEAST_DISK_BYTES:
        return warned(found, remedy)
    return passed(found)
