"""What does an epsilon buy, in accuracy and against inference attacks? (Jayaraman and Evans 2019)

Their protocol: one budget from 0.01 to 1000, noise for it by several ways of accounting, five runs on the same members.
Batches of 200, Adam with learning rate 0.01, clip norm 1, a delta of 1e-5. Basic (naive) and advanced composition and
zCDP account for shuffled epochs, in which a record is in one batch of each; Renyi (RDP) accounting is for Poisson
samples. Measured are the *accuracy loss*, 1 - private / plain test accuracy, and the *advantage*
(TPR - FPR, which they call privacy leakage) of three attacks: Yeom's on membership, with the mean training loss as
threshold; Shokri's, with four shadow models that are trained like the target, and classifiers of 64 units; and Yeom's
on attributes, of 20 columns, one by one.

Their clipping figure: each record's gradient is clipped, or the gradient of the whole batch. Both have batches of a
fixed size here, and the same epsilon by PLD for a record that is replaced. (Noise for a clipped batch cannot shrink
with the batch, because one record may turn the whole clipped gradient around.)

Location-30: half of 5,010 people are members. Purchase-like: a generator of ours with the shape of Purchase-100 (600
binary columns, 100 classes, 10,000 members), because neither that data set nor CIFAR-100 could be had; it is nobody's
purchases, and compares in shape only. Models are softmax regression and a network with one hidden layer.

Read advantages with care. One of 2,505 people a side has a standard error of about 0.014, one of 10,000 about 0.007;
the spread over five runs is that of the training, with the same members throughout.

    python reproductions/membership.py [--data DIR] [--quick]      # many hours on one core; see run_jobs.py
"""

from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np
from common import DELTA, MARKERS, Row, Settings, figure, here, main, mark
from jobs import Job, Results, elsewhere, missing, run_here, speed_remark
from membership_runs import MODELS, SIZES, imputation, once, split

from hush import Guarantee

EPSILONS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
SHOWN = 10.0  # the epsilon at which the table compares the ways of accounting
RUNS, SHADOWS = 5, 4
SHOKRI = ("RDP", "not private")  # the ways with shadow models and attributes; the others have Yeom's attack alone
CLIPPED = ("each record", "whole batch")
RANKS = {  # of the jobs of a data set, by way; softmax regression goes first
    "location-30": {"RDP": 0, "naive": 1, "zCDP": 1, "advanced": 2, "each record": 2, "whole batch": 2},
    "purchase-like": {"RDP": 2, "zCDP": 4, "naive": 5},
}
FIGURE_WAYS = {"naive": 0, "advanced": 1, "zCDP": 2, "RDP": 3}  # each has its colour and marker in all figures
CHANGED = (
    "Changed against the paper: a network with one layer of 64 tanh units (theirs: two of 256 ReLU units), no weight "
    "decay, four shadow models for each budget rather than five, which the five "
    "targets share, with RDP only; Purchase-like instead of Purchase-100, for 20 epochs rather than 100, and no "
    "CIFAR-100."
)


def jobs(settings: Settings) -> list[Job]:
    """Return all runs; one job has the five runs of a setting, and its shadow models."""
    listed = []
    for data, ranks in RANKS.items():
        listed.append(_job(data, "imputation", None, None, 0))
        for number, model in enumerate(MODELS):
            listed.append(_job(data, model, "not private", None, min(ranks.values())))
            for way, rank in ranks.items():
                listed += [_job(data, model, way, epsilon, rank + number) for epsilon in EPSILONS]
    return listed


def prepare(settings: Settings) -> None:
    """Read the data."""
    for data in SIZES:
        split(settings, data)


def work(
    settings: Settings, device: str, *, data: str, model: str, way: str | None, epsilon: float | None
) -> dict[str, Any]:
    """Run one setting several times, attack every run, and say what they have in common."""
    if way is None:
        return imputation(split(settings, data))
    runs = 1 if settings.quick else RUNS
    shadow_models = (2 if settings.quick else SHADOWS) if way in SHOKRI else 0
    return once(split(settings, data), settings, device, model, way, epsilon, runs, shadow_models)


