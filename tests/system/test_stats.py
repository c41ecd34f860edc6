"""`drlnet stats`: in a terminal, in a pipe, with a server that goes away or is none."""

from __future__ import annotations

import csv
import json
import math
import select
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from system.command import DEADLINE_S, PROGRAM, Command, command, finished, server, serving
from system.terminal import Terminal, terminal
from typer.testing import CliRunner

from drlnet import errors
from drlnet.cli.main import app
from drlnet.cli.stats import _check, _Readings
from drlnet.launch.signals import Stop


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that only this test watches."""
    with server(tmp_path_factory.mktemp("server")) as found:
        yield found


@contextmanager
def watching(address: str, folder: Path, columns: int = 80, lines: int = 24) -> Iterator[Terminal]:
    args = [*PROGRAM, "stats", "--server", address, "--interval", "0.2"]
    with terminal(args, folder, columns, lines) as window:
        window.wait_for("nothing runs")
        yield window


def test_keys_and_sizes_and_a_terminal_as_before(address: str, tmp_path: Path) -> None:
    with watching(address, tmp_path) as window:
        shown = window.shown.splitlines()
        assert shown[0].startswith(f"drlnet {address}") and "page 1 of 2" in shown[23]
        window.press("\t")
        window.wait_for("page 2 of 2")
        window.press("h")
        window.wait_for("quit; the server does not notice")
        window.press("?\x1b[A")  # and an arrow, which means nothing
        window.wait_for("page 2 of 2")
        window.press("s")
        window.wait_for("clients · by steps/s")
        window.press("l")
        window.wait_for("histogram of")
        window.press("\x1b")
        window.wait_until(lambda shown: "histogram of" not in shown)
        window.press("p")
        window.wait_for("paused")
        window.press(" ")
        window.wait_until(lambda shown: "paused" not in shown)
        for columns, lines, words in (
            (200, 50, "throughput"),
            (120, 40, "q quit"),
            (20, 10, "drlnet stats\nnothing runs: no"),
            (80, 24, "q quit"),
        ):
            window.resize(columns, lines)
            window.wait_until(lambda _, at=(columns, lines, words): _fits(window, *at))
        window.press("q")
        assert window.end() == 0
        window.assert_restored()


def _fits(window: Terminal, columns: int, lines: int, words: str) -> bool:
    """Whether the picture of that size is there: its first and last lines in their places."""
    shown = window.screen.display
    bottom = shown[lines - 1].startswith("q quit") or columns < 60
    return words in window.shown and shown[0].startswith("drlnet ") and bottom


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_signals_leave_the_terminal_in_order(
    address: str, tmp_path: Path, number: int, code: int
) -> None:
    with watching(address, tmp_path) as window:
        assert window.end(number) == code
        window.assert_restored()


def test_ctrl_c_and_a_window_that_is_closed(address: str, tmp_path: Path) -> None:
    with watching(address, tmp_path) as window:
        window.press("\x03")
        assert window.end() == 130
        window.assert_restored()
    with watching(address, tmp_path) as window:
        window.hang_up()
        assert window.popen.wait(10) != 1  # no internal error, whose traceback could not be read


def test_ctrl_z_and_fg(address: str, tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("job control takes bash")
    with terminal(["bash", "--norc", "--noediting", "-i"], tmp_path) as window:
        watch = " ".join([*PROGRAM, "stats", "--server", address, "--interval", "0.2"])
        window.press(f"PS1='ready> '; clear\n{watch}\n")
        window.wait_for("nothing runs")
        window.press("\x1a")
        window.wait_for("Stopped")
        window.press("stty -a\n")
        window.wait_until(lambda shown: " icanon" in shown and " echo " in shown)
        assert not window.screen.cursor.hidden
        window.press("clear; fg\n")
        window.wait_for("nothing runs")
        window.press("q")
        window.wait_until(lambda _: window.raw.endswith(b"ready> "))
        window.assert_restored()


def test_a_killed_server_and_the_next_one(tmp_path: Path) -> None:
    with serving(tmp_path) as (started, address), watching(address, tmp_path) as window:
        started.popen.kill()
        window.wait_for("does not answer")
        with serving(tmp_path, address) as (again, _):
            window.wait_for("nothing runs")
            again.end(signal.SIGTERM)
        window.wait_for("does not answer")
        window.press("q")
        assert window.end() == 0
        window.assert_restored()


def test_tables_say_that_the_server_went_between_their_readings(tmp_path: Path) -> None:
    with ExitStack() as stack:
        address = stack.enter_context(server(tmp_path))
        stop = stack.enter_context(Stop())
        readings = _Readings(address, stop, interval=0.1, count=2, patient=False)
        readings.begin()
        taken = iter(readings)
        assert not isinstance(next(taken)[1], str)
        stack.close()  # ends the server
        with pytest.raises(errors.DrlnetError) as caught:
            next(taken)
    assert f"the server at {address} answers no longer" in caught.value.cause
    assert "drlnet ls" in caught.value.remedy


def test_an_error_after_the_start_leaves_the_terminal_in_order(
    address: str, tmp_path: Path
) -> None:
    with serving(tmp_path) as (started, watched), watching(watched, tmp_path) as window:
        started.end(signal.SIGKILL)
        with _another_version(address, int(watched.rpartition(":")[2])):
            assert window.end() == errors.ProtocolError.exit_code
        window.assert_restored()
        assert "error:" in window.shown and "try:" in window.shown
        assert "protocol version" in window.shown


@contextmanager
def _another_version(real: str, port: int = 0) -> Iterator[str]:
    """An address at which the server speaks another version: one that changes it on the way."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as front,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as back,
    ):
        front.bind(("127.0.0.1", port))
        back.connect(("127.0.0.1", int(real.rpartition(":")[2])))
        thread = threading.Thread(target=_relay, args=(front, back))
        thread.start()
        try:
            yield f"udp://127.0.0.1:{front.getsockname()[1]}"
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
                last.sendto(b"end", front.getsockname())
            thread.join()


