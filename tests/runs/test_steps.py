"""The steps of a run: what is trained, what is measured on the way, and what an interruption leaves."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from hush.cli import main
from hush.randomness import TestSource
from hush.runs import Interrupted
from hush.runs import steps as steps_module
from hush.runs.networks import starting_network
from hush.runs.steps import (
    after_step,
    averaging_decay,
    rate_factor,
    row_losses,
    start,
    train_completely,
)
from runs import files
from runs.files import command, resume
from runs.plans import make_data, make_plan, tensors


class Killed(BaseException):
    """Ends a run as a crash does; nothing catches it."""


def test_steps_after_the_last_stored_state_are_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of 40 steps is stored at every second step; what came after that is lost, and published nowhere."""
    source = files.write_csv(tmp_path / "t.csv")
    taken: list[int] = []
    original = steps_module.after_step

    def crash(private: Any, *rest: Any) -> None:
        original(private, *rest)
        taken.append(private.steps_taken)
        if private.steps_taken == 5:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(steps_module, "after_step", crash)
        with pytest.raises(Killed):
            main([*command(source, tmp_path / "run", 40), "--quiet"])

    def count(private: Any, *rest: Any) -> None:
        original(private, *rest)
        taken.append(private.steps_taken)

    monkeypatch.setattr(steps_module, "after_step", count)
    resume(tmp_path / "run")
    assert taken == [1, 2, 3, 4, 5, *range(5, 41)]
    assert [row["step"] for row in files.rows(tmp_path / "run/metrics.jsonl")] == list(range(2, 41, 2))


def test_the_learning_rate_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = files.write_csv(tmp_path / "t.csv")
    rates: list[list[float]] = [[], []]
    original = steps_module.after_step

    def recorded(stop: int, into: list[float]) -> Callable[..., None]:
        def changed(private: Any, *rest: Any) -> None:
            into.append(private.optimizer.param_groups[0]["lr"])
            original(private, *rest)
            if private.steps_taken == stop:
                raise Killed

        return changed

    monkeypatch.setattr(steps_module, "after_step", recorded(100, rates[0]))
    main([*command(source, tmp_path / "uninterrupted", 20), "--quiet"])
    monkeypatch.setattr(steps_module, "after_step", recorded(15, rates[1]))
    with pytest.raises(Killed):
        main([*command(source, tmp_path / "run", 20), "--quiet"])
    monkeypatch.setattr(steps_module, "after_step", recorded(100, rates[1]))
    resume(tmp_path / "run")
    assert len(set(rates[0])) > 5
    assert rates[1][:15] + rates[1][16:] == pytest.approx(rates[0][:15] + rates[0][15:])


def test_ctrl_c_ends_the_run_after_a_step(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step is finished and stored; nothing is lost."""
    source, run = files.write_csv(tmp_path / "t.csv"), tmp_path / "run"
    original, taken = steps_module.after_step, []

    def stop(private: Any, *rest: Any) -> None:
        original(private, *rest)
        taken.append(private.steps_taken)
        if private.steps_taken == 7:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(steps_module, "after_step", stop)
    assert main([*command(source, run, 100), "--quiet"]) == 130
    assert signal.getsignal(signal.SIGINT) is before
    message = capsys.readouterr().err
    assert "interrupted after step 7 of 100" in message
    assert message.count("\n") == 1
    taken.clear()
    resume(run)
    assert taken == list(range(8, 101))
    assert [row["step"] for row in files.rows(run / "metrics.jsonl")] == list(range(5, 101, 5))


# The parts


def test_an_example_without_a_target_has_no_gradient() -> None:
    logits = torch.randn(3, 4, requires_grad=True)
    losses = row_losses(logits, torch.tensor([2, -1, 0]))
    losses.sum().backward()  # type: ignore[no-untyped-call]
    assert losses[1] == 0
    assert logits.grad is not None
    assert (logits.grad.abs().sum(1) > 0).tolist() == [True, False, True]


def test_training_starts_under_the_plan_of_the_run(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, learning_rate=0.3, momentum=0.7)
    data = make_data(tmp_path)
    network = starting_network(plan.settings, data)
    private, average = start(plan, network.classifier, tensors(data), units=None, source=TestSource(0))
    assert private.plan is plan.training
    (group,) = private.optimizer.param_groups  # type: ignore[union-attr]
    assert (group["lr"], group["momentum"]) == (0.3, 0.7)
    assert average is not None
    private.steps_taken = 9  # of 10
    after_step(private, average, 0.3)
    assert group["lr"] == pytest.approx(0.3 * 0.28)
    without = make_plan(tmp_path, averaging=False)
    classifier = starting_network(without.settings, data).classifier
    assert start(without, classifier, tensors(data), units=None, source=TestSource(0))[1] is None


def test_the_learning_rate_falls_in_the_second_half() -> None:
    assert [rate_factor(progress) for progress in (0.0, 0.49)] == [1.0, 1.0]
    assert [rate_factor(progress) for progress in (0.5, 0.75, 1.0)] == pytest.approx([1.0, 0.55, 0.1])


@pytest.mark.parametrize(("num_steps", "decay"), [(1, 0.5), (20, 0.5), (100, 0.9), (1000, 0.99)])
def test_the_average_is_about_the_last_tenth(num_steps: int, decay: float) -> None:
    assert averaging_decay(num_steps) == pytest.approx(decay)


def test_a_training_from_the_first_step_to_the_last(tmp_path: Path) -> None:
    plan, data = make_plan(tmp_path, learning_rate=4.0), make_data(tmp_path)
    ticks: list[None] = []
    networks = []
    for seed in (1, 1, 2):
        networks.append(starting_network(plan.settings, data))
        source = TestSource(seed)
        train_completely(plan, networks[-1], tensors(data), units=None, source=source, tick=lambda: ticks.append(None))
    assert len(ticks) == 30
    first, again, other = (network.classifier.state_dict()["1.weight"] for network in networks)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    # The first column decides the class. With 30 seeds, this difference was 27.8 +- 0.9.
    assert first[1, 0] - first[0, 0] > 10


def test_ctrl_c_is_not_handled_in_other_threads() -> None:
    """Python allows signal handlers in the main thread only."""
    handlers: list[Any] = []

    def enter() -> None:
        before = signal.getsignal(signal.SIGINT)
        with steps_module._deferred_interrupt() as interrupted:
            handlers.extend([before, signal.getsignal(signal.SIGINT), interrupted.is_set()])

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert handlers[0] is handlers[1]
    assert handlers[2] is False


def test_a_second_ctrl_c_stops_at_once() -> None:
    with steps_module._deferred_interrupt() as interrupted:
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupted.wait(600)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_the_message_can_be_pasted_into_a_shell() -> None:
    assert str(Interrupted(Path("my run"), 3, 20)) == (
        "interrupted after step 3 of 20. Continue with: hush train --resume 'my run'"
    )
    assert Interrupted(Path("run")).exit_status == 130
