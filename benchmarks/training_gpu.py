"""How much longer does a private training step take than an ordinary one on a GPU, and how much more memory?

Both train the same model on the same batches, compiled, in the same types, one after the other in the same process,
each alone in memory. hush is timed with everything: fetching the batch, clipping, secure noise, the optimizer. Its
dataset is one batch, so that every step has exactly as many examples as the ordinary one. Updates
training_gpu.json, in benchmarks/results or another folder, after every workload.

    PYTHONPATH=src python3 benchmarks/training_gpu.py [--only gpt2-1024 noise] [--eager] [--output DIR]
    PYTHONPATH=src python3 benchmarks/training_gpu.py --only noise gpt2-512 vit --quick      # two minutes on an H200
    PYTHONPATH=src python3 benchmarks/training_gpu.py --kernels FILE      # and where the device's time goes
    PYTHONPATH=src python3 benchmarks/training_gpu.py --smoke      # tiny, on any device, nothing written
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import platform
import statistics
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from loaded_models import gpt2, llama, qwen3, vision  # beside this file
from torch import Tensor, nn

import hush
from hush.training.noise.integer_gaussian import integer_gaussian
from training import cnn

ROOT = Path(__file__).resolve().parents[1]
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
BASE = "not private"
MEMORY_BAR, NOISE_BAR = 1.25, 2.5
NOISE_SIZE = 124_439_808  # the parameters of GPT-2 small
WARM_UP = 5
GIB = 2**30

Data = tuple[Tensor, Tensor]
Stepper = Callable[[], None]
Builder = Callable[[Callable[[], nn.Module], Callable[[int], Data], int, bool], Stepper]


class Losses(nn.Module):
    """A network and its loss: from inputs and targets to one cross entropy per example, the mean over its tokens."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        logits = self.network(x).float()
        losses = F.cross_entropy(logits.flatten(0, -2), y.flatten(), reduction="none")
        return losses.view(len(y), -1).mean(1)


class Block(nn.Module):
    """Attention and an MLP, each after a norm."""

    def __init__(self, width: int, heads: int, *, causal: bool, gelu: str) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(gelu), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        size, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(size, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.merge(attended.transpose(1, 2).reshape(size, length, width))
        return x + self.mlp(self.norm2(x))


def initialise(module: nn.Module) -> None:
    """Draw weights as GPT-2 does."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


class Gpt2(nn.Module):
    """GPT-2, its head tied to its token embedding, without dropout."""

    def __init__(self, layers: int, width: int, heads: int, vocabulary: int, length: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads, causal=True, gelu="tanh") for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        self.apply(initialise)

    def forward(self, x: Tensor) -> Tensor:
        positions = torch.arange(x.shape[1], device=x.device).unsqueeze(0)
        return self.head(self.norm(self.blocks(self.tokens(x) + self.positions(positions))))


class Vit(nn.Module):
    """A vision transformer; its class token is the embedding of position 0."""

    def __init__(self, layers: int, width: int, heads: int, pixels: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.positions = nn.Embedding(1 + (pixels // 16) ** 2, width)
        self.blocks = nn.Sequential(*(Block(width, heads, causal=False, gelu="none") for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)
        self.apply(initialise)

    def forward(self, x: Tensor) -> Tensor:
        patches = F.pad(self.patches(x).flatten(2).transpose(1, 2), (0, 0, 1, 0))
        positions = torch.arange(patches.shape[1], device=x.device).unsqueeze(0)
        return self.head(self.norm(self.blocks(patches + self.positions(positions)))[:, 0])


class Recurrent(nn.Module):
    """A recurrent layer that reads characters and predicts the next one."""

    def __init__(self, kind: type[nn.RNNBase], layers: int, width: int) -> None:
        super().__init__()
        self.characters, self.head = nn.Embedding(256, width), nn.Linear(width, 256)
        self.layers = kind(width, width, layers, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(self.characters(x))[0])


def norm(channels: int) -> nn.Module:
    return nn.GroupNorm(math.gcd(32, channels), channels)


class Residual(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), norm(outputs)
        self.conv2, self.norm2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), norm(outputs)
        self.around: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.around = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm(outputs))

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(inner + self.around(x))


def resnet(width: int, blocks: int) -> nn.Module:
    """A ResNet for small images: with two blocks in each of the four stages, ResNet-18."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, 1, 1, bias=False), norm(width), nn.ReLU()]
    inputs = width
    for stage in range(4):
        for block in range(blocks):
            outputs = width << stage
            layers.append(Residual(inputs, outputs, 2 if stage and block == 0 else 1))
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 10))


