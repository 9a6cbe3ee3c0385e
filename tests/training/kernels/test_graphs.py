"""Replaying clipping from CUDA graphs: what is recorded, and that it changes no number."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hush.randomness import TestSource
from hush.training import Flat, privatize
from hush.training.kernels import graphs
from hush.training.kernels.graphs import GraphReplay, Recording, is_recording, reserve_table, retain
from hush.training.per_example.engine import GradientEngine
from training.devices import needs_gpu
from training.models import BATCH, MODELS, losses


def test_tables_are_reserved_side_by_side_and_filled_later() -> None:
    recording = Recording(torch.zeros(10, dtype=torch.int64))
    first, second = recording.reserve(torch.arange(6).view(2, 3)), recording.reserve(torch.arange(4))
    assert first.shape == (2, 3)
    assert not recording.tables.any(), "numbers are written once the recording is over"
    for part, numbers in recording.pending:
        part.copy_(numbers)
    assert recording.tables.tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 2, 3]
    assert second.data_ptr() == recording.tables[6:].data_ptr()
    with pytest.raises(RuntimeError, match="more tables"):
        recording.reserve(torch.arange(1))


def test_tensors_are_retained_by_the_recording_of_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    value = torch.ones(2)
    assert retain(value) is value
    assert not is_recording()
    recording = Recording(torch.zeros(4, dtype=torch.int64))
    monkeypatch.setattr(graphs, "_recording", recording)
    assert is_recording()
    assert retain(value) is value
    assert recording.constants == [value]
    assert reserve_table(torch.arange(2)).shape == (2,)


def test_only_frequent_addresses_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The third call with the same tensors, terms and shapes records; another address begins anew."""
    replay, recorded = GraphReplay(), []

    def record(self: GraphReplay, chosen: Tensor, run: object, retained: list[object]) -> None:
        recorded.append(retained)

    monkeypatch.setattr(GraphReplay, "_record", record)
    value, chosen, form = torch.ones(3), torch.ones(2), object()

    def run(chosen: Tensor) -> tuple[list[Tensor], Tensor]:
        return [value.sum() * chosen], chosen

    for call in range(1, 4):
        (total,), _ = replay("terms", [value], chosen, run, [form])
        assert total.tolist() == [3, 3]
        assert len(recorded) == (call > 2)
    assert recorded == [[form]]
    others = [value.clone(), value[:2], value.double()]
    for other in others:
        replay("terms", [other], chosen, run, [])
    replay("other terms", [value], chosen, run, [])
    replay("terms", [value], chosen.double(), run, [])
    assert len(recorded) == 1


def test_few_graphs_are_kept_and_few_addresses_remembered() -> None:
    replay = GraphReplay()
    for key in range(10 * graphs._MAX_REMEMBERED):
        assert not replay._is_frequent(key)
        assert len(replay._sightings) <= graphs._MAX_REMEMBERED
    replay._graphs = dict.fromkeys(range(graphs._MAX_GRAPHS))  # type: ignore[assignment]
    assert not any(replay._is_frequent("again") for _ in range(10))


def lose_cached_constants() -> None:
    """Free what kernels read besides gradients, and let others write to that memory."""
    from hush.training.kernels import constants, sums_cuda  # the latter needs Triton

    for cache in (
        constants._cached,
        sums_cuda._cached_table,
        sums_cuda._cached_tiles,
        sums_cuda._groups_of_tiles,
    ):
        cache.cache_clear()
    junk = [torch.full((64, 4), 1 << 40, device="cuda") for _ in range(64)]
    del junk


@needs_gpu
@pytest.mark.parametrize("name", ["mlp", "conv2d", "tied", "linear-gram"])
def test_replayed_clipping_is_what_is_computed_step_by_step(name: str) -> None:
    """Other gradients at the same addresses, lost caches, overwritten memory: the same sums as without a graph."""
    torch.manual_seed(5)
    model, x = MODELS[name]()
    model, x = model.cuda(), x.cuda()
    engine = GradientEngine(model, backend="inductor", replay=True)
    engine._passes_are_graphs = True
    with engine.batch(BATCH):
        engine.backward(losses(model, x))
        gradients = list(engine._gradients)
        for step in range(12):
            chosen = (torch.arange(BATCH) % (2 + step % 3) == 0).float()
            clipping = Flat(0.1 if step < 8 else 0.2)
            replayed = bool(engine._graphs._graphs)
            if step in (5, 6, 7):
                lose_cached_constants()
            results = {}
            for replay in (True, False):
                engine._gradients, engine._may_replay = list(gradients), replay
                total = engine.clipped_sum(clipping, chosen)
                results[replay] = [total.norms, *(value.clone() for value in total.gradients.values())]
            for from_graph, direct in zip(results[True], results[False], strict=True):
                assert torch.allclose(from_graph, direct, rtol=1e-3, atol=1e-6), step
            for number, value in enumerate(gradients):
                if value is not None and number not in engine._recorder.layout.inputs:  # which may be indices
                    value.mul_(1.1)
    assert replayed, "nothing was recorded: this test compared nothing"
    assert engine._graphs._can_record


@needs_gpu
@pytest.mark.parametrize("physical_batch_size", [12, 48])
def test_runs_with_and_without_replays_end_with_the_same_weights(physical_batch_size: int) -> None:
    """Also where a batch comes in pieces, whose sums would lie at the same address."""
    x, y = torch.randn(48, 20), torch.randint(0, 3, (48,))
    final_weights = []
    for replay in (False, True):
        torch.manual_seed(6)
        model = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 3)).cuda()
        private = privatize(
            model,
            torch.optim.SGD(model.parameters(), lr=0.1),
            (x, y),
            noise_multiplier=0.01,
            delta=1e-5,
            num_steps=20,
            physical_batch_size=physical_batch_size,
            source=TestSource(7),
        )
        private._sums.engine._may_replay = replay
        for inputs, targets in private.loader:
            private.step(F.cross_entropy(model(inputs.cuda()), targets.cuda(), reduction="none"))
        final_weights.append([param.detach().clone() for param in model.parameters()])
        assert bool(private._sums.engine._graphs._graphs) is replay
    for direct, replayed in zip(*final_weights, strict=True):
        assert torch.allclose(direct, replayed, atol=1e-4)
