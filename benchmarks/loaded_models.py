"""Models as people load them, from transformers and timm, with random weights: `training_gpu.py` times them.

timm imports torchvision. Neither belongs on the path of an environment whose torchvision was made for another torch:
`make` installs both in .venv/vision, and tests/training/architectures/packages.py imports them from there.
"""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from torch import Tensor, nn

ROOT = Path(__file__).resolve().parents[1]


class Logits(nn.Module):
    """A language model of transformers that returns its logits alone."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.model(input_ids=tokens, use_cache=False).logits
        return logits


def gpt2(**sizes: int) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    return Logits(GPT2LMHeadModel(GPT2Config(**sizes)))


def llama(width: int, layers: int, vocabulary: int) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    return Logits(LlamaForCausalLM(LlamaConfig(**_sizes(width, layers, vocabulary))))


def qwen3(width: int, layers: int, vocabulary: int) -> nn.Module:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    sizes = _sizes(width, layers, vocabulary)
    return Logits(Qwen3ForCausalLM(Qwen3Config(head_dim=width // sizes["num_attention_heads"], **sizes)))


def vision(name: str, **options: Any) -> nn.Module:
    """Return a model of timm."""
    spec = spec_from_file_location("packages", ROOT / "tests" / "training" / "architectures" / "packages.py")
    assert spec is not None
    assert spec.loader is not None
    packages = module_from_spec(spec)
    spec.loader.exec_module(packages)
    model: nn.Module = packages.package("timm").create_model(name, **options)
    return model


def _sizes(width: int, layers: int, vocabulary: int) -> dict[str, int]:
    heads = max(2, width // 64)
    return {
        "hidden_size": width,
        "intermediate_size": 3 * width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": heads // 2,
        "vocab_size": vocabulary,
    }
