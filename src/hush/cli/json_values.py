"""Values for the JSON that commands print: JSON has neither infinity nor NaN, so both are null."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any


def plain(value: Any) -> Any:
    """Return a value for JSON: dataclasses as mappings, tuples as lists, numbers that are not finite as None.

    >>> plain({"epsilon": math.inf, "deltas": (0.0, 1e-5)})
    {'epsilon': None, 'deltas': [0.0, 1e-05]}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return plain(asdict(value)) if hasattr(value, "__dataclass_fields__") else value