def text(vocabulary: int, length: int) -> Callable[[int], Data]:
    """Return a maker of random tokens, and of the tokens that follow them."""

    def make(batch: int) -> Data:
        tokens = torch.randint(0, vocabulary, (batch, length + 1), device=DEVICE)
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    return make


def images(channels: int, pixels: int, classes: int) -> Callable[[int], Data]:
    def make(batch: int) -> Data:
        x = torch.randn(batch, channels, pixels, pixels, device=DEVICE)
        return x, torch.randint(0, classes, (batch,), device=DEVICE)

    return make


@dataclass(frozen=True)
class Workload:
    """A model, a batch for it, and by what factor private steps may be slower: in bf16 autocast, or in fp32 by tf32."""

    title: str
    model: Callable[[], nn.Module]
    data: Callable[[int], Data]
    batch: int
    autocast: bool
    bar: float


WORKLOADS = {
    "gpt2-1024": Workload(
        "GPT-2 small, T 1024, B 16", lambda: Gpt2(12, 768, 12, 50257, 1024), text(50257, 1024), 16, True, 1.15
    ),
    "gpt2-512": Workload(
        "GPT-2 small, T 512, B 32", lambda: Gpt2(12, 768, 12, 50257, 1024), text(50257, 512), 32, True, 1.20
    ),
    "vit": Workload(
        "ViT-B/16, 224 px, B 64", lambda: Vit(12, 768, 12, 224, 1000), images(3, 224, 1000), 64, True, 1.30
    ),
    "resnet": Workload("ResNet-18 GN, 32 px, B 256", lambda: resnet(64, 2), images(3, 32, 10), 256, False, 1.6),
    "cnn": Workload("MNIST CNN, B 1024", cnn, images(1, 28, 10), 1024, False, 1.4),
    "lstm": Workload("2 LSTMs of 512, T 128, B 128", lambda: Recurrent(nn.LSTM, 2, 512), text(256, 128), 128, False, 2),
    "gru": Workload("GRU of 256, T 128, B 256", lambda: Recurrent(nn.GRU, 1, 256), text(256, 128), 256, False, 2),
    "hf-gpt2": Workload("GPT-2 of transformers, T 512, B 16", gpt2, text(50257, 512), 16, True, 1.10),
    "hf-llama": Workload(
        "Llama of transformers, 12 layers, T 512, B 16",
        lambda: llama(1024, 12, 32000),
        text(32000, 512),
        16,
        True,
        1.10,
    ),
    "hf-qwen3": Workload(
        "Qwen3 of transformers, 12 layers, T 512, B 16",
        lambda: qwen3(1024, 12, 32000),
        text(32000, 512),
        16,
        True,
        1.10,
    ),
    "timm-vit": Workload(
        "ViT-B/16 of timm, B 64", lambda: vision("vit_base_patch16_224"), images(3, 224, 1000), 64, True, 1.15
    ),
    "timm-resnet": Workload(
        "ResNet-50 GN of timm, B 64", lambda: vision("resnet50_gn"), images(3, 224, 1000), 64, True, 1.4
    ),
    "timm-convnext": Workload(
        "ConvNeXt-T of timm, B 64", lambda: vision("convnext_tiny"), images(3, 224, 1000), 64, True, 1.3
    ),
}
TINY = {
    "gpt2-1024": Workload("tiny GPT-2, T 16, B 4", lambda: Gpt2(2, 64, 4, 512, 16), text(512, 16), 4, True, 1.15),
    "gpt2-512": Workload("tiny GPT-2, T 8, B 8", lambda: Gpt2(2, 64, 4, 512, 16), text(512, 8), 8, True, 1.20),
    "vit": Workload("tiny ViT, 32 px, B 4", lambda: Vit(2, 64, 4, 32, 10), images(3, 32, 10), 4, True, 1.30),
    "resnet": Workload("tiny ResNet, 32 px, B 4", lambda: resnet(8, 1), images(3, 32, 10), 4, False, 1.6),
    "cnn": Workload("MNIST CNN, B 8", cnn, images(1, 28, 10), 8, False, 1.4),
    "lstm": Workload("2 tiny LSTMs, T 8, B 4", lambda: Recurrent(nn.LSTM, 2, 16), text(256, 8), 4, False, 2),
    "gru": Workload("tiny GRU, T 8, B 4", lambda: Recurrent(nn.GRU, 1, 16), text(256, 8), 4, False, 2),
    "hf-gpt2": Workload(
        "tiny GPT-2 of transformers", lambda: gpt2(n_layer=2, n_embd=64, n_head=4), text(512, 8), 4, True, 1.10
    ),
    "hf-llama": Workload("tiny Llama of transformers", lambda: llama(128, 2, 512), text(512, 8), 4, True, 1.10),
    "hf-qwen3": Workload("tiny Qwen3 of transformers", lambda: qwen3(128, 2, 512), text(512, 8), 4, True, 1.10),
    "timm-vit": Workload(
        "tiny ViT of timm",
        lambda: vision("vit_tiny_patch16_224", img_size=32, depth=2, num_classes=10),
        images(3, 32, 10),
        4,
        True,
        1.15,
    ),
    "timm-resnet": Workload(
        "ResNet-50 GN of timm, 32 px", lambda: vision("resnet50_gn", num_classes=10), images(3, 32, 10), 4, True, 1.4
    ),
    "timm-convnext": Workload(
        "ConvNeXt-A of timm, 32 px", lambda: vision("convnext_atto", num_classes=10), images(3, 32, 10), 4, True, 1.3
    ),
}


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


