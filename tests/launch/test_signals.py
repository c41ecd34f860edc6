"""The stop flag: by a signal, and by another thread."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

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
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 143
    assert ended.stdout == "an echo\nin order\n"


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
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (128 + signal.SIGINT, "", "")
