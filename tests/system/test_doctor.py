"""`drlnet doctor`, as a user starts it: on a good machine, and on one made bad."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from system.command import DEADLINE_S, PROGRAM, all_ended, command, descendants
from system.terminal import terminal

import drlnet
from drlnet.cli.doctor import exit_code
from drlnet.doctor import NeededFor, Result
from drlnet.errors import DPDK_UNFIT_EXIT_CODE, RUN_UNFIT_EXIT_CODE

PACKAGE = Path(drlnet.__file__).parent
# By way of env: setpriv itself may still enter folders that are closed to the user.
NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "env")


def doctor(
    folder: Path,
    *args: str,
    program: list[str] = PROGRAM,
    before: Callable[[], None] | None = None,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        [*program, "doctor", *args],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        preexec_fn=before,
    )
    assert "Traceback" not in ended.stderr, ended.stderr
    return ended


def report(ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    values = json.loads(ended.stdout.splitlines()[-1])
    assert isinstance(values, dict)
    assert values["exit_code"] == ended.returncode
    return values


def verdicts(values: Mapping[str, Any]) -> dict[str, str]:
    return {check["name"]: check["verdict"] for check in values["checks"]}


@pytest.fixture(scope="module")
def without_dpdk(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], str]:
    """The program of an installation without the DPDK module, and the path of its packages."""
    folder = tmp_path_factory.mktemp("without")
    left_out = shutil.ignore_patterns("libdrlnet_dpdk*", "__pycache__")
    shutil.copytree(PACKAGE, folder / "drlnet", ignore=left_out)
    return [sys.executable, str(folder / "drlnet" / "__main__.py")], str(folder)


def test_this_machine_runs_and_nothing_stays(tmp_path: Path) -> None:
    ended = doctor(tmp_path, "--require", "run", "--json", XDG_RUNTIME_DIR=str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    values = report(ended)
    assert values["run"] is True
    assert values["version"] == drlnet.__version__
    for check in values["checks"]:
        assert check["needed_for"] in {"run", "dpdk", "speed"}
        assert check["found"]
        assert bool(check["remedy"]) == (check["verdict"] != "pass"), check
    # What a person reads is on standard error then, and says the same.
    said = dict(re.findall(r"^  (?:pass|warn|fail)  (.{14})  (.*)$", ended.stderr, re.MULTILINE))
    assert {name.strip(): found for name, found in said.items()} == {
        check["name"]: check["found"] for check in values["checks"]
    }
    # Folders of dpdk:local and of DPDK itself stay, empty.
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []


def test_without_dpdk_runs_go_on(tmp_path: Path, without_dpdk: tuple[list[str], str]) -> None:
    program, path = without_dpdk
    ended = doctor(tmp_path, "--json", program=program, PYTHONPATH=path)
    assert ended.returncode == DPDK_UNFIT_EXIT_CODE, ended.stderr
    values = report(ended)
    assert (values["run"], values["dpdk"]) == (True, False)
    (missing,) = [check for check in values["checks"] if check["name"] == "DPDK"]
    assert missing["verdict"] == "fail"
    assert "no DPDK transport" in missing["found"]
    assert "apt-get install dpdk-dev" in missing["remedy"]


def test_without_its_native_core_it_still_says_what_is_wrong(
    tmp_path: Path, without_dpdk: tuple[list[str], str]
) -> None:
    folder = tmp_path / "installed"
    left_out = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(Path(without_dpdk[1]) / "drlnet", folder / "drlnet", ignore=left_out)
    # numpy cannot be imported, either: the doctor itself needs little.
    (folder / "numpy.py").write_text("raise ImportError('numpy is broken')\n")
    program = [sys.executable, str(folder / "drlnet" / "__main__.py")]
    ended = doctor(tmp_path, "--json", program=program, PYTHONPATH=str(folder))
    assert ended.returncode == RUN_UNFIT_EXIT_CODE, ended.stderr
    values = report(ended)
    assert verdicts(values)["server"] == "fail"
    (server,) = [check for check in values["checks"] if check["name"] == "server"]
    assert "hides the drlnet that is installed" in server["found"]
    assert "pip install" in server["remedy"]
    assert "numpy is broken" in ended.stderr


@pytest.mark.parametrize(
    ("failed", "codes"),
    [
        ([], (0, 0, 0)),
        (["dpdk"], (DPDK_UNFIT_EXIT_CODE, 0, DPDK_UNFIT_EXIT_CODE)),
        (["run"], (RUN_UNFIT_EXIT_CODE, RUN_UNFIT_EXIT_CODE, 0)),
        (["dpdk", "run"], (RUN_UNFIT_EXIT_CODE, RUN_UNFIT_EXIT_CODE, DPDK_UNFIT_EXIT_CODE)),
    ],
)
def test_the_code_is_about_what_is_required(
    failed: list[NeededFor], codes: tuple[int, ...]
) -> None:
    results = [Result(name, name, "fail", "", "") for name in failed]
    results.append(Result("clock", "speed", "warn", "", ""))
    assert tuple(exit_code(which, results) for which in ("all", "run", "dpdk")) == codes


def test_an_argument_that_dpdk_refuses(tmp_path: Path) -> None:
    if not (PACKAGE / "libdrlnet_dpdk.so").exists():
        pytest.skip("this drlnet was built without DPDK")
    ended = doctor(tmp_path, "--json", "--require", "dpdk", "--eal", "--nonsense")
    assert ended.returncode == DPDK_UNFIT_EXIT_CODE, ended.stderr
    assert "--nonsense" in ended.stderr


@pytest.mark.exhaustive
def test_what_a_run_needs_is_missing(tmp_path: Path) -> None:
    # A torch that cannot be imported, and few files: both in one go.
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch.so: no such file')\n")

    def few_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))

    # Before this installation on the path; the command's own folder is none of its places.
    site = {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    ended = doctor(tmp_path, "--json", before=few_files, **site)
    assert ended.returncode == RUN_UNFIT_EXIT_CODE, ended.stderr
    values = report(ended)
    assert values["run"] is False
    failed = verdicts(values)
    assert (failed["torch"], failed["open files"], failed["gymnasium"]) == ("fail", "fail", "pass")
    assert "libtorch.so" in ended.stderr


def test_a_terminal_of_80_columns_in_colour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    with terminal([*PROGRAM, "doctor", "--require", "run"], tmp_path, columns=80) as window:
        assert window.end(deadline_s=DEADLINE_S) == 0, window.shown
        text = window.raw.decode().replace("\r\n", "\n")
    assert "\x1b[32m  pass" in text
    plain = re.sub(r"\x1b\[[\d;]*m", "", text)
    # A path may be longer than a line; words are not torn.
    assert [line for line in plain.splitlines() if len(line) > 80 and "/" not in line] == []


def test_an_ordinary_user_can_run_but_has_no_raw_sockets() -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("becoming another user takes root and setpriv")
    if subprocess.run([*NOBODY, *PROGRAM, "--help"], capture_output=True, check=False).returncode:
        pytest.skip("an ordinary user may not read this installation of drlnet")
    program = [*NOBODY, *PROGRAM]
    with tempfile.TemporaryDirectory() as name:  # pytest's are closed to others
        folder = Path(name)
        os.chown(folder, 65534, 65534)
        own = doctor(folder, "--json", "--require", "run", program=program, XDG_RUNTIME_DIR=name)
        assert own.returncode == 0, own.stderr
        assert verdicts(report(own))["privileges"] == "warn"
        assert "user 65534" in own.stderr
        shutil.rmtree(folder / "drlnet", ignore_errors=True)  # where it tried dpdk:local
        os.chown(folder, 0, 0)
        folder.chmod(0o755)
        closed = doctor(folder, "--json", program=program, XDG_RUNTIME_DIR=name)
    assert closed.returncode == RUN_UNFIT_EXIT_CODE, closed.stderr
    failed = verdicts(report(closed))
    assert (failed["run folder"], failed["local folder"]) == ("fail", "fail")
    assert f"cannot write in {name}: Permission denied" in closed.stderr


def test_a_machine_whose_loopback_is_down(tmp_path: Path) -> None:
    alone = ["unshare", "--net"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("a network namespace takes root and unshare")
    ended = doctor(tmp_path, "--json", program=[*alone, *PROGRAM])
    assert ended.returncode == RUN_UNFIT_EXIT_CODE, ended.stderr
    found = verdicts(report(ended))
    assert (found["server"], found["interfaces"]) == ("fail", "warn")


@pytest.mark.parametrize("args", [["--require", "everything"], ["--nope"], ["stray"]])
def test_wrong_usage(tmp_path: Path, args: list[str]) -> None:
    assert doctor(tmp_path, *args).returncode == 2


def test_help_says_the_codes_within_80_columns(tmp_path: Path) -> None:
    ended = doctor(tmp_path, "--help")
    assert ended.returncode == 0
    assert max(map(len, ended.stdout.splitlines())) <= 80
    assert str(RUN_UNFIT_EXIT_CODE) in ended.stdout
    assert str(DPDK_UNFIT_EXIT_CODE) in ended.stdout
    assert "doctor-trial" not in ended.stdout


def test_ctrl_c_ends_it_and_its_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A server of dpdk:local that is killed leaves its files.
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with command(tmp_path, "doctor") as running:
        running.wait_for("pass  server")
        trials = list(descendants(running.popen.pid))
        assert running.end(signal.SIGINT) == 130
        assert all_ended(trials)
