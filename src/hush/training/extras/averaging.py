"""Averages of the weights over the steps of a run, which are often better than the last weights, and cost nothing.

A guarantee is about all steps together: all weights that a run has taken on are part of what it accounts for. Their
average is computed from them alone, not from data, and post-processing costs no privacy.

That holds for the steps of one run. If a run is resumed from an older state, its steps since then were not part of it;
an average that saw them would release them uncounted. So a stored average knows the weights that it belongs to.
"""

from __future__ import annotations

import copy
import hashlib
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from hush.errors import InvalidArgument, check_count, check_instance, check_positive

_SCHEMA = "hush.average/1"


class Average(ABC):
    """An average of the trained weights of a model; kinds differ in how much each step counts.

    Frozen weights and buffers are not averaged: a copy has those that the model has then.
    """

    def __init__(self, model: nn.Module) -> None:
        """Begin an average; what is trained is what requires gradients now."""
        check_instance("model", model, nn.Module)
        self.model = model
        self.num_updates = 0
        self._averages = {name: _wide(param.detach()).clone() for name, param in _trained(model).items()}
        if not self._averages:
            raise InvalidArgument("model", type(model).__name__, "at least one parameter that is trained")

    @abstractmethod
    def weight(self, number: int) -> float:
        """Return how far the average goes towards the weights at an update; updates are counted from 1."""

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights as they are; call it after each complete step."""
        own = dict(self.model.named_parameters())
        other = sorted((set(_trained(self.model)) - set(self._averages)) | (set(self._averages) - set(own)))
        if other:
            raise InvalidArgument("model", other, "the trained parameters that it had", "Freeze before you average")
        self.num_updates += 1
        share = self.weight(self.num_updates)
        for name, average in self._averages.items():
            average.lerp_(own[name].detach().to(average), share)

    def copy(self) -> nn.Module:
        """Return a copy of the model, in evaluation mode, with the averaged weights."""
        return self._written(copy.deepcopy(self.model)).eval()

    def apply(self) -> nn.Module:
        """Give the model itself the averaged weights, for good, and return it."""
        return self._written(self.model)

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of all that resumes the average; store it with the run's own state, after the same step."""
        return {
            "schema": _SCHEMA,
            "kind": repr(self),
            "num_updates": self.num_updates,
            "averages": {name: average.clone() for name, average in self._averages.items()},
            "weights": self._fingerprint(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume; the run is to be resumed first, and from the same step."""
        check_instance("state", state, dict)
        if state.get("schema") != _SCHEMA:
            raise InvalidArgument("schema", state.get("schema"), "what state_dict returned")
        if state["kind"] != repr(self):
            raise InvalidArgument("kind", state["kind"], f"{self!r}")
        if state["averages"].keys() != self._averages.keys():
            raise InvalidArgument("averages", sorted(state["averages"]), "the trained parameters of this model")
        if state["weights"] != self._fingerprint():
            raise InvalidArgument(
                "weights",
                "other weights",
                "the weights that the average was stored with",
                "Resume the run first, from a state that was stored after the same step: "
                "steps that the run does not count must not be part of what it releases",
            )
        self.num_updates = state["num_updates"]
        for name, average in self._averages.items():
            average.copy_(state["averages"][name])

    def _fingerprint(self) -> str:
        own, found = dict(self.model.named_parameters()), hashlib.sha256()
        for name in self._averages:
            found.update(f"{name} {own[name].dtype} ".encode())
            found.update(own[name].detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
        return found.hexdigest()

    @torch.no_grad()
    def _written(self, model: nn.Module) -> nn.Module:
        if self.num_updates and self.weight(self.num_updates) > 0:  # else nothing was averaged yet
            own = dict(model.named_parameters())
            for name, average in self._averages.items():
                own[name].copy_(average)
        return model


class MovingAverage(Average):
    """The exponential moving average: a step counts ``decay`` times as much as the one after it.

    After n updates the average is the sum over i of (1 - decay) decay^(n - i) w_i, divided by 1 - decay^n: the weights
    from before the first update have no part in it (the correction that Adam makes for its averages).

    Args:
        model: The model, as it is trained.
        decay: As above; 1 / (1 - decay) is about how many steps count.

    Guarantee:
        That of the run: the average is post-processing of the weights of its steps.

    Assumes:
        All updates were made in the run that is resumed (checked here, by the weights).

    References:
        De et al. 2022, "Unlocking High-Accuracy Differentially Private Image Classification through Scale",
        who warm the decay up where this corrects for the beginning.

    >>> model = nn.Linear(1, 1, bias=False)
    >>> average = MovingAverage(model, decay=0.5)
    >>> for value in (1.0, 4.0):
    ...     _ = nn.init.constant_(model.weight, value)
    ...     average.update()
    >>> average.copy().weight.item()
    3.0
    """

    def __init__(self, model: nn.Module, *, decay: float) -> None:
        """Begin an average."""
        if not 0 < check_positive("decay", decay) < 1:
            raise InvalidArgument("decay", decay, "a number in (0, 1)", "Such as 0.999")
        self.decay = decay
        super().__init__(model)

    def __repr__(self) -> str:
        """Show the kind of average."""
        return f"MovingAverage(decay={self.decay})"

    def weight(self, number: int) -> float:
        """Return (1 - decay) / (1 - decay^number): 1 at first."""
        return (1 - self.decay) / (1 - self.decay**number)


class TailAverage(Average):
    """The plain mean of the weights after the first ``since`` updates; until then, the weights themselves.

    Args:
        model: The model, as it is trained.
        since: How many updates are left out. It is chosen beforehand, or by what is public.

    Guarantee:
        That of the run: the average is post-processing of the weights of its steps.

    Assumes:
        All updates were made in the run that is resumed (checked here, by the weights).

    References:
        Polyak and Juditsky 1992, "Acceleration of Stochastic Approximation by Averaging"; averaging of a tail: Rakhlin,
        Shamir, Sridharan 2012, "Making Gradient Descent Optimal for Strongly Convex Stochastic Optimization".
    """

    def __init__(self, model: nn.Module, *, since: int = 0) -> None:
        """Begin an average."""
        self.since = check_count("since", since, minimum=0)
        super().__init__(model)

    def __repr__(self) -> str:
        """Show the kind of average."""
        return f"TailAverage(since={self.since})"

    def weight(self, number: int) -> float:
        """Return one over the number of updates that count; 0 before there are any."""
        return 1 / (number - self.since) if number > self.since else 0.0


def _trained(model: nn.Module) -> dict[str, Tensor]:
    return {name: param for name, param in model.named_parameters() if param.requires_grad}


def _wide(values: Tensor) -> Tensor:
    """In half precision, an average would not move by small shares of a difference."""
    return values if values.dtype is torch.float64 else values.float()
