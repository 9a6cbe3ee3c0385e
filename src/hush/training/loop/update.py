"""The end of a step: noise on the clipped sum, once, and the optimizer's step.

On a GPU, for SGD and Adam(W) in single precision, both happen in one pass (`_noise_cuda.update`), which keeps the
optimizer's state where torch keeps it. Everything else gets the noisy gradient as ``param.grad``, and torch's own step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from hush.errors import Unsupported, check_positive
from hush.training.noise.gaussian import gaussian
from hush.training.noise.stream import NoiseStream

_UNFUSED = ("maximize", "amsgrad", "capturable", "differentiable")


@dataclass(frozen=True, slots=True)
class Ball:
    """Weights of norm at most ``radius``: projected to it after every step, they stay there (projected DP-GD).

    Projecting looks at the weights alone, which are private already. For convex losses it bounds how far noise can
    carry them (Bassily, Smith & Thakurta 2014).
    """

    radius: float

    def __post_init__(self) -> None:
        """Check the radius."""
        check_positive("radius", self.radius)

    def project(self, params: Iterable[Tensor]) -> None:
        """Bring all of these to the ball, together."""
        trained = [param for param in params if param.requires_grad]
        with torch.no_grad():
            norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(each.float()) for each in trained]))
            factor = (self.radius / norm.clamp_min(1e-30)).clamp(max=1.0)
            for each in trained:
                each.mul_(factor.to(each))


class Updater:
    """Takes the last part of every step."""

    def __init__(self, model: nn.Module, optimizers: Sequence[Optimizer]) -> None:
        """Take the model and who updates it."""
        self._params, self._optimizers = dict(model.named_parameters()), optimizers
        self._tables: dict[Any, Tensor] = {}
        self._counted: dict[int, tuple[int, int]] = {}
        self._noise: Tensor | None = None

    def __call__(
        self,
        key: bytes,
        step: int,
        totals: dict[str, Tensor],
        noise: float,
        divisor: float,
        stream: NoiseStream | None = None,
    ) -> None:
        """Add ``noise`` (its standard deviation) to the totals, divide, and step; a stream has noise of its own."""
        params = {name: param for name, param in self._params.items() if param.requires_grad}
        totals = {name: total.float() for name, total in totals.items()}
        for param in self._params.values():
            param.grad = None  # whatever is there is not private
        if stream is None and all(_can_fuse(optimizer) for optimizer in self._optimizers) and _are_plain(params):
            self._fused(key, step, params, totals, noise, divisor)
            return
        sizes = [param.numel() for param in params.values()]
        device = next(iter(params.values())).device
        if stream is None:
            self._noise = values = gaussian(key, step, sum(sizes), device, scale=noise / divisor, out=self._noise)
        else:
            values = stream(step).mul_(noise / divisor)
            if len(values) != sum(sizes):
                raise Unsupported("correlated noise for parameters that were frozen, or freed, half-way")
        for (name, param), part in zip(params.items(), torch.split(values, sizes), strict=True):
            noisy = part.to(param.device).view_as(param)
            if name in totals:
                noisy.add_(totals[name], alpha=1 / divisor)
            param.grad = noisy.to(param.dtype)
        for optimizer in self._optimizers:
            if hasattr(optimizer, "noise_stddev"):
                optimizer.noise_stddev = noise / divisor  # for those that correct what it does
            optimizer.step()

    def _fused(
        self,
        key: bytes,
        step: int,
        params: Mapping[str, Tensor],
        totals: dict[str, Tensor],
        noise: float,
        divisor: float,
    ) -> None:
        from hush.training.kernels.noise_cuda import TILE, key_words, update
        from hush.training.kernels.sums_cuda import table

        names = {id(param): name for name, param in params.items()}
        first_tile, at = {}, 0
        for name, param in params.items():
            first_tile[name], at = at, at - (-param.numel() // TILE)
        words = key_words(key, step)
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                own = {names[id(param)]: param for param in group["params"] if id(param) in names}
                for begin, some in self._by_age(optimizer, group, own):
                    device = next(iter(some.values())).device
                    sums = [
                        totals[name].contiguous() if name in totals else torch.zeros_like(param)
                        for name, param in some.items()
                    ]
                    addresses = tuple(
                        (param.data_ptr(), total.data_ptr(), *_states(optimizer, param), param.numel())
                        for param, total in zip(some.values(), sums, strict=True)
                    )
                    places = tuple((first_tile[name], param.numel()) for name, param in some.items())
                    settings, kind = self._settings(optimizer, group, some, begin=begin)
                    update(
                        self._tiles(places, TILE, device),
                        table(addresses, device),
                        words,
                        1 / divisor,
                        noise / divisor,
                        settings,
                        kind,
                    )
            optimizer._opt_called = True  # type: ignore[attr-defined]  # what learning-rate schedulers look for

    def _tiles(self, places: tuple[tuple[int, int], ...], tile: int, device: torch.device) -> Tensor:
        """Return, for each tile of some parameters: whose it is, where it begins, and its number in the noise."""
        key = places, device
        if key not in self._tables:
            tiles = [
                (param, start, first + start // tile)
                for param, (first, size) in enumerate(places)
                for start in range(0, size, tile)
            ]
            self._tables[key] = torch.tensor(tiles, dtype=torch.int64, device=device)
        return self._tables[key]

    def _by_age(
        self, optimizer: Optimizer, group: dict[str, Any], params: Mapping[str, Tensor]
    ) -> list[tuple[bool, dict[str, Tensor]]]:
        """Return parameters that begin, and those that have a state already; the new ones get one, as torch has it."""
        momentum = isinstance(optimizer, SGD) and group["momentum"] != 0
        new = {
            name: param
            for name, param in params.items()
            if not (state := optimizer.state[param]) or (momentum and state.get("momentum_buffer") is None)
        }
        old = {name: param for name, param in params.items() if name not in new}
        for param in new.values():
            state = optimizer.state[param]
            if isinstance(optimizer, SGD):
                state["momentum_buffer"] = torch.zeros_like(param) if group["momentum"] else None
            else:
                where = param.device if group.get("fused") else "cpu"
                state["step"] = torch.zeros((), dtype=torch.float32, device=where)
                state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(param), torch.zeros_like(param)
        if isinstance(optimizer, SGD):
            return [(begin, some) for begin, some in ((True, new), (False, old)) if some]
        ages: dict[int, dict[str, Tensor]] = {}
        for name, param in params.items():
            ages.setdefault(self._age(optimizer.state[param]["step"]), {})[name] = param
        return [(False, some) for some in ages.values()]

    def _age(self, count: Tensor) -> int:
        """Return how many steps a parameter has seen, without waiting for the device where that is known."""
        known = self._counted.get(id(count))
        if known is None or known[1] != count._version:
            return int(count)
        return known[0]

    def _settings(
        self, optimizer: Optimizer, group: dict[str, Any], params: Mapping[str, Tensor], *, begin: bool
    ) -> tuple[dict[str, float], str]:
        common = {"lr": float(group["lr"]), "decay": float(group["weight_decay"])}
        if isinstance(optimizer, SGD):
            own = {"first": group["momentum"], "second": group["dampening"], "nesterov": group["nesterov"]}
            return common | own | {"begin": begin}, "sgd"
        counts = [optimizer.state[param]["step"] for param in params.values()]
        age = self._age(counts[0]) + 1
        torch._foreach_add_(counts, 1)
        self._counted |= {id(count): (age, count._version) for count in counts}
        first, second = group["betas"]
        corrections = {"correct1": 1 - first**age, "correct2": math.sqrt(1 - second**age)}
        kind = "adamw" if group.get("decoupled_weight_decay", isinstance(optimizer, AdamW)) else "adam"
        return common | {"first": first, "second": second, "eps": group["eps"]} | corrections, kind


def _states(optimizer: Optimizer, param: Tensor) -> tuple[int, int]:
    state = optimizer.state[param]
    found = [state.get(key) for key in ("momentum_buffer", "exp_avg", "exp_avg_sq")]
    addresses = [each.data_ptr() for each in found if each is not None]
    return (*addresses, 0, 0)[:2]


def _can_fuse(optimizer: Optimizer) -> bool:
    replaced = optimizer.__dict__.get("step")  # by a learning-rate scheduler, which counts calls; or by something else
    if type(optimizer) not in (SGD, Adam, AdamW) or not (replaced is None or hasattr(replaced, "_wrapped_by_lr_sched")):
        return False
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        return False
    groups = optimizer.param_groups
    return not any(isinstance(group["lr"], Tensor) or any(group.get(key) for key in _UNFUSED) for group in groups)


def _are_plain(params: Mapping[str, Tensor]) -> bool:
    first = next(iter(params.values()))
    return all(
        param.is_cuda and param.device == first.device and param.dtype is torch.float32 and param.is_contiguous()
        for param in params.values()
    )
