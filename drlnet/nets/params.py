"""Params as bytes: safetensors with the architecture in the metadata, so that what does not fit is
found by content and not by a shape error deep in torch. No pickle anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError

from drlnet.errors import CheckpointMismatch, RunFolderError, UserCodeError
from drlnet.metrics.whole import write_whole

_HEADER_BYTES_MAX = 1 << 20
_METADATA_KEY = "drlnet"
# What a state's tree has in place of what JSON lacks, and the tensor that holds the tree itself.
_TENSOR_KEY, _ARRAY_KEY, _PAIRS_KEY = "a tensor", "an array", "pairs"
_TAGS = {_TENSOR_KEY, _ARRAY_KEY, _PAIRS_KEY}
_TREE = "tree"


def pack(
    params: Mapping[str, torch.Tensor], architecture: str, metadata: Mapping[str, str] | None = None
) -> bytes:
    """params (a state dict) as a safetensors blob; tensors that share memory each in full.

    Errors: UserCodeError for more tensors than unpack() reads, and for what is not a tensor.
    """
    tensors: dict[str, torch.Tensor] = {}
    stored: set[int] = set()
    for name, tensor in params.items():
        if not isinstance(tensor, torch.Tensor):
            raise UserCodeError(
                f"the learner's params() returned a {type(tensor).__name__} as {name!r}",
                "return torch tensors by name, as a module's state_dict()",
            )
        own = tensor.detach().cpu().contiguous()
        storage = own.untyped_storage().data_ptr()
        tensors[name] = own.clone() if storage in stored else own
        stored.add(storage)
    # One key: safetensors keeps no order among several, and equal params shall be equal bytes.
    facts = json.dumps({**(metadata or {}), "architecture": architecture}, sort_keys=True)
    blob = safetensors.torch.save(tensors, {_METADATA_KEY: facts})
    if int.from_bytes(blob[:8], "little") > _HEADER_BYTES_MAX:
        raise UserCodeError(
            f"{len(tensors):,} tensors are too many for one file: their names and shapes take "
            f"more than {_HEADER_BYTES_MAX:,} bytes",
            "keep what is small and alike in one tensor (torch.stack)",
        )
    return blob


def unpack(blob: bytes, architecture: str, source: str) -> dict[str, torch.Tensor]:
    """The state dict in a blob. source says where it came from, for the error.

    Errors: CheckpointMismatch when it is damaged or of another architecture.
    """
    try:
        found = read_metadata(blob).get("architecture", "unnamed")
        tensors = safetensors.torch.load(blob)
    except (SafetensorError, ValueError) as error:
        raise CheckpointMismatch(
            f"{source} holds no params: {error}", "it may be damaged; take another checkpoint"
        ) from error
    if found != architecture:
        raise CheckpointMismatch(
            f"{source} holds params of [{found}], but the config makes [{architecture}]",
            "use the config that the params were trained with (config.toml in their run's folder)",
        )
    return tensors


def load_into(net: torch.nn.Module, params: Mapping[str, torch.Tensor]) -> None:
    """Gives a network its params. Raises CheckpointMismatch where they are another network's.

    unpack() has compared the settings: here the network's own code is another than it was.
    """
    own = net.state_dict()
    shapes, due = ({name: list(one.shape) for name, one in of.items()} for of in (params, own))
    differing = [name for name in {**due, **shapes} if shapes.get(name) != due.get(name)]
    if differing:
        name = differing[0]
        there, here = shapes.get(name, "none"), due.get(name, "none")
        raise CheckpointMismatch(
            f"the params are not of the network that these settings make here: {len(differing)} "
            f"tensors differ, first {name!r} ({there} in the params, {here} in the network)",
            "use the version of drlnet, or of your network's module, that trained them; or train "
            "anew with this one",
        )
    net.load_state_dict(params)


def pack_state(state: Mapping[str, Any], architecture: str, metadata: Mapping[str, str]) -> bytes:
    """A learner's state_dict as a safetensors blob: mappings and lists of tensors, numpy's arrays
    and numbers, and values that JSON has, nested as it likes.

    Errors: UserCodeError, which says where, for anything else.
    """
    tensors: dict[str, torch.Tensor] = {}

    def kept(tensor: torch.Tensor, place: str) -> str:
        name = f"{place} {len(tensors)}" if place in tensors else place
        tensors[name] = tensor
        return name

    def plain(value: Any, place: str) -> Any:
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, torch.Tensor):
            return {_TENSOR_KEY: kept(value, place)}
        if isinstance(value, np.ndarray):
            try:
                return {_ARRAY_KEY: kept(torch.from_numpy(value.copy()), place)}
            except (TypeError, ValueError) as error:
                raise _unstorable(place, f"an array of {value.dtype}") from error
        if isinstance(value, Mapping):
            parts = [(key, plain(one, f"{place}.{key}")) for key, one in value.items()]
            if all(isinstance(key, str) and key not in _TAGS for key in value):
                return dict(parts)
            return {_PAIRS_KEY: [[plain(key, f"{place}'s key"), one] for key, one in parts]}
        if isinstance(value, list | tuple):
            return [plain(one, f"{place}.{index}") for index, one in enumerate(value)]
        if value is None or isinstance(value, str | int | float):
            return value
        raise _unstorable(place, f"of the type {type(value).__name__}")

    # A tensor, as a header has not the room for long lists.
    tree = json.dumps(plain(state, "state")).encode()
    tensors[_TREE] = torch.frombuffer(bytearray(tree), dtype=torch.uint8)
    return pack(tensors, architecture, metadata)


def _unstorable(place: str, what: str) -> UserCodeError:
    return UserCodeError(
        f"what the learner's state_dict() returns cannot be stored: {place} is {what}",
        "return mappings and lists of tensors, numpy arrays, numbers and text",
    )


def unpack_state(blob: bytes, architecture: str, source: str) -> dict[str, Any]:
    """What pack_state() was given. Errors: CheckpointMismatch, as unpack()."""
    tensors = unpack(blob, architecture, source)

    def whole(value: Any) -> Any:
        if isinstance(value, list):
            return [whole(one) for one in value]
        if not isinstance(value, dict):
            return value
        if _TENSOR_KEY in value:
            return tensors[value[_TENSOR_KEY]]
        if _ARRAY_KEY in value:
            return tensors[value[_ARRAY_KEY]].numpy()
        if _PAIRS_KEY in value:
            return {_key(whole(key)): whole(one) for key, one in value[_PAIRS_KEY]}
        return {key: whole(one) for key, one in value.items()}

    # Earlier versions kept the tree among the metadata.
    tree = tensors[_TREE].numpy().tobytes() if _TREE in tensors else read_metadata(blob)["state"]
    state: dict[str, Any] = whole(json.loads(tree))
    return state


def _key(value: Any) -> Any:
    """A mapping's key: JSON has no tuples."""
    return tuple(map(_key, value)) if isinstance(value, list) else value


