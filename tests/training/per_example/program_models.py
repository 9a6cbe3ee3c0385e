"""Models that use parameters outside of the modules that have rules, as people write them. A row here enrols one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.checkpoint import checkpoint

BATCH = 4
WIDTH = 6


class Block(nn.Module):
    """A model with a name for each part of what it is given."""

    def __init__(self, forward: Callable[..., Tensor], **parts: Any) -> None:
        super().__init__()
        self.run = forward
        for name, part in parts.items():
            setattr(self, name, nn.Parameter(part) if isinstance(part, Tensor) else part)

    def forward(self, x: Tensor, *others: Tensor) -> Tensor:
        return self.run(self, x, *others)


def rms(m: Any, x: Tensor) -> Tensor:
    h = x.float() if x.dtype is not torch.float64 else x
    return m.head(m.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype))


def vit(m: Any, x: Tensor) -> Tensor:
    x = m.patch(x).flatten(2).transpose(1, 2)
    x = torch.cat([m.cls.expand(x.shape[0], -1, -1), x], 1) + m.pos
    size, length, width = x.shape
    q, k, v = m.qkv(x).reshape(size, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4).unbind(0)
    x = x + F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(size, length, width) * m.gamma
    return m.head(m.norm(x)[:, 0])


def added(m: Any, x: Tensor) -> Tensor:
    """Products to which the batch is added, patches of pictures, and constants that only take its type."""
    scores = torch.baddbmm(x[:, :1, :5], batch1=m.layer(x), batch2=x.transpose(1, 2), beta=0.5, alpha=0.3)
    mask = x.new_zeros(5, 5)
    mask[0, 1] = 1.0
    scores = scores.type_as(x[0]) + mask * torch.arange(5).type_as(x)
    return m.head(m.weight * F.unfold(scores[:, None], kernel_size=2).transpose(1, 2))


def positions(m: Any, x: Tensor) -> Tensor:
    y = m.tokens(x)
    return m.head(y + m.pos(torch.arange(x.shape[1])).unsqueeze(0))


def positions_expanded(m: Any, x: Tensor) -> Tensor:
    ids = torch.arange(x.shape[1]).unsqueeze(0).expand(x.shape)
    return m.head(m.norm(m.tokens(x) + m.pos(ids)))


def positions_repeated(m: Any, x: Tensor) -> Tensor:
    return m.head(m.tokens(x) + m.table.unsqueeze(0).repeat(len(x), 1, 1))


def prompt(m: Any, x: Tensor) -> Tensor:
    y = torch.cat([m.prompt.unsqueeze(0).expand(len(x), -1, -1), m.tokens(x)], 1)
    return m.head(torch.tanh(m.layer(y)))


def latents(m: Any, x: Tensor) -> Tensor:
    """Learned queries, projected before they meet the batch."""
    q = m.query(m.norm(m.latents.expand(len(x), -1, -1)))
    return m.head(torch.softmax(q @ m.key(x).mT, -1) @ x)


def latents_shared(m: Any, x: Tensor) -> Tensor:
    """The same without a row for each example."""
    q = m.query(m.norm(m.latents))
    return m.head(torch.softmax(q @ m.key(x).mT, -1) @ x)


def dora(m: Any, x: Tensor) -> Tensor:
    weight = m.layer.weight + m.up @ m.down
    scale = (m.magnitude / weight.norm(dim=1).detach()).view(1, -1)
    return (scale - 1) * F.linear(x, m.layer.weight) + scale * ((x @ m.down.t()) @ m.up.t()) + m.layer(x)


def bias_of_positions(m: Any, x: Tensor) -> Tensor:
    """T5: a table of distances, added to the scores of all examples."""
    length = x.shape[1]
    distance = (torch.arange(length)[None] - torch.arange(length)[:, None]).clamp(-2, 2) + 2
    bias = m.table(distance).permute(2, 0, 1).unsqueeze(0)
    q = m.layer(x).view(len(x), length, 2, -1).transpose(1, 2)
    return torch.softmax(q @ q.mT + bias, -1) @ q


def windows(m: Any, x: Tensor) -> Tensor:
    """Swin: windows become rows, and a table is indexed by the places within a window."""
    size, side, _, width = x.shape
    rows = x.view(size, side // 2, 2, side // 2, 2, width).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, width)
    index = (torch.arange(4)[:, None] + torch.arange(4)[None]) % 5
    bias = m.table[index.view(-1)].view(4, 4, -1).permute(2, 0, 1).contiguous()
    qkv = m.qkv(rows).reshape(len(rows), 4, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
    scores = qkv[0] @ qkv[1].transpose(-2, -1) + bias.unsqueeze(0)
    rows = (scores.softmax(-1) @ qkv[2]).transpose(1, 2).reshape(len(rows), 4, width) * m.scale
    back = rows.view(size, side // 2, side // 2, 2, 2, width).permute(0, 1, 3, 2, 4, 5).reshape(size, side, side, width)
    return m.norm(torch.roll(back, (1, 1), (1, 2)))


def experts(m: Any, x: Tensor) -> Tensor:
    """Mixtral: tokens of all examples, sorted by expert."""
    rows = x.reshape(-1, x.shape[-1])
    weights, chosen = torch.topk(torch.softmax(m.gate(rows), -1), 2)
    weights = weights / weights.sum(-1, keepdim=True)
    result = torch.zeros_like(rows)
    mask = F.one_hot(chosen, 3).permute(2, 1, 0)
    for expert in range(3):
        place, token = torch.where(mask[expert])
        y = F.linear(torch.tanh(F.linear(rows[token], m.first[expert])), m.second[expert])
        result.index_add_(0, token, y * weights[token, place, None])
    return result.view_as(x)


def dense_experts(m: Any, x: Tensor) -> Tensor:
    """Llama 4: every token through every expert, with one product of matrices for all experts."""
    rows = x.reshape(-1, x.shape[-1]).repeat(3, 1).view(3, -1, x.shape[-1])
    y = torch.bmm(torch.tanh(torch.bmm(rows, m.first)), m.second) + m.offset[:, None]
    return y.sum(0).view(x.shape)


def cells(m: Any, x: Tensor) -> Tensor:
    hidden, cell = torch.zeros(len(x), 5, dtype=x.dtype), torch.zeros(len(x), 5, dtype=x.dtype)
    state = m.start.expand(len(x), -1)
    for step in range(x.shape[1]):
        hidden, cell = m.lstm(x[:, step], (hidden, cell))
        state = m.gru(hidden, state)
    return state


def lists(m: Any, x: Tensor) -> Tensor:
    for weight in m.weights:
        x = torch.tanh(x @ weight)
    return x * m.named["scale"] + m.named["shift"].exp()


def checkpointed(m: Any, x: Tensor) -> Tensor:
    def inner(y: Tensor) -> Tensor:
        return torch.tanh(m.layer(y) * m.scale) @ m.mix

    y = x
    for _ in range(2):
        y = checkpoint(inner, y, use_reentrant=False)
    return m.head(y)


def disentangled(m: Any, x: Tensor) -> Tensor:
    """DeBERTa: positions are projected by the same layers as the content, and gathered by distance."""
    length = x.shape[1]
    positions = m.norm(m.rel)
    q, k = m.query(x), m.key(x)
    pos_key, pos_query = m.key(positions).unsqueeze(0), m.query(positions).unsqueeze(0)
    index = (torch.arange(length)[:, None] - torch.arange(length)[None] + length).clamp(0, len(m.rel) - 1)
    index = index.unsqueeze(0).expand(len(x), -1, -1)
    scores = q @ k.mT + torch.gather(q @ pos_key.mT, 2, index)
    scores = scores + torch.gather(k @ pos_query.mT, 2, index).mT
    return m.head(torch.softmax(scores, -1) @ x)


def masked(m: Any, x: Tensor, mask: Tensor) -> Tensor:
    """A mask [T, T] of all examples, where T may be B."""
    y = m.layer(x)
    return m.weight * (torch.softmax(y @ x.mT + mask, -1) @ x)


def chain(m: Any, x: Tensor) -> Tensor:
    weight = F.softplus(m.a).mul(2).t().reshape(2, 3, 6).transpose(0, 1).reshape(6, 6)
    return F.linear(x, weight, m.b * 3) * m.temperature + torch.einsum("btd,de->bte", x, m.a)


def written(m: Any, x: Tensor) -> Tensor:
    y = torch.zeros(len(x), x.shape[1] + 1, x.shape[2], dtype=x.dtype)
    y[:, 1:] = x
    y[:, 0] = m.first
    y += m.shift
    return m.head(y.mul_(m.scale))


def stacked(m: Any, x: Tensor) -> Tensor:
    """Two views of every example in one batch, as in siamese networks."""
    y = torch.tanh(torch.cat([x, x.flip(1)], 0) @ m.mix) * m.scale
    first, second = y.chunk(2)
    return m.head(torch.stack([first, second], 1).flatten(1, 2) * m.shift)


def seq_first(m: Any, x: Tensor) -> Tensor:
    y = x.transpose(0, 1) + m.pos
    return m.layer(torch.tanh(m.head(y)) * m.scale).transpose(0, 1)


def norms(m: Any, x: Tensor) -> Tensor:
    y = F.layer_norm(x, (WIDTH,), m.a, m.b)
    y = F.group_norm(y.transpose(1, 2), 2, m.a * 2, m.b).transpose(1, 2)
    y = F.instance_norm(y.mT, weight=m.a, bias=m.b).mT
    y = F.batch_norm(y.mT, m.mean, m.var, m.a, m.b).mT
    return F.prelu(F.rms_norm(y, (WIDTH,), m.a).mT, m.slope).mT


def factors(m: Any, x: Tensor) -> Tensor:
    """Parameters on the left, vectors, and pictures."""
    y = m.left @ x + (x @ m.vector).unsqueeze(-1)
    y = torch.addmm(m.shift, y.reshape(-1, WIDTH), m.right).view(x.shape)
    y = F.conv1d(y.mT, m.kernel, m.shift, padding=1) + F.conv_transpose1d(y.mT, m.kernel.mT.mT, padding=1)
    return F.bilinear(y.mT, y.mT, m.pairs)


def lookup(m: Any, x: Tensor) -> Tensor:
    y = m.table[x] + m.scalars[x].unsqueeze(-1) + torch.index_select(m.table, 0, x.flatten()).view(*x.shape, -1)
    return F.linear(y, m.table)


def masked_tokens(m: Any, x: Tensor) -> Tensor:
    mask = (x.sum(-1, keepdim=True) > 0).to(x)
    y = x * (1 - mask) + m.token * mask
    return m.head(torch.where(mask.bool(), m.other, y))


def heads(m: Any, x: Tensor) -> Tensor:
    size, length, _ = x.shape
    y = x.view(size, length, 2, 3).transpose(1, 2).reshape(size * 2, length, 3)
    y = F.linear(y, m.small) * m.gain
    y = y.view(size, 2, length, 3) + torch.matmul(x.view(size, length, 2, 3).transpose(1, 2), m.by_head)
    return y * m.bias[None, :, None, None]


class Twice(nn.Module):
    """One module under two names, next to a parameter of the model's own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.second = self.first
        self.scale = nn.Parameter(torch.randn(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(x)) * self.scale)