def _relay(front: socket.socket, back: socket.socket) -> None:
    client = None
    while True:
        for ready in select.select([front, back], [], [])[0]:
            data, sender = ready.recvfrom(65536)
            if data == b"end":
                return
            if ready is back and client is not None:
                front.sendto(data, client)
            else:
                client = sender
                # PROTOCOL.md: the byte of the version, and no checksum, as in version 1
                back.send(data[:2] + b"\xfe" + data[3:16] + bytes(4) + data[20:])


def test_lines_for_a_pipe(address: str, tmp_path: Path) -> None:
    path = tmp_path / "figures.csv"
    counted = ("--count", "3", "--interval", "0.1")
    ended = finished(tmp_path, "stats", "--server", address, *counted, "--csv", str(path))
    heading, *lines = ended.out.decode().splitlines()
    assert heading.split()[0] == "time" and heading.split()[-1] == "bottleneck"
    assert [line.split()[-1] for line in lines] == ["measuring", "nothing_runs", "nothing_runs"]
    assert max(map(len, [heading, *lines])) <= 80
    rows = list(csv.DictReader(path.open(encoding="utf-8")))
    assert [row["bottleneck"] for row in rows] == ["measuring", "nothing_runs", "nothing_runs"]
    assert float(rows[-1]["uptime_s"]) > float(rows[0]["uptime_s"])


def test_json_once_and_following(address: str, tmp_path: Path) -> None:
    one = finished(tmp_path, "stats", "--server", address, "--json").last_json()
    assert one["server.clients"] == 1 and "bottleneck" not in one
    counted = ("--count", "2", "--interval", "0.1")
    ended = finished(tmp_path, "stats", "--server", address, "--json", "--follow", *counted)
    lines = [json.loads(line) for line in ended.out.splitlines()]
    assert len(lines) == 2
    assert lines[1]["bottleneck"]["name"] == "nothing_runs"
    assert lines[1]["bottleneck"]["remedy"].startswith("drlnet learn")
    # Whatever came between the server's answer and a look at the clock here.
    uptime_s = lines[1]["server.uptime_s"] - lines[0]["server.uptime_s"]
    window_s = lines[1]["figures"]["window_s"]
    assert 0 < uptime_s < DEADLINE_S and 0 < window_s < DEADLINE_S
    assert lines[1]["per_second"]["server.uptime_s"] == pytest.approx(uptime_s / window_s, 0.01)


def test_once_prints_everything(address: str, tmp_path: Path) -> None:
    ended = finished(tmp_path, "stats", "--server", address, "--once", "--interval", "0.1")
    printed = ended.out.decode()
    for words in ("nothing runs", "throughput", "latency", "clients", "replay", "server", "stats"):
        assert words in printed
    assert "\x1b" not in printed


def test_a_count_goes_with_every_form(address: str, tmp_path: Path) -> None:
    asked = ("stats", "--server", address, "--interval", "0.1", "--count")
    lines = finished(tmp_path, *asked, "2", "--json").out.splitlines()
    assert ["bottleneck" in json.loads(line) for line in lines] == [False, False]
    assert "measuring" in finished(tmp_path, *asked, "1", "--once").out.decode()


