"""Accounting events in words, for people who read a ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from hush.accounting import Event

_MOST_PARTS = 6  # parts of a composed event that are spelled out; the rest are counted


def in_words(event: Event) -> str:
    """Describe an event in a few words.

    >>> from hush.accounting import GaussianEvent, PoissonSampledEvent, SelfComposedEvent
    >>> in_words(SelfComposedEvent(PoissonSampledEvent(GaussianEvent(1.1), 0.01), 3000))
    '3,000 times: on a random sample (rate 0.01): Gaussian noise, multiplier 1.1'
    """
    words = _WORDS.get(event.kind)
    return event.kind if words is None else words(event)


def _claim(event: Any) -> str:
    delta = f" and delta {event.delta:.3g}" if event.delta else ""
    return f"a mechanism with epsilon {event.epsilon:.4g}{delta}"


def _all(event: Any) -> str:
    parts = Counter(event.events)
    phrases = [f"{count:,} x {in_words(part)}" if count > 1 else in_words(part) for part, count in parts.items()]
    more = [] if len(phrases) <= _MOST_PARTS else [f"{len(phrases) - _MOST_PARTS} more kinds"]
    return "; ".join([*phrases[:_MOST_PARTS], *more]) or "nothing"


_WORDS: dict[str, Callable[[Any], str]] = {
    "gaussian": lambda e: f"Gaussian noise, multiplier {e.noise_multiplier:.4g}",
    "projected-gaussian": lambda e: (
        f"Gaussian noise, multiplier {e.noise_multiplier:.4g}, in {e.projections:,} projections"
    ),
    "gaussian-mixture": lambda e: (
        f"Gaussian noise, multiplier {e.noise_multiplier:.4g}, with one of {len(e.shifts):,} random shifts"
    ),
    "per-change": lambda e: f"{in_words(e.event)}, relative to one change of the data",
    "laplace": lambda e: f"Laplace noise, scale {e.scale:.4g} times the sensitivity",
    "discrete-gaussian": lambda e: f"discrete Gaussian noise, sigma {e.sigma:.4g}, sensitivity {e.sensitivity:,}",
    "discrete-laplace": lambda e: f"discrete Laplace noise, scale {e.scale:.4g}, sensitivity {e.sensitivity:,}",
    "exponential-mechanism": lambda e: f"exponential mechanism, epsilon {e.epsilon:.4g}",
    "noisy-max": lambda e: f"the index of the largest noisy score, epsilon {e.epsilon:.4g}",
    "randomized-response": lambda e: f"randomised response over {e.num_values:,} values, epsilon {e.epsilon:.4g}",
    "approximate-dp": _claim,
    "zcdp": lambda e: f"a mechanism with {e.rho:.4g}-zCDP",
    "poisson-sampled": lambda e: f"on a random sample (rate {e.sampling_rate:.4g}): {in_words(e.event)}",
    "truncated-poisson-sampled": lambda e: (
        f"on a random sample (rate {e.sampling_rate:.4g}) of at most {e.max_batch_size:,} rows: {in_words(e.event)}"
    ),
    "fixed-size-sampled": lambda e: (
        f"on {e.batch_size:,} of {e.dataset_size:,} rows, sampled at random: {in_words(e.event)}"
    ),
    "balls-in-bins": lambda e: f"on each of {e.num_bins:,} batches, assigned at random: {in_words(e.event)}",
    "allocated": lambda e: (
        f"in {e.times:,} of {e.num_steps:,} steps, drawn at random for each record: {in_words(e.event)}"
    ),
    "shuffled": lambda e: f"on each of {e.num_reports:,} records by itself, shown in random order: {in_words(e.event)}",
    "composed": _all,
    "self-composed": lambda e: f"{e.count:,} times: {in_words(e.event)}",
    "parallel": lambda e: f"on disjoint parts of the data: {_all(e)}",
    "parallel-by-index": lambda e: f"on disjoint parts of the data: {_all(e)}",
    "group": lambda e: f"for groups of {e.size:,}: {in_words(e.event)}",
    "repeat-negative-binomial": lambda e: f"the best of a random number of runs: {in_words(e.event)}",
    "repeat-poisson": lambda e: f"the best of {e.mean:.4g} runs on average: {in_words(e.event)}",
    "qualified": lambda e: in_words(e.event),
}
