"""ONNX files of finished models, by torch.export.

The network takes inputs as `hush.data.transform` makes them, any number of them at once, and returns one output for
each class or label (a logit), or one scaled number.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hush.errors import InvalidArgument, Unsupported

INPUT, OUTPUT = "inputs", "outputs"
_EXPORTER = "torch.onnx"


def export_onnx(network: nn.Module, shape: tuple[int, ...], path: Path, *, metadata: Mapping[str, str]) -> None:
    """Write a network as an ONNX file.

    Args:
        network: The network, in evaluation mode.
        shape: The shape of one input.
        path: The file.
        metadata: Texts to store in the file, by name.
    """
    program = _program(network, shape)
    for name, value in metadata.items():
        program.model.metadata_props[name] = value
    try:
        program.save(str(path), external_data=False)
    except OSError:
        raise InvalidArgument("output", str(path), "a file that can be written") from None


def _program(network: nn.Module, shape: tuple[int, ...]) -> Any:
    """Return the exported program, for any number of inputs."""
    example = torch.zeros(2, *shape)
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        missing = error.name or "a package"
        raise Unsupported(f"ONNX files need {missing}, which is not installed", "pip install 'hush[onnx]'") from None
    with _quiet():
        try:
            return torch.onnx.export(
                network,
                (example,),
                input_names=[INPUT],
                output_names=[OUTPUT],
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                dynamo=True,
                verbose=False,
            )
        except torch.onnx.OnnxExporterError as error:
            raise Unsupported(
                f"this network cannot be exported by torch.export: {type(error).__name__}",
                "Models of your own need operations that ONNX has",
            ) from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter, which comments on its own work."""
    logger = logging.getLogger(_EXPORTER)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
