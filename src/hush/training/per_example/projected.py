"""Clipping by estimated norms, for any module: DP-SGD-JL (Bu et al. 2021).

The norm of an example's gradient g is estimated from its projections <g, v_j> on r standard normal vectors. For all
examples at once, those are the tangents of the losses along v_j: one forward pass in forward mode for each, and no
example's own gradient is ever there. One ordinary backward of the losses, weighted by clip factors, gives the sum.

An estimate may be too low, and the clipped gradient too long: `ProjectedGaussian` accounts for that. The vectors count
as public there. They are the same for all examples of a step, and fresh in the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from hush.errors import Unsupported, check_count, check_positive
from hush.training.noise.gaussian import gaussian
from hush.training.per_example.check import precisely, refuse_coupled
from hush.training.per_example.clipped_sum import ClippedSum
from hush.training.per_example.engine import refuse_buffers, rounding_slack
from hush.training.per_example.passes import Losses, Passes
from hush.training.per_example.rules import refuse_mixing

_LEAST = 1e-30  # smaller factors are not exact in single precision, and count as 0
_TOLERANCE = 0.05, 1e-5  # between the sum's projection and its terms': in clip norms, and relative to all terms


class ProjectedClipping:
    """Clips the gradients of a model's losses by norms that are estimated from projections.

    Attributes:
        way: How projections are found: by "forward mode"; or by "double backward", for models with an operation that
            has no forward mode, or whose backward does something else. It takes a few times the memory.
        calls: With what the model was called when coupling was looked for.
    """

    def __init__(self, model: nn.Module, *, projections: int, key: bytes) -> None:
        """Take a model, how many projections there are, and a key that nothing else is drawn with."""
        refuse_mixing(model)
        for name, module in model.named_modules():
            if module._backward_hooks or module._backward_pre_hooks:
                raise Unsupported(f"{name or 'the model'}: a backward hook changes gradients that were not measured")
            if getattr(module, "scale_grad_by_freq", False) or getattr(module, "sparse", False):
                raise Unsupported(f"{name}: scale_grad_by_freq and sparse depend on the whole batch")
        for name, param in model.named_parameters():
            if param.requires_grad and param.dtype not in (torch.float32, torch.float64):
                raise Unsupported(f"{name}: projections in {param.dtype} are too coarse", "Keep parameters in float32")
        self._model, self._key = model, key
        self._count = check_count("projections", projections)
        self.way = "forward mode"
        self.calls: list[tuple[Any, Any]] = []

    def __call__(
        self, losses: Losses, *, clip_norm: float, weights: Tensor, step: int, num_summed: int = 0
    ) -> ClippedSum:
        """Return the clipped sum of one physical batch, and the estimated norms.

        Args:
            losses: Runs the model on the batch and returns one loss per example. It is called several times, with the
                same random numbers of torch each time, and must do the same each time.
            clip_norm: To what estimated norm gradients are clipped.
            weights: 1 for the examples of the batch, 0 for those to leave out.
            step: The step's number; all physical batches of a step see the same vectors.
            num_summed: About how many examples are added up in all.
        """
        target = check_positive("clip_norm", clip_norm) * (1 - rounding_slack(num_summed or len(weights)))
        passes = Passes(self._model, losses, len(weights))
        before = self._kept()
        found = None
        with self._plainly():
            if self.way == "forward mode":
                found = self._by_forward_mode(passes, target, weights, step)
            if found is None:
                found = self._by_double_backward(passes, target, weights, step)
        refuse_buffers([name for name, kept in self._kept().items() if kept != before.get(name)])
        if found is None:
            raise Unsupported(
                "losses: projections of the clipped sum are not the sum of its terms' projections",
                "Do losses draw numbers that torch does not know of, or divide by 0? Use exact norms instead",
            )
        return found

    def refuse_coupled(self, losses: Losses, size: int) -> None:
        """Refuse losses of which one depends on several examples, as far as the gradients at modules' outputs show."""
        self.calls = []

        def keep(module: nn.Module, args: Any, kwargs: Any) -> None:
            self.calls.append((args, kwargs))

        kept = self._model.register_forward_pre_hook(keep, with_kwargs=True)
        try:
            with self._plainly():
                values, outputs = Passes(self._model, losses, size).watched()
        finally:
            kept.remove()
        refuse_coupled(values, outputs)

    def _by_forward_mode(self, passes: Passes, target: float, weights: Tensor, step: int) -> ClippedSum | None:
        """Return None where an operation has no forward mode, or it does not agree with the backward."""
        tangents, vectors, finite = [], {}, torch.ones_like(weights, dtype=torch.bool)
        for number in range(self._count):
            vectors = self._vectors(passes.params, step, number)
            try:
                values, tangent = passes.tangents(vectors)
            except RuntimeError as error:  # torch's way to say so
                if isinstance(error, torch.OutOfMemoryError):
                    raise
                self.way = "double backward"
                return None
            tangents.append(tangent)
            finite &= values.isfinite()
        factors, norms = _factors(tangents, finite, target, weights)
        sums = passes.weighted_sum(passes.losses(), factors)
        finite_sums = all(bool(one.isfinite().all()) for one in sums.values())
        if not finite_sums:
            with passes.without(factors == 0):
                sums = passes.weighted_sum(passes.losses(), factors)
        found = _agreed(sums, norms, factors, vectors, tangents[-1], target)
        if found is None and finite_sums:  # else it may be only this batch
            self.way = "double backward"
        return found

    def _by_double_backward(self, passes: Passes, target: float, weights: Tensor, step: int) -> ClippedSum | None:
        """Find projections as slopes: the gradient for cotangents u is linear in u, and <g_i, v> is that of u_i.

        What is not finite in one example would spoil the sum: such examples are found, and left out, before.
        """
        values, outputs = passes.watched()
        places = [one for _, one in outputs] or [values]
        rows: tuple[Tensor | None, ...] = torch.autograd.grad(values.sum(), places, allow_unused=True)
        finite = values.detach().isfinite()
        for row in rows:
            finite = finite if row is None else finite & row.unsqueeze(-1).flatten(1).isfinite().all(1)
        with ExitStack() as stack:
            if not bool(finite.all()):
                stack.enter_context(passes.without(~finite))
            values = torch.where(finite, passes.losses(), 0.0)
            u = torch.ones_like(values, requires_grad=True)
            params = list(passes.params.values())
            found: tuple[Tensor | None, ...] = torch.autograd.grad(
                values, params, u, create_graph=True, allow_unused=True
            )
            tangents, vectors = [], {}
            for number in range(self._count):
                vectors = self._vectors(passes.params, step, number)
                pairs = zip(found, vectors.values(), strict=True)
                total = sum(((one * v).sum() for one, v in pairs if one is not None), (0 * u).sum())
                try:
                    tangents.append(torch.autograd.grad(total, u, retain_graph=True)[0])
                except NotImplementedError as error:
                    raise Unsupported(
                        f"the model: it has neither forward mode nor a second backward ({error})",
                        "Use exact norms instead",
                    ) from error
            factors, norms = _factors(tangents, finite, target, weights)
            sums = passes.weighted_sum(values, factors)
        return _agreed(sums, norms, factors, vectors, tangents[-1], target)

    def _kept(self) -> dict[str, tuple[int, int]]:
        """Return what shows whether buffers and frozen parameters have changed."""
        frozen = [(name, param) for name, param in self._model.named_parameters() if not param.requires_grad]
        return {name: (id(one), one._version) for name, one in (*self._model.named_buffers(), *frozen)}

    def _vectors(self, params: dict[str, Tensor], step: int, number: int) -> dict[str, Tensor]:
        sizes = [param.numel() for param in params.values()]
        drawn = gaussian(self._key, step * self._count + number, sum(sizes), next(iter(params.values())).device)
        parts = zip(params.items(), torch.split(drawn, sizes), strict=True)
        return {name: part.view(param.shape).to(param) for (name, param), part in parts}

    @contextmanager
    def _plainly(self) -> Iterator[None]:
        """Keep to kernels that have the derivatives, the same in all passes, so that they draw the same numbers."""
        fast_path = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            with ExitStack() as stack:
                stack.enter_context(sdpa_kernel(SDPBackend.MATH))
                stack.enter_context(precisely())
                if any(isinstance(module, nn.RNNBase) for module in self._model.modules()):
                    stack.enter_context(torch.backends.cudnn.flags(enabled=False, allow_tf32=False))
                    stack.callback(torch._C._set_mkldnn_enabled, torch._C._get_mkldnn_enabled())
                    torch._C._set_mkldnn_enabled(False)
                yield
        finally:
            torch.backends.mha.set_fastpath_enabled(fast_path)


