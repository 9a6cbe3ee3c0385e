"""Training parts of models: frozen weights, new heads, low-rank products, and a public phase before the private one."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hush.errors import InvalidArgument, Unsupported
from hush.randomness import TestSource
from hush.training import (
    AdamBC,
    LoraLinear,
    PrivateTraining,
    PublicPhase,
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


class Tower(nn.Module):
    """A body, and whatever modules are given, under their names; the forward chains them."""

    def __init__(self, **parts: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh())
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: Tensor) -> Tensor:
        for part in self.children():
            x = part(x)
        return x


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.lm_head = nn.Linear(6, 11, bias=False)
        self.lm_head.weight = self.embedding.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.lm_head(torch.tanh(self.embedding(x)))


def data(count: int = 120) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    x = torch.randn(count, 6)
    return x, (x[:, 0] > 0).long()


def losses(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1], reduction="none")


def few() -> tuple[Tensor, Tensor]:
    return tuple(part[:5] for part in data())  # type: ignore[return-value]


def train(model: nn.Module, num_steps: int = 3, **settings: Any) -> PrivateTraining:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    chosen = {"noise_multiplier": 1.0, "delta": 1e-5, "batch_size": 30, "source": TestSource(3)} | settings
    private = privatize(model, optimizer, data(), num_steps=num_steps, **chosen)
    for x, y in private.loader:
        private.step(F.cross_entropy(private.model(x), y, reduction="none"))
    return private


def kept(model: nn.Module) -> dict[str, Tensor]:
    return {name: param.detach().clone() for name, param in model.named_parameters()}


def moved(model: nn.Module, before: dict[str, Tensor]) -> set[str]:
    return {name for name, param in model.named_parameters() if not torch.equal(param, before[name])}


def test_only_what_is_trained_moves() -> None:
    model = Tower(fc=nn.Linear(8, 2))
    names = freeze_except(model, "fc", "body.*.bias")
    assert names == ("body.0.bias", "body.2.bias", "fc.weight", "fc.bias")
    before = kept(model)
    train(model)
    assert moved(model, before) == set(names)
    assert all(param.grad is None for param in model.parameters() if not param.requires_grad)


def test_freezing_again_frees_what_matches() -> None:
    model = Tower(fc=nn.Linear(8, 2))
    freeze_except(model, "fc")
    assert freeze_except(model, "body.0") == ("body.0.weight", "body.0.bias")
    assert not model.fc.weight.requires_grad  # type: ignore[union-attr]


def test_patterns_that_match_nothing_are_named_with_what_there_is() -> None:
    model = Tower(fc=nn.Linear(8, 2))
    with pytest.raises(InvalidArgument, match=r"^patterns='head': .*body\.0\.weight.*fc\.bias"):
        freeze_except(model, "fc", "head")
    assert all(param.requires_grad for param in model.parameters()), "nothing was done"
    with pytest.raises(InvalidArgument, match="^patterns="):
        freeze_except(model)


def test_a_parameter_with_two_names_is_found_by_either() -> None:
    assert freeze_except(Tied(), "lm_head") == ("embedding.weight",)


HEADS: dict[str, tuple[nn.Module, str]] = {
    "fc": (Tower(fc=nn.Linear(8, 9)), "fc"),
    "classifier": (Tower(classifier=nn.Sequential(nn.Dropout(), nn.Linear(8, 7), nn.Linear(7, 9))), "classifier.2"),
    "heads": (Tower(heads=nn.Sequential(), more=nn.Identity(), head=nn.Linear(8, 9)), "head"),
    "sequential": (nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 9), nn.Softplus()), "2"),
    "nested": (nn.Sequential(Tower(fc=nn.Linear(8, 9))), "0.fc"),
    "outermost": (Tower(aux=Tower(fc=nn.Linear(8, 6)), head=nn.Linear(8, 9)), "head"),
    "chain": (Tower(one=nn.Linear(8, 8), two=nn.Linear(8, 9)), "two"),
    "last": (Tower(whatever=nn.Linear(8, 9, bias=False)), "whatever"),
    "tied": (Tied(), "lm_head"),
    "convolution": (
        nn.Sequential(nn.Unflatten(1, (6, 1, 1)), nn.Conv2d(6, 9, 1, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        "1",
    ),
}


@pytest.mark.parametrize("kind", HEADS)
def test_heads_are_found_and_replaced(kind: str) -> None:
    model, name = copy.deepcopy(HEADS[kind])
    old: Any = model.get_submodule(name)
    model.eval()
    assert replace_head(model, 4) == name
    new: Any = model.get_submodule(name)
    assert type(new) is type(old)
    assert (new.bias is None) == (old.bias is None)
    assert not new.training
    assert new.weight.shape == (4, *old.weight.shape[1:])
    assert all(param.requires_grad and not param.any() for param in new.parameters())
    if kind not in ("tied", "outermost"):
        assert model(torch.randn(5, 6)).shape == (5, 4)
        check(model, few(), losses)


def test_a_head_of_a_tied_model_is_freed() -> None:
    model = Tied()
    table = model.embedding.weight.detach().clone()
    replace_head(model, 11)
    assert model.lm_head.weight is not model.embedding.weight
    assert torch.equal(model.embedding.weight, table)
    freeze_except(model, "lm_head")
    assert not model.embedding.weight.requires_grad


def shared() -> nn.Module:
    layer = nn.Linear(8, 8)
    return Tower(fc=layer, again=layer)


AMBIGUOUS: dict[str, tuple[nn.Module, str]] = {
    "two names": (Tower(fc=nn.Linear(8, 9), head=nn.Linear(9, 9)), "fc or head"),
    "two heads": (Tower(mean=nn.Linear(8, 1), variance=nn.Linear(8, 1)), "mean or variance"),
    "a convolution after": (nn.Sequential(nn.Linear(6, 8), nn.Unflatten(1, (8, 1)), nn.Conv1d(8, 9, 1)), "0 or 2"),
    "blocks": (Tower(blocks=nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])), "blocks.1"),
}


@pytest.mark.parametrize("kind", AMBIGUOUS)
def test_a_guess_is_refused_with_the_candidates(kind: str) -> None:
    model, named = copy.deepcopy(AMBIGUOUS[kind])
    with pytest.raises(InvalidArgument, match=f"^name=None: .*{named}"):
        replace_head(model, 4)
    chosen = named.split(" or ")[-1]
    assert replace_head(model, 4, name=chosen) == chosen


def test_heads_that_cannot_be_replaced_are_refused() -> None:
    with pytest.raises(Unsupported, match="fc and again"):
        replace_head(shared(), 4, name="fc")
    with pytest.raises(InvalidArgument, match="^model="):
        replace_head(nn.Linear(3, 2), 4)
    with pytest.raises(InvalidArgument, match=r"^name='body': .*body\.2"):
        replace_head(Tower(), 4, name="body")
    with pytest.raises(Unsupported, match="never learns"):
        replace_head(nn.Sequential(nn.Linear(6, 3), nn.ReLU(), nn.Flatten()), 4)
    with pytest.raises(InvalidArgument, match="^num_outputs="):
        replace_head(Tower(), 0)


def test_an_attention_layers_projection_is_no_head() -> None:
    model = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True)
    wrapped = nn.ModuleDict({"attention": model.self_attn, "out": nn.Linear(6, 3), "more": nn.MultiheadAttention(6, 2)})
    assert replace_head(wrapped, 4) == "out"


def lora(**settings: Any) -> nn.Module:
    torch.manual_seed(7)
    model = Tower(fc=nn.Linear(8, 2))
    add_lora(model, **({"rank": 2, "targets": ("body.?", "fc"), "alpha": 3.0} | settings))
    with torch.no_grad():
        for name, param in model.named_parameters():
            if "lora_up" in name:
                param.normal_()
    return model


def test_lora_begins_as_the_model_that_it_was() -> None:
    model = Tower(fc=nn.Linear(8, 2))
    x, _ = few()
    before = model(x).detach()
    assert add_lora(model, rank=2, targets="*") == ("body.0", "body.2", "fc")
    assert torch.equal(model(x), before)
    trained = {name for name, param in model.named_parameters() if param.requires_grad}
    layers = ("body.0", "body.2", "fc")
    assert trained == {f"{layer}.lora_{way}.weight" for layer in layers for way in ("down", "up")}


@pytest.mark.parametrize("settings", [{}, {"targets": "0"}, {"targets": "body.*", "also_train": ("fc", "*.bias")}])
def test_lora_is_exact(settings: dict[str, Any]) -> None:
    model = lora(**settings)
    check(model, few(), losses, clip_norm=0.5)
    fast, plain = (way(model, few(), losses, clip_norm=0.5) for way in (clipped_sum, looped_sum))
    trained = {name for name, param in model.named_parameters() if param.requires_grad}
    assert set(fast.gradients) == set(plain.gradients) == trained
    assert all(param.grad is None for param in model.parameters())
    assert ("fc.weight" in trained) == ("also_train" in settings)


def test_the_weight_beside_a_product_is_frozen_whatever_else_is_trained() -> None:
    model = lora(targets="body.0", also_train=("body.0", "fc"))
    trained = [name for name, param in model.named_parameters() if param.requires_grad and "lora" not in name]
    assert trained == ["body.0.base.bias", "fc.weight", "fc.bias"]


def test_lora_is_exact_on_sequences() -> None:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    add_lora(model, rank=3, targets="*")
    nn.init.normal_(model[2].lora_up.weight)  # type: ignore[union-attr, arg-type]
    batch = (torch.randn(4, 7, 6), torch.zeros(4))
    check(model, batch, lambda module, each: module(each[0]).square().sum((1, 2)), clip_norm=0.5)


def test_lora_trains_and_leaves_the_base_alone() -> None:
    model = lora()
    before = kept(model)
    train(model)
    assert moved(model, before) == {name for name in before if "lora" in name}


def test_merging_gives_plain_layers_that_do_the_same() -> None:
    model = lora()
    train(model).close()
    x, _ = few()
    with torch.no_grad():
        before = model(x)
        assert merge_lora(model) == ("body.0", "body.2", "fc")
        assert torch.allclose(model(x), before, atol=1e-5)
    assert set(model.state_dict()) == set(Tower(fc=nn.Linear(8, 2)).state_dict())
    assert type(model.fc) is nn.Linear
    with pytest.raises(InvalidArgument, match="^model="):
        merge_lora(model)


def test_merging_leaves_a_shared_table_alone() -> None:
    model = Tied()
    table = model.embedding.weight.detach().clone()
    add_lora(model, rank=2, targets="lm_head")
    assert isinstance(model.lm_head, LoraLinear)
    nn.init.normal_(model.lm_head.lora_up.weight)
    x = torch.arange(5).reshape(5, 1)
    before = model(x).detach()
    merge_lora(model)
    assert torch.allclose(model(x), before, atol=1e-5)
    assert torch.equal(model.embedding.weight, table)


def test_a_layer_in_two_places_is_wrapped_in_both() -> None:
    model: Any = shared()
    add_lora(model, rank=2, targets="fc")
    assert model.fc is model.again
    nn.init.normal_(model.fc.lora_up.weight)
    check(model, few(), losses)
    merge_lora(model)
    assert model.fc is model.again
    assert type(model.again) is nn.Linear


def test_code_that_reads_a_layers_weight_reads_the_sum() -> None:
    """As torch's own encoder layer does, in evaluation mode."""
    torch.manual_seed(5)
    model = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True, dropout=0.0).eval()
    add_lora(model, rank=2, targets="linear?")
    nn.init.normal_(model.linear2.lora_up.weight)  # type: ignore[arg-type, union-attr]
    x = torch.randn(4, 3, 6)
    with torch.no_grad():
        fast = model(x)
        assert torch.allclose(fast, model.train()(x), atol=1e-5)
    check(model, (x,), lambda module, batch: module(batch[0]).cos().sum((1, 2)))


