"""Training a part of a model: frozen parameters, and new output layers."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from hush.errors import InvalidArgument, Unsupported
from hush.training import check, freeze_except, replace_head
from training.towers import Tied, Tower, changed, few, losses, snapshot, train, with_shared_layer


def test_only_trained_parameters_move() -> None:
    model = Tower(fc=nn.Linear(8, 2))
    names = freeze_except(model, "fc", "body.*.bias")
    assert names == ("body.0.bias", "body.2.bias", "fc.weight", "fc.bias")
    before = snapshot(model)
    train(model)
    assert changed(model, before) == set(names)
    assert all(param.grad is None for param in model.parameters() if not param.requires_grad)


def test_freezing_again_unfreezes_matching_parameters() -> None:
    model = Tower(fc=nn.Linear(8, 2))
    freeze_except(model, "fc")
    assert freeze_except(model, "body.0") == ("body.0.weight", "body.0.bias")
    assert not model.fc.weight.requires_grad  # type: ignore[union-attr]


def test_a_pattern_that_matches_nothing_is_refused_with_the_names_that_exist() -> None:
    model = Tower(fc=nn.Linear(8, 2))
    with pytest.raises(InvalidArgument, match=r"^patterns='head': .*body\.0\.weight.*fc\.bias"):
        freeze_except(model, "fc", "head")
    assert all(param.requires_grad for param in model.parameters()), "nothing was changed"
    with pytest.raises(InvalidArgument, match="^patterns="):
        freeze_except(model)
    with pytest.raises(InvalidArgument, match="^patterns"):
        freeze_except(model, ["weight"])  # type: ignore[arg-type]


def test_a_parameter_with_two_names_matches_by_either() -> None:
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


def test_a_new_head_is_not_tied() -> None:
    model = Tied()
    table = model.embedding.weight.detach().clone()
    replace_head(model, 11)
    assert model.lm_head.weight is not model.embedding.weight
    assert torch.equal(model.embedding.weight, table)
    freeze_except(model, "lm_head")
    assert not model.embedding.weight.requires_grad


AMBIGUOUS: dict[str, tuple[nn.Module, str]] = {
    "two names": (Tower(fc=nn.Linear(8, 9), head=nn.Linear(9, 9)), "fc or head"),
    "two heads": (Tower(mean=nn.Linear(8, 1), variance=nn.Linear(8, 1)), "mean or variance"),
    "a convolution after": (nn.Sequential(nn.Linear(6, 8), nn.Unflatten(1, (8, 1)), nn.Conv1d(8, 9, 1)), "0 or 2"),
    "blocks": (Tower(blocks=nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])), "blocks.1"),
}


@pytest.mark.parametrize("kind", AMBIGUOUS)
def test_an_ambiguous_head_is_refused_with_the_candidates(kind: str) -> None:
    model, candidates = copy.deepcopy(AMBIGUOUS[kind])
    with pytest.raises(InvalidArgument, match=f"^name=None: .*{candidates}"):
        replace_head(model, 4)
    chosen = candidates.split(" or ")[-1]
    assert replace_head(model, 4, name=chosen) == chosen


def test_heads_that_cannot_be_replaced_are_refused() -> None:
    with pytest.raises(Unsupported, match="fc and again"):
        replace_head(with_shared_layer(), 4, name="fc")
    with pytest.raises(InvalidArgument, match="^model="):
        replace_head(nn.Linear(3, 2), 4)
    with pytest.raises(InvalidArgument, match=r"^name='body': .*body\.2"):
        replace_head(Tower(), 4, name="body")
    with pytest.raises(Unsupported, match="never learns"):
        replace_head(nn.Sequential(nn.Linear(6, 3), nn.ReLU(), nn.Flatten()), 4)
    with pytest.raises(InvalidArgument, match="^num_outputs="):
        replace_head(Tower(), 0)


def test_the_output_projection_of_attention_is_not_a_head() -> None:
    model = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True)
    wrapped = nn.ModuleDict({"attention": model.self_attn, "out": nn.Linear(6, 3), "more": nn.MultiheadAttention(6, 2)})
    assert replace_head(wrapped, 4) == "out"