def run(settings: Settings) -> list[Row]:
    """Run all jobs here; a few, if it is to be quick."""
    listed = jobs(settings)
    if settings.quick:
        at = (None, 10.0)
        listed = [_job("location-30", "softmax", way, at[way != "not private"], 0) for way in (*SHOKRI, *CLIPPED)]
        listed += [
            _job("purchase-like", "network", way, at[way != "not private"], 0) for way in ("not private", "zCDP")
        ]
    return report(settings, run_here(listed, settings, here()))


def report(settings: Settings, results: Results) -> list[Row]:
    """Return rows of all that has run, and draw the figures."""
    rows = []
    for job in jobs(settings):
        result = results.of(job)
        if result is not None and _in_table(job):
            rows.append(_row(job, result, results))
    for data in RANKS:
        if any(row.data == data for row in rows):
            _draw(settings, results, data)
    _draw_clipping(settings, results)
    _draw_overlap(settings, results)
    return rows


def _in_table(job: Job) -> bool:
    """All budgets by RDP, and all ways at one budget; the figures have the others, too."""
    way, epsilon = job.arguments["way"], job.arguments["epsilon"]
    return way is not None and (way in SHOKRI or epsilon == SHOWN)


def remarks(settings: Settings, results: Results) -> list[str]:
    """Say what was changed, what is missing, and how long steps took."""
    listed = jobs(settings)
    lines = [*findings(results), CHANGED, missing(listed, results), elsewhere(listed, results)]
    for data in RANKS:
        for model in MODELS:
            timed = [job for job in listed if job.arguments["data"] == data and job.arguments["model"] == model]
            lines.append(speed_remark(timed, results, f"{data}, {model}, batches of 200"))
    return [line for line in lines if line]


def findings(results: Results) -> list[str]:
    """Say what the paper's claims look like on Location-30, with the numbers of these runs."""
    lines = []
    least = {model: results.of(_job("location-30", model, "RDP", EPSILONS[-1], 0)) for model in MODELS}
    if all(least.values()):
        indices = " and ".join(f"{result['jaccard']:.3f} ({model})" for model, result in least.items() if result)
        lines.append(
            f"Location-30, those accused in two runs at epsilon {EPSILONS[-1]:g} by RDP: Jaccard index {indices}. The "
            "paper finds less overlap for networks, too. (Earlier runs, of full batches, had .977 and .810.)"
        )
    return lines + [line for data in RANKS if (line := _attribute_finding(results, data))]


def _attribute_finding(results: Results, data: str) -> str:
    """Compare what the attack on the network gets right with guesses without the model."""
    plain, noise = _plain(results, data, "network"), results.of(_job(data, "network", "RDP", EPSILONS[0], 0))
    guessed = results.of(_job(data, "imputation", None, None, 0))
    if not (plain and noise and guessed and plain["attributes"] and noise["attributes"]):
        return ""
    attacked, by_prior = (
        statistics.fmean(statistics.fmean(run) for run in result["attribute_accuracies"]) for result in (plain, noise)
    )
    imputed = statistics.fmean(guessed["accuracies"])
    if imputed > attacked:
        words = "an attacker does better to leave the model alone (as in Jayaraman and Evans 2022)"
    else:
        words = f"the model adds {100 * (attacked - max(imputed, by_prior)):.1f} points to the better of these guesses"
    return (
        f"Attributes, {data}: the attack on the network without privacy is right for {attacked:.1%} of members, "
        f"imputation without any model for {imputed:.1%}, and the attack on a network that is almost only noise "
        f"(epsilon {EPSILONS[0]:g}), which follows how frequent a value is, for {by_prior:.1%}: {words}."
    )


def _job(data: str, model: str, way: str | None, epsilon: float | None, rank: int) -> Job:
    name = (
        f"{data}, {model}" + ("" if way is None else f": {way}") + ("" if epsilon is None else f", epsilon {epsilon:g}")
    )
    arguments = {"data": data, "model": model, "way": way, "epsilon": epsilon}
    return Job(script="membership", name=name, arguments=arguments, rank=rank)


def _plain(results: Results, data: str, model: str) -> dict[str, Any] | None:
    return results.of(_job(data, model, "not private", None, 0))


