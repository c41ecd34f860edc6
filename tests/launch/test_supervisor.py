"""Supervision, with small scripts in the place of roles: what they say, how they end."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from drlnet.errors import RoleFailed, TransportError
from drlnet.guard import PARENT_VARIABLE
from drlnet.launch.process import Process, error_told
from drlnet.launch.signals import Stop
from drlnet.launch.supervisor import Ended, Said, Supervisor

DEADLINE_S = 20.0


def script(body: str) -> list[str]:
    return ["-c", textwrap.dedent(body)]


@pytest.fixture
def group(tmp_path: Path):  # type: ignore[no-untyped-def]
    with (
        Stop() as stop,
        Supervisor(stop, log_folder=tmp_path, grace_s=0.3, program=(sys.executable,)) as group,
    ):
        yield group


def test_a_role_is_told_lines_and_one_that_has_ended_is_not(group: Supervisor) -> None:
    echo = 'import json; print(json.dumps({"event": "heard", "line": input()}), flush=True)'
    process = group.start("echo", script(echo), told=True)
    process.tell("udp://127.0.0.1:7447")
    heard = group.wait_for_line(process, "heard", DEADLINE_S)
    assert heard["line"] == "udp://127.0.0.1:7447"
    assert any(isinstance(event, Ended) for event in group.wait(DEADLINE_S))
    process.tell("too late")
    mute = group.start("mute", script("import sys; sys.exit(len(sys.stdin.read()))"))
    (ended,) = [event for event in group.wait(DEADLINE_S) if isinstance(event, Ended)]
    assert (ended.process, ended.returncode) == (mute, 0)


def test_roles_that_have_ended_keep_no_descriptor(group: Supervisor) -> None:
    def ended() -> Process:
        process = group.start("mute", script(""), told=True)
        while not any(isinstance(event, Ended) for event in group.wait(DEADLINE_S)):
            pass
        return process

    ended()
    before = len([*Path("/proc/self/fd").iterdir()])
    for _ in range(5):
        process = ended()
    assert len([*Path("/proc/self/fd").iterdir()]) == before and not group.processes
    process.tell("too late")
    assert group.end([process]) == [] and process.returncode == 0


_FORKS = """
import os, signal
read, write = os.pipe()
child = os.fork()
os.write(1, b'{"pid": %d}\\n' % os.getpid())
if child == 0:
    os.close(write)
    os.read(read, 1)  # until its parent has ended
else:
    signal.pause()
