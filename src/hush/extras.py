"""Optional packages: which extra of hush installs each, for the message where one is missing."""

from __future__ import annotations

_EXTRAS = {
    "duckdb": "sql",
    "openpyxl": "excel",
    "peft": "lora",
    "PIL": "data",
    "psycopg": "postgres",
    "pyspark": "spark",
    "safetensors": "train",
    "sklearn": "estimators",
    "sqlalchemy": "ledger",
    "sqlglot": "sql",
    "torch": "torch",
}


def with_command(error: ModuleNotFoundError, what: str) -> ModuleNotFoundError:
    """Return an error that names the command which installs the missing package; the same error for other packages.

    >>> with_command(ModuleNotFoundError("No module named 'torch'", name="torch"), "hush.training").msg
    "hush.training needs torch, which is not installed. Install it: pip install 'hush[torch]' (or 'hush[all]')."

    Args:
        error: The error of the import. Its type and ``name`` stay, so that code which handles it still does.
        what: The part of hush that needs the package.
    """
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRAS:
        return error
    extra = "train" if what.startswith("hush.runs") else _EXTRAS[package]
    command = f"pip install 'hush[{extra}]' (or 'hush[all]')"
    message = f"{what} needs {package}, which is not installed. Install it: {command}."
    return ModuleNotFoundError(message, name=error.name, path=error.path)