def accuracy_losses(result: dict[str, Any], plain: dict[str, Any] | None) -> list[float]:
    """Return the accuracy loss of each run; nothing, if there is nothing to compare with."""
    if plain is None:
        return []
    reached = statistics.fmean(plain["accuracies"])
    return [1 - accuracy / reached for accuracy in result["accuracies"]]


def _row(job: Job, result: dict[str, Any], results: Results) -> Row:
    data, model, way, epsilon = (job.arguments[name] for name in ("data", "model", "way", "epsilon"))
    words = f"{model}: {way}" + ("" if epsilon is None else f", epsilon {epsilon:g}")
    parts = []
    if epsilon is not None:
        losses = accuracy_losses(result, _plain(results, data, model))
        parts += [f"noise {result['noise']:.3g}"] + ([f"accuracy loss {_spread(losses)}"] if losses else [])
    parts.append(f"Yeom {_spread(result['yeom'])}")
    if result["shokri"]:
        parts.append(f"Shokri {_spread(result['shokri'])}")
    if result["attributes"]:
        parts.append(_attribute_words(result, results.of(_job(data, "imputation", None, None, 0))))
    if epsilon is not None:
        parts.append(f"allowed {_allowed(epsilon):.3f}")
    parts.append(f"Jaccard {result['jaccard']:.3f}; accused in all runs: {_share(result['precision'])} members")
    seconds = results.records[job.key]["seconds"] / len(result["accuracies"])
    cost = math.inf if epsilon is None else epsilon
    return Row(words, data, "", None, cost, result["accuracies"], seconds, "; ".join(parts))


def _attribute_words(result: dict[str, Any], imputed: dict[str, Any] | None) -> str:
    """Say what membership adds to guesses of attributes, and how good guesses are without the model."""
    members = statistics.fmean(statistics.fmean(run) for run in result["attribute_accuracies"])
    words = f"attributes {_spread([statistics.fmean(run) for run in result['attributes']])} (right for {members:.1%}"
    if imputed is None:
        return words + " of members)"
    return f"{words} of members, without the model {statistics.fmean(imputed['accuracies']):.1%})"


def _allowed(epsilon: float) -> float:
    """Return what any attack on membership can have."""
    return Guarantee(epsilon=epsilon, delta=DELTA).advantage()


def _spread(values: list[float]) -> str:
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.3f}{spread}"


def _share(precision: float | None) -> str:
    return "no" if precision is None else f"{precision:.0%}"


def _series(results: Results, data: str, model: str, way: str) -> tuple[list[float], list[dict[str, Any]]]:
    """Return the budgets that have been run, and their results."""
    found = [(epsilon, results.of(_job(data, model, way, epsilon, 0))) for epsilon in EPSILONS]
    return [e for e, result in found if result is not None], [result for _, result in found if result is not None]


def _errorbar(axes: Any, budgets: list[float], values: list[list[float]], label: str, number: int) -> None:
    """Draw means and spreads; a line does not go on over a budget that was not run."""
    if not budgets:
        return
    of = dict(zip(budgets, values, strict=True))
    shown = [epsilon for epsilon in EPSILONS if min(budgets) <= epsilon <= max(budgets)]
    means = [statistics.fmean(of[epsilon]) if epsilon in of else math.nan for epsilon in shown]
    errors = [statistics.stdev(of[epsilon]) if len(of.get(epsilon, ())) > 1 else 0.0 for epsilon in shown]
    style = {"color": f"C{number}", "marker": MARKERS[number]}
    axes.errorbar(shown, means, errors, label=label, ms=4, capsize=2, **style)


