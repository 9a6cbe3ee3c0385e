"""Networks by name: built from public numbers alone, and built again from what a run's folder says."""

from __future__ import annotations

import importlib
import math
import os
import sys
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hush.errors import InvalidArgument, Unsupported
from hush.runs.settings import MODELS, Settings
from hush.training import PublicPhase, add_lora, freeze_except, replace_head
from hush.training.scattering import Scattering, features

_GROUPS = 27  # of channels that are brought to mean 0 and variance 1 in each example; Tramer & Boneh 2021
_HIDDEN = 256
PRIVATE = {"hush": "trained on private data: see the guarantee of its run"}


class Network(nn.Module):
    """A feature map that is never trained, and what is trained on its features."""

    def __init__(self, fixed: nn.Module | None, trained: nn.Module) -> None:
        """Take both; without a feature map, the inputs are the features."""
        super().__init__()
        self.fixed = nn.Identity() if fixed is None else fixed
        self.trained = trained

    def forward(self, x: Tensor) -> Tensor:
        """Return one number for each class."""
        found: Tensor = self.trained(self.fixed(x))
        return found

    def features(self, inputs: Tensor, progress: Any = None) -> Tensor:
        """Return what is trained on: one example's features depend on that example alone."""
        if isinstance(self.fixed, nn.Identity):
            return inputs
        return features(self.fixed, inputs, progress=progress).flatten(1)


@dataclass(frozen=True, slots=True)
class Description:
    """What a network is built from.

    Attributes:
        model: Its name, or MODULE:FACTORY.
        shape: The shape of one input.
        num_classes: How many classes there are.
        seed: Of the starting weights.
    """

    model: str
    shape: tuple[int, ...]
    num_classes: int
    seed: int = 0

    def build(self) -> Network:
        """Return the network with its starting weights; a head of zeros spends no noise on forgetting a guess."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            return _NETWORKS.get(self.model, _made_by_factory)(self)


def describe(settings: Settings, shape: tuple[int, ...], num_classes: int) -> Description:
    """Return what to build for data of this shape."""
    image = len(shape) == 3
    name = settings.model or ("scattering" if image and min(shape[1:]) >= 8 else "softmax")
    if name in ("cnn", "scattering") and not image:
        raise InvalidArgument("model", name, "softmax, mlp or a factory of your own", "These are not images")
    if name in ("cnn", "scattering") and min(shape[1:]) < 8:
        raise InvalidArgument("model", name, "softmax or mlp", "The images have less than 8 pixels")
    return Description(name, shape, num_classes, settings.seed)


def _softmax(wanted: Description) -> Network:
    return Network(None, nn.Sequential(nn.Flatten(), _head(math.prod(wanted.shape), wanted.num_classes)))


def _mlp(wanted: Description) -> Network:
    layers = nn.Sequential(
        nn.Flatten(),
        nn.Linear(math.prod(wanted.shape), _HIDDEN),
        nn.Tanh(),  # bounded activations learn better from clipped gradients: Papernot et al. 2021
        _head(_HIDDEN, wanted.num_classes),
    )
    return Network(None, layers)


def _cnn(wanted: Description) -> Network:
    channels, height, width = wanted.shape
    layers = nn.Sequential(
        nn.Conv2d(channels, 16, 5, padding=2),
        nn.Tanh(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.Tanh(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        _head(32 * (height // 4) * (width // 4), wanted.num_classes),
    )
    return Network(None, layers)


def _scattering(wanted: Description) -> Network:
    channels, height, width = wanted.shape
    scales = 2 if min(height, width) >= 20 else 1
    fixed = Scattering((height, width), scales)
    groups = math.gcd(channels * fixed.channels, _GROUPS)
    fixed = Scattering((height, width), scales, groups=groups)
    size = channels * fixed.channels * math.prod(fixed.shape)
    return Network(
        nn.Sequential(OrderedDict(scattering=fixed, flat=nn.Flatten())),
        nn.Sequential(OrderedDict(head=_head(size, wanted.num_classes))),
    )


def _head(inputs: int, outputs: int) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def _made_by_factory(wanted: Description) -> Network:
    """Call ``FACTORY(shape, num_classes)`` of a module that Python finds, also in the current folder."""
    module_name, _, name = wanted.model.partition(":")
    if not module_name or not name:
        raise InvalidArgument("model", wanted.model, f"{', '.join(MODELS)} or MODULE:FACTORY")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        factory = getattr(importlib.import_module(module_name), name)
    except Exception as error:  # somebody else's code: anything
        raise InvalidArgument("model", wanted.model, "MODULE:FACTORY that Python finds", _said(error)) from error
    try:
        made = factory(wanted.shape, wanted.num_classes)
    except Exception as error:
        raise InvalidArgument("model", wanted.model, "FACTORY(shape, num_classes) to work", _said(error)) from error
    if not isinstance(made, nn.Module):
        raise InvalidArgument("model", wanted.model, "a factory of torch modules: FACTORY(shape, num_classes)")
    if any(name.endswith("_extra_state") for name in made.state_dict()):
        raise Unsupported(f"{wanted.model}: a model with extra state, which gets no noise", "Keep it in parameters")
    _check_outputs(made, wanted)
    return Network(None, made)


def _said(error: Exception) -> str:
    """Return an error in one line; it knows no data."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


