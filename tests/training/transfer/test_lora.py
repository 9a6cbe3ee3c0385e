"""LoRA adapters by peft: exact per-example gradients, frozen bases, merging, and refusals."""

from __future__ import annotations

import copy
import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hush.errors import InvalidArgument, Unsupported
from hush.randomness import TestSource
from hush.training import (
    PrivateTraining,
    add_lora,
    check,
    clipped_sum,
    freeze_except,
    looped_sum,
    merge_lora,
    pretrain,
    privatize,
    replace_head,
)
from training.towers import Tied, Tower, changed, data, few, losses, snapshot, train, with_shared_layer


@pytest.fixture(autouse=True, scope="module")
def _peft() -> None:
    """Import peft, which takes seconds, in the worker that runs these tests, and not wherever they are collected."""
    global peft
    peft = pytest.importorskip("peft", reason="needs peft: pip install 'hush[lora]'")


def randomize(model: nn.Module) -> nn.Module:
    """Make the adapters matter: they start as zeros, which hides mistakes."""
    with torch.no_grad():
        for name, param in model.named_parameters():
            if "lora_B" in name:
                param.normal_()
    return model


def adapted(**settings: Any) -> nn.Module:
    torch.manual_seed(7)
    model = Tower(fc=nn.Linear(8, 2))
    add_lora(model, **({"rank": 2, "targets": ("body.?", "fc"), "alpha": 3.0} | settings))
    return randomize(model)


def trained_names(model: nn.Module) -> set[str]:
    return {name for name, param in model.named_parameters() if param.requires_grad}


def test_adapters_start_as_the_same_function() -> None:
    model = Tower(fc=nn.Linear(8, 2))
    x, _ = few()
    before = model(x).detach()
    assert add_lora(model, rank=2) == ("body.0", "body.2", "fc")
    assert torch.equal(model(x), before)
    layers = ("body.0", "body.2", "fc")
    assert trained_names(model) == {f"{layer}.lora_{part}.default.weight" for layer in layers for part in "AB"}


def test_the_output_is_the_formula() -> None:
    model: Any = adapted()
    layer, x = model.body[0], torch.randn(5, 6)
    down, up = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    expected = x @ layer.base_layer.weight.T + layer.base_layer.bias + 3.0 / 2 * (x @ down.T) @ up.T
    assert torch.allclose(layer(x), expected, atol=1e-5)


@pytest.mark.parametrize("settings", [{}, {"targets": "0"}, {"targets": "body.*", "also_train": ("fc", "*.bias")}])
def test_per_example_gradients_are_exact(settings: dict[str, Any]) -> None:
    model = adapted(**settings)
    check(model, few(), losses, clip_norm=0.5)
    fast, looped = (compute(model, few(), losses, clip_norm=0.5) for compute in (clipped_sum, looped_sum))
    assert set(fast.gradients) == set(looped.gradients) == trained_names(model)
    for name, gradient in looped.gradients.items():
        assert torch.allclose(fast.gradients[name], gradient, rtol=1e-3, atol=1e-4), name
        assert gradient.abs().max() > 0, name
    assert all(param.grad is None for param in model.parameters())
    assert ("fc.weight" in trained_names(model)) == ("also_train" in settings)


def test_per_example_gradients_are_exact_on_sequences() -> None:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    add_lora(model, rank=3)
    batch = (torch.randn(4, 7, 6), torch.zeros(4))
    check(randomize(model), batch, lambda module, inputs: module(inputs[0]).square().sum((1, 2)), clip_norm=0.5)


@pytest.mark.parametrize(
    "options",
    [
        {"use_rslora": True},
        {"bias": "all"},
        {"lora_bias": True},
        {"modules_to_save": ["fc"]},
        pytest.param({"target_modules": ["conv"]}, id="convolution"),
    ],
    ids=str,
)
def test_pefts_own_models_are_exact(options: dict[str, Any]) -> None:
    torch.manual_seed(8)
    parts = {"shape": nn.Unflatten(1, (1, 8)), "conv": nn.Conv1d(1, 2, 3), "flat": nn.Flatten(), "fc": nn.Linear(12, 2)}
    config = peft.LoraConfig(**({"r": 2, "target_modules": ["body.0", "body.2"]} | options))
    model = randomize(peft.get_peft_model(Tower(**parts), config))
    check(model, few(), losses, clip_norm=0.5)
    before = snapshot(model)
    train(model).close()
    assert changed(model, before) == trained_names(model)
    assert any("lora_A" in name for name in trained_names(model))
    with torch.no_grad():
        outputs = model(few()[0])
        assert torch.allclose(model.merge_and_unload()(few()[0]), outputs, atol=1e-4)


def test_dropout_inside_adapters_is_private_too() -> None:
    """Each example draws its own mask, so no example depends on another: the run's own checks accept it."""
    torch.manual_seed(8)
    config = peft.LoraConfig(r=2, target_modules=["body.0", "body.2"], lora_dropout=0.5)
    model = randomize(peft.get_peft_model(Tower(fc=nn.Linear(8, 2)), config))
    assert train(model).steps_taken == 3


