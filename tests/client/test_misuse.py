"""What a caller does by mistake: it costs an error in words, never the process."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drlnet import Client, Column, Item, Limiter, Sampler, Table, View, importance_weights, native
from drlnet.client import StreamLease
from drlnet.errors import ConfigError, DrlnetError

COLUMNS = {"x": Column("float32", (64,))}
ITEM = Item({"x": View("x")}, boundary="cross")
ENDS_S = 60.0  # far longer than anything here takes, on a busy machine


@pytest.fixture
def table(address: str) -> Iterator[Table]:
    """With 100 items."""
    with Client(address) as client:
        table = client.table("t", columns=COLUMNS, item=ITEM, capacity=1000)
        with table.writer(1) as writer:
            append(writer, 100)
        yield table


def append(writer: Any, rows: int) -> None:
    for _ in range(rows):
        steps = writer.append({"x": np.zeros((1, 64))}, [True], [True])
        writer.add_items([0], steps)


# Threads.


def in_four_threads(call: Callable[[], object]) -> list[str]:
    """Calls it again and again, in all of them; the causes of what they raise."""
    together = threading.Barrier(4)

    def run() -> str:
        together.wait()
        until = time.monotonic() + 1
        while time.monotonic() < until:
            try:
                call()
            except DrlnetError as error:
                assert type(error) is ConfigError
                return error.cause
        return ""

    with ThreadPoolExecutor(4) as threads:
        return [running.result(ENDS_S) for running in [threads.submit(run) for _ in range(4)]]


@pytest.mark.slow  # a second each
def test_a_writer_is_one_thread_s(table: Table) -> None:
    with table.writer(1) as writer:
        causes = in_four_threads(lambda: append(writer, 1))
        assert "a writer is used by two threads at once" in causes
        assert {*causes} <= {"", "a writer is used by two threads at once"}
        append(writer, 10)  # it goes on as if nothing had been


@pytest.mark.slow
def test_a_stream_is_one_thread_s(table: Table) -> None:
    stream = table.stream(64, depth=2)
    causes = in_four_threads(lambda: next(stream))
    assert "a stream of batches is used by two threads at once" in causes
    assert {*causes} <= {"", "a stream of batches is used by two threads at once"}
    assert len(next(stream)) == 64


# Processes.

OPEN = """
import os, signal, sys, threading, time
import numpy as np
from drlnet import Client, Column, Item, Limiter, View
from drlnet.errors import ConfigError, DrlnetError
client = Client(sys.argv[1], timeout=3600)
columns, item = {"x": Column("float32", (64,))}, Item({"x": View("x")}, boundary="cross")
table = client.table("t", columns=columns, item=item, capacity=1000)
def append(writer):
    writer.add_items([0], writer.append({"x": np.zeros((1, 64))}, [True], [True]))
"""

LEAVES_A_THREAD = """
waiting = threading.Event()
def sample():
    waiting.set()
    table.sample(1, timeout=3600)  # there are no items
threading.Thread(target=sample, daemon=True).start()
waiting.wait()
while client.stats()["server.waiting_requests"] < 1: pass
print("ends")
"""

# Some are in C++, some between calls, one is about to ask for the interpreter.
LEAVES_BUSY_THREADS = """
with table.writer(1) as writer:
    append(writer)
    writer.flush()
began = threading.Barrier(5)
def run():
    stream = table.stream(64)
    began.wait()
    while True: next(stream)
for _ in range(4): threading.Thread(target=run, daemon=True).start()
began.wait()
print("ends")
"""

FORKS = """
with table.writer(1) as writer:
    for _ in range(10): append(writer)
writer, stream = table.writer(1), table.stream(4096)  # long batches: its thread follows them
next(stream)
read, write = os.pipe()
child = os.fork()
if child == 0:
    for call in (lambda: table.sample(1), lambda: append(writer), lambda: next(stream)):
        try:
            call()
        except ConfigError as error:
            os.write(write, error.cause.encode() + b"|")
    sys.exit()  # with all that it has inherited