@pytest.mark.fast
def test_an_interval_is_at_most_a_day() -> None:
    for interval in ("inf", "1e10"):
        ended = CliRunner().invoke(app, ["stats", "--interval", interval, "--count", "1"])
        assert ended.exit_code == 2 and "--interval" in ended.output
    with pytest.raises(errors.ConfigError, match="--interval nan"):  # in some versions of click
        _check(False, False, False, math.nan)


def test_what_does_not_go_together(address: str, tmp_path: Path) -> None:
    for args in (["--follow"], ["--once", "--json"], ["--csv", str(tmp_path / "no" / "file")]):
        ended = finished(tmp_path, "stats", "--server", address, *args, error=errors.ConfigError)
        assert len(ended.err.decode().splitlines()) == 2, ended.text()


def test_streams_that_are_closed(address: str, tmp_path: Path) -> None:
    def exit_code(redirection: str, *args: str) -> int:
        line = ["sh", "-c", f'exec "$@" {redirection}', "sh", *PROGRAM, *args]
        return subprocess.run(line, cwd=tmp_path, timeout=DEADLINE_S, check=False).returncode

    assert exit_code(">&- <&-", "stats", "--server", address, "--count", "1") == 0
    told = errors.UnknownEnvironment.exit_code
    assert exit_code("2>&-", "run", "Nothing-v0") == told


def test_a_reader_that_has_had_enough(address: str, tmp_path: Path) -> None:
    args = [*PROGRAM, "stats", "--server", address, "--interval", "0.1"]
    with subprocess.Popen(
        args, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as asking:
        assert asking.stdout is not None and asking.stderr is not None
        assert b"bottleneck" in asking.stdout.readline()
        asking.stdout.close()
        assert asking.stderr.read() == b""
    assert asking.returncode == 0


def test_a_server_of_another_version(address: str, tmp_path: Path) -> None:
    with _another_version(address) as other:
        words = ("stats", "--server", other, "--once")
        ended = finished(tmp_path, *words, error=errors.ProtocolError)
    assert len(ended.err.decode().splitlines()) == 2, ended.text()


@pytest.mark.exhaustive
def test_an_address_where_something_else_answers(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as echo:
        echo.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=_echo, args=(echo,), daemon=True)
        thread.start()
        address = f"udp://127.0.0.1:{echo.getsockname()[1]}"
        ended = finished(tmp_path, "stats", "--server", address, error=errors.TransportError)
        echo.sendto(b"end", echo.getsockname())
        thread.join()
    waits, cause, _ = ended.err.decode().splitlines()
    assert waits == f"no answer from {address} yet; it has 10 s to start"
    assert address in cause


def _echo(socket_: socket.socket) -> None:
    while True:
        data, sender = socket_.recvfrom(65536)
        if data == b"end":
            return
        socket_.sendto(data, sender)


def test_a_server_that_starts_later_is_waited_for_in_the_words_of_the_other_roles(
    tmp_path: Path,
) -> None:
    with ExitStack() as stack:
        mute = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        mute.bind(("127.0.0.1", 0))
        address = f"udp://127.0.0.1:{mute.getsockname()[1]}"
        asking = stack.enter_context(command(tmp_path, "stats", "--server", address, "--json"))
        asking.wait_for(f"no answer from {address} yet; it has 10 s to start")
        mute.close()
        stack.enter_context(serving(tmp_path, address))
        assert asking.end() == 0, asking.text()
        assert asking.last_json()["server.clients"] == 1
        assert len(asking.out.splitlines()) == 1


def test_a_pipe_says_when_the_server_goes_and_when_it_is_back(tmp_path: Path) -> None:
    with (
        serving(tmp_path) as (started, address),
        command(tmp_path, "stats", "--server", address, "--interval", "0.1") as asking,
    ):
        asking.wait_for("nothing_runs")
        started.end(signal.SIGTERM)
        asking.wait_for("does not answer")
        _serve_again(tmp_path, address, asking)
        assert asking.end(signal.SIGINT) == 130


def _serve_again(folder: Path, address: str, asking: Command) -> None:
    with serving(folder, address) as (started, _):
        missed = asking.out.count(b"nothing_runs")
        while asking.out.count(b"nothing_runs") == missed:
            asking.read(DEADLINE_S)
        assert started.end(signal.SIGTERM) == 0
