"""The end of a step: noise is added once to the clipped sum, then come the division and the optimizers' steps.

The sum is rounded to a public grid and gets integer noise (`hush.training.noise.noise_grid`); all that follows is a
function of these integers. On a GPU, for SGD, Adam and AdamW in single precision, both meet in the optimizer's step,
one pass for all parameters (`hush.training.kernels.noise_cuda.update`). It keeps the optimizer's state where torch
keeps it, so checkpoints and learning-rate schedulers work as usual. Everything else gets the noisy gradient as
``param.grad``, and torch's own step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from hush.errors import Unsupported, check_positive
from hush.training.noise.integer_gaussian import integer_gaussian
from hush.training.noise.noise_grid import NoiseGrid
from hush.training.noise.stream import NoiseStream
from hush.training.watch.outside import has_hooks, step_with_hooks

_UNFUSED_OPTIONS = ("maximize", "amsgrad", "capturable", "differentiable")


@dataclass(frozen=True, slots=True)
class Ball:
    """A ball around zero: after every step, the weights are projected onto it (projected DP gradient descent).

    The projection uses only the weights, which are already private, so it is post-processing. For convex losses it
    bounds how far the noise can carry the weights.

    Attributes:
        radius: The largest norm of all trained parameters together.

    References:
        Bassily, Smith & Thakurta 2014, "Private Empirical Risk Minimization".

    >>> weight = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    >>> Ball(radius=1.0).project([weight])
    >>> [round(value, 3) for value in weight.tolist()]
    [0.6, 0.8]
    """

    radius: float

    def __post_init__(self) -> None:
        """Check the radius."""
        check_positive("radius", self.radius)

    def project(self, params: Iterable[Tensor]) -> None:
        """Scale the trained parameters, in place, to a joint norm of at most the radius."""
        trained = [param for param in params if param.requires_grad]
        with torch.no_grad():
            # The norm of the norms is the norm of all entries.
            norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(param.float()) for param in trained]))
            factor = (self.radius / norm.clamp_min(1e-30)).clamp(max=1.0)
            for param in trained:
                param.mul_(factor.to(param))


class Updater:
    """Turns the clipped sum of a step into an update of the model."""

    def __init__(self, model: nn.Module, optimizers: Sequence[Optimizer]) -> None:
        """Take the model and the optimizers that update it."""
        self._params, self._optimizers = dict(model.named_parameters()), optimizers
        self._tile_tables: dict[Any, Tensor] = {}
        self._known_ages: dict[int, tuple[int, int]] = {}  # by id of Adam's step count: its value, and its version
        self._noise: Tensor | None = None  # memory for the noise, reused in every step
        self._side: _SideStream | None = None

    def __call__(
        self,
        key: bytes,
        step: int,
        totals: dict[str, Tensor],
        grid: NoiseGrid,
        divisor: float,
        stream: NoiseStream | None = None,
    ) -> None:
        """Add noise to the clipped sums, divide them, and update the model.

        Args:
            key: The key of the noise.
            step: The number of the step.
            totals: The clipped sums, by parameter; a missing one is zero.
            grid: The grid of the noisy sum, and the noise on it.
            divisor: The expected number of contributions.
            stream: Correlated noise on the same grid, to use instead of independent noise.
        """
        params = {name: param for name, param in self._params.items() if param.requires_grad}
        for param in self._params.values():
            param.grad = None  # a gradient from outside the run has no noise, and must not reach an optimizer
        noise = self._drawn(key, step, params, grid, stream)
        try:
            self._apply(params, totals, noise, grid, divisor)
        finally:  # also if an optimizer fails: what was started before still reads the noise
            if self._side is not None:
                self._side.release()

    def _apply(
        self,
        params: Mapping[str, Tensor],
        totals: dict[str, Tensor],
        noise: dict[str, Tensor],
        grid: NoiseGrid,
        divisor: float,
    ) -> None:
        """Update the model with noisy gradients."""
        if all(_can_fuse(optimizer) for optimizer in self._optimizers) and _are_plain(params):
            self._step_fused(params, totals, noise, grid, divisor)
            return
        # Every trained parameter gets noise, even if no example has a gradient for it.
        for name, param in params.items():
            values = totals[name].reshape(-1) if name in totals else None
            noisy = torch.empty(param.numel(), dtype=torch.float32, device=param.device)
            grid.noisy(values, noise[name].to(param.device), divisor, noisy)
            param.grad = noisy.view(param.shape).to(param.dtype)
        for optimizer in self._optimizers:
            if hasattr(optimizer, "noise_stddev"):
                # For optimizers that correct for the noise, such as AdamBC.
                optimizer.noise_stddev = grid.stddev * grid.spacing / divisor
            step_with_hooks(optimizer)

    def _drawn(
        self, key: bytes, step: int, params: Mapping[str, Tensor], grid: NoiseGrid, stream: NoiseStream | None
    ) -> dict[str, Tensor]:
        """Return the integer noise of a step, by parameter."""
        sizes = [param.numel() for param in params.values()]
        if stream is None:
            device = next(iter(params.values())).device
            draw = partial(integer_gaussian, key, step, sum(sizes), stddev=grid.stddev, device=device)
            if device.type == "cuda":
                self._side = self._side or _SideStream(device)
                drawn = self._side.run(draw)
            else:
                self._noise = drawn = draw(out=self._noise)
        else:
            drawn = stream(step)
            if len(drawn) != sum(sizes):
                raise Unsupported("correlated noise for parameters that were frozen or unfrozen during the run")
        return dict(zip(params, torch.split(drawn, sizes), strict=True))

    def _step_fused(
        self,
        params: Mapping[str, Tensor],
        totals: dict[str, Tensor],
        noise: dict[str, Tensor],
        grid: NoiseGrid,
        divisor: float,
    ) -> None:
        """Join sums and noise, and take the optimizers' steps, in one pass over the parameters, on a GPU."""
        from hush.training.kernels.noise_cuda import UPDATE_TILE, update
        from hush.training.kernels.sums_cuda import table

        names = {id(param): name for name, param in params.items()}
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                in_group = {names[id(param)]: param for param in group["params"] if id(param) in names}
                for begin, same_age in self._by_age(optimizer, group, in_group):
                    device = next(iter(same_age.values())).device
                    # Kept alive until the kernel has been started. Correlated noise comes in double precision.
                    double = any(totals[name].dtype is torch.float64 for name in same_age if name in totals)
                    dtype = torch.float64 if double else torch.float32
                    sums = [
                        totals[name].to(dtype).contiguous() if name in totals else torch.zeros_like(param, dtype=dtype)
                        for name, param in same_age.items()
                    ]
                    integers = [noise[name].long() for name in same_age]
                    addresses = tuple(
                        (
                            param.data_ptr(),
                            total.data_ptr(),
                            drawn.data_ptr(),
                            *_state_addresses(optimizer, param),
                            param.numel(),
                        )
                        for param, total, drawn in zip(same_age.values(), sums, integers, strict=True)
                    )
                    sizes = tuple(param.numel() for param in same_age.values())
                    settings, kind = self._kernel_settings(optimizer, group, same_age, begin=begin)
                    update(
                        self._tiles(sizes, UPDATE_TILE, device),
                        table(addresses, device),
                        grid.spacing,
                        divisor,
                        settings,
                        kind,
                        double=double,
                    )
            optimizer._opt_called = True  # type: ignore[attr-defined]  # learning-rate schedulers look for it

    def _tiles(self, sizes: tuple[int, ...], tile: int, device: torch.device) -> Tensor:
        """Return the kernel's table: for each tile, its parameter's number, and its start.

        Args:
            sizes: The size of each parameter.
            tile: The number of entries in a tile.
            device: Where the table is needed.
        """
        key = sizes, device
        if key not in self._tile_tables:
            tiles = [(param, start) for param, size in enumerate(sizes) for start in range(0, size, tile)]
            self._tile_tables[key] = torch.tensor(tiles, dtype=torch.int64, device=device)
        return self._tile_tables[key]

    def _by_age(
        self, optimizer: Optimizer, group: dict[str, Any], params: Mapping[str, Tensor]
    ) -> list[tuple[bool, dict[str, Tensor]]]:
        """Return parameters of equal age together, with whether they are new, and create missing optimizer states.

        Parameters that were unfrozen during a run are younger than the others, and Adam's bias correction depends on
        the age. States are created as torch does it.
        """
        uses_momentum = isinstance(optimizer, SGD) and group["momentum"] != 0
        new = {
            name: param
            for name, param in params.items()
            if not (state := optimizer.state[param]) or (uses_momentum and state.get("momentum_buffer") is None)
        }
        old = {name: param for name, param in params.items() if name not in new}
        for param in new.values():
            state = optimizer.state[param]
            if isinstance(optimizer, SGD):
                state["momentum_buffer"] = torch.zeros_like(param) if group["momentum"] else None
            else:
                count_device = param.device if group.get("fused") else "cpu"
                state["step"] = torch.zeros((), dtype=torch.float32, device=count_device)
                state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(param), torch.zeros_like(param)
        if isinstance(optimizer, SGD):
            return [(begin, members) for begin, members in ((True, new), (False, old)) if members]
        by_age: dict[int, dict[str, Tensor]] = {}
        for name, param in params.items():
            by_age.setdefault(self._age(optimizer.state[param]["step"]), {})[name] = param
        return [(False, members) for members in by_age.values()]

    def _age(self, count: Tensor) -> int:
        """Return how many steps a parameter has seen, without waiting for the device if the count is known."""
        known = self._known_ages.get(id(count))
        if known is None or known[1] != count._version:
            return int(count)
        return known[0]

    def _kernel_settings(
        self, optimizer: Optimizer, group: dict[str, Any], params: Mapping[str, Tensor], *, begin: bool
    ) -> tuple[dict[str, float], str]:
        """Return the numbers of a parameter group for the kernel, and the kind of the optimizer."""
        common = {"lr": float(group["lr"]), "decay": float(group["weight_decay"])}
        if isinstance(optimizer, SGD):
            momentum = {"first": group["momentum"], "second": group["dampening"], "nesterov": group["nesterov"]}
            return common | momentum | {"begin": begin}, "sgd"
        counts = [optimizer.state[param]["step"] for param in params.values()]
        age = self._age(counts[0]) + 1
        torch._foreach_add_(counts, 1)
        self._known_ages |= {id(count): (age, count._version) for count in counts}
        first_beta, second_beta = group["betas"]
        corrections = {"correct1": 1 - first_beta**age, "correct2": math.sqrt(1 - second_beta**age)}
        kind = "adamw" if group.get("decoupled_weight_decay", isinstance(optimizer, AdamW)) else "adam"
        return common | {"first": first_beta, "second": second_beta, "eps": group["eps"]} | corrections, kind