os.close(write)
causes = b""
while part := os.read(read, 4096): causes += part
assert os.waitpid(child, 0)[1] == 0
assert causes.count(b"that the parent of this forked process has opened|") == 3, causes
append(writer)
writer.flush()
next(stream)
assert client.own_stats()["reconnects"] == 0  # the child has not ended the session
print("ends")
"""


def run_script(address: str, script: str, folder: Path, *, rounds: int = 1) -> None:
    """Runs it to an end as it should be."""
    for _ in range(rounds):
        ended = subprocess.run(
            [sys.executable, "-c", OPEN + script, address],
            cwd=folder,  # in the checkout the package may have no extension
            capture_output=True,
            text=True,
            timeout=ENDS_S,
            check=False,
        )
        assert (ended.stdout, ended.stderr, ended.returncode) == ("ends\n", "", 0)


@pytest.mark.slow
def test_a_daemon_thread_in_a_call_lets_the_interpreter_end(address: str, tmp_path: Path) -> None:
    run_script(address, LEAVES_A_THREAD, tmp_path)
    run_script(address, LEAVES_BUSY_THREADS, tmp_path, rounds=5)


@pytest.mark.slow
def test_a_forked_child_leaves_the_session_alone(address: str, tmp_path: Path) -> None:
    run_script(address, FORKS, tmp_path)


# Interruptions.

INTERRUPTED = """
limiter = Limiter(samples_per_insert=1, error_buffer=4)
limited = client.table("limited", columns=columns, item=item, capacity=1000, limiter=limiter)
writer, stream = limited.writer(1, timeout=3600), table.stream(4096, timeout=3600)
def held():
    while True: append(writer)
def flush():
    writer.flush()
def publish():
    while True: client.publish(bytes(1 << 24))
calls = [held, flush, lambda: table.sample(1, timeout=3600), lambda: next(stream), publish]
signal.signal(signal.SIGINT, signal.default_int_handler)  # though it was inherited as ignored
for call in calls:
    try:
        print("in", flush=True)
        call()
    except KeyboardInterrupt:
        print("out", flush=True)
