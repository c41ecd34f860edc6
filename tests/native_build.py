"""Builds the native tests with warnings as errors, in one folder for all that need them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "native-tests"


def run(*command: str, timeout_s: float, **environment: str) -> str:
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env=os.environ | environment,
    )
    if ended.returncode != 0:
        pytest.fail(f"{' '.join(command)}\n{ended.stdout[-6000:]}{ended.stderr[-6000:]}")
    return ended.stdout


def jobs() -> str:
    return str(len(os.sched_getaffinity(0)))


def build(target: str = "all") -> None:
    places = [Path("/usr/include"), Path("/usr/local/include")]
    places += [Path(part) for part in os.environ.get("CPATH", "").split(":") if part]
    if not any((place / "doctest" / "doctest.h").is_file() for place in places):
        # A newcomer's machine may lack it; where all must be tested nothing is passed over.
        refuse = pytest.fail if os.environ.get("DRLNET_CI") else pytest.skip
        refuse("the native tests need doctest: apt-get install -y doctest-dev")
    for tool in ("cmake", "ctest", "ninja"):
        if shutil.which(tool) is None:
            pytest.fail(f"{tool} is missing; run: pip install '.[test]'", pytrace=False)
    run(
        *("cmake", "-S", str(ROOT / "native"), "-B", str(BUILD), "-G", "Ninja"),
        *("-DDRLNET_TESTS=ON", "-DDRLNET_WERROR=ON"),
        timeout_s=120,
    )
    run("cmake", "--build", str(BUILD), "-j", jobs(), "--target", target, timeout_s=900)
