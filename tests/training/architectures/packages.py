"""Importing the packages that models come from; a test is skipped where one is missing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

# Where `make` installs timm and torchvision: off the path. transformers (and so peft) imports torchvision if it is
# there, and fails with it beside a build of torch that torchvision was not made for.
FOLDER = Path(sys.prefix) / "vision"


def package(name: str) -> Any:
    """Import transformers, timm or torchvision. timm needs torchvision, and transformers takes what is there."""
    if FOLDER.is_dir() and str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    for needed in ("timm", "torchvision") if name == "timm" else (name,):
        if find_spec(needed) is None:
            pytest.skip(f"needs {needed}")
    if find_spec("torchvision") is not None:
        with _without_compiled_operators():
            import_module("torchvision")
    return import_module(name)


@contextmanager
def _without_compiled_operators() -> Iterator[None]:
    """Let torchvision load beside a build of torch that its compiled operators were not made for.

    It registers what these operators (such as torchvision::nms) return on meta tensors, and torch refuses that for
    operators that are not there. No model needs them.
    """
    registered = torch.library.register_fake

    def register_fake(operator: Any, *args: Any, **options: Any) -> Any:
        if not str(operator).startswith("torchvision::"):
            return registered(operator, *args, **options)
        return (lambda function: function) if not args else args[0]

    torch.library.register_fake = register_fake  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.library.register_fake = registered
