"""Clipping by estimated norms, for any module: DP-SGD-JL (Bu et al. 2021).

The norm of an example's gradient g is estimated from its projections on r standard normal vectors v_j:

    M^2 = (1/r) sum over j of <g, v_j>^2.

For all examples at once, the projections on v_j are the derivatives of the losses along v_j. One step is:

projections   r forward passes in forward mode, one for each vector; no per-example gradient is ever computed
clip factors  min(1, C / M)
sum           one ordinary backward pass of the losses, weighted by the factors, in double precision
agreement     along one vector, the sum's projection must equal the sum of its terms' projections

An estimate may be too low, and the clipped gradient too long: the event `ProjectedGaussianEvent` covers that. It
treats the vectors as public. They are the same for all examples of a step, and fresh in every step.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from hush.errors import Unsupported, check_count, check_positive
from hush.training.noise.integer_gaussian import integer_gaussian
from hush.training.per_example.buffers import refuse_buffers
from hush.training.per_example.checks import refuse_coupled
from hush.training.per_example.clipped_sum import ClippedSum
from hush.training.per_example.invented_calls import without_tf32
from hush.training.per_example.norms import refuse_too_many, rounding_slack
from hush.training.per_example.passes import Losses, Passes, in_double_precision
from hush.training.per_example.rules import refuse_mixing

_SMALLEST_FACTOR = 1e-30  # smaller factors would be rounded coarsely in single precision, and count as 0
# How many terms a backward pass may add up for an example, times how much larger they are than their sum.
_TERMS = 2.0**13
_UNIT = 2.0**22  # integers in a standard deviation of a projection's vector
_TOLERANCE = 0.05, 1e-5  # of the agreement: in clip norms, and relative to the norms of all terms


class ProjectedClipping:
    """Clips the gradients of a model's losses by norms that are estimated from projections.

    Attributes:
        way: How projections are computed: by "forward mode"; or by "double backward", for a model with an operation
            that has no forward mode, or whose backward pass does not belong to its forward. The latter takes several
            times the memory. The model switches to it automatically, and stays there.
        calls: The arguments with which `refuse_coupled` saw the model called.
    """

    def __init__(self, model: nn.Module, *, projections: int, key: bytes) -> None:
        """Refuse what cannot be measured by projections.

        Args:
            model: The model.
            projections: r, the number of vectors.
            key: 32 bytes that nothing else is drawn with.
        """
        # The derivative of a loss along v is <g_i, v> only if the loss depends on one example.
        refuse_mixing(model)
        for name, module in model.named_modules():
            if module._backward_hooks or module._backward_pre_hooks:
                raise Unsupported(f"{name or 'the model'}: a backward hook changes gradients after they were measured")
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
            losses: Runs the model on the batch and returns one loss per example. It is called several times, each time
                with the same random state of torch, and must compute the same each time.
            clip_norm: The estimated norm that gradients are clipped to.
            weights: 1 for each example, 0 for one to leave out.
            step: The step's number. All physical batches of a step see the same vectors.
            num_summed: About how many examples are added up in all, over physical batches.
        """
        # A little below the clip norm, so that rounding of the sum cannot exceed it.
        target = check_positive("clip_norm", clip_norm) * (1 - rounding_slack())
        refuse_too_many(len(weights) * _TERMS, num_summed or len(weights))
        passes = Passes(self._model, losses, len(weights))
        # Buffers that the passes change would be released without noise.
        before = self._versions()
        result = None
        with self._plain_kernels(), in_double_precision(self._model):
            if self.way == "forward mode":
                result = self._by_forward_mode(passes, target, weights, step)
            if result is None:
                result = self._by_double_backward(passes, target, weights, step)
        refuse_buffers([name for name, version in self._versions().items() if version != before.get(name)])
        if result is None:
            raise Unsupported(
                "losses: the projection of the clipped sum is not the sum of its terms' projections",
                "Do the losses draw random numbers without torch, or divide by 0? Use exact norms instead",
            )
        return result

    def refuse_coupled(self, losses: Losses, size: int) -> None:
        """Refuse losses that depend on several examples, as far as gradients at the modules' outputs show it."""
        self.calls = []

        def record_call(module: nn.Module, args: Any, kwargs: Any) -> None:
            self.calls.append((args, kwargs))

        handle = self._model.register_forward_pre_hook(record_call, with_kwargs=True)
        try:
            with self._plain_kernels():
                values, outputs = Passes(self._model, losses, size).losses_and_outputs()
        finally:
            handle.remove()
        refuse_coupled(values, outputs)

    def _by_forward_mode(self, passes: Passes, target: float, weights: Tensor, step: int) -> ClippedSum | None:
        """Return None if an operation has no forward mode, or if it does not agree with the backward pass."""
        tangents, vectors, finite = [], {}, torch.ones_like(weights, dtype=torch.bool)
        for number in range(self._count):
            vectors = self._vectors(passes.params, step, number)
            try:
                values, tangent = passes.tangents(vectors)
            except RuntimeError as error:  # an operation has no forward mode
                if isinstance(error, torch.OutOfMemoryError):
                    raise
                self.way = "double backward"
                return None
            tangents.append(tangent)
            # A loss that overflows has no usable gradient; its example contributes zero.
            finite &= values.isfinite()
        factors, norms = _factors(tangents, finite, target, weights)
        sums = passes.weighted_sum(passes.losses(), factors)
        sums_are_finite = all(bool(value.isfinite().all()) for value in sums.values())
        if not sums_are_finite:
            # 0 times infinity is NaN, so bad examples must leave the graph, not just get factor 0.
            with passes.without(factors == 0):
                sums = passes.weighted_sum(passes.losses(), factors)
        result = _verified_sum(sums, norms, factors, vectors, tangents[-1], target)
        if result is None and sums_are_finite:  # otherwise only this batch may be the reason
            self.way = "double backward"
        return result

    def _by_double_backward(self, passes: Passes, target: float, weights: Tensor, step: int) -> ClippedSum | None:
        """Compute projections as derivatives of a gradient.

        The gradient of sum_i u_i loss_i is linear in u, and the derivative of its product with v by u_i is <g_i, v>.
        An example that is not finite would spoil the sum: such examples are found, and left out, in a first pass.
        """
        values, outputs = passes.losses_and_outputs()
        watched = [output for _, output in outputs] or [values]
        gradients: tuple[Tensor | None, ...] = torch.autograd.grad(values.sum(), watched, allow_unused=True)
        finite = values.detach().isfinite()
        for gradient in gradients:
            if gradient is not None:
                finite = finite & gradient.unsqueeze(-1).flatten(1).isfinite().all(1)
        with ExitStack() as stack:
            if not bool(finite.all()):
                stack.enter_context(passes.without(~finite))
            values = torch.where(finite, passes.losses(), 0.0)
            # The gradient of <u, losses> is sum_i u_i g_i; its derivative by u_i, along v, is <g_i, v>.
            u = torch.ones_like(values, requires_grad=True)
            params = list(passes.params.values())
            linear_in_u: tuple[Tensor | None, ...] = torch.autograd.grad(
                values, params, u, create_graph=True, allow_unused=True
            )
            tangents, vectors = [], {}
            for number in range(self._count):
                vectors = self._vectors(passes.params, step, number)
                pairs = zip(linear_in_u, vectors.values(), strict=True)
                total = sum(((value * v).sum() for value, v in pairs if value is not None), (0 * u).sum())
                try:
                    tangents.append(torch.autograd.grad(total, u, retain_graph=True)[0])
                except NotImplementedError as error:
                    raise Unsupported(
                        f"the model: it has neither forward mode nor second derivatives ({error})",
                        "Use exact norms instead",
                    ) from error
            factors, norms = _factors(tangents, finite, target, weights)
            sums = passes.weighted_sum(values, factors)
        return _verified_sum(sums, norms, factors, vectors, tangents[-1], target)

    def _versions(self) -> dict[str, tuple[int, int]]:
        """Return the identity and version of each buffer and frozen parameter, to notice changes."""
        frozen = [(name, param) for name, param in self._model.named_parameters() if not param.requires_grad]
        return {name: (id(value), value._version) for name, value in (*self._model.named_buffers(), *frozen)}

    def _vectors(self, params: dict[str, Tensor], step: int, number: int) -> dict[str, Tensor]:
        """Return vector v_j, j = ``number``, of a step, by parameter."""
        sizes = [param.numel() for param in params.values()]
        # r vectors for each step, numbered without gaps: no vector is used in two steps.
        number_of_vector, device = step * self._count + number, next(iter(params.values())).device
        drawn = integer_gaussian(self._key, number_of_vector, sum(sizes), stddev=_UNIT, device=device)
        # The middle of the interval between floors: as close to real numbers as single precision is.
        parts = zip(params.items(), torch.split((drawn.double() + 0.5) / _UNIT, sizes), strict=True)
        return {name: part.view(param.shape).to(param) for (name, param), part in parts}

    @contextmanager
    def _plain_kernels(self) -> Iterator[None]:
        """Use kernels that have all derivatives, and the same ones in all passes, so that dropout is the same."""
        fast_path = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            with ExitStack() as stack:
                stack.enter_context(sdpa_kernel(SDPBackend.MATH))
                # TensorFloat32 would round the projections more coarsely than the agreement test tolerates.
                stack.enter_context(without_tf32())
                if any(isinstance(module, nn.RNNBase) for module in self._model.modules()):
                    stack.enter_context(torch.backends.cudnn.flags(enabled=False, allow_tf32=False))
                    stack.callback(torch._C._set_mkldnn_enabled, torch._C._get_mkldnn_enabled())
                    torch._C._set_mkldnn_enabled(False)
                yield
        finally:
            torch.backends.mha.set_fastpath_enabled(fast_path)