def plain(compiled: bool, *, graphs: bool = False) -> Builder:
    def build(
        make_model: Callable[[], nn.Module], make_data: Callable[[int], Data], batch: int, autocast: bool
    ) -> Stepper:
        model = make_model()
        optimizer = adamw(model)
        forward = torch.compile(model, options={"triton.cudagraphs": graphs}) if compiled else model
        x, y = make_data(batch)

        def step() -> None:
            with torch.autocast(DEVICE.type, torch.bfloat16, enabled=autocast):
                losses = forward(x, y)
            losses.mean().backward()
            optimizer.step()
            optimizer.zero_grad()

        return step

    return build


def ours(compiled: bool) -> Builder:
    def build(
        make_model: Callable[[], nn.Module], make_data: Callable[[int], Data], batch: int, autocast: bool
    ) -> Stepper:
        model = make_model()
        private = hush.privatize(
            model,
            adamw(model),
            make_data(batch),
            noise_multiplier=1.0,
            delta=1e-5,
            num_steps=10**6,
            batch_size=None,
            compile=compiled,
        )
        batches = iter(private.loader)

        def step() -> None:
            x, y = next(batches)
            with torch.autocast(DEVICE.type, torch.bfloat16, enabled=autocast):
                losses = private.model(x, y)
            if not private.step(losses).complete:
                raise RuntimeError("The step took more than one batch")

        return step

    return build


CONTENDERS: dict[str, Builder] = {BASE: plain(True), "hush": ours(True)}
GRAPHS: dict[str, Builder] = {f"{BASE}, CUDA graphs": plain(True, graphs=True)}
EAGER: dict[str, Builder] = {f"{BASE}, eager": plain(False), "hush, eager": ours(False)}


@contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """Let products in fp32 be rounded to tf32, or leave things as they are."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    if allowed:
        matmul.allow_tf32 = cudnn.allow_tf32 = True
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before


def build(workload: Workload, builder: Builder) -> Stepper:
    """Return a contender's step, after some steps of warming up."""
    torch.manual_seed(0)
    step = builder(lambda: Losses(workload.model()).to(DEVICE), workload.data, workload.batch, workload.autocast)
    for _ in range(WARM_UP):
        step()
    return step


def free() -> None:
    """Give back all memory that nothing refers to any more."""
    torch._dynamo.reset()
    gc.collect()
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def peak() -> float:
    """Return the most memory that was held since the last call, in GiB; 0 without a GPU.

    Held, not in use: CUDA graphs keep what they work in.
    """
    if DEVICE.type != "cuda":
        return 0.0
    gibibytes = torch.cuda.max_memory_reserved() / GIB
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return gibibytes


def milliseconds(step: Callable[[], Any], count: int) -> list[float]:
    """Return the time of each of so many steps: on a GPU between events in its own queue, without waiting for it."""
    if DEVICE.type != "cuda":
        marks = [time.perf_counter()]
        for _ in range(count):
            step()
            marks.append(time.perf_counter())
        return [(end - start) * 1e3 for start, end in pairwise(marks)]
    pairs = []
    for _ in range(count):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        step()
        end.record()
        pairs.append((start, end))
    torch.cuda.synchronize()
    return [start.elapsed_time(end) for start, end in pairs]


def summary(times: list[float]) -> dict[str, float]:
    return {"median": statistics.median(times), "min": min(times), "max": max(times)}


def measure(workload: Workload, name: str, builder: Builder, repetitions: int, file: Path | None) -> dict[str, Any]:
    """Return a contender's times and peak memory, alone on the device; or why there are none."""
    free()
    step: Stepper | None = None
    try:
        with tf32(not workload.autocast):
            step = build(workload, builder)
            warming_up = peak()
            times = milliseconds(step, repetitions)
            if file is not None:
                with file.open("a") as out:
                    out.write(f"{workload.title}, {name}\n{kernels(step)}\n\n")
        return {"milliseconds": summary(times), "peak_gib": peak(), "peak_gib_warming_up": warming_up}
    except Exception as error:  # the others are still of interest
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}
    finally:
        del step
        free()


def compare(workload: Workload, builders: dict[str, Builder], repetitions: int, file: Path | None) -> dict[str, Any]:
    """Return figures of all contenders, and what they are over those of ordinary training."""
    contenders = {name: measure(workload, name, builder, repetitions, file) for name, builder in builders.items()}
    base = contenders[BASE]
    ratios: dict[str, dict[str, float]] = {}
    for name, one in contenders.items():
        if name != BASE and "error" not in one and "error" not in base:
            ratios[name] = {"time": one["milliseconds"]["median"] / base["milliseconds"]["median"]}
            if base["peak_gib"]:
                ratios[name]["memory"] = one["peak_gib"] / base["peak_gib"]
    must = {"time": workload.bar, "memory": MEMORY_BAR}
    return {"title": workload.title, "contenders": contenders, "ratios": ratios, "must": must}


def compare_noise(size: int, repetitions: int) -> dict[str, Any]:
    """Return the time of secure noise for a whole model, and what it is over that of torch's own."""
    key = bytes(range(32))
    makers: dict[str, Callable[[], Tensor]] = {
        "torch.randn": lambda: torch.randn(size, device=DEVICE),
        "hush": lambda: integer_gaussian(key, 0, size, stddev=2.0**24, device=DEVICE),
    }
    contenders = {}
    for name, make in makers.items():
        free()
        milliseconds(make, WARM_UP)
        contenders[name] = {"milliseconds": summary(milliseconds(make, repetitions))}
    free()
    ratio = contenders["hush"]["milliseconds"]["median"] / contenders["torch.randn"]["milliseconds"]["median"]
    return {
        "title": f"{size:,} numbers of noise",
        "contenders": contenders,
        "ratios": {"hush": {"time": ratio}},
        "must": {"time": NOISE_BAR},
    }


