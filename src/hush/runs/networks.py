"""Networks: built by name from public numbers, and rebuilt from a run's folder.

A `Network` is a fixed feature map followed by a classifier. Only the classifier is trained, so the features are
computed once. `build_network` makes one with its starting weights; `adapt` loads a public checkpoint into it and
freezes the parameters that are not trained.
"""

from __future__ import annotations

import importlib
import math
import os
import sys
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hush.data import Prepared
from hush.errors import InvalidArgument, Unsupported
from hush.runs.settings import MODELS, Settings
from hush.training import add_lora, freeze_except, replace_head
from hush.training.scattering import Scattering, features

_NORM_GROUPS = 27  # groups of channels that are normalised in each example (Tramer & Boneh 2021)
_HIDDEN = 256
_AT_ONCE = 1024  # inputs that go through a model together
PRIVATE = {"hush": "trained on private data: see the guarantee of its run"}


class Network(nn.Module):
    """A feature map that is never trained, and the classifier that is trained on its features.

    Attributes:
        feature_map: From inputs to features, without trainable weights.
        classifier: From features to one logit for each class.
    """

    def __init__(self, feature_map: nn.Module | None, classifier: nn.Module) -> None:
        """Take both parts; without a feature map, the inputs are the features."""
        super().__init__()
        self.feature_map = nn.Identity() if feature_map is None else feature_map
        self.classifier = classifier

    def forward(self, x: Tensor) -> Tensor:
        """Return one logit for each class."""
        logits: Tensor = self.classifier(self.feature_map(x))
        return logits

    def features(self, inputs: Tensor, progress: Callable[[int, int], None] | None = None) -> Tensor:
        """Return the features of some inputs; those of one example depend on that example alone."""
        if isinstance(self.feature_map, nn.Identity):
            return inputs
        return features(self.feature_map, inputs, progress=progress).flatten(1)


def build_network(model: str, shape: tuple[int, ...], num_classes: int, seed: int = 0) -> Network:
    """Return a network with its starting weights, which are public.

    Args:
        model: One of the names in `hush.runs.settings.MODELS`, or MODULE:FACTORY.
        shape: The shape of one input.
        num_classes: How many classes there are.
        seed: The seed of the starting weights.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if model in _BUILDERS:
            return _BUILDERS[model](shape, num_classes)
        return _call_factory(model, shape, num_classes)


def network_arguments(settings: Settings, data: Prepared) -> dict[str, Any]:
    """Return the arguments of `build_network` for some data, as model.json stores them."""
    num_classes = len(data.classes) or 1  # a target that is a number has one output
    return {"model": settings.model, "shape": data.shape, "num_classes": num_classes, "seed": settings.seed}


def starting_network(settings: Settings, data: Prepared) -> Network:
    """Return the network with its starting weights: public ones, where there is a public checkpoint."""
    network = build_network(**network_arguments(settings, data))
    adapt(network, settings)
    return network


def _softmax(shape: tuple[int, ...], num_classes: int) -> Network:
    """Return multinomial logistic regression on the inputs."""
    return Network(None, nn.Sequential(nn.Flatten(), _output_layer(math.prod(shape), num_classes)))


def _mlp(shape: tuple[int, ...], num_classes: int) -> Network:
    """Return a network with one hidden layer."""
    layers = nn.Sequential(
        nn.Flatten(),
        nn.Linear(math.prod(shape), _HIDDEN),
        nn.Tanh(),  # bounded activations learn better from clipped gradients: Papernot et al. 2021
        _output_layer(_HIDDEN, num_classes),
    )
    return Network(None, layers)


def _cnn(shape: tuple[int, ...], num_classes: int) -> Network:
    """Return two convolutions with pooling, and an output layer."""
    channels, height, width = shape
    layers = nn.Sequential(
        nn.Conv2d(channels, 16, 5, padding=2),
        nn.Tanh(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.Tanh(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        _output_layer(32 * (height // 4) * (width // 4), num_classes),
    )
    return Network(None, layers)


def _scattering(shape: tuple[int, ...], num_classes: int) -> Network:
    """Return multinomial logistic regression on wavelet features (Tramer & Boneh 2021)."""
    channels, height, width = shape
    scales = 2 if min(height, width) >= 20 else 1
    wavelets = Scattering((height, width), scales)
    groups = math.gcd(channels * wavelets.channels, _NORM_GROUPS)
    wavelets = Scattering((height, width), scales, groups=groups)
    num_features = channels * wavelets.channels * math.prod(wavelets.shape)
    return Network(
        nn.Sequential(OrderedDict(scattering=wavelets, flat=nn.Flatten())),
        nn.Sequential(OrderedDict(head=_output_layer(num_features, num_classes))),
    )


def _output_layer(inputs: int, outputs: int) -> nn.Linear:
    """Return a zero-initialised output layer: training wastes no noise on unlearning random guesses."""
    layer = nn.Linear(inputs, outputs)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


_BUILDERS: dict[str, Callable[[tuple[int, ...], int], Network]] = {
    "softmax": _softmax,
    "mlp": _mlp,
    "cnn": _cnn,
    "scattering": _scattering,
}


def check_factory(model: Any, factory: str | None) -> None:
    """Refuse to import and call what a folder names, unless the caller names it, too: folders come from anywhere."""
    is_ours = model is None or model in _BUILDERS
    if (is_ours and factory is None) or (isinstance(model, str) and ":" in model and model == factory):
        return
    if is_ours:
        raise InvalidArgument("factory", factory, f"None: the model is {model or 'the default one'}")
    why = "The model is built by code of its own, which is imported and run"
    advice = "Name it with factory=, or --model on the command line"
    raise InvalidArgument("factory", factory, f"{model!r}, if you trust it", why, advice)


def _call_factory(model: str, shape: tuple[int, ...], num_classes: int) -> Network:
    """Call ``FACTORY(shape, num_classes)`` from a module on Python's path or in the current folder."""
    module_name, _, name = model.partition(":")
    if not module_name or not name:
        raise InvalidArgument("model", model, f"{', '.join(MODELS)} or MODULE:FACTORY")
    current_folder = os.getcwd()
    if current_folder not in sys.path:
        sys.path.insert(0, current_folder)
    try:
        factory = getattr(importlib.import_module(module_name), name)
    except Exception as error:  # the user's own code may raise anything
        raise InvalidArgument("model", model, "MODULE:FACTORY that Python can import", _one_line(error)) from error
    try:
        module = factory(shape, num_classes)
    except Exception as error:
        raise InvalidArgument("model", model, "FACTORY(shape, num_classes) to work", _one_line(error)) from error
    if not isinstance(module, nn.Module):
        raise InvalidArgument("model", model, "a factory of torch modules: FACTORY(shape, num_classes)")
    if any(key.endswith("_extra_state") for key in module.state_dict()):
        raise Unsupported(f"{model}: a model with extra state, which gets no noise", "Keep it in parameters")
    _check_outputs(module, model, shape, num_classes)
    return Network(None, module)