def linear(inputs: int = WIDTH, outputs: int = WIDTH, **settings: Any) -> nn.Linear:
    return nn.Linear(inputs, outputs, **settings)


def rand(*shape: int) -> Tensor:
    return torch.randn(*shape) * 0.5


def real(length: int = 5) -> Tensor:
    return torch.randn(BATCH, length, WIDTH)


def tokens(length: int = 5) -> Tensor:
    return torch.randint(0, 11, (BATCH, length))


def swin(side: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    parts = {"qkv": linear(WIDTH, 3 * WIDTH), "table": rand(5, 2), "scale": rand(WIDTH), "norm": nn.LayerNorm(WIDTH)}
    return Block(windows, **parts), (torch.randn(BATCH, side, side, WIDTH),)


def normed() -> Block:
    block = Block(norms, a=rand(WIDTH), b=rand(WIDTH), slope=rand(WIDTH))
    block.register_buffer("mean", torch.randn(WIDTH))
    block.register_buffer("var", torch.rand(WIDTH) + 0.5)
    return block


def embedded(forward: Callable[..., Tensor], length: int, **parts: Any) -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Block(forward, tokens=nn.Embedding(11, WIDTH), head=linear(WIDTH, 3), **parts), (tokens(length),)


def attending(forward: Callable[..., Tensor]) -> tuple[nn.Module, tuple[Tensor, ...]]:
    parts = {"query": linear(), "key": linear(), "norm": nn.LayerNorm(WIDTH), "head": linear(WIDTH, 2)}
    return Block(forward, latents=rand(1, 3, WIDTH), **parts), (real(),)


PROGRAMS: dict[str, Callable[[], tuple[nn.Module, tuple[Tensor, ...]]]] = {
    "rms-norm": lambda: (Block(rms, weight=torch.rand(WIDTH) + 0.5, head=linear(WIDTH, 3)), (real(),)),
    "vit": lambda: (
        Block(
            vit, patch=nn.Conv2d(3, WIDTH, 4, 4), cls=rand(1, 1, WIDTH), pos=rand(1, 5, WIDTH), gamma=rand(WIDTH),
            qkv=linear(WIDTH, 18), norm=nn.LayerNorm(WIDTH), head=linear(WIDTH, 3),
        ),
        (torch.randn(BATCH, 3, 8, 8),),
    ),
    "added": lambda: (Block(added, layer=linear(), head=linear(4, 2), weight=torch.rand(1)), (real(),)),
    "positions": lambda: embedded(positions, 5, pos=nn.Embedding(7, WIDTH)),
    "positions-as-long-as-the-batch": lambda: embedded(positions, BATCH, pos=nn.Embedding(7, WIDTH)),
    "positions-expanded": lambda: embedded(
        positions_expanded, BATCH, pos=nn.Embedding(7, WIDTH), norm=nn.LayerNorm(WIDTH)
    ),
    "positions-repeated": lambda: embedded(positions_repeated, 5, table=rand(5, WIDTH)),
    "prompt": lambda: embedded(prompt, 5, prompt=rand(3, WIDTH), layer=linear()),
    "prompt-as-long-as-the-batch": lambda: embedded(prompt, BATCH, prompt=rand(BATCH, WIDTH), layer=linear()),
    "latents": lambda: attending(latents),
    "latents-shared": lambda: attending(latents_shared),
    "dora": lambda: (
        Block(dora, layer=linear(), up=rand(WIDTH, 2), down=rand(2, WIDTH), magnitude=rand(WIDTH)), (real(),)
    ),
    "bias-of-positions": lambda: (Block(bias_of_positions, layer=linear(), table=nn.Embedding(5, 2)), (real(BATCH),)),
    "windows": lambda: swin(4),
    "one-window": lambda: swin(2),
    "experts": lambda: (
        Block(experts, gate=linear(WIDTH, 3), first=rand(3, 8, WIDTH), second=rand(3, WIDTH, 8)), (real(),)
    ),
    "dense-experts": lambda: (
        Block(dense_experts, first=rand(3, WIDTH, 8), second=rand(3, 8, WIDTH), offset=rand(3, WIDTH)), (real(),)
    ),
    "cells": lambda: (
        Block(cells, lstm=nn.LSTMCell(WIDTH, 5), gru=nn.GRUCell(5, 5), start=rand(1, 5)), (real(3),)
    ),
    "lists": lambda: (
        Block(
            lists,
            weights=nn.ParameterList([rand(WIDTH, WIDTH), rand(WIDTH, WIDTH)]),
            named=nn.ParameterDict({"scale": rand(WIDTH), "shift": torch.tensor(0.3)}),
        ),
        (real(),),
    ),
    "checkpointed": lambda: (
        Block(checkpointed, layer=linear(), scale=rand(WIDTH), mix=rand(WIDTH, WIDTH), head=linear()), (real(),)
    ),
    "disentangled": lambda: (
        Block(
            disentangled, query=linear(), key=linear(), norm=nn.LayerNorm(WIDTH), rel=rand(8, WIDTH), head=linear()
        ),
        (real(BATCH),),
    ),
    "mask-of-all": lambda: (
        Block(masked, layer=linear(), weight=rand(WIDTH)), (real(BATCH), torch.randn(BATCH, BATCH))
    ),
    "chain": lambda: (Block(chain, a=rand(6, 6), b=rand(6), temperature=torch.tensor(0.7)), (real(),)),
    "written": lambda: (
        Block(written, first=rand(WIDTH), shift=rand(WIDTH), scale=torch.tensor(0.5), head=linear()), (real(),)
    ),
    "stacked": lambda: (
        Block(stacked, mix=rand(WIDTH, WIDTH), scale=rand(WIDTH), shift=rand(1, 1, WIDTH), head=linear()), (real(),)
    ),
    "seq-first": lambda: (
        Block(seq_first, pos=rand(BATCH, 1, WIDTH), layer=linear(), head=linear(), scale=rand(WIDTH)), (real(BATCH),)
    ),
    "norms": lambda: (normed(), (real(),)),
    "factors": lambda: (
        Block(
            factors, left=rand(5, 5), vector=rand(WIDTH), shift=rand(WIDTH), right=rand(WIDTH, WIDTH),
            kernel=rand(WIDTH, WIDTH, 3), pairs=rand(2, WIDTH, WIDTH),
        ),
        (real(),),
    ),
    "lookup": lambda: (Block(lookup, table=rand(11, WIDTH), scalars=rand(11)), (tokens(),)),
    "masked-tokens": lambda: (
        Block(masked_tokens, token=rand(1, 1, WIDTH), other=rand(WIDTH), head=linear()), (real(),)
    ),
    "heads": lambda: (
        Block(heads, small=rand(3, 3), gain=rand(3), by_head=rand(2, 3, 3), bias=rand(2)), (real(),)
    ),
    "twice": lambda: (Twice(), (real(),)),
    "weight-norm": lambda: (nn.Sequential(weight_norm(nn.Linear(WIDTH, 4)), nn.Tanh(), linear(4, 2)), (real(),)),
    "weight-norm-convolution": lambda: (weight_norm(nn.Conv1d(5, 4, 3)), (real(),)),
}  # fmt: skip


def losses(model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
    """A loss for each example that weighs every output differently."""
    outputs = model(*batch).flatten(1)
    weights = torch.sin(torch.arange(outputs.shape[1]).to(outputs) + 1)
    return (outputs * weights).sum(1) + 0.1 * outputs.square().sum(1)