def test_lora_refuses_what_it_cannot_do() -> None:
    with pytest.raises(InvalidArgument, match=r"^targets='q_proj': .*body\.0, body\.2"):
        add_lora(Tower(), rank=2, targets="q_proj")
    with pytest.raises(InvalidArgument, match="^targets="):
        add_lora(Tower(), rank=2, targets=())
    with pytest.raises(InvalidArgument, match="^rank="):
        add_lora(Tower(), rank=0, targets="*")
    with pytest.raises(InvalidArgument, match="^alpha="):
        add_lora(Tower(), rank=1, targets="*", alpha=float("nan"))
    with pytest.raises(Unsupported, match="already"):
        add_lora(lora(), rank=2, targets="*")


def test_a_model_in_a_private_run_is_not_changed() -> None:
    model = lora()
    private = train(model)
    for change in (
        lambda: freeze_except(model, "fc"),
        lambda: replace_head(model, 3),
        lambda: add_lora(model, rank=2, targets="*"),
        lambda: merge_lora(model),
        lambda: pretrain(
            model, torch.optim.SGD(model.parameters(), lr=0.1), data(), public="x", epochs=1, batch_size=9
        ),
    ):
        with pytest.raises(Unsupported, match="private run"):
            change()
    private.close()
    merge_lora(model)


