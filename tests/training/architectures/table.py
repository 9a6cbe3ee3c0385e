"""All architectures of the test, by package and name, and what is known to fail. A row here enrols one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn

from training.architectures import other_models, text_models

Builder = Callable[[], tuple[nn.Module, dict[str, Any]]]

_FAMILIES: list[tuple[str, Callable[[str], Any], Any]] = [
    ("transformers", text_models.causal, text_models.CAUSAL),
    ("transformers", text_models.classifier, text_models.CLASSIFIERS),
    ("transformers", text_models.sequence_to_sequence, text_models.SEQUENCE_TO_SEQUENCE),
    ("transformers", other_models.seen_by_transformers, other_models.TRANSFORMERS),
    ("transformers", other_models.heard, other_models.HEARD),
    ("torchvision", other_models.seen_by_torchvision, other_models.TORCHVISION),
    ("timm", other_models.seen_by_timm, other_models.TIMM),
]
ARCHITECTURES: dict[str, Builder] = {
    f"{package} {kind}": partial(build, kind) for package, build, kinds in _FAMILIES for kind in kinds
} | {"transformers clip": other_models.clip}

# One of each idea: tied tables, rotations, norms of a class of their own, tokens and tables on the root, layer scales,
# experts, windows, convolutions by groups, batch norms with activations.
QUICK = [
    "transformers gpt2",
    "transformers gpt_neo",
    "transformers opt",
    "transformers bloom",
    "transformers llama",
    "transformers qwen3",
    "transformers mixtral",
    "transformers gemma2",
    "transformers mamba",
    "transformers bert",
    "transformers deberta",
    "transformers albert",
    "transformers t5",
    "transformers bart",
    "transformers swin",
    "transformers wav2vec2",
    "transformers clip",
    "torchvision vision_transformer",
    "torchvision maxvit",
    "torchvision densenet",
    "timm vit_tiny_patch16_224",
    "timm convnext_atto",
    "timm coat_tiny",
    "timm resnet18",
    "timm test_efficientnet",
    "timm beit_base_patch16_224",
]

COMPILED = [
    "transformers gpt2",
    "transformers llama",
    "transformers qwen3",
    "transformers mixtral",
    "transformers bert",
    "transformers t5",
    "transformers swin",
    "torchvision vision_transformer",
    "torchvision resnet18",
    "timm vit_tiny_patch16_224",
    "timm convnext_atto",
    "timm resnet18",
]

# What fails today, and why. These tests must fail: delete the row of one that does not any more.
EXPECTED_FAILURES: dict[str, str] = {}
