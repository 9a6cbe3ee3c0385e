"""Models whose per-example gradients are easy to get wrong, with data for them. A row here enrols a layer in tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

BATCH = 5


class Tied(nn.Module):
    """An embedding whose weight is the output layer's, too."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 6, padding_idx=2)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.embedding(x)))


class FourTimes(nn.Module):
    """One layer, used four times."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(4):
            x = torch.tanh(self.layer(x))
        return x


class RawParameter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(6))
        self.layer = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x * self.scale)


class Temperature(nn.Module):
    """A parameter that is a single number, without a dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.temperature = nn.Parameter(torch.tensor(0.7))
        self.layer = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) * self.temperature


class Positions(nn.Module):
    """Positions are the same for all examples: their input has no batch."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions, self.head = nn.Embedding(11, 6), nn.Embedding(7, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.tokens(x) + self.positions(torch.arange(x.shape[1]).unsqueeze(0)))


class First(nn.Module):
    """The first of several outputs."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        return self.module(x)[0]


class Attention(nn.Module):
    def __init__(self, *, cross: bool = False, **settings: Any) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(6, 2, **({"batch_first": True} | settings))
        self.memory = nn.Linear(6, settings.get("kdim", 6)) if cross else None

    def forward(self, x: Tensor) -> Tensor:
        memory = x if self.memory is None else self.memory(x)
        if not self.attention.batch_first:
            x = memory = x.transpose(0, 1)
        output = self.attention(x, memory, memory)[0]
        return output if self.attention.batch_first else output.transpose(0, 1)


class Conv1D(nn.Module):
    """Hugging Face's Conv1D: a linear layer whose weight is stored transposed."""

    def __init__(self, outputs: int, inputs: int) -> None:
        super().__init__()
        self.nf = outputs
        self.weight, self.bias = nn.Parameter(torch.randn(inputs, outputs)), nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        size = (*x.shape[:-1], self.nf)
        return torch.addmm(self.bias, x.reshape(-1, x.shape[-1]), self.weight).view(size)


Conv1D.__module__ = "transformers.pytorch_utils"  # hush recognises it by name, and does not import the package


class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(6, 3), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.used(x)


def bias_only(model: nn.Module) -> nn.Module:
    for name, param in model.named_parameters():
        param.requires_grad_(name.endswith("bias"))
    return model


def real(*shape: int) -> Tensor:
    return torch.randn(BATCH, *shape)


def tokens(*shape: int) -> Tensor:
    return torch.randint(0, 11, (BATCH, *shape))


def images(channels: int) -> Tensor:
    return real(channels, 9, 8)


MODELS: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "linear": lambda: (nn.Linear(6, 3), real(6)),
    "linear-3d": lambda: (nn.Linear(6, 3), real(40, 6)),
    "linear-4d": lambda: (nn.Linear(6, 3), real(2, 3, 6)),
    "linear-gram": lambda: (nn.Linear(60, 30), real(4, 60)),
    "temperature": lambda: (Temperature(), real(6)),
    "mlp": lambda: (nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), real(6)),
    "bias-only": lambda: (bias_only(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))), real(6)),
    "conv1d": lambda: (nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2), real(4, 12)),
    "conv2d": lambda: (
        nn.Sequential(
            nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2), nn.Conv2d(6, 2, 3, padding="same", dilation=2)
        ),
        images(4),
    ),
    "conv2d-uneven": lambda: (nn.Conv2d(3, 4, (2, 3), stride=(1, 2), padding=(0, 1), dilation=(2, 1)), images(3)),
    "conv3d": lambda: (nn.Conv3d(2, 4, 2, groups=2, stride=(1, 2, 1)), real(2, 4, 5, 4)),
    "conv-reflect": lambda: (nn.Conv2d(3, 4, 3, padding=2, padding_mode="reflect"), images(3)),
    "conv-circular": lambda: (nn.Conv1d(3, 4, 3, padding=1, padding_mode="circular"), real(3, 6)),
    "conv-replicate": lambda: (nn.Conv2d(3, 4, 3, padding=1, padding_mode="replicate"), images(3)),
    "embedding": lambda: (nn.Sequential(nn.Embedding(11, 6, padding_idx=1), nn.Linear(6, 2)), tokens(7)),
    "embedding-bag": lambda: (nn.Sequential(nn.EmbeddingBag(11, 6, padding_idx=3), nn.Linear(6, 2)), tokens(7)),
    "embedding-bag-sum": lambda: (nn.Sequential(nn.EmbeddingBag(11, 6, mode="sum"), nn.Linear(6, 2)), tokens(7)),
    "layer-norm": lambda: (nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 2)), real(4, 6)),
    "layer-norm-2d": lambda: (nn.LayerNorm((4, 6)), real(3, 4, 6)),
    "rms-norm": lambda: (nn.RMSNorm(6), real(4, 6)),
    "group-norm": lambda: (nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4)), images(3)),
    "instance-norm": lambda: (nn.Sequential(nn.InstanceNorm2d(3, affine=True), nn.Conv2d(3, 2, 2)), images(3)),
    "tied": lambda: (Tied(), tokens(5)),
    "four-times": lambda: (FourTimes(), real(6)),
    "raw-parameter": lambda: (RawParameter(), real(6)),
    "positions": lambda: (Positions(), tokens(7)),
    "lstm": lambda: (First(nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True)), real(6, 4)),
    "gru": lambda: (First(nn.GRU(4, 5, batch_first=True)), real(6, 4)),
    "rnn": lambda: (First(nn.RNN(4, 5, 2, batch_first=True, bias=False)), real(6, 4)),
    "attention": lambda: (Attention(), real(4, 6)),
    "attention-cross": lambda: (Attention(cross=True), real(4, 6)),
    "attention-own-weights": lambda: (Attention(cross=True, kdim=5, vdim=5), real(4, 6)),
    "attention-batch-second": lambda: (Attention(batch_first=False), real(4, 6)),
    "transformer": lambda: (nn.TransformerEncoderLayer(6, 2, 10, dropout=0.0, batch_first=True), real(4, 6)),
    "hugging-face-conv1d": lambda: (nn.Sequential(Conv1D(8, 6), nn.GELU(), Conv1D(3, 8)), real(4, 6)),
    "prelu": lambda: (nn.Sequential(nn.Linear(6, 4), nn.PReLU()), real(6)),
    "transposed-conv": lambda: (nn.ConvTranspose2d(2, 3, 2), images(2)),
    "bilinear-upsampling": lambda: (nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(2, 3, 2)), images(2)),
    "unused": lambda: (Unused(), real(6)),
}


def losses(model: nn.Module, x: Tensor) -> Tensor:
    """A loss for each example that weighs every output differently, so that no gradient cancels out."""
    outputs = model(x).flatten(1)
    weights = torch.sin(torch.arange(outputs.shape[1]).to(outputs) + 1)
    return (outputs * weights).sum(1) + 0.1 * outputs.square().sum(1)
