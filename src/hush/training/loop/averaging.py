"""Averages of the weights over the steps of a run. They are often better than the last weights, at no privacy cost.

A guarantee covers the weights of all steps of a run together. An average is computed from those weights and not from
the data, so it is post-processing.

That holds for the steps that the run counts. If you resume a run from an older state, the steps taken since then are
not part of it, and an average that includes them would release them without accounting. So a stored average carries a
fingerprint of the weights it belongs to, and loads only together with those weights.
"""

from __future__ import annotations

import copy
import hashlib
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from hush.errors import InvalidArgument, check_count, check_instance, check_positive
from hush.strict_json import take_format

_FORMAT = "hush.average/1"


class Average(ABC):
    """An average of the trained weights of a model. Subclasses define the weight of each step.

    Frozen weights and buffers are not averaged: a copy takes the model's current ones.

    Attributes:
        model: The model whose weights are averaged.
        num_updates: How many times `update` was called.
    """

    def __init__(self, model: nn.Module) -> None:
        """Start an average over the parameters that require gradients now."""
        check_instance("model", model, nn.Module)
        self.model = model
        self.num_updates = 0
        self._averages = {name: _single_or_double(param.detach()).clone() for name, param in _trained(model).items()}
        if not self._averages:
            raise InvalidArgument("model", type(model).__name__, "at least one parameter that requires a gradient")

    @abstractmethod
    def weight(self, number: int) -> float:
        """Return how far update ``number``, counted from 1, moves the average towards the current weights: 0 to 1."""

    @torch.no_grad()
    def update(self) -> None:
        """Include the current weights. Call it after each complete step."""
        params = dict(self.model.named_parameters())
        unexpected = sorted((set(_trained(self.model)) - set(self._averages)) | (set(self._averages) - set(params)))
        if unexpected:
            raise InvalidArgument(
                "model",
                unexpected,
                "the trained parameters that it had when the average was started",
                "Freeze parameters before you start an average",
            )
        self.num_updates += 1
        share = self.weight(self.num_updates)
        for name, average in self._averages.items():
            average.lerp_(params[name].detach().to(average), share)  # average += share * (weights - average)

    def copy(self) -> nn.Module:
        """Return a copy of the model with the averaged weights, in evaluation mode."""
        return self._write_to(copy.deepcopy(self.model)).eval()

    def apply(self) -> nn.Module:
        """Overwrite the model's own weights with the average, and return the model."""
        return self._write_to(self.model)

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of the average's state. Store it together with the run's state, after the same step."""
        return {
            "format": _FORMAT,
            "kind": repr(self),
            "num_updates": self.num_updates,
            "averages": {name: average.clone() for name, average in self._averages.items()},
            "weights": self._fingerprint(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state. Resume the run first, from a state of the same step."""
        check_instance("state", state, dict)
        written = take_format(dict(state))
        if written != _FORMAT:
            raise InvalidArgument("format", written, "the result of state_dict")
        if state["kind"] != repr(self):
            raise InvalidArgument("kind", state["kind"], f"{self!r}")
        if state["averages"].keys() != self._averages.keys():
            raise InvalidArgument("averages", sorted(state["averages"]), "the trained parameters of this model")
        if state["weights"] != self._fingerprint():
            raise InvalidArgument(
                "weights",
                "other weights",
                "the weights that the average was stored with",
                "The average may include steps that this run does not account for",
                "Resume the run first, from a state that was stored after the same step",
            )
        self.num_updates = state["num_updates"]
        for name, average in self._averages.items():
            average.copy_(state["averages"][name])

    def _fingerprint(self) -> str:
        """Return a hash of the model's averaged parameters as they are now."""
        params, digest = dict(self.model.named_parameters()), hashlib.sha256()
        for name in self._averages:
            digest.update(f"{name} {params[name].dtype} ".encode())
            digest.update(params[name].detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    @torch.no_grad()
    def _write_to(self, model: nn.Module) -> nn.Module:
        # Until a step counts, the average is the current weights.
        if self.num_updates and self.weight(self.num_updates) > 0:
            params = dict(model.named_parameters())
            for name, average in self._averages.items():
                params[name].copy_(average)
        return model


class MovingAverage(Average):
    """The exponential moving average: each step counts ``decay`` times as much as the next one.

    After n updates with weights w_1, ..., w_n the average is

        sum over i of (1 - decay) decay^(n - i) w_i  /  (1 - decay^n)

    The divisor is the bias correction that Adam uses: the weights before the first update do not count.

    Args:
        model: The model in training.
        decay: As above. About 1 / (1 - decay) steps count.

    Guarantee:
        That of the run: the average is post-processing of the weights of its steps.

    Assumes:
        All updates belong to the run that is resumed (checked here, by a fingerprint of the weights).

    References:
        De et al. 2022, "Unlocking High-Accuracy Differentially Private Image Classification through Scale". They warm
        up the decay; this class corrects the bias instead.

    >>> model = nn.Linear(1, 1, bias=False)
    >>> average = MovingAverage(model, decay=0.5)
    >>> for value in (1.0, 4.0):
    ...     _ = nn.init.constant_(model.weight, value)
    ...     average.update()
    >>> average.copy().weight.item()
    3.0
    """

    def __init__(self, model: nn.Module, *, decay: float) -> None:
        """Start an average."""
        if not 0 < check_positive("decay", decay) < 1:
            raise InvalidArgument("decay", decay, "a number in (0, 1)", "Such as 0.999")
        self.decay = decay
        super().__init__(model)

    def __repr__(self) -> str:
        """Show the kind of average."""
        return f"MovingAverage(decay={self.decay})"

    def weight(self, number: int) -> float:
        """Return (1 - decay) / (1 - decay^number), which is 1 for the first update."""
        return (1 - self.decay) / (1 - self.decay**number)


class TailAverage(Average):
    """The plain mean of the weights after the first ``since`` updates; before that, the current weights.

    Args:
        model: The model in training.
        since: How many updates to leave out. Choose it in advance, or from public information.

    Guarantee:
        That of the run: the average is post-processing of the weights of its steps.

    Assumes:
        All updates belong to the run that is resumed (checked here, by a fingerprint of the weights).

    References:
        Polyak and Juditsky 1992, "Acceleration of Stochastic Approximation by Averaging". Averaging a tail: Rakhlin,
        Shamir, Sridharan 2012, "Making Gradient Descent Optimal for Strongly Convex Stochastic Optimization".

    >>> model = nn.Linear(1, 1, bias=False)
    >>> average = TailAverage(model, since=1)
    >>> for value in (100.0, 1.0, 4.0):
    ...     _ = nn.init.constant_(model.weight, value)
    ...     average.update()
    >>> average.copy().weight.item()
    2.5
    """

    def __init__(self, model: nn.Module, *, since: int = 0) -> None:
        """Start an average."""
        self.since = check_count("since", since, minimum=0)
        super().__init__(model)

    def __repr__(self) -> str:
        """Show the kind of average."""
        return f"TailAverage(since={self.since})"

    def weight(self, number: int) -> float:
        """Return 1 over the number of updates that count, or 0 while none does."""
        return 1 / (number - self.since) if number > self.since else 0.0


def _trained(model: nn.Module) -> dict[str, Tensor]:
    return {name: param for name, param in model.named_parameters() if param.requires_grad}


def _single_or_double(values: Tensor) -> Tensor:
    """Return values in single or double precision: in half precision, small updates of an average would be lost."""
    return values if values.dtype is torch.float64 else values.float()
