"""Memory for what torch computes on processor cores."""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_LONGEST_BYTES = 32 << 20  # the most that M_MMAP_THRESHOLD takes
_KEPT_BYTES = 1 << 30


def keep_freed_memory() -> None:
    """Has the process keep freed memory for its next tensors, where its malloc is glibc's.

    Tensors of a learner step that exceed 128 KiB would else go back to the kernel at each step, and
    come from it anew, page by page: 4,000 page faults in each of DQN's steps on Pong.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LONGEST_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
