"""Lazy imports for packages (PEP 562), so that importing a package stays cheap.

`hush` and its larger packages export names whose modules need NumPy, torch or a database driver. A package that uses
`lazy_names` loads such a module when the name is used for the first time, not when the package is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from hush.extras import with_command


def lazy_names(package: str, names: Mapping[str, str | None]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and ``__dir__`` that a package's ``__init__`` should define.

    >>> load, list_names = lazy_names("hush", {"parse": "hush.strict_json", "errors": None})
    >>> load("parse")("[1, 2]")
    [1, 2]
    >>> load("errors").__name__
    'hush.errors'
    >>> "errors" in list_names(), "Guarantee" in list_names(), "parse" in list_names()
    (True, True, False)

    Args:
        package: The package's ``__name__``.
        names: The module that defines each name, or None where the name is a sub-package or module itself.

    Returns:
        The two functions. The first raises AttributeError for any other name, as Python expects. The second lists what
        is public: the package's ``__all__`` and its sub-packages. What is shared inside hush only is not listed.
    """

    def __getattr__(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = names[name]
        try:
            return import_module(f"{package}.{name}") if module is None else getattr(import_module(module), name)
        except ModuleNotFoundError as error:  # an extra that is not installed
            raise with_command(error, f"{package}.{name}") from None

    def __dir__() -> list[str]:
        modules = {name for name, module in names.items() if module is None}
        return sorted({*import_module(package).__all__, *modules})

    return __getattr__, __dir__
