"""torch and gymnasium: whether they work, and on what."""

from __future__ import annotations

from drlnet.doctor.finding import Finding, failed, passed, warned
from drlnet.doctor.host import Host
from drlnet.doctor.probe import TrialFailed

# Where a driver of a GPU shows itself: NVIDIA's, AMD's.
_GPU_FILES = ("dev/nvidia0", "dev/kfd")


def torch(host: Host) -> Finding:
    """A step of a network, in a process of its own."""
    try:
        answer = host.probes.answer("torch")
    except TrialFailed as error:
        return failed(error.cause, error.remedy)
    return passed(f"{answer['version']}, takes a training step; {answer['threads']} threads")


def gymnasium(host: Host) -> Finding:
    """A step of an environment, in a process of its own."""
    try:
        answer = host.probes.answer("gymnasium")
    except TrialFailed as error:
        return failed(error.cause, error.remedy)
    return passed(f"{answer['version']}, CartPole-v1 steps")


def gpu(host: Host) -> Finding:
    """What the learner can run on besides the CPU."""
    there = any((host.root / name).exists() for name in _GPU_FILES)
    try:
        answer = host.probes.answer("torch")
    except TrialFailed:
        return warned("not known: torch does not work", "see torch")
    name, cause = answer["cuda"], answer["cuda_error"]
    if cause is not None:
        return warned(
            f"a training step on it fails: {cause}",
            "end what holds it, install a torch that fits it (https://pytorch.org), or stay with "
            "the CPU",
        )
    if name is not None:
        return passed(f"{name}; the learner takes it with --set learner.device=cuda")
    if there:
        return warned(
            "this machine has one, but torch cannot use it",
            "install a torch that fits its driver (https://pytorch.org), or stay with the CPU",
        )
    return passed("none: the learner runs on the CPU, the default")