def test_hugging_faces_conv1d() -> None:
    """A layer of that name, from a module of that name: hush knows it without importing the package."""

    class Conv1D(nn.Module):
        __module__ = "transformers.pytorch_utils"

        def __init__(self) -> None:
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.randn(6, 4)), nn.Parameter(torch.randn(4))

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.weight + self.bias

    model = nn.Sequential(Conv1D(), nn.Tanh(), nn.Linear(4, 2))
    add_lora(model, rank=2, targets="0")
    nn.init.normal_(model[0].lora_up.weight)  # type: ignore[union-attr, arg-type]
    check(model, few(), losses)
    with torch.no_grad():
        before = model(few()[0])
        merge_lora(model)
        assert torch.allclose(model(few()[0]), before, atol=1e-5)
    assert type(model[0]) is Conv1D


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_pefts_lora_is_exact_and_trains() -> None:
    peft = pytest.importorskip("peft", reason="PEFT is not installed")
    torch.manual_seed(8)
    config = peft.LoraConfig(r=2, target_modules=["body.0", "body.2"], modules_to_save=["fc"], lora_dropout=0.0)
    model = peft.get_peft_model(Tower(fc=nn.Linear(8, 2)), config)
    with torch.no_grad():
        for name, param in model.named_parameters():
            if "lora_B" in name:
                param.normal_()
    check(model, few(), losses, clip_norm=0.5)
    before = kept(model)
    train(model).close()
    trained = {name for name, param in model.named_parameters() if param.requires_grad}
    assert moved(model, before) == trained
    assert any("lora_A" in name for name in trained)
    assert any("modules_to_save" in name for name in trained)
    with torch.no_grad():
        outputs = model(few()[0])
        assert torch.allclose(model.merge_and_unload()(few()[0]), outputs, atol=1e-5)