def _one_line(error: Exception) -> str:
    """Return an error's message in one line. It was raised before any data were seen."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


@torch.no_grad()
def _check_outputs(module: nn.Module, model: str, shape: tuple[int, ...], num_classes: int) -> None:
    """Try invented inputs. A model with too few outputs would fail at the first example of a missing class."""
    was_training = module.training
    try:
        outputs = module.eval()(torch.zeros(2, *shape))
    except Exception as error:
        raise InvalidArgument("model", model, f"a model for inputs of shape {shape}", _one_line(error)) from error
    module.train(was_training)
    if not isinstance(outputs, Tensor) or outputs.shape != (2, num_classes):
        raise InvalidArgument("model", model, f"a model with {num_classes} outputs for each input")


def adapt(network: Network, settings: Settings) -> None:
    """Load the public checkpoint, if there is one, and freeze the parameters that are not trained."""
    classifier, new_layer = network.classifier, None
    if settings.replace_head:
        new_layer = replace_head(classifier, _num_outputs(classifier))
    if settings.start is not None:
        _load_checkpoint(classifier, settings.start, new_layer)
    if settings.lora is not None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            also_trained = (*settings.train_only, *(() if new_layer is None else (new_layer,)))
            add_lora(classifier, rank=settings.lora, targets="*", also_train=also_trained)
    elif settings.train_only:
        freeze_except(classifier, *settings.train_only)


def _load_checkpoint(model: nn.Module, start: str, new_layer: str | None) -> None:
    """Load all weights, except those of a new output layer."""
    path = Path(start)
    _refuse_private_checkpoint(path)
    checkpoint = read_weights(path, "start")
    weights = model.state_dict()
    expected = [name for name in weights if new_layer is None or not name.startswith(f"{new_layer}.")]
    wrong = [name for name in expected if name not in checkpoint or checkpoint[name].shape != weights[name].shape]
    if wrong:
        raise Unsupported(
            f"the checkpoint does not fit the model: {', '.join(wrong[:8])}",
            "Choose the model that it was made for; replace_head= leaves out its last layer",
        )
    model.load_state_dict({**weights, **{name: checkpoint[name] for name in expected}})


def read_weights(path: Path, name: str) -> dict[str, Tensor]:
    """Read a safetensors file, which holds only numbers and cannot run code.

    Args:
        path: The file.
        name: The argument that named it, for the message.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return dict(load_file(path))
    except (OSError, SafetensorError) as error:
        raise InvalidArgument(name, str(path), "a readable safetensors file", type(error).__name__) from None


def _num_outputs(model: nn.Module) -> int:
    """Return the number of outputs of a model's last linear layer."""
    linear_layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if not linear_layers:
        raise Unsupported("a new output layer for a model without a linear layer")
    return linear_layers[-1].out_features


def _refuse_private_checkpoint(path: Path) -> None:
    """Refuse a checkpoint that was trained on personal data, as far as that can be detected."""
    records = [folder / name for folder in (path, path.resolve().parent) for name in ("guarantee.json", "run.json")]
    if any(record.exists() for record in records) or _is_marked_private(path):
        raise InvalidArgument(
            "start",
            str(path),
            "weights that depend on public data only",
            "This is the model of a private run, and what it reveals would not be accounted for",
        )


def _is_marked_private(path: Path) -> bool:
    """Return whether the metadata of a file of weights says that hush trained it on private data."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return PRIVATE.keys() <= (file.metadata() or {}).keys()
    except (OSError, SafetensorError):
        return False  # `read_weights` says what is wrong with the file


def outputs(module: nn.Module, inputs: Tensor) -> NDArray[np.float64]:
    """Return the outputs of a module, [inputs, outputs]."""
    was_training = module.training
    module.eval()
    with torch.no_grad():
        parts = [module(part).double().cpu() for part in torch.split(inputs, _AT_ONCE)]
    module.train(was_training)
    return np.asarray(torch.cat(parts).numpy())


def class_probabilities(module: nn.Module, inputs: Tensor) -> NDArray[np.float64]:
    """Return the probability of each class for some inputs of a module with logits, [inputs, classes]."""
    was_training = module.training
    module.eval()
    with torch.no_grad():
        parts = [torch.softmax(module(part), 1).double().cpu() for part in torch.split(inputs, _AT_ONCE)]
    module.train(was_training)
    return np.asarray(torch.cat(parts).numpy())