print("ends", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("silent", [False, True])
def test_an_interruption_ends_a_call_at_once(silent: bool, tmp_path: Path) -> None:
    """silent: the server is stopped meanwhile."""
    serve = [sys.executable, "-m", "drlnet", "serve", "--listen", "udp://127.0.0.1:0"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True, "cwd": tmp_path}
    with subprocess.Popen(serve, **pipes) as server:
        assert server.stdout is not None
        try:
            address = server.stdout.readline().split()[-1]
            script = [sys.executable, "-c", OPEN + INTERRUPTED, address]
            with subprocess.Popen(script, **pipes) as client:
                interrupt_each(client, server if silent else None)
        finally:
            server.send_signal(signal.SIGCONT)
            server.terminate()


def interrupt_each(client: subprocess.Popen[str], stopped: subprocess.Popen[str] | None) -> None:
    assert client.stdout is not None
    try:
        while (line := client.stdout.readline()) == "in\n":
            if stopped:
                stopped.send_signal(signal.SIGSTOP)
            if not waits_for_long(client):
                break
            client.send_signal(signal.SIGINT)
            assert client.stdout.readline() == "out\n"
        assert (line, client.wait(ENDS_S)) == ("ends\n", 0)
    finally:
        client.kill()


def waits_for_long(process: subprocess.Popen[str]) -> bool:
    """Lets it come into the call; False if it has ended."""
    try:
        process.wait(0.5)
    except subprocess.TimeoutExpired:
        return True
    return False


# Arguments.


def argument_errors(client: Client, table: Table, address: str) -> list[tuple[str, Any]]:
    """(what the error names, a call that gets a wrong argument)."""
    unnamed: Any = None
    odd: Any = object()

    def opened(**wrong: Any) -> Callable[[], Table]:
        return lambda: client.table(
            **({"name": "u", "columns": COLUMNS, "item": ITEM, "capacity": 10} | wrong)
        )

    return [
        ("address is 7", lambda: Client(7)),  # type: ignore[arg-type]
        ("name is None", lambda: Client(address, name=unnamed)),
        ("name is '\\\\udc80'", lambda: Client(address, name="\udc80")),
        ("timeout is 'a'", lambda: Client(address, timeout="a")),  # type: ignore[arg-type]
        ("poll is None", lambda: Client(address, poll=unnamed)),
        ("timeout is 1000", lambda: Client(address, timeout=10**400)),
        ("patient is None", lambda: Client(address, patient=unnamed)),
        ("key is 1.5", lambda: Client(address, key=1.5)),  # type: ignore[arg-type]
        ("key is \\[1\\]", lambda: Client(address, key=[1])),  # type: ignore[arg-type]
        ("key is '\\\\x00'", lambda: Client(address, key="\0")),
        ("name is \\[1\\]", lambda: client.attach([1])),  # type: ignore[arg-type]
        ("name is None", opened(name=unnamed)),
        ("capacity is -1", opened(capacity=-1)),
        ("seed is 1.5", opened(seed=1.5)),
        ("columns is 'x'", opened(columns="x")),
        ("'x': dtype is None", opened(columns={"x": Column(unnamed)})),
        ("'x': an extent of its shape is 2.5", opened(columns={"x": Column("int8", (2.5,))})),  # type: ignore[arg-type]
        ("'x' is 'float32'", opened(columns={"x": "float32"})),
        ("item is None", opened(item=None)),
        ("'x': rows", opened(item=Item({"x": View("x", (1, 2, 3))}))),  # type: ignore[arg-type]
        ("'x': pad is 'none'", opened(item=Item({"x": View("x", pad="none")}))),  # type: ignore[arg-type]
        ("item.period is -1", opened(item=Item({"x": View("x")}, period=-1))),
        ("limiter.batch is 'a'", opened(limiter=Limiter(batch="a"))),  # type: ignore[arg-type]
        ("sampler option 'k'", opened(sampler=Sampler(options={"k": odd}))),
        ("sampler is 'fifo'", opened(sampler="fifo")),
        ("sampler.options is None", opened(sampler=Sampler(options=unnamed))),
        ("limiter is {'min_size': 1}", opened(limiter={"min_size": 1})),
        ("'x': from_end is 'yes'", opened(item=Item({"x": View("x", from_end="yes")}))),  # type: ignore[arg-type]
        ("n is 1.5", lambda: table.sample(1.5)),  # type: ignore[arg-type]
        ("n is 65537.*\n.*1 to 65,536", lambda: table.sample(65_537)),
        ("n is \\[1\\]", lambda: table.sample([1])),  # type: ignore[arg-type]
        ("timeout is 'a'", lambda: table.sample(1, timeout="a")),  # type: ignore[arg-type]
        ("n is 0", lambda: table.stream(0)),
        ("depth is -1", lambda: table.stream(1, depth=-1)),
        ("keys: ValueError", lambda: table.read_items("a")),
        ("keys has shape", lambda: table.read_items([[1], [2]])),
        ("since is None", lambda: table.new_priorities(unnamed)),
        ("priorities: ", lambda: table.update_priorities([1], [odd])),
        ("keys: OverflowError", lambda: table.update_priorities([-1], [1.0])),
        ("keys is an array of float64", lambda: table.update_priorities(np.ones(1), [1])),
        ("num_streams is 0", lambda: table.writer(0)),
        ("flush_rows is 0.5", lambda: table.writer(1, flush_rows=0.5)),  # type: ignore[arg-type]
        ("resume: token is 'a'", lambda: table.writer(1, resume=[(0, 0, "a", 0)])),  # type: ignore[list-item]
        ("resume: ", lambda: table.writer(1, resume=[(0, 0)])),  # type: ignore[list-item]
        ("resume: two leases", lambda: table.writer(2, resume=[StreamLease(0, 1, 2, 3)] * 2)),
        ("resume: ", lambda: table.writer(1, resume=1.5)),  # type: ignore[arg-type]
        ("resume: ", lambda: table.writer(1, resume=np.zeros((2, 2)))),  # type: ignore[arg-type]
        ("held is 1", lambda: table.writer(1, held=1)),  # type: ignore[arg-type]
        ("device is 'a'", lambda: table.mirror(device="a")),
        ("device is 1.5", lambda: table.mirror(device=1.5)),  # type: ignore[arg-type]
        ("device is 'a'", lambda: table.sample(1).tensors("a")),
        ("path is 1", lambda: table.export(1)),  # type: ignore[arg-type]
        ("seconds is None", lambda: client.set_timeout(unnamed)),
        ("params is 'a'", lambda: client.publish("a")),  # type: ignore[arg-type]
        ("newer_than is -1", lambda: client.fetch(-1)),
        ("payload_bytes is 'a'", lambda: client.ping("a")),  # type: ignore[arg-type]
        ("payload_bytes is 1000", lambda: client.ping(10**15)),
        ("beta is 'a'", lambda: importance_weights(table.sample(1), "a")),  # type: ignore[arg-type]
        ("question is None", lambda: client.ask(unnamed, 1.0)),
        ("patience is None", lambda: client.ask(b"", unnamed)),
        ("values is None", lambda: client.report(unnamed)),
        ("values\\['x'\\] is None", lambda: client.report({"x": unnamed})),
        ("values\\['x'\\] is 1000", lambda: client.report({"x": 10**400})),
        ("values\\['x'\\] is 1j", lambda: client.report({"x": 1j})),  # type: ignore[dict-item]
        ("a key of values is 1", lambda: client.report({1: 2})),  # type: ignore[dict-item]
    ]


def test_wrong_arguments_are_named(table: Table, address: str) -> None:
    with Client(address) as client:
        for named, call in argument_errors(client, table, address):
            with pytest.raises(ConfigError, match=named):
                call()


def test_a_writer_names_wrong_arguments(table: Table) -> None:
    writer = table.writer(1)
    flags: Any = [True]
    wrong: list[tuple[str, Callable[[], object]]] = [
        ("columns is 1", lambda: writer.append(1, flags, flags)),  # type: ignore[arg-type]
        ("column 'x': ValueError", lambda: writer.append({"x": "a"}, flags, flags)),
        ("'first' has shape", lambda: writer.append({"x": np.zeros((1, 64))}, [], flags)),
        ("'mask': ", lambda: writer.append({"x": np.zeros((1, 64))}, flags, flags, [[], [1]])),
        ("streams: ValueError", lambda: writer.add_items("a", [0])),
        ("steps has shape", lambda: writer.add_items([0], [[0]])),
        ("steps is an array of float32", lambda: writer.add_items([0], np.zeros(1, np.float32))),
        ("streams is an array of bool", lambda: writer.add_items(np.array([False]), [0])),
        ("priorities: ", lambda: writer.add_items([0], [0], ["a"])),
    ]
    for named, call in wrong:
        with pytest.raises(ConfigError, match=named):
            call()
    assert writer.leases[0].next_step == 0


def test_reports_take_numbers_of_any_kind(address: str) -> None:
    with Client(address, name="me") as client:
        client.report(
            {"big": 2**80, "less": -3, "numpy": np.int16(4), "half": np.float32(0.5), "yes": True}
        )
        stats = client.stats()
    said = [stats[f"client.me.{key}"] for key in ("big", "less", "numpy", "half", "yes")]
    assert said == [2.0**80, -3, 4, 0.5, 1]


# Names.


def test_names_are_shown_without_what_steers_a_terminal(address: str) -> None:
    name = "\x1b[31m\x9b2J\u202egpj.exe\u2066é.\x7f"
    with Client(address, name=name) as client:
        client.table(name, columns=COLUMNS, item=ITEM, capacity=10)
        client.report({name: name})
        stats = client.stats()
        assert name in client.tables()
    shown = "\\x1b[31m\\x9b2J\\u202egpj.exe\\u2066é.\\x7f"
    assert stats[f"client.{shown.replace('.', '_')}.{shown}"] == shown
    assert f"table.{shown}.rows" in stats
    assert all(c.isprintable() for key in stats for c in key)
    assert native.printable(name) == shown
    assert native.printable("\udc80 é") == "\\udc80 é"  # of a path that is not UTF-8