class _SideStream:
    """A stream of a GPU on which noise is drawn beside the backward pass.

    Drawing waits for the device twice. On the stream of the model, that would leave the device idle until the next
    step's kernels have been started.
    """

    def __init__(self, device: torch.device) -> None:
        """Create the stream."""
        self._device, self._stream = device, torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._last_use: torch.cuda.Event | None = None

    def run(self, draw: Callable[[], Tensor]) -> Tensor:
        """Return what ``draw`` computes, for use on the current stream until `release`."""
        if self._last_use is not None:
            # The memory of the last step's noise is used again, once the optimizer has read it.
            self._stream.wait_event(self._last_use)
        with torch.cuda.stream(self._stream):
            drawn = draw()
        torch.cuda.current_stream(self._device).wait_stream(self._stream)
        return drawn

    def release(self) -> None:
        """State that everything which reads what was drawn has been started."""
        self._last_use = torch.cuda.current_stream(self._device).record_event()


def _state_addresses(optimizer: Optimizer, param: Tensor) -> tuple[int, int]:
    """Return the addresses of a parameter's two optimizer states; 0 for a missing one."""
    state = optimizer.state[param]
    states = [state.get(key) for key in ("momentum_buffer", "exp_avg", "exp_avg_sq")]
    addresses = [tensor.data_ptr() for tensor in states if tensor is not None]
    return (*addresses, 0, 0)[:2]


def _can_fuse(optimizer: Optimizer) -> bool:
    """Return whether the kernel computes exactly what an optimizer's ``step`` would."""
    # A learning-rate scheduler replaces `step` to count calls, which is harmless. Other replacements may do anything.
    replaced = optimizer.__dict__.get("step")
    if type(optimizer) not in (SGD, Adam, AdamW) or not (replaced is None or hasattr(replaced, "_wrapped_by_lr_sched")):
        return False
    if has_hooks(optimizer):
        return False
    groups = optimizer.param_groups
    return not any(
        isinstance(group["lr"], Tensor) or any(group.get(option) for option in _UNFUSED_OPTIONS) for group in groups
    )


def _are_plain(params: Mapping[str, Tensor]) -> bool:
    """Return whether all parameters are contiguous, in single precision, and on the same GPU."""
    first = next(iter(params.values()))
    return all(
        param.is_cuda and param.device == first.device and param.dtype is torch.float32 and param.is_contiguous()
        for param in params.values()
    )
