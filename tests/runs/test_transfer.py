"""Starting from a public model: what is taken from it, what is trained, and that the reason is stated."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from hush import runs
from hush.runs.networks import Description
from report.pages import check
from runs import files

WHY = "made up for a test, of nobody's data"


def checkpoint(path: Path, num_classes: int = 2) -> dict[str, torch.Tensor]:
    """Write the weights of a model with other numbers in them than a new one has."""
    generator = torch.Generator().manual_seed(1)
    model = Description("mlp", (2,), num_classes).build().trained
    weights = {name: torch.randn(value.shape, generator=generator) for name, value in model.state_dict().items()}
    save_file(weights, path)
    return weights


@pytest.fixture
def begun(tmp_path: Path) -> tuple[object, ...]:
    source = files.write_csv(tmp_path / "t.csv")
    start = ("--start", tmp_path / "public.safetensors", "--public", WHY)
    command = (source, "--target", "y", *files.DECLARED, "--model", "mlp", "--epsilon", 3)
    return *command, "--output", tmp_path / "run", *start


def test_the_reason_is_stated(begun: tuple[object, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = checkpoint(tmp_path / "public.safetensors")
    files.train(capsys, *begun)
    promised = json.loads((tmp_path / "run/guarantee.json").read_text())
    assert any(WHY in each for each in promised["assumptions"])
    assert WHY in check((tmp_path / "run/report.html").read_text()).text
    found = load_file(tmp_path / "run/model.safetensors")
    # A few noisy steps away from where it began, not from a new model. In 20 runs, the ratio of both distances was
    # exp(1.39 +- 0.02): 56 standard deviations from 1.
    ends, starts = (torch.cat([weights[name].flatten() for name in start]) for weights in (found, start))
    assert torch.dist(ends, starts) < ends.norm()


def test_a_new_head(begun: tuple[object, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = checkpoint(tmp_path / "public.safetensors", num_classes=7)
    assert "does not fit" in files.refused(capsys, *begun)
    files.train(capsys, *begun, "--replace-head", "--train-only", "3")
    found = load_file(tmp_path / "run/model.safetensors")
    assert found["3.weight"].shape == (2, 256)
    assert torch.equal(found["1.weight"], start["1.weight"])  # frozen
    # In 20 runs, the rarer class had 0.41 +- 0.04 of the rows: 11 standard deviations from none.
    assert set(runs.load(tmp_path / "run").predict(tmp_path / "t.csv")) == {"0", "1"}


def test_some_layers_only(begun: tuple[object, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = checkpoint(tmp_path / "public.safetensors")
    files.train(capsys, *begun, "--train-only", "*.bias")
    found = load_file(tmp_path / "run/model.safetensors")
    same = {name for name in start if torch.equal(found[name], start[name])}
    assert same == {"1.weight", "3.weight"}


def test_lora(begun: tuple[object, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = checkpoint(tmp_path / "public.safetensors")
    files.train(capsys, *begun, "--lora", 1)
    found = load_file(tmp_path / "run/model.safetensors")
    assert found.keys() == start.keys()  # merged: no other layers
    moved = (found["1.weight"] - start["1.weight"]).double()
    # One direction, but for rounding: in 20 runs, 10^(0.2 +- 0.5) and 10^(-6.38 +- 0.03).
    assert torch.linalg.svdvals(moved)[1] < 1e-5 < torch.linalg.svdvals(moved)[0]
    assert torch.equal(found["1.bias"], start["1.bias"])
    runs.load(tmp_path / "run")


def test_a_model_of_a_private_run_is_not_public(
    begun: tuple[object, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = begun[: begun.index("--output")]
    files.train(capsys, *command, "--output", tmp_path / "first")
    first = tmp_path / "first/model.safetensors"
    shutil.copy(first, tmp_path / "copied.safetensors")
    (tmp_path / "linked.safetensors").symlink_to(first)
    for start in (first, tmp_path / "copied.safetensors", tmp_path / "linked.safetensors", tmp_path / "first"):
        told = files.refused(capsys, *command, "--output", tmp_path / "run", "--start", start, "--public", WHY)
        assert "the model of a private run" in told
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--start", "w.safetensors"), "public="),
        (("--start", "w.safetensors", "--public", "  "), "public="),
        (("--public", WHY), "nothing without a checkpoint"),
        (("--lora", "2"), "start="),
        (("--replace-head",), "start="),
        (("--start", "missing.safetensors", "--public", WHY), "a readable safetensors file"),
        (("--start", "broken.safetensors", "--public", WHY), "a readable safetensors file"),
        (("--start", ".", "--public", WHY), "a readable safetensors file"),
    ],
)
def test_what_is_refused(
    flags: tuple[str, ...],
    told: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.safetensors").write_bytes(b"not a checkpoint")
    source = files.write_csv(tmp_path / "t.csv")
    command = (source, "--target", "y", *files.DECLARED, "--model", "mlp", "--epsilon", 3)
    assert told in files.refused(capsys, *command, *flags)
