"""`python -m drlnet`, and the `drlnet` command itself.

What must hold from the first moment comes before every import that takes time: a role dies with the
process that started it, and Ctrl-C ends quietly.
"""

from __future__ import annotations

try:
    import os
    import signal
    import sys

    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
except KeyboardInterrupt:  # while signal itself was loading
    raise SystemExit(130) from None

if not __package__:
    # Run as a file, as roles are: `-m` would look into the working directory first, and in a
    # checkout find a package without its extension. For the same reason this folder must go.
    sys.path.pop(0)
    _root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    if _root not in sys.path:
        sys.path.append(_root)

from drlnet.guard import tie_to_parent

tie_to_parent()


def main() -> None:
    """Runs the command line."""
    from drlnet.cli.main import main as command_line

    command_line()


if __name__ == "__main__":
    main()
