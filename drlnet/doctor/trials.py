"""What is tried in a process of its own. Each returns what it found, for JSON, or raises."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drlnet.errors import DrlnetError, TransportError, not_installed

_ANSWER_DEADLINE_S = 5.0


def serve(address: str) -> dict[str, Any]:
    """A replay server on that address, and a client of it that gets an answer."""
    from drlnet import native

    server = native.Server([address])
    thread = threading.Thread(target=server.run, name="server", daemon=True)
    thread.start()
    try:
        client = native.Client(server.addresses[0], "doctor", _ANSWER_DEADLINE_S, "adaptive")
        client.ping_us(64)
    finally:
        server.stop()
        thread.join(_ANSWER_DEADLINE_S)
    return {"transports": native.transport_names(), "samplers": native.sampler_names()}


def udp() -> dict[str, Any]:
    """The server as `drlnet run` starts it."""
    return serve("udp://127.0.0.1:0")


def dpdk() -> dict[str, Any]:
    """The same over DPDK; its version, and the drivers that it loaded, without their librte_net_.

    Raises TransportError where DPDK is missing, cannot be loaded or does not start.
    """
    import ctypes

    serve("dpdk:local:0")
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    core = re.search(r"/\S*librte_eal\.so\S*", maps)
    if core is None:
        raise TransportError("DPDK works, but its core is not among the libraries of the process")
    version = ctypes.CDLL(core.group()).rte_version
    version.restype = ctypes.c_char_p
    drivers = set(re.findall(r"/librte_net_(\w+)\.so", maps))
    return {"version": version().decode().removeprefix("DPDK "), "drivers": sorted(drivers)}


def torch() -> dict[str, Any]:
    """A step of a tiny network, on the CPU and on a GPU where torch finds one.

    cuda_error: why the GPU does not take it, which a run on the CPU does without; None: it does.
    """
    import torch as library
    from safetensors.torch import save

    def step(device: str) -> None:
        net = library.nn.Linear(4, 2).to(device)
        net(library.ones(8, 4, device=device)).square().mean().backward()
        save({name: value.detach().cpu() for name, value in net.state_dict().items()})

    step("cpu")
    gpu = cause = None
    if library.cuda.is_available():
        try:
            step("cuda")
            gpu = library.cuda.get_device_name()
        except Exception as error:
            cause = _first_line(error)
    return {
        "version": library.__version__,
        "threads": library.get_num_threads(),
        "cuda": gpu,
        "cuda_error": cause,
    }


def gymnasium() -> dict[str, Any]:
    """A step of CartPole-v1, in the vector form that actors step."""
    import gymnasium as library
    from gymnasium.vector import AutoresetMode, SyncVectorEnv

    env = SyncVectorEnv(
        [lambda: library.make("CartPole-v1")], autoreset_mode=AutoresetMode.NEXT_STEP
    )
    env.reset(seed=0)
    env.step(env.action_space.sample())
    env.close()
    return {"version": library.__version__}


TRIALS: dict[str, Callable[[], dict[str, Any]]] = {
    "udp": udp,
    "dpdk": dpdk,
    "torch": torch,
    "gymnasium": gymnasium,
}


def run_trial(name: str) -> dict[str, Any]:
    """What that trial found, or what a library raised, as errors are in JSON: {"error": ...}.

    A DrlnetError passes: the command line says it in the same way.
    """
    try:
        return TRIALS[name]()
    except DrlnetError:
        raise
    except ImportError as error:
        if absent := not_installed(error):
            raise absent from error
        return _error(f"cannot be imported: {_first_line(error)}")
    except Exception as error:
        return _error(f"does not work: {type(error).__name__}: {_first_line(error)}")


def _error(cause: str) -> dict[str, Any]:
    remedy = "install drlnet and what it needs anew: pip install --force-reinstall ."
    return {"error": {"cause": cause, "remedy": remedy}}


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
