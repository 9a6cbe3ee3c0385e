"""`hush plan`: what it prints, what it draws, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import hush
from hush import accounting as acc
from hush.cli import main
from hush.cli.commands import plan as plan_module

BASIC = ["plan", "--num-units", "60000", "--batch-size", "256", "--delta", "1e-5"]


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*arguments, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return dict(json.loads(captured.out))


def test_noise_for_a_target(capsys: pytest.CaptureFixture[str]) -> None:
    plan = run_json(capsys, *BASIC, "--num-steps", "3515", "--epsilon", "3")
    assert plan["num_steps"] == 3515
    assert plan["sampling_rate"] == pytest.approx(256 / 60000)
    # The truth is 0.72819740188 (tests/golden); never below it.
    assert 0.72819740 <= plan["noise_multiplier"] <= 0.72819740 * (1 + 1e-5)
    assert 3 * (1 - 1e-5) <= plan["epsilon"] <= 3
    assert [row["epoch"] for row in plan["epochs"]] == pytest.approx(list(range(1, 16)), abs=0.01)
    epsilons = [row["epsilon"] for row in plan["epochs"]]
    assert epsilons == sorted(epsilons)
    assert epsilons[-1] <= 3
    assert all(row["rdp_epsilon"] > row["epsilon"] for row in plan["epochs"])
    assert plan["rdp"]["noise_multiplier"] > plan["noise_multiplier"]
    assert hush.Guarantee.from_json(json.dumps(plan["guarantee"])).epsilon == plan["epsilon"]


def test_epsilon_for_a_noise(capsys: pytest.CaptureFixture[str]) -> None:
    plan = run_json(capsys, *BASIC, "--num-steps", "3515", "--noise-multiplier", "1.1")
    expected = acc.epsilon(noise_multiplier=1.1, sampling_rate=256 / 60000, num_steps=3515, delta=1e-5)
    assert plan["epsilon"] == expected
    assert plan["rdp"]["noise_multiplier"] is None


def test_epochs_are_rounded_up_to_whole_steps(capsys: pytest.CaptureFixture[str]) -> None:
    plan = run_json(capsys, *BASIC, "--epochs", "15", "--noise-multiplier", "1")
    assert plan["num_steps"] == 3516  # 3515.6
    assert [row["epoch"] for row in plan["epochs"]] == pytest.approx(list(range(1, 16)), abs=0.01)


def test_a_group_of_examples_needs_more_noise(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*BASIC, "--num-steps", "100", "--noise-multiplier", "2"]
    assert main([*arguments, "--group-size", "5"]) == 2
    assert "--group-size 5: expected 1 for --unit-kind example. Use --unit-kind user" in capsys.readouterr().err
    single = run_json(capsys, *arguments, "--unit-kind", "user")
    five = run_json(capsys, *arguments, "--unit-kind", "user", "--group-size", "5")
    assert single["epsilon"] == run_json(capsys, *arguments)["epsilon"]
    assert five["epsilon"] > 3 * single["epsilon"]
    assert five["guarantee"]["unit"] == "user"
    step = acc.PoissonSampledEvent(acc.GaussianEvent(2.0), 256 / 60000)
    by_hand = acc.PldAccountant().compose(acc.GroupEvent(step, 5), 100).epsilon(1e-5)
    assert five["epsilon"] == pytest.approx(by_hand, rel=1e-4)


def test_a_window(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*BASIC, "--num-steps", "9", "--noise-multiplier", "2", "--unit-kind", "user", "--window", "week"]
    assert run_json(capsys, *arguments)["guarantee"]["unit"] == "user within one calendar week (UTC)"


def test_renyi_accounting_has_no_bound_for_learned_values(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*BASIC, "--num-steps", "9", "--epsilon", "2", "--learn", "values", "--num-held-out", "6000"]
    plan = run_json(capsys, *arguments)
    assert plan["rdp"] == {"epsilon": None, "noise_multiplier": None}
    assert plan["epsilon"] <= 2
    assert main(arguments) == 0
    assert "Renyi accounting (RDP) states no epsilon for this run." in capsys.readouterr().out


def test_the_text_explains_the_plan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "plan.svg"
    assert main([*BASIC, "--epochs", "3", "--epsilon", "3", "--plot", str(picture)]) == 0
    text = capsys.readouterr().out
    for words in (
        "noise multiplier",
        "Epsilon during training",
        "Renyi accounting",
        "membership attack",
        "Plot written",
    ):
        assert words in text
    assert picture.read_text().startswith("<svg ")


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--epochs", "nan", "--epsilon", "3"], "--epochs nan"),
        (["--epochs", "15", "--epsilon", "nan"], "--epsilon nan"),
        (["--epochs", "15", "--epsilon", "-1"], "--epsilon -1"),
        (["--num-steps", "5", "--noise-multiplier", "1", "--plot", "nowhere/plan.svg"], "--plot"),
        (
            ["--num-steps", "5", "--noise-multiplier", "1", "--plot", "plan.png"],
            "--plot plan.png: expected a file name",
        ),
        (["--num-steps", "5", "--noise-multiplier", "1", "--plot", "plan.txt"], "--plot"),
        (["--num-steps", "0", "--epsilon", "3"], "--num-steps 0"),
        (["--num-steps", "5", "--noise-multiplier", "inf"], "--noise-multiplier inf"),
        (["--num-steps", "5"], "--epsilon: expected either --epsilon or --noise-multiplier"),
        (["--num-steps", "5", "--epsilon", "1", "--noise-multiplier", "1"], "--epsilon 1"),
        (["--num-steps", "5", "--epochs", "1", "--epsilon", "1"], "--epochs 1"),
        (["--num-steps", "100000000", "--epsilon", "1"], "--num-steps 100000000: expected at most 1e+07 steps"),
        (["--epochs", "1e9", "--epsilon", "1"], "--epochs 1e+09: expected at most 1e+07 steps"),
        (
            ["--num-steps", "5", "--noise-multiplier", "1", "--learn", "bounds"],
            "--epsilon: expected a number with --learn",
        ),
        (
            ["--num-steps", "5", "--noise-multiplier", "1", "--num-held-out", "9"],
            "--epsilon: expected a number with --learn",
        ),
        (["--num-steps", "5", "--epsilon", "1", "--num-held-out", "-1"], "--num-held-out -1"),
    ],
)
def test_refusals_are_one_line(capsys: pytest.CaptureFixture[str], extra: list[str], message: str) -> None:
    assert main([*BASIC, *extra]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"hush plan: {message}")
    assert captured.err.count("\n") == 1


def test_a_batch_larger_than_the_data_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--num-units", "10", "--batch-size", "11", "--num-steps", "1", "--epsilon", "1"]) == 2
    assert "--batch-size 11: expected at most the number of units" in capsys.readouterr().err


def test_delta_has_a_cautious_default(capsys: pytest.CaptureFixture[str]) -> None:
    plan = run_json(
        capsys, "plan", "--num-units", "1000000", "--batch-size", "1000", "--num-steps", "10", "--noise-multiplier", "1"
    )
    assert plan["delta"] == pytest.approx(1e-7)


def test_a_plot_that_cannot_be_drawn_is_refused_before_anything_is_computed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def compute(*_: Any) -> None:
        raise AssertionError("computed")

    monkeypatch.setattr(plan_module, "planned_training", compute)
    for name in ("plan.png", "plan.pdf", "no/such/folder/plan.svg"):
        assert main([*BASIC, "--epochs", "3", "--epsilon", "3", "--plot", name]) == 2
        assert capsys.readouterr().err.startswith(f"hush plan: --plot {name}")


def test_long_trainings_have_fewer_rows(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_module, "_MAX_EPOCHS", 3)
    arguments = ["plan", "--num-units", "100", "--batch-size", "50", "--epochs", "8", "--noise-multiplier", "5"]
    plan = run_json(capsys, *arguments, "--delta", "1e-5")
    assert [row["epoch"] for row in plan["epochs"]] == [3, 6, 8]
    assert plan["epochs"][-1]["step"] == plan["num_steps"] == 16


def test_advice_on_the_choices(capsys: pytest.CaptureFixture[str]) -> None:
    plan = run_json(capsys, *BASIC, "--num-steps", "3515", "--epsilon", "3")
    epsilon, delta, method, mechanism = plan["advice"]
    assert epsilon.startswith("epsilon: 3 is common in learning")
    assert "2.78e-10, epsilon is 5.5" in delta
    assert method.startswith("method: noise on gradients")
    assert mechanism.startswith("mechanism: Gaussian noise")
    assert main([*BASIC, "--num-steps", "3515", "--epsilon", "3"]) == 0
    assert epsilon in capsys.readouterr().out
