"""For each change, an event unfolds into alternatives, each a multiset of dominating pairs whose losses add up."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import singledispatch
from itertools import permutations, product

from hush.accounting import events as ev
from hush.accounting.losses.noise_profiles import GaussianProfile
from hush.accounting.losses.pairs.change import Change, Direction, refuse_group
from hush.accounting.losses.pairs.single import leaf_pair
from hush.accounting.losses.profile import DominatingPair, PointwiseMax
from hush.accounting.losses.saddle_point import CountedPair
from hush.errors import Unsupported

Alternative = Counter[DominatingPair]
_MAX_ALTERNATIVES = 200  # each one is composed separately
_MAX_MOVES = 150  # alternatives of a record that leaves one part and enters another, before they are merged into one


@singledispatch
def alternatives(event: ev.Event, change: Change) -> list[Alternative]:
    """Return the alternatives of an event under one change, each a multiset of dominating pairs."""
    return [Counter({leaf_pair(event, change): 1})]


@alternatives.register
def _(event: ev.ComposedEvent, change: Change) -> list[Alternative]:
    result: list[Alternative] = [Counter()]
    for part in event.events:
        result = all_sums(result, alternatives(part, change), event)
    return result


@alternatives.register
def _(event: ev.SelfComposedEvent, change: Change) -> list[Alternative]:
    inner = alternatives(event.event, change)
    if len(inner) == 1:
        # Dominating pairs compose, also adaptively (Zhu, Dong & Wang 2022, Theorem 10).
        return [Counter({pair: count * event.count for pair, count in inner[0].items()})]
    if event.count > _MAX_ALTERNATIVES:
        raise Unsupported(
            f"{event.kind} of a parallel composition of composed events, {event.count} times: too many cases",
            "Put a single event into each part, or use BasicAccountant",
        )
    result: list[Alternative] = [Counter()]
    # In each repetition the worst case may be another one, so all combinations count.
    for _ in range(event.count):
        result = all_sums(result, inner, event)
    return result


@alternatives.register
def _(event: ev.ParallelEvent, change: Change) -> list[Alternative]:
    refuse_group(event, change)
    stays = [option for part in dict.fromkeys(event.events) for option in alternatives(part, change)]
    if change.direction is not Direction.REPLACE:
        # A record that is added or removed is in one part only.
        return _worst(stays)
    stays = stays if len(stays) < _MAX_ALTERNATIVES - _MAX_MOVES else _worst(stays)
    return _limited(_distinct(stays + _moves(event, change)), event)


@alternatives.register
def _(event: ev.ParallelByIndexEvent, change: Change) -> list[Alternative]:
    refuse_group(event, change)
    return _worst([option for part in dict.fromkeys(event.events) for option in alternatives(part, change)])


@alternatives.register
def _(event: ev.GroupEvent, change: Change) -> list[Alternative]:
    # Groups of groups multiply. Each mechanism then knows what ``size`` records do to it.
    return alternatives(event.event, replace(change, size=change.size * event.size))


@alternatives.register
def _(event: ev.RandomizedResponseEvent, change: Change) -> list[Alternative]:
    # Local reports are independent, so a group of k people is k reports.
    return [Counter({leaf_pair(event, replace(change, size=1)): change.size})]


def parts_that_differ(event: ev.ParallelEvent) -> tuple[ev.Event, ...]:
    """Return the distinct parts, each at most twice: a record that moves is in two parts, which may be alike."""
    return tuple(part for part, count in Counter(event.events).items() for _ in range(min(count, 2)))


def _moves(event: ev.ParallelEvent, change: Change) -> list[Alternative]:
    """Return what a replaced record costs that leaves one part, and enters another."""
    if len(event.events) < 2:
        return []
    parts = parts_that_differ(event)
    leave, enter = (replace(change, direction=d, claimed=False) for d in (Direction.REMOVE, Direction.ADD))
    sources, targets = ([alternatives(part, way) for part in parts] for way in (leave, enter))
    if sum(map(len, sources)) * sum(map(len, targets)) > _MAX_MOVES:
        # Of so many parts, the worst to leave and the worst to enter at each epsilon, even if they are the same one.
        worst = [_worst([option for options in ways for option in options]) for ways in (sources, targets)]
        return [first + second for first, second in product(*worst)]
    pairs = permutations(range(len(parts)), 2)
    return [first + second for i, j in pairs for first, second in product(sources[i], targets[j])]


def merge_gaussians(option: Alternative) -> list[CountedPair]:
    """Replace all unsampled Gaussians by one, exactly: mu^2 adds up (Dong, Roth & Su 2022, Corollary 3.3)."""
    squares, parts = 0.0, []
    for pair, count in option.items():
        if isinstance(pair.forward, GaussianProfile):
            squares += count * pair.forward.mu**2
        elif count:
            parts.append((pair, count))
    if squares > 0:
        # One ulp up, as the square root must not round the guarantee down.
        parts.insert(0, (DominatingPair.symmetric(GaussianProfile(math.nextafter(math.sqrt(squares), math.inf))), 1))
    return parts


def all_sums(first: Sequence[Alternative], second: Sequence[Alternative], event: ev.Event) -> list[Alternative]:
    """Return the compositions of every alternative of ``first`` with every alternative of ``second``."""
    if len(first) == 1 and len(second) == 1:
        # The usual case, without building sets.
        return [first[0] + second[0]]
    return _limited(_distinct(left + right for left in first for right in second), event)


def _worst(options: Sequence[Alternative]) -> list[Alternative]:
    """Return the distinct alternatives, or a single pointwise-worst pair if each is a single mechanism."""
    # A maximum of profiles is a profile, so single mechanisms merge into one pair, and the number of cases stays small.
    distinct = _distinct(options)
    if len(distinct) == 1 or any(sum(option.values()) != 1 for option in distinct):
        return distinct
    pairs = [next(iter(option)) for option in distinct]
    forward, backward = ([getattr(pair, side) for pair in pairs] for side in ("forward", "backward"))
    return [Counter({DominatingPair(PointwiseMax(tuple(forward)), PointwiseMax(tuple(backward))): 1})]


def _distinct(options: Iterable[Alternative]) -> list[Alternative]:
    """Return the alternatives without repetitions, in order."""
    return [Counter(dict(items)) for items in dict.fromkeys(frozenset(option.items()) for option in options)]


def _limited(options: list[Alternative], event: ev.Event) -> list[Alternative]:
    """Refuse an event that unfolds into too many alternatives."""
    if len(options) > _MAX_ALTERNATIVES:
        raise Unsupported(
            f"{event.kind}: it unfolds into more than {_MAX_ALTERNATIVES} cases",
            "Use the same event for all parts of a parallel composition",
        )
    return options
