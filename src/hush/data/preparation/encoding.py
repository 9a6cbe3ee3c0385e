"""Encodes values as inputs, by a complete schema. Each row is encoded independently of all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.data.tables.columns import Category, Column, Date, HashedText, Ignore, Images, Numeric, Text
from hush.data.tables.table import RowTable

Inputs = NDArray[np.float32]
_CYCLES = (365.2425, 7.0, 1.0)  # days of a year, a week and a day


def encode_table(columns: Mapping[str, Column], table: RowTable, numbers: Mapping[str, NDArray[np.float64]]) -> Inputs:
    """Return inputs [rows, width]: the encoded columns side by side, in the order of the schema.

    Args:
        columns: The columns of a complete schema.
        table: The rows.
        numbers: The numeric columns, which were read before.
    """
    used = {name: column for name, column in columns.items() if not isinstance(column, Ignore)}
    inputs = np.zeros((table.num_rows, sum(width(column) for column in used.values())), dtype=np.float32)
    start = 0
    for name, column in used.items():
        part = inputs[:, start : start + width(column)]
        start += width(column)
        if isinstance(column, Numeric):
            part[:, 0] = scaled(numbers[name], column)
            if isinstance(column, Date):
                part[:, 1:] = cycles(numbers[name])
        elif isinstance(column, Category):
            # The code of other values is -1: the last input.
            part[np.arange(table.num_rows), table.codes(name, column.values or ())] = 1
        elif isinstance(column, Text):
            part[:] = bag_of_words(table.words(name, column.vocabulary))
        elif isinstance(column, HashedText):
            part[:] = bag_of_words(table.hashed_words(name, column.num_features))
    return inputs


def width(column: Column) -> int:
    """Return how many inputs a column becomes."""
    if isinstance(column, Category):
        return len(column.values or ()) + 1
    if isinstance(column, Date):
        return 1 + 2 * len(_CYCLES)
    if isinstance(column, HashedText):
        return column.num_features
    return len(column.vocabulary) if isinstance(column, Text) else int(isinstance(column, Numeric))


def num_inputs(columns: Mapping[str, Column]) -> int:
    """Return how many inputs the columns of a complete schema become."""
    return sum(width(column) for column in columns.values())


def cycles(days: NDArray[np.float64]) -> Inputs:
    """Return where moments lie in their year, their week and their day: sines and cosines. Missing ones become 0.

    >>> cycles(np.array([0.25]))[:, 4:].round(3).tolist()  # six o'clock
    [[1.0, 0.0]]
    """
    turns = days[:, None] / np.array(_CYCLES) % 1.0
    parts = np.stack([np.sin(2 * np.pi * turns), np.cos(2 * np.pi * turns)], axis=2).reshape(len(days), -1)
    result: Inputs = np.nan_to_num(parts, nan=0.0).astype(np.float32)
    return result


def scaled(values: NDArray[np.float64], column: Numeric) -> Inputs:
    """Return numbers, clamped to their bounds and scaled to [-1, 1]. Missing values become 0, the middle.

    >>> scaled(np.array([0.0, 75.0, 999.0, np.nan]), Numeric(lower=0, upper=100)).tolist()
    [-1.0, 0.5, 1.0, 0.0]
    """
    lower, upper = column.lower or 0.0, column.upper or 0.0
    # Halves first: the difference of two finite bounds may be infinite.
    middle, half = lower / 2 + upper / 2, upper / 2 - lower / 2
    clamped = np.clip(values, lower, upper)
    with np.errstate(all="ignore"):
        result = np.clip((clamped - middle) / half, -1, 1)
    return np.where(np.isnan(values), 0, result).astype(np.float32)


def bag_of_words(counts: Inputs) -> Inputs:
    """Return ln(1 + count) of each word, scaled down to norm 1 where the norm is larger."""
    logs = np.log1p(counts)
    norms = np.sqrt(np.einsum("nw,nw->n", logs, logs, dtype=np.float32))
    result: Inputs = logs / np.maximum(norms, 1)[:, None]
    return result


def encode_images(images: NDArray[Any], declared: Images) -> Inputs:
    """Return images scaled to [0, 1]. NaN becomes 0."""
    lower, upper = declared.lower, declared.upper
    with np.errstate(all="ignore"):  # warnings would depend on the data
        if images.dtype.kind == "f":
            images = np.nan_to_num(np.clip(images, lower, upper), nan=lower)
        result: Inputs = images.astype(np.float32)
        result -= np.float32(lower)
        result /= np.float32(upper) - np.float32(lower)
        np.clip(result, 0, 1, out=result)
    return result