def _factors(tangents: list[Tensor], finite: Tensor, target: float, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return min(1, C / M) and M; 0 for an example that is left out, 0 and NaN for one that is not finite."""
    # M^2 / |g|^2 is chi-squared with r degrees of freedom over r: right on average, and too low at times.
    norms = torch.stack(tangents).double().square().mean(0).sqrt()
    finite = finite & (norms < 1 / _SMALLEST_FACTOR)  # false for NaN
    factors = torch.where(finite & (weights > 0), (target / norms.clamp_min(1e-300)).clamp(max=1.0), 0.0)
    return torch.where(factors >= _SMALLEST_FACTOR, factors, 0.0), norms.masked_fill(~finite, torch.nan)


def _verified_sum(
    sums: dict[str, Tensor], norms: Tensor, factors: Tensor, vectors: dict[str, Tensor], tangent: Tensor, target: float
) -> ClippedSum | None:
    """Return the clipped sum if its projection on a vector is the sum of the clipped terms' projections.

    It is not if the backward pass belongs to another function than the one that was measured: because of hooks on
    tensors, or of random numbers that torch does not control.
    """
    # <sum_i f_i g_i, v> from the backward pass, against sum_i f_i <g_i, v> from the projections.
    dots = [(value.double() * vectors[name].double()).sum() for name, value in sums.items()]
    terms = factors * torch.where(factors > 0, tangent.detach().double(), 0.0)
    # Rounding errors of a sum grow with the sizes of its terms, not with their sum.
    scale = (factors * torch.where(factors > 0, norms, 0.0)).sum()
    error = (torch.stack(dots).sum() if dots else 0.0) - terms.sum()
    if not bool(torch.as_tensor(error).abs() <= _TOLERANCE[0] * target + _TOLERANCE[1] * scale):  # true for NaN
        return None
    return ClippedSum({name: value.double() for name, value in sums.items()}, norms)
