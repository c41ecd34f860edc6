"""Ties a role's process to the one that started it, so that none survives, however that one ends.

The starter names itself in the environment; the child asks the kernel to be killed with it. This
runs before anything heavy is imported. Standard library only.
"""

from __future__ import annotations

import os
import signal
import sys

PARENT_VARIABLE = "DRLNET_PARENT_PID"
_PR_SET_PDEATHSIG = 1


def child_environment() -> dict[str, str]:
    """This process's environment, for a child that is to be tied to it."""
    return {**os.environ, PARENT_VARIABLE: str(os.getpid())}


def tie_to_parent() -> None:
    """Makes a child of child_environment die with its parent; else it does nothing.

    The kernel's signal follows the parent's *thread* that forked, so roles are started from main
    threads only. SIGKILL, because a role that is stuck would not heed anything softer.
    """
    # Taken out: it is about this process, not about its children.
    parent = os.environ.pop(PARENT_VARIABLE, None)
    if parent is not None:
        die_with(int(parent))


def die_with(parent: int) -> None:
    """Asks the kernel to kill this process with its parent, of that process id."""
    if sys.platform == "linux":
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # The parent may have died before the kernel knew; then another process has adopted this one.
    if os.getppid() != parent:
        os._exit(0)