@torch.no_grad()
def _check_outputs(model: nn.Module, wanted: Description) -> None:
    """Try invented inputs: with too few outputs, it would be somebody's class that ends the run."""
    was = model.training
    try:
        found = model.eval()(torch.zeros(2, *wanted.shape))
    except Exception as error:
        raise InvalidArgument("model", wanted.model, f"a model of inputs {wanted.shape}", _said(error)) from error
    model.train(was)
    if not isinstance(found, Tensor) or found.shape != (2, wanted.num_classes):
        raise InvalidArgument("model", wanted.model, f"a model with {wanted.num_classes} outputs for each input")


_NETWORKS = {"softmax": _softmax, "mlp": _mlp, "cnn": _cnn, "scattering": _scattering}


def adapt(network: Network, settings: Settings) -> PublicPhase | None:
    """Load a public checkpoint, if there is one, and freeze what is not to be trained.

    Returns:
        What the guarantee has to say of the checkpoint.
    """
    trained, head = network.trained, None
    if settings.replace_head:
        head = replace_head(trained, _outputs(trained))
    if settings.start is not None:
        _load(trained, settings.start, head)
    if settings.lora is not None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            also = (*settings.train_only, *(() if head is None else (head,)))
            add_lora(trained, rank=settings.lora, targets="*", also_train=also)
    elif settings.train_only:
        freeze_except(trained, *settings.train_only)
    return None if settings.start is None else PublicPhase(settings.public or "")


def _load(model: nn.Module, start: str, head: str | None) -> None:
    """Load all weights but those of the head, if there is a new one."""
    path = Path(start)
    _refuse_private_checkpoint(path)
    weights = read_weights(path, "start")
    own = model.state_dict()
    expected = [name for name in own if head is None or not name.startswith(f"{head}.")]
    wrong = [name for name in expected if name not in weights or weights[name].shape != own[name].shape]
    if wrong:
        raise Unsupported(
            f"the checkpoint does not fit the model: {', '.join(wrong[:8])}",
            "Choose the model that it is of; with a new head, its last layer is left out",
        )
    model.load_state_dict({**own, **{name: weights[name] for name in expected}})


def read_weights(path: Path, name: str) -> dict[str, Tensor]:
    """Read a safetensors file, which holds numbers only and cannot run code."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return dict(load_file(path))
    except (OSError, SafetensorError) as error:
        raise InvalidArgument(name, str(path), "a readable safetensors file", type(error).__name__) from None


def _outputs(model: nn.Module) -> int:
    last = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if not last:
        raise Unsupported("a new head for a model without a linear layer")
    return last[-1].out_features


def _refuse_private_checkpoint(path: Path) -> None:
    """Refuse to call public what was trained on people's data, privately or not, as far as it can be seen."""
    beside = [place / name for place in (path, path.resolve().parent) for name in ("guarantee.json", "run.json")]
    if any(place.exists() for place in beside) or _says_private(path):
        raise InvalidArgument(
            "start",
            str(path),
            "weights that depend on public data only",
            "This is the model of a private run: it gives away something about people, and that would not be counted",
        )


def _says_private(path: Path) -> bool:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return PRIVATE.keys() <= (file.metadata() or {}).keys()
    except (OSError, SafetensorError):
        return False  # whoever reads it says what is wrong