def test_adapters_whose_weights_are_read_elsewhere() -> None:
    """DoRA divides by a norm of both adapters' weights, and an adapted embedding multiplies by them itself."""
    config = peft.LoraConfig(r=2, target_modules=["body.0"], use_dora=True)
    model = randomize(peft.get_peft_model(Tower(fc=nn.Linear(8, 2)), config))
    check(model, few(), losses)
    assert train(model).steps_taken == 3

    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.fc = nn.Embedding(3, 6), nn.Linear(6, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(self.table((x[:, :1] > 0).long()).mean(1))

    for targets in (["table"], ["table", "fc"]):
        model = randomize(peft.get_peft_model(Words(), peft.LoraConfig(r=2, target_modules=targets)))
        check(model, few(), losses)


def test_the_weight_beside_an_adapter_is_frozen_whatever_else_is_trained() -> None:
    model = adapted(targets="body.0", also_train=("body.0", "fc"))
    assert {name for name in trained_names(model) if "lora" not in name} == {
        "body.0.base_layer.bias",
        "fc.weight",
        "fc.bias",
    }


def test_training_leaves_the_base_alone() -> None:
    model = adapted()
    before = snapshot(model)
    train(model)
    assert changed(model, before) == {name for name in before if "lora" in name}


def test_a_run_resumes_with_adapters() -> None:
    def start(seed: int) -> PrivateTraining:
        model = adapted()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        settings: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-5, "batch_size": 30, "num_steps": 4}
        return privatize(model, optimizer, data(), source=TestSource(seed), **settings)

    def train_to(private: PrivateTraining, steps: int) -> PrivateTraining:
        for batch in private.loader:
            private.step(losses(private.model, batch))
            if private.steps_taken == steps:
                break
        return private

    uninterrupted, first, second = train_to(start(3), 4), train_to(start(3), 2), start(99)
    second.load_state_dict(first.state_dict())
    train_to(second, 4)
    assert all(
        torch.equal(*pair) for pair in zip(uninterrupted.model.parameters(), second.model.parameters(), strict=True)
    )


def test_merging_gives_plain_layers_that_compute_the_same() -> None:
    model = adapted()
    train(model).close()
    x, _ = few()
    with torch.no_grad():
        before = model(x)
        assert merge_lora(model) == ("body.0", "body.2", "fc")
        assert torch.allclose(model(x), before, atol=1e-5)
    plain = Tower(fc=nn.Linear(8, 2))
    assert set(model.state_dict()) == set(plain.state_dict())
    assert not hasattr(model, "peft_config")
    assert type(model.fc) is nn.Linear
    with pytest.raises(InvalidArgument, match="^model="):
        merge_lora(model)


def test_merging_leaves_a_tied_table_alone() -> None:
    model = Tied()
    table = model.embedding.weight.detach().clone()
    add_lora(model, rank=2, targets="lm_head")
    x = torch.arange(5).reshape(5, 1)
    before = randomize(model)(x).detach()
    merge_lora(model)
    assert torch.allclose(model(x), before, atol=1e-5)
    assert torch.equal(model.embedding.weight, table)
    assert not torch.equal(model.lm_head.weight, table)


def test_a_layer_in_two_places_is_adapted_in_both() -> None:
    model: Any = with_shared_layer()
    add_lora(model, rank=2, targets="fc")
    assert model.fc is model.again
    check(randomize(model), few(), losses)
    merge_lora(model)
    assert model.fc is model.again
    assert type(model.again) is nn.Linear


def test_torchs_encoder_does_not_skip_adapters() -> None:
    """In evaluation mode, torch's own encoder layer would read the weights of its layers and skip the adapters."""
    torch.manual_seed(5)
    model = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True, dropout=0.0).eval()
    add_lora(model, rank=2, targets="linear?")
    x = torch.randn(4, 3, 6)
    with torch.no_grad():
        evaluated = randomize(model)(x)
        assert torch.allclose(evaluated, model.train()(x), atol=1e-5)
    check(model, (x,), lambda module, batch: module(batch[0]).cos().sum((1, 2)))
    twin = copy.deepcopy(model).eval()
    merge_lora(model)
    with torch.no_grad():
        assert torch.allclose(twin(x), evaluated, atol=1e-5)
        assert torch.allclose(model.eval()(x), evaluated, atol=1e-5)


def test_hugging_faces_conv1d_is_linear() -> None:
    from transformers.pytorch_utils import Conv1D

    torch.manual_seed(6)
    model = nn.Sequential(Conv1D(4, 6), nn.Tanh(), nn.Linear(4, 2))
    assert add_lora(model, rank=2) == ("0", "2")
    check(randomize(model), few(), losses)
    with torch.no_grad():
        before = model(few()[0])
        merge_lora(model)
        assert torch.allclose(model(few()[0]), before, atol=1e-5)
    assert type(model[0]) is Conv1D


def test_refusals() -> None:
    with pytest.raises(InvalidArgument, match=r"^targets='q_proj': .*body\.0, body\.2"):
        add_lora(Tower(), rank=2, targets="q_proj")
    with pytest.raises(InvalidArgument, match="^targets="):
        add_lora(Tower(), rank=2, targets=())
    with pytest.raises(InvalidArgument, match="^rank="):
        add_lora(Tower(), rank=0)
    with pytest.raises(InvalidArgument, match="^alpha="):
        add_lora(Tower(), rank=1, alpha=float("nan"))
    with pytest.raises(Unsupported, match="already"):
        add_lora(adapted(), rank=2)
    config = peft.LoraConfig(r=2, target_modules=["body.0"])
    with pytest.raises(InvalidArgument, match="merge_and_unload"):
        merge_lora(peft.get_peft_model(Tower(), config))


def test_a_model_in_a_private_run_is_not_changed() -> None:
    model = adapted()
    private = train(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for change in (
        lambda: freeze_except(model, "fc"),
        lambda: replace_head(model, 3),
        lambda: add_lora(model, rank=2),
        lambda: merge_lora(model),
        lambda: pretrain(model, optimizer, data(), public="x", epochs=1, batch_size=9),
    ):
        with pytest.raises(Unsupported, match="private run"):
            change()
    private.close()
    merge_lora(model)


def test_without_peft_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(Unsupported, match=r"peft, which is not installed\. pip install 'hush\[lora\]'"):
        add_lora(Tower(), rank=2)
