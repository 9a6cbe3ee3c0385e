"""Names that are loaded on first use (PEP 562), so that importing a package stays cheap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, names: Mapping[str, str | None]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package.

    Args:
        package: The package's ``__name__``.
        names: The module that defines each name, or None where the name is a sub-package or module itself.
    """

    def __getattr__(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = names[name]
        return import_module(f"{package}.{name}") if home is None else getattr(import_module(home), name)

    def __dir__() -> list[str]:
        return sorted({*vars(import_module(package)), *names})

    return __getattr__, __dir__
