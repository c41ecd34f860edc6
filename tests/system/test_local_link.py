"""Shared-memory links as users meet them: names, restarts, clients that die, limits."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from system.command import DEADLINE_S, SMALL, command, finished, serving
from system.local_link import DRIVERS, linked, meeting_place

import drlnet
from drlnet import errors

__all__ = ["meeting_place"]

NAME = "dpdk:local:test"


@pytest.mark.parametrize(
    "transport", ["dpdk:local", pytest.param("dpdk:memif", marks=pytest.mark.exhaustive)]
)
def test_a_run(tmp_path: Path, meeting_place: Path, transport: str) -> None:
    budget = ("--max-learner-steps", "200", "--set", "run.folder=out")
    ended = finished(
        tmp_path, "run", "CartPole-v1", "--transport", transport, "--json", *budget, *SMALL
    )
    assert ended.last_json()["learner_steps"] >= 200
    assert list(meeting_place.iterdir()) == [], "a run leaves nothing"


def test_only_this_user_can_meet_the_server(tmp_path: Path, meeting_place: Path) -> None:
    with serving(tmp_path, NAME) as (server, address):
        assert address == NAME
        assert stat.S_IMODE(meeting_place.stat().st_mode) == 0o700
        assert stat.S_IMODE((meeting_place / "test").stat().st_mode) == 0o600
        assert server.end(signal.SIGTERM) == 0
    assert list(meeting_place.iterdir()) == []
    meeting_place.chmod(0o755)
    refused = finished(tmp_path, "serve", "--listen", NAME, error=errors.TransportError)
    assert "open to other users" in refused.err.decode()
    assert len(refused.err.decode().splitlines()) == 2, refused.text()


def test_a_second_server_of_that_name_is_refused(tmp_path: Path, meeting_place: Path) -> None:
    with serving(tmp_path, NAME) as (server, address), linked(address) as client:
        refused = finished(tmp_path, "serve", "--listen", NAME, error=errors.TransportError)
        assert "in use by another server" in refused.err.decode()
        assert len(refused.err.decode().splitlines()) == 2, refused.text()
        assert "ping_us" in client.ping()
        assert server.end(signal.SIGTERM) == 0


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.exhaustive
def test_what_a_killed_server_with_a_fresh_name_left_goes_with_the_next_server(
    tmp_path: Path, meeting_place: Path, driver: str
) -> None:
    def files() -> set[str]:
        return {path.name.split(".")[0] for path in meeting_place.iterdir()}

    with serving(tmp_path, f"dpdk:{driver}:0") as (living, alive):
        with serving(tmp_path, f"dpdk:{driver}:0") as (killed, address):
            killed.end(signal.SIGKILL)
        names = {address.split(":")[-1] for address in (alive, address)}
        assert files() == names
        with serving(tmp_path, f"dpdk:{driver}:test") as (named, _):
            assert files() == {alive.split(":")[-1], "test"}
            with linked(alive) as client:
                assert "ping_us" in client.ping()
            named.end(signal.SIGTERM)
        living.end(signal.SIGTERM)
    assert files() == set()


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.exhaustive
def test_a_server_comes_back(tmp_path: Path, meeting_place: Path, number: int, driver: str) -> None:
    name = f"dpdk:{driver}:test"
    with ExitStack() as clients:
        with serving(tmp_path, name) as (server, address):
            living = clients.enter_context(linked(address))
            assert living.said["up"], living.said
            server.end(number)
        left = {path.name for path in meeting_place.iterdir()}
        # A killed server leaves its files; the next one of that name is not disturbed by them.
        assert ("test" in left) == (number == signal.SIGKILL)
        with serving(tmp_path, name) as (server, address):
            answer = living.ping()
            assert "ping_us" in answer or answer["error"] == "SessionLost", answer
            assert "ping_us" in answer or answer["remedy"]
            # The link itself was made anew either way.
            with linked(address) as fresh:
                assert "ping_us" in fresh.ping()
            assert server.end(signal.SIGTERM) == 0


def test_killed_clients_give_their_places_back(tmp_path: Path, meeting_place: Path) -> None:
    with serving(tmp_path, NAME) as (server, address), linked(address) as living:
        for _ in range(5):  # more places than there are
            with linked(address, count=8) as clients:
                assert clients.said["up"], clients.said
                os.kill(clients.popen.pid, signal.SIGKILL)
        assert "ping_us" in living.ping()
        assert server.end(signal.SIGTERM) == 0


def test_one_client_too_many(tmp_path: Path, meeting_place: Path) -> None:
    with serving(tmp_path, NAME) as (server, address), ExitStack() as stack:
        clients = [stack.enter_context(linked(address, count)) for count in (8, 8, 8, 7, 1)]
        for each in clients:
            assert each.said["up"], each.said
        client = stack.enter_context(linked(address))
        assert client.said["error"] == "ServerFull"
        assert "32 clients" in client.said["cause"]
        assert client.said["remedy"]
        assert "\n" not in client.said["cause"] + client.said["remedy"]
        for each in clients:
            assert "ping_us" in each.ping()
        clients[-1].kill()
        with linked(address) as another:
            assert another.said["up"], another.said
        assert server.end(signal.SIGTERM) == 0


@pytest.mark.parametrize("driver", DRIVERS)
def test_threads_keep_their_cpus(tmp_path: Path, meeting_place: Path, driver: str) -> None:
    with serving(tmp_path, f"dpdk:{driver}:test") as (_, address), linked(address) as client:
        assert client.said["after"] == client.said["before"]


def _python(script: str, *args: str) -> dict[str, object]:
    # With the package that these tests meet, wherever it lies.
    package = Path(drlnet.__file__).parents[1]
    script = f"import sys; sys.path[0] = {str(package)!r}\n{script}"
    ended = subprocess.run(
        [sys.executable, "-c", script, *args],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    values = json.loads(ended.stdout)
    assert isinstance(values, dict)
    return values


def test_dpdk_is_loaded_by_its_addresses_only(tmp_path: Path, meeting_place: Path) -> None:
    script = (
        "import json, sys, drlnet\n"
        "from drlnet import Client, native\n"
        "maps = lambda: 'librte_' in open('/proc/self/maps').read()\n"
        "native.Server(['udp://127.0.0.1:0'])\n"
        "before = maps()\n"
        "client = Client(sys.argv[1])\n"
        "print(json.dumps({'before': before, 'after': maps()}))"
    )
    with serving(tmp_path, NAME) as (_, address):
        assert _python(script, address) == {"before": False, "after": True}


def test_torch_keeps_its_threads(tmp_path: Path, meeting_place: Path) -> None:
    pytest.importorskip("torch")
    script = (
        "import json, sys, torch\n"
        "from drlnet import Client\n"
        "count = lambda: [torch.get_num_threads(), torch.get_num_interop_threads()]\n"
        "before = count()\n"
        "client = Client(sys.argv[1])\n"
        "torch.ones(512, 512) @ torch.ones(512, 512)\n"
        "print(json.dumps({'before': before, 'after': count()}))"
    )
    with serving(tmp_path, NAME) as (_, address):
        counts = _python(script, address)
        assert counts["before"] == counts["after"]


def test_a_fork_after_the_start_is_refused(tmp_path: Path, meeting_place: Path) -> None:
    script = (
        "import json, os, sys\n"
        "from drlnet import Client\n"
        "from drlnet.errors import TransportError\n"
        "client = Client(sys.argv[1])\n"
        "read, write = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    try:\n"
        "        Client(sys.argv[1])\n"
        "    except TransportError as error:\n"
        "        said = {'cause': error.cause, 'remedy': error.remedy}\n"
        "        os.write(write, json.dumps(said).encode())\n"
        "    os._exit(0)\n"
        "os.close(write)\n"
        "said = json.loads(os.read(read, 65536))\n"
        "os.wait()\n"
        "print(json.dumps({**said, 'ping_us': client.ping()}))"
    )
    with serving(tmp_path, NAME) as (_, address):
        said = _python(script, address)
    assert "forked" in str(said["cause"])
    assert "spawn" in str(said["remedy"])
    assert said["ping_us"]


def test_a_wrong_argument_for_dpdk_is_one_line(tmp_path: Path, meeting_place: Path) -> None:
    refused = finished(
        tmp_path, "serve", "--listen", NAME, "--eal", "--nonsense", error=errors.TransportError
    )
    assert refused.out == b""
    lines = refused.err.decode().splitlines()
    assert len(lines) == 2, refused.text()
    assert "--nonsense" in lines[0]
    assert "--eal" in lines[1]


def test_a_build_without_dpdk_says_what_to_install(tmp_path: Path) -> None:
    package = Path(drlnet.__file__).parent
    left_out = shutil.ignore_patterns("libdrlnet_dpdk*", "__pycache__")
    shutil.copytree(package, tmp_path / "drlnet", ignore=left_out)
    program = [sys.executable, str(tmp_path / "drlnet" / "__main__.py")]
    for args in (["serve", "--listen", NAME], ["stats", "--server", NAME]):
        ended = subprocess.run(
            [*program, *args],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert ended.returncode == errors.TransportError.exit_code, ended.stderr
        cause, remedy = ended.stderr.splitlines()
        assert "no DPDK transport" in cause
        assert "apt-get install dpdk-dev" in remedy
        assert "pip install" in remedy


def test_stats_and_serve_over_several_links(tmp_path: Path, meeting_place: Path) -> None:
    listen = ("--listen", "udp://127.0.0.1:0", "--listen", "dpdk:memif:0")
    with command(tmp_path, "serve", "--listen", NAME, *listen, "--json") as server:
        addresses = json.loads(server.wait_for("ready"))["addresses"]
        assert len(addresses) == 3
        for address in addresses:
            assert finished(tmp_path, "stats", "--server", address, "--json").last_json()
        assert server.end(signal.SIGTERM) == 0