"""


def test_ctrl_z_stops_all_of_them_until_they_are_continued(tmp_path: Path) -> None:
    supervise = """
        import sys
        from drlnet.launch.signals import Stop
        from drlnet.launch.supervisor import Supervisor
        with Stop() as stop, Supervisor(stop, grace_s=0.3, program=(sys.executable,)) as group:
            group.start("role", ["-c", sys.argv[1]])
            pids = []
            while len(pids) < 2:
                pids += [event.values["pid"] for event in group.wait(60)]
            print(*pids, flush=True)
            while not stop.is_set():
                group.wait(60)
    """
    command = [sys.executable, *script(supervise), _FORKS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as popen:
        assert popen.stdout is not None
        try:
            pids = [popen.pid, *map(int, popen.stdout.readline().split())]
            assert len(pids) == 3
            popen.send_signal(signal.SIGTSTP)
            wait_for_states(pids, "T")
            popen.send_signal(signal.SIGCONT)
            wait_for_states(pids, "S")
            popen.terminate()
            assert popen.wait(DEADLINE_S) == 0
        finally:
            popen.kill()


def wait_for_states(pids: list[int], state: str) -> None:
    """Waits until all of them are in that state of /proc/PID/stat."""
    deadline = time.monotonic() + DEADLINE_S
    while states := {Path(f"/proc/{pid}/stat").read_text().split()[2] for pid in pids}:
        if states == {state}:
            return
        assert time.monotonic() < deadline, states
        os.sched_yield()


def test_an_end_that_comes_with_the_line_waited_for_is_told_next(group: Supervisor) -> None:
    process = group.start("brief", script('print(\'{"event": "ready"}\')'))
    select.select([process.pid_fd], [], [], DEADLINE_S)
    assert group.wait_for_line(process, "ready", DEADLINE_S) == {"event": "ready"}
    (ended,) = group.wait(DEADLINE_S)
    assert isinstance(ended, Ended) and ended.process is process


def test_ready_line_is_found_among_others(group: Supervisor) -> None:
    process = group.start(
        "server",
        script("""
        import time
        print("starting")
        print('{"event": "other"}')
        print('{"event": "ready", "addresses": ["udp://x:1"]}', flush=True)
        time.sleep(60)
        """),
    )
    ready = group.wait_for_line(process, "ready", DEADLINE_S)
    assert ready["addresses"] == ["udp://x:1"]
    assert process.returncode is None


def test_no_ready_line_in_time(group: Supervisor) -> None:
    process = group.start("server", script("import time; time.sleep(60)"))
    with pytest.raises(RoleFailed, match="not ready within"):
        group.wait_for_line(process, "ready", 0.2)


def test_what_one_says_comes_before_the_end_of_another(group: Supervisor) -> None:
    def ended(name: str, body: str) -> Process:
        process = group.start(name, script(body))
        os.waitid(os.P_PIDFD, process.pid_fd, os.WEXITED | os.WNOWAIT)
        return process

    ended("server", "raise SystemExit(3)")
    speaking = ended("actor-0", """print('{"event": "appends"}')""")
    said, *others = group.wait(DEADLINE_S)
    assert isinstance(said, Said) and said.process is speaking
    assert {event.process.name for event in others if isinstance(event, Ended)} == {
        "server",
        "actor-0",
    }


def test_a_crash_is_reported_with_its_last_words(group: Supervisor, tmp_path: Path) -> None:
    process = group.start("actor-0", script("raise ValueError('the pole fell')"))
    with pytest.raises(RoleFailed, match="the pole fell") as caught:
        group.wait_for_line(process, "ready", DEADLINE_S)
    assert "actor-0 ended with exit code 1" in caught.value.cause
    assert "the pole fell" in (tmp_path / "actor-0.log").read_text()


def test_an_error_of_ours_keeps_its_kind_and_remedy(group: Supervisor) -> None:
    said = '{"error": {"type": "TransportError", "cause": "port in use", "remedy": "take another"}}'
    process = group.start("server", script(f"print('{said}'); raise SystemExit(4)"))
    with pytest.raises(TransportError, match="server: port in use") as caught:
        group.wait_for_line(process, "ready", DEADLINE_S)
    assert caught.value.remedy == "take another"


def test_a_signal_is_named(group: Supervisor) -> None:
    process = group.start("actor-0", script("import os; os.kill(os.getpid(), 9)"))
    with pytest.raises(RoleFailed, match="killed by SIGKILL") as caught:
        group.wait_for_line(process, "ready", DEADLINE_S)
    assert caught.value.remedy == "if memory ran out, end what else takes it"
    process = group.start("actor-1", script("import os; os.kill(os.getpid(), 11)"))
    with pytest.raises(RoleFailed, match="killed by SIGSEGV") as caught:
        group.wait_for_line(process, "ready", DEADLINE_S)
    assert "--debug" in caught.value.remedy


def test_last_words_come_before_the_end(group: Supervisor) -> None:
    group.start("actor-0", script("""print('{"event": "bye"}')"""))
    seen: list[str] = []
    while "Ended" not in seen:
        events = group.wait(DEADLINE_S)
        assert events
        seen += [type(event).__name__ for event in events if isinstance(event, (Said, Ended))]
    assert seen == ["Said", "Ended"]


def test_stop_kills_what_does_not_heed(group: Supervisor) -> None:
    process = group.start(
        "actor-0",
        script("""
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print('{"event": "ready"}', flush=True)
        time.sleep(60)
        """),
    )
    group.wait_for_line(process, "ready", DEADLINE_S)
    started = time.monotonic()
    group.end([process])
    process.close()
    assert process.returncode == -signal.SIGKILL
    assert time.monotonic() - started < 5


def test_a_role_that_floods_its_pipe_can_end(group: Supervisor) -> None:
    process = group.start(
        "actor-0",
        script("""
        import signal, sys
        def end(*_):
            sys.stderr.write("x" * 80 + "\\n")
            for _ in range(20000):
                sys.stderr.write("x" * 80 + "\\n")
            sys.exit(7)
        signal.signal(signal.SIGTERM, end)
        print('{"event": "ready"}', flush=True)
        signal.pause()
        """),
    )
    group.wait_for_line(process, "ready", DEADLINE_S)
    group._grace_s = DEADLINE_S
    group.end([process])
    assert process.returncode == 7


def test_the_last_words_of_a_role_that_ended_by_itself_are_heard(group: Supervisor) -> None:
    process = group.start("actor-0", script("""print('{"event": "appends"}')"""))
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert process.returncode == 0
    assert [said.values for said in group.end([process])] == [{"event": "appends"}]


def test_stop_wakes_a_wait(group: Supervisor) -> None:
    group.start("actor-0", script("import time; time.sleep(60)"))
    os.kill(os.getpid(), signal.SIGTERM)
    started = time.monotonic()
    assert group.wait(DEADLINE_S) == []
    assert time.monotonic() - started < 5


NEST = """
import os, sys, time
from drlnet.guard import tie_to_parent
tie_to_parent()
from drlnet.launch.signals import Stop
from drlnet.launch.supervisor import Supervisor
depth = int(sys.argv[1])
with Stop() as stop, Supervisor(stop, program=(sys.executable, __file__)) as group:
    pids = [os.getpid()]
    if depth:
        child = group.start(f"child-{depth}", [str(depth - 1)])
        pids += group.wait_for_line(child, "ready", 30)["pids"]
    print('{"event": "ready", "pids": %s}' % pids, flush=True)
    while not stop.is_set():
        group.wait(60)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_survives_its_starter(tmp_path: Path, how: int) -> None:
    nest = tmp_path / "nest.py"
    nest.write_text(NEST)
    root = Path(__file__).resolve().parents[2]
    top = subprocess.Popen(
        [sys.executable, str(nest), "2"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert top.stdout is not None
    line = top.stdout.readline()
    pids = [int(part) for part in line.partition('"pids": [')[2].strip("]}\n ").split(",")]
    assert len(pids) == 3
    descriptors = [os.pidfd_open(pid) for pid in pids]
    top.send_signal(how)
    top.wait(DEADLINE_S)
    deadline = time.monotonic() + DEADLINE_S
    for descriptor in descriptors:
        ended, _, _ = select.select([descriptor], [], [], max(0, deadline - time.monotonic()))
        assert ended, "a process survived"
        os.close(descriptor)
    top.stdout.close()


def test_a_child_whose_parent_is_gone_ends_at_once() -> None:
    code = "from drlnet.guard import tie_to_parent; tie_to_parent(); print('alive')"
    root = Path(__file__).resolve().parents[2]
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, PARENT_VARIABLE: "1", "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert ended.stdout == ""


def test_a_log_is_named_where_the_remedy_is_its_traceback() -> None:
    log = Path("/somewhere/actor-0.log")
    for remedy, told in (
        ("the traceback shows the way there", f"the traceback shows the way there: it is in {log}"),
        ("correct the space", "correct the space"),
    ):
        said = {"type": "UserCodeError", "cause": "it broke", "remedy": remedy}
        error = error_told(said, "actor-0", log)
        assert (error.cause, error.remedy) == ("actor-0: it broke", told)