WHY = "drawn at random, from nobody"


def public_phase(model: nn.Module, optimizer: Any = None, **settings: Any) -> PublicPhase:
    chosen: Any = torch.optim.SGD(model.parameters(), lr=0.2) if optimizer is None else optimizer
    return pretrain(model, chosen, data(70), **({"public": WHY, "epochs": 4, "batch_size": 20} | settings))


def test_a_public_phase_trains_and_is_stated() -> None:
    torch.manual_seed(2)
    model = Tower(fc=nn.Linear(8, 2))
    before = losses(model, data()).mean().item()
    phase = public_phase(model, epochs=20)
    # From 60 starts, it falls to 0.10 +- 0.01 of what it was: 80 standard deviations below 1.
    assert losses(model, data()).mean().item() < before
    assert phase == PublicPhase(WHY, 80)
    replace_head(model, 2)
    freeze_except(model, "fc")
    private, plain = train(model, starts_from=phase), train(Tower(fc=nn.Linear(8, 2)))
    assert private.guarantee().epsilon == plain.guarantee().epsilon, "only the private phase is accounted for"
    assert private.plan._event() == plain.plan._event()
    assert any(WHY in each for each in private.guarantee().assumptions)
    assert WHY in " ".join(private.guarantee().explain().split())
    assert not any("public" in each for each in plain.guarantee().assumptions)


