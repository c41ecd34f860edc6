"""A learner's gradients as one CUDA graph: its kernels start together, not one by one from Python.

Source: https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

Inputs = dict[str, torch.Tensor]
Function = Callable[[Inputs], tuple[torch.Tensor, ...]]

_WARM_UPS = 3  # what is chosen or allocated at a first call must not be in the graph


class Captured:
    """A function of tensors on a GPU that leaves gradients. Not thread-safe.

    It must do the same at every call, as what it computes on the processor counts once: when it is
    first called. What it returns is overwritten by the next call. Inputs of other shapes or dtypes
    than the first ones are computed without the graph.
    """

    def __init__(self, function: Function, params: Iterable[torch.Tensor]) -> None:
        """params: whose gradients it leaves. They stay where they are in memory."""
        self._function, self._params = function, list(params)
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, inputs: Inputs) -> tuple[torch.Tensor, ...]:
        with torch.cuda.device(self._params[0].device):  # whose streams are the ones to watch
            return self._compute(inputs)

    def _compute(self, inputs: Inputs) -> tuple[torch.Tensor, ...]:
        if self._graph is None:
            self._capture(inputs)
        assert self._graph is not None
        if _form(inputs) != _form(self._inputs):
            return self._function(inputs)
        for name, tensor in inputs.items():
            self._inputs[name].copy_(tensor)
        self._graph.replay()
        for param, grad in zip(self._params, self._grads, strict=True):
            param.grad = grad
        return self._outputs

    def _capture(self, inputs: Inputs) -> None:
        self._inputs = {name: tensor.clone() for name, tensor in inputs.items()}
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(_WARM_UPS):
                self._function(self._inputs)
                self._drop_gradients()
        torch.cuda.current_stream().wait_stream(aside)
        self._graph = torch.cuda.CUDAGraph()
        # Inference may use the GPU meanwhile, on a thread of its own (policy.where = learner).
        # Without a stream it takes that of the process's first graph, maybe another GPU's.
        with torch.cuda.graph(self._graph, stream=aside, capture_error_mode="thread_local"):
            self._outputs = self._function(self._inputs)
        self._grads = [param.grad for param in self._params]

    def _drop_gradients(self) -> None:
        for param in self._params:
            param.grad = None


def _form(inputs: Inputs) -> dict[str, tuple[torch.Size, torch.dtype]]:
    return {name: (tensor.shape, tensor.dtype) for name, tensor in inputs.items()}
