"""Networks: built by name, rebuilt the same, and adapted from a public checkpoint whose origin is stated."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from hush import runs
from hush.errors import HushError, InvalidArgument
from hush.runs import Settings
from hush.runs.folder import Folder
from hush.runs.networks import (
    _BUILDERS,
    Network,
    adapt,
    build_network,
    class_probabilities,
    read_weights,
)
from hush.runs.settings import MODELS
from report.pages import check
from runs import files

WHY = "made up for a test"
SHAPES = {"softmax": (3,), "mlp": (3,), "cnn": (1, 8, 8), "scattering": (3, 8, 8)}


def checkpoint(path: Path, num_classes: int = 2) -> dict[str, torch.Tensor]:
    """Write a checkpoint with other weights than a new model has."""
    generator = torch.Generator().manual_seed(1)
    model = build_network("mlp", (2,), num_classes).classifier
    weights = {name: torch.randn(value.shape, generator=generator) for name, value in model.state_dict().items()}
    save_file(weights, path)
    return weights


@pytest.fixture
def command(tmp_path: Path) -> tuple[object, ...]:
    source = files.write_csv(tmp_path / "t.csv")
    start = ("--start", tmp_path / "public.safetensors", "--public", WHY)
    flags = ("--target", "y", *files.DECLARED, "--model", "mlp", "--epsilon", 3)
    return source, *flags, "--output", tmp_path / "run", *start


@pytest.mark.usefixtures("fixed_key")
def test_the_reason_is_stated(command: tuple[object, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = checkpoint(tmp_path / "public.safetensors")
    files.train(capsys, *command)
    guarantee = json.loads((tmp_path / "run/guarantee.json").read_text())
    assert any(WHY in sentence for sentence in guarantee["assumptions"])
    assert WHY in check((tmp_path / "run/report.html").read_text()).text
    weights = load_file(tmp_path / "run/model.safetensors")
    # It is a few noisy steps away from the checkpoint, not from a new model. Fixed key: no chance. With 20 others, the
    # ratio of both distances was exp(1.39 +- 0.02).
    ends, starts = (torch.cat([state[name].flatten() for name in start]) for state in (weights, start))
    assert torch.dist(ends, starts) < ends.norm()


@pytest.mark.usefixtures("fixed_key")
def test_a_new_output_layer(command: tuple[object, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = checkpoint(tmp_path / "public.safetensors", num_classes=7)
    assert "does not fit" in files.refused(capsys, *command)
    files.train(capsys, *command, "--replace-head", "--train-only", "3")
    weights = load_file(tmp_path / "run/model.safetensors")
    assert weights["3.weight"].shape == (2, 256)
    assert torch.equal(weights["1.weight"], start["1.weight"])  # frozen
    # Fixed key: no chance. With 20 others, the rarer class had 0.41 +- 0.04 of the rows.
    assert set(runs.load(tmp_path / "run").predict(tmp_path / "t.csv")) == {"0", "1"}


def test_only_some_layers_are_trained(
    command: tuple[object, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = checkpoint(tmp_path / "public.safetensors")
    files.train(capsys, *command, "--train-only", "*.bias")
    weights = load_file(tmp_path / "run/model.safetensors")
    same = {name for name in start if torch.equal(weights[name], start[name])}
    assert same == {"1.weight", "3.weight"}


@pytest.mark.usefixtures("fixed_key")
def test_lora_is_merged(command: tuple[object, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("peft", reason="needs peft: pip install 'hush[lora]'")
    start = checkpoint(tmp_path / "public.safetensors")
    files.train(capsys, *command, "--lora", 1)
    weights = load_file(tmp_path / "run/model.safetensors")
    assert weights.keys() == start.keys()  # merged: no other layers
    moved = (weights["1.weight"] - start["1.weight"]).double()
    # One direction, but for rounding. Fixed key: no chance. With 44 others, 10^(1.21 +- 0.07) and 10^(-6.35 +- 0.03).
    assert torch.linalg.svdvals(moved)[1] < 1e-5 < torch.linalg.svdvals(moved)[0]
    assert torch.equal(weights["1.bias"], start["1.bias"])
    runs.load(tmp_path / "run")


def test_a_run_with_lora_can_be_resumed(
    command: tuple[object, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("peft", reason="needs peft: pip install 'hush[lora]'")
    start = checkpoint(tmp_path / "public.safetensors")
    append = Folder.append

    class Killed(BaseException):
        pass

    def crash(self: Folder, name: str, *rest: object, **options: object) -> None:
        append(self, name, *rest, **options)  # type: ignore[arg-type]
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "append", crash)
        with pytest.raises(Killed):
            files.train(capsys, *command, "--lora", 1)
    files.resume(tmp_path / "run")
    weights = load_file(tmp_path / "run/model.safetensors")
    assert weights.keys() == start.keys()
    assert not torch.equal(weights["1.weight"], start["1.weight"])
    runs.load(tmp_path / "run")


def test_a_model_of_a_private_run_is_not_public(
    command: tuple[object, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    training = command[: command.index("--output")]
    files.train(capsys, *training, "--output", tmp_path / "first")
    first = tmp_path / "first/model.safetensors"
    shutil.copy(first, tmp_path / "copied.safetensors")
    (tmp_path / "linked.safetensors").symlink_to(first)
    for start in (first, tmp_path / "copied.safetensors", tmp_path / "linked.safetensors", tmp_path / "first"):
        flags = ("--output", tmp_path / "run", "--start", start, "--public", WHY)
        assert "the model of a private run" in files.refused(capsys, *training, *flags)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--start", "w.safetensors"), "--public: expected a statement"),
        (("--start", "w.safetensors", "--public", "  "), "--public "),
        (("--public", WHY), "no statement unless there is a checkpoint"),
        (("--lora", "2"), "--start: expected a public checkpoint"),
        (("--replace-head",), "--start: expected a public checkpoint"),
        (("--start", "missing.safetensors", "--public", WHY), "a readable safetensors file"),
        (("--start", "broken.safetensors", "--public", WHY), "a readable safetensors file"),
        (("--start", ".", "--public", WHY), "a readable safetensors file"),
    ],
)
def test_refused_checkpoints(
    flags: tuple[str, ...],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.safetensors").write_bytes(b"not a checkpoint")
    source = files.write_csv(tmp_path / "t.csv")
    command = (source, "--target", "y", *files.DECLARED, "--model", "mlp", "--epsilon", 3)
    assert message in files.refused(capsys, *command, *flags)


# Networks by themselves


def test_every_name_has_a_builder() -> None:
    assert tuple(_BUILDERS) == MODELS


@pytest.mark.parametrize("model", MODELS)
def test_starting_weights_follow_from_the_seed(model: str) -> None:
    torch.manual_seed(17)
    before = torch.get_rng_state()
    first, again, other = (build_network(model, SHAPES[model], 4, seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    state = first.classifier.state_dict()
    assert all(torch.equal(value, again.classifier.state_dict()[name]) for name, value in state.items())
    if model in ("mlp", "cnn"):
        assert not all(torch.equal(value, other.classifier.state_dict()[name]) for name, value in state.items())


@pytest.mark.parametrize("model", MODELS)
def test_a_new_network_predicts_nothing(model: str) -> None:
    """The output layer starts from zero, so every class is equally likely."""
    network = build_network(model, SHAPES[model], 4)
    inputs = torch.rand(5, *SHAPES[model])
    assert network(inputs).shape == (5, 4)
    assert np.allclose(class_probabilities(network, inputs), 0.25)
    assert network(inputs).equal(network.classifier(network.features(inputs)))


class Buffer(nn.Module):
    """Counts its calls in training mode and in evaluation mode."""

    def __init__(self) -> None:
        super().__init__()
        self.modes: list[bool] = []
        self.layer = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.modes.append(self.training)
        logits: torch.Tensor = self.layer(x)
        return logits


def test_probabilities_are_computed_in_evaluation_mode() -> None:
    module = Buffer().train()
    probabilities = class_probabilities(module, torch.zeros(1500, 2))
    assert probabilities.shape == (1500, 2)
    assert probabilities.dtype == np.float64
    assert np.allclose(probabilities.sum(1), 1)
    assert module.modes == [False, False]  # in two parts
    assert module.training


def test_weights_are_read_as_numbers_only(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(2)}, tmp_path / "pickle.safetensors")
    with pytest.raises(InvalidArgument, match="start=.*a readable safetensors file"):
        read_weights(tmp_path / "pickle.safetensors", "start")
    save_file({"a": torch.ones(2)}, tmp_path / "w.safetensors")
    assert read_weights(tmp_path / "w.safetensors", "start")["a"].tolist() == [1, 1]


def test_a_model_without_an_output_layer_cannot_get_a_new_one(tmp_path: Path) -> None:
    network = Network(None, nn.Flatten())
    settings = Settings(data="t", epsilon=1.0, start="w.safetensors", public=WHY, replace_head=True)
    with pytest.raises(HushError, match="without a linear layer"):
        adapt(network, settings)