def _draw(settings: Settings, results: Results, data: str) -> None:
    with figure(settings, f"membership_{data}", columns=3, rows=len(MODELS)) as grid:
        for (left, middle, right), model in zip(grid, MODELS, strict=True):
            plain = _plain(results, data, model)
            for way, number in FIGURE_WAYS.items():
                budgets, found = _series(results, data, model, way)
                if plain is not None:
                    _errorbar(left, budgets, [accuracy_losses(result, plain) for result in found], way, number)
                _errorbar(middle, budgets, [result["yeom"] for result in found], way, number)
            _draw_attacks(right, *_series(results, data, model, "RDP"), plain)
            middle.axhline(statistics.fmean(plain["yeom"]) if plain else 0, color="grey", ls=":", marker="")
            curve = np.logspace(math.log10(EPSILONS[0]), math.log10(EPSILONS[-1]), 60)
            allowed = [Guarantee(epsilon=float(value), delta=DELTA).advantage() for value in curve]
            top = max(0.05, 1.3 * max([max(plain["yeom"]), *plain["shokri"]]) if plain else 0.5)
            for axes in (middle, right):
                axes.plot(curve, allowed, "k--", marker="", lw=1, label="allowed by epsilon")
                axes.set(ylim=(-0.03, top))
            left.set(ylim=(-0.1, 1.05))
            titles = ("accuracy loss", "Yeom's advantage", "advantages, RDP")
            for axes, title in zip((left, middle, right), titles, strict=True):
                axes.set(xscale="log", xlabel="epsilon", ylabel=title, title=f"{data}, {model}")
                mark(axes, EPSILONS)
                if axes.get_legend_handles_labels()[0]:
                    axes.legend(fontsize=6)


def _draw_attacks(axes: Any, budgets: list[float], found: list[dict[str, Any]], plain: dict[str, Any] | None) -> None:
    """Draw three attacks against the same models; dotted lines are those without privacy."""
    for number, (attack, label) in enumerate((("yeom", "Yeom"), ("shokri", "Shokri"), ("attributes", "attributes"))):
        series = [result[attack] for result in found]
        if not all(series):
            continue
        values = [[statistics.fmean(run) for run in of] if attack == "attributes" else of for of in series]
        _errorbar(axes, budgets, values, label, number)
        if plain is not None and plain[attack]:
            of = [statistics.fmean(run) for run in plain[attack]] if attack == "attributes" else plain[attack]
            axes.axhline(statistics.fmean(of), color=f"C{number}", ls=":", marker="", lw=1)


def _draw_clipping(settings: Settings, results: Results) -> None:
    with figure(settings, "membership_clipping", columns=len(MODELS)) as grid:
        for axes, model in zip(grid, MODELS, strict=True):
            plain = _plain(results, "location-30", model)
            for number, way in enumerate(CLIPPED):
                budgets, found = _series(results, "location-30", model, way)
                if plain is not None:
                    losses = [accuracy_losses(result, plain) for result in found]
                    _errorbar(axes, budgets, losses, f"clipped: {way}", number)
            axes.set(xscale="log", xlabel="epsilon (a record replaced)", ylabel="accuracy loss", ylim=(-0.1, 1.05))
            axes.set(title=f"location-30, {model}")
            mark(axes, EPSILONS)
            if axes.get_legend_handles_labels()[0]:
                axes.legend(fontsize=7)


def _draw_overlap(settings: Settings, results: Results) -> None:
    """Draw how much the accused of two runs overlap, and which share of those accused in k runs are members."""
    with figure(settings, "membership_overlap", columns=2) as (left, right):
        for data in RANKS:
            for model in MODELS:
                budgets, found = _series(results, data, model, "RDP")
                if not budgets:
                    continue
                left.plot(budgets, [result["jaccard"] for result in found], label=f"{data}, {model}", ms=4)
                last = found[-1]["precisions"]
                shown = [(k + 1, value) for k, value in enumerate(last) if value is not None]
                label = f"{data}, {model}, epsilon {budgets[-1]:g}"
                right.plot([k for k, _ in shown], [value for _, value in shown], label=label, ms=4)
        chance = {"color": "grey", "ls": ":", "marker": "", "label": "a random half accused"}
        left.axhline(1 / 3, **chance)  # two random halves share a quarter of all, and cover three quarters
        right.axhline(1 / 2, **chance)
        right.set_ylim(bottom=0.4)
        left.set(xscale="log", xlabel="epsilon", ylabel="Jaccard index of the accused of two runs", ylim=(0, 1.05))
        right.set(xlabel="accused in at least k of five runs", ylabel="share of members among them")
        right.set_xticks(range(1, RUNS + 1))
        mark(left, EPSILONS)
        for axes, place in ((left, "upper right"), (right, "lower right")):
            if axes.get_legend_handles_labels()[0]:
                axes.legend(fontsize=6, loc=place)


if __name__ == "__main__":
    main(run, __doc__)
