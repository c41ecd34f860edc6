"""The stop flag: by a signal, and by another thread."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from drlnet.launch.signals import Stop


def test_another_thread_ends_what_the_main_one_is_about() -> None:
    with Stop() as stop:
        thread = threading.Thread(target=stop.end)
        with pytest.raises(KeyboardInterrupt), stop.interrupts():
            thread.start()
            while True:
                pass
        thread.join()
        assert stop.is_set() and stop.signal is None
        os.kill(os.getpid(), signal.SIGTERM)  # is still the first one
        assert stop.signal == signal.SIGTERM and stop.exit_code == 143


def in_another_thread(number: int) -> threading.Thread:
    """Signals a thread that is not the main one."""
    return threading.Thread(target=lambda: signal.pthread_kill(threading.get_ident(), number))


def test_a_signal_that_another_thread_is_given_ends_the_wait() -> None:
    with Stop() as stop:
        sender = in_another_thread(signal.SIGTERM)
        threading.Timer(0.05, sender.start).start()  # the wait has mostly begun then
        assert stop.wait(20.0)
        assert stop.signal == signal.SIGTERM
        assert stop.wait(0.0) and stop.heard()
        assert select.select([stop.fileno()], [], [], 0)[0]


def test_a_wait_may_be_longer_than_the_system_takes_at_once() -> None:
    with Stop() as stop:
        threading.Timer(0.05, stop.set).start()
        assert stop.wait(float("inf"))
    assert not Stop().wait(0.001)


def test_one_that_is_over_keeps_no_descriptor() -> None:
    before = len([*Path("/proc/self/fd").iterdir()])
    for _ in range(10):
        with Stop() as stop:
            stop.set()
    del stop
    assert len([*Path("/proc/self/fd").iterdir()]) <= before


def test_another_signal_neither_ends_the_wait_nor_leaves_a_word() -> None:
    came: list[int] = []
    saved = signal.signal(signal.SIGUSR1, lambda number, frame: came.append(number))
    try:
        with Stop() as stop:
            sender = in_another_thread(signal.SIGUSR1)
            sender.start()
            sender.join()
            assert select.select([stop.fileno()], [], [], 20.0)[0]
            assert not stop.wait(0.001)
            assert came == [signal.SIGUSR1]
            assert not select.select([stop.fileno()], [], [], 0)[0]
            assert not stop.heard()  # nor does it wait for one
    finally:
        signal.signal(signal.SIGUSR1, saved)


def test_a_hangup_that_is_ignored_stays_so() -> None:
    saved = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup leaves it
    try:
        with Stop() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop.is_set()
            os.kill(os.getpid(), signal.SIGTERM)
            assert stop.is_set()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, saved)


def run_in_python(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )


def test_a_second_signal_ends_at_once_but_not_before_the_last_act_nor_as_an_echo() -> None:
    script = (
        "import os, signal\n"
        "from drlnet.launch import signals\n"
        "signals.time.monotonic = lambda: now\n"
        "now = 100.0\n"
        "with signals.Stop() as stop:\n"
        "    stop.before_abort = lambda: print('in order', flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    now += 0.4\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    print('an echo', flush=True)\n"
        "    now += 0.2\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    print('never')\n"
    )
    ended = run_in_python(script)
    assert ended.returncode == 143
    assert ended.stdout == "an echo\nin order\n"


def test_a_last_act_that_fails_holds_up_no_end() -> None:
    script = (
        "import os, signal\n"
        "from drlnet.launch import signals\n"
        "signals._ECHO_S = 0.0\n"
        "with signals.Stop() as stop:\n"
        "    stop.before_abort = lambda: 1 / 0\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    print('never')\n"
    )
    ended = run_in_python(script)
    assert ended.returncode == 143
    assert ended.stdout == ""


def test_ctrl_c_in_the_very_first_imports_is_quiet() -> None:
    script = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'signal':\n"
        "            raise KeyboardInterrupt\n"
        "sys.modules.pop('signal', None)\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "import drlnet.__main__\n"
    )
    ended = run_in_python(script)
    assert (ended.returncode, ended.stdout, ended.stderr) == (128 + signal.SIGINT, "", "")