def read_metadata(blob: bytes) -> dict[str, str]:
    """What pack() was told besides the params; ValueError when the header is not one of ours."""
    size = int.from_bytes(blob[:8], "little")
    if len(blob) < 8 or size > min(len(blob) - 8, _HEADER_BYTES_MAX):
        raise ValueError("the header is cut short")
    header = json.loads(blob[8 : 8 + size])
    metadata = header.get("__metadata__", {}) if isinstance(header, dict) else None
    if not isinstance(metadata, dict):
        raise ValueError("the header is not a safetensors header")
    facts = json.loads(str(metadata.get(_METADATA_KEY, "{}")))
    if not isinstance(facts, dict):
        raise ValueError("the header's metadata was not written here")
    return {str(key): str(value) for key, value in facts.items()}


def save(path: Path, blob: bytes) -> None:
    """Writes a blob so that a reader sees the old file or the new one, never a part.

    Raises RunFolderError when it cannot be written; nothing of it is left then.
    """
    try:
        write_whole(path, blob)
    except OSError as error:
        raise RunFolderError(
            f"cannot write {path}: {error.strerror}", "make room or check rights"
        ) from error


def load_state(path: Path, architecture: str) -> tuple[dict[str, Any], dict[str, str]]:
    """A learner's state_dict and the facts about it, from a file; CheckpointMismatch as load()."""
    blob = _read(path)
    return unpack_state(blob, architecture, f"checkpoint {path}"), read_metadata(blob)


def load(path: Path, architecture: str) -> dict[str, torch.Tensor]:
    """The state dict of a checkpoint file; CheckpointMismatch when it is absent or does not fit."""
    return unpack(_read(path), architecture, f"checkpoint {path}")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CheckpointMismatch(
            f"checkpoint {path} cannot be read: {error.strerror}",
            "name a run's folder that holds checkpoint.safetensors",
        ) from error