def test_the_public_phase_is_that_of_a_plain_loop() -> None:
    model = Tower(fc=nn.Linear(8, 2))
    models = [model, copy.deepcopy(model)]
    public_phase(models[0], epochs=1, generator=torch.Generator().manual_seed(3))
    optimizer = torch.optim.SGD(models[1].parameters(), lr=0.2)
    x, y = data(70)
    order = torch.randperm(70, generator=torch.Generator().manual_seed(3))
    for some in order.split(20):
        optimizer.zero_grad()
        F.cross_entropy(models[1](x[some]), y[some]).backward()
        optimizer.step()
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_one_optimizer_for_both_phases() -> None:
    """What AdamBC takes out of its second moment is the noise of the steps that had any."""
    model = Tower(fc=nn.Linear(8, 2))
    optimizer = AdamBC(model.parameters(), lr=0.01, betas=(0.9, 0.5))
    phase = public_phase(model, optimizer)
    assert optimizer.noise_stddev == 0
    private = privatize(
        model,
        optimizer,
        data(),
        noise_multiplier=1.0,
        delta=1e-5,
        num_steps=1,
        batch_size=30,
        starts_from=phase,
    )
    for x, y in private.loader:
        private.step(F.cross_entropy(model(x), y, reduction="none"))
    assert optimizer.state[model.fc.weight]["noise_variance"] == pytest.approx(0.5 / 30**2)  # type: ignore[index, union-attr]


def test_a_run_goes_on_from_the_same_start_only() -> None:
    private = train(Tower(fc=nn.Linear(8, 2)), starts_from=PublicPhase("weights from elsewhere"))
    settings: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-5, "num_steps": 3, "batch_size": 30}

    def other(starts_from: PublicPhase | None) -> PrivateTraining:
        model = Tower(fc=nn.Linear(8, 2))
        return privatize(
            model, torch.optim.SGD(model.parameters(), lr=0.5), data(), starts_from=starts_from, **settings
        )

    with pytest.raises(InvalidArgument, match="^plan="):
        other(None).load_state_dict(private.state_dict())
    resumed = other(PublicPhase("weights from elsewhere"))
    resumed.load_state_dict(private.state_dict())
    assert resumed.guarantee() == private.guarantee()


@pytest.mark.parametrize("why", ["", "  ", None, 3])
def test_a_public_phase_says_why(why: Any) -> None:
    model = Tower(fc=nn.Linear(8, 2))
    before = kept(model)
    with pytest.raises(InvalidArgument, match="^public="):
        public_phase(model, public=why)
    assert not moved(model, before)


def test_a_plan_takes_a_record_only() -> None:
    with pytest.raises(InvalidArgument, match="^starts_from="):
        train(Tower(fc=nn.Linear(8, 2)), starts_from="public")