def line(row: dict[str, Any]) -> str:
    """Return a row of the table: times and memory, and over the first contender's, beside what hush's must be."""
    cells = []
    for name, one in row["contenders"].items():
        time_taken = one.get("error") or f"{one['milliseconds']['median']:.2f} ms"
        cells.append(f"{name} {time_taken}" + (f", {one['peak_gib']:.2f} GiB" if "peak_gib" in one else ""))
    for name, ratios in row["ratios"].items():
        must = row["must"] if name == "hush" else {}
        texts = [f"{what} {value:.3f}x" + (f" (must {must[what]})" if must else "") for what, value in ratios.items()]
        cells.append(f"{name}: {', '.join(texts)}")
    return f"{row['title']:28}" + " | ".join(cells)


def kernels(step: Stepper) -> str:
    """Return where the device's time of two steps goes: milliseconds and calls of the slowest kernels, per step."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        step()
        step()
        torch.cuda.synchronize()
    averages = sorted(profiler.key_averages(), key=lambda kernel: -kernel.self_device_time_total)
    total = sum(kernel.self_device_time_total for kernel in averages)
    rows = [
        f"{kernel.self_device_time_total / 2e3:9.3f} {kernel.count // 2:6} {kernel.key[:110]}"
        for kernel in averages[:30]
    ]
    return "\n".join([f"{total / 2e3:9.3f} ms in all", *rows])


def current_commit() -> str:
    try:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    except OSError:
        commit = ""
    return commit or "unknown"


def update(path: Path, about: dict[str, Any], name: str, row: dict[str, Any]) -> None:
    """Put one workload's row into the file, beside those of others that are there."""
    rows = json.loads(path.read_text())["workloads"] if path.exists() else {}
    versions = {"python": platform.python_version(), "torch": torch.__version__, "cuda": torch.version.cuda}
    report = about | {"versions": versions, "workloads": rows | {name: about | row}}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=[*WORKLOADS, "noise"], default=[*WORKLOADS, "noise"])
    parser.add_argument("--repetitions", type=int, default=30)
    parser.add_argument("--quick", action="store_true", help="leave out CUDA graphs, a third of the time to compile")
    parser.add_argument("--eager", action="store_true", help="time both without compiling, too")
    parser.add_argument("--kernels", type=Path, metavar="FILE", help="add to it each contender's slowest kernels")
    parser.add_argument("--smoke", action="store_true", help="tiny models, few steps, any device, nothing written")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "results", metavar="DIR")
    parser.add_argument("--commit", default=current_commit(), help="what is measured, where git cannot tell")
    options = parser.parse_args()
    if DEVICE.type != "cuda" and not options.smoke:
        parser.error("needs a CUDA GPU; --smoke runs tiny versions anywhere")
    warnings.simplefilter("ignore")
    workloads = TINY if options.smoke else WORKLOADS
    repetitions = 3 if options.smoke else options.repetitions
    builders = CONTENDERS | ({} if options.quick else GRAPHS) | (EAGER if options.eager else {})
    device = torch.cuda.get_device_name() if DEVICE.type == "cuda" else "cpu"
    about = {"commit": options.commit, "device": device, "repetitions": repetitions}
    path = options.output / "training_gpu.json"
    failed = False
    for name in options.only:
        print(f"  {name} ...", file=sys.stderr, flush=True)
        if name == "noise":
            row = compare_noise(10_000 if options.smoke else NOISE_SIZE, repetitions)
        else:
            row = compare(workloads[name], builders, repetitions, options.kernels)
        print(line(row), flush=True)
        failed |= any("error" in one for one in row["contenders"].values())
        if not options.smoke:
            update(path, about, name, row)
    if not options.smoke:
        print(f"Written to {path}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