def _factors(tangents: list[Tensor], finite: Tensor, target: float, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return min(1, C / M), 0 for examples that are not finite or left out, and M, NaN for the former."""
    norms = torch.stack(tangents).double().square().mean(0).sqrt()
    finite = finite & (norms < 1 / _LEAST)  # and not NaN
    factors = torch.where(finite & (weights > 0), (target / norms.clamp_min(1e-300)).clamp(max=1.0), 0.0)
    return torch.where(factors >= _LEAST, factors, 0.0), norms.masked_fill(~finite, torch.nan)


def _agreed(
    sums: dict[str, Tensor], norms: Tensor, factors: Tensor, vectors: dict[str, Tensor], tangent: Tensor, target: float
) -> ClippedSum | None:
    """Return the clipped sum if its projection on a vector is the sum of the clipped terms' projections.

    It is not if the backward is not that of the function that was measured: hooks, or other random numbers.
    """
    dots = [(one.double() * vectors[name].double()).sum() for name, one in sums.items()]
    terms = factors * torch.where(factors > 0, tangent.detach().double(), 0.0)
    scale = (factors * torch.where(factors > 0, norms, 0.0)).sum()
    error = (torch.stack(dots).sum() if dots else 0.0) - terms.sum()
    if not bool(torch.as_tensor(error).abs() <= _TOLERANCE[0] * target + _TOLERANCE[1] * scale):  # and not NaN
        return None
    return ClippedSum({name: one.float() for name, one in sums.items()}, norms)
