"""Fingerprints of networks: equal only if the embeddings are equal."""

from __future__ import annotations

import ast
import hashlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import partial
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_LIBRARIES = ("torch", "torchvision", "timm", "builtins")
"""Packages whose classes are identified by name and repr."""

_OF_EVERY_MODULE = frozenset(vars(nn.Module()))


def fingerprint(network: nn.Module, *settings: object) -> str:
    """Fingerprint of a network and of all settings that determine its embeddings.

    It covers the weights, the configuration (strides, kernel sizes and other plain attributes) and, for classes outside
    torch and timm, their code.

    Args:
        network: The network.
        *settings: Further settings, identified by their repr.

    Returns:
        A hexadecimal digest.
    """
    digest = hashlib.blake2b(repr(settings).encode(), digest_size=12)
    for line in _description(network):
        digest.update(_ADDRESS.sub("", line).encode())
    # Non-persistent buffers matter too.
    tensors: dict[str, Any] = {**dict(network.named_buffers()), **network.state_dict()}
    for name, tensor in sorted(tensors.items()):
        if not isinstance(tensor, Tensor):  # extra state of a module
            digest.update(_ADDRESS.sub("", f"{name} {tensor!r}").encode())
            continue
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _description(network: nn.Module) -> Iterator[str]:
    """Describe the computation of a network."""
    yield repr(network)
    classes: set[type] = set()
    for name, module in network.named_modules():
        classes.update(type(module).__mro__)
        values = {key: value for key, value in vars(module).items() if key not in _OF_EVERY_MODULE}
        yield f"{name} {sorted((key, text) for key, value in values.items() if (text := _plain(value)))}"
    own = {(kind.__module__, kind.__qualname__): kind for kind in classes if not _is_known(kind)}
    for key in sorted(own):
        yield f"{key} {_code(own[key])}"


def _plain(value: object) -> str:
    """Text of a plain value (number, string, function, or a sequence of them); empty for other values."""
    if isinstance(value, (bool, int, float, str, type(None))):
        return repr(value)
    if isinstance(value, (tuple, list)):
        parts = [_plain(part) for part in value]
        return f"({', '.join(parts)})" if all(parts) else ""  # no dicts: timm's contain paths of weight files
    if isinstance(value, partial):
        return _plain((value.func, value.args, tuple(value.keywords.items()))) or repr(value)
    if inspect.isbuiltin(value):
        return value.__qualname__
    if inspect.isfunction(value):  # by its bytecode, as two lambdas on one line have the same source
        return f"{value.__module__}.{value.__qualname__} {'' if _is_known(value) else _compiled(value.__code__)}"
    return ""


def _is_known(thing: Any) -> bool:
    return str(thing.__module__).split(".")[0] in _LIBRARIES


def _code(kind: type) -> str:
    """Source code of a class without comments and docstrings, or its bytecode if there is no source (a notebook)."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError, SyntaxError):
        functions = {name: value for name, value in vars(kind).items() if inspect.isfunction(value)}
        return repr([(name, _compiled(function.__code__)) for name, function in functions.items()])
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            is_text = [isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant) for part in node.body]
            node.body = [part for part, text in zip(node.body, is_text, strict=True) if not text]
    return ast.dump(tree)


def _compiled(code: CodeType) -> tuple[object, ...]:
    constants = [_compiled(part) if isinstance(part, CodeType) else repr(part) for part in code.co_consts]
    return code.co_name, code.co_code, code.co_names, constants
