"""Every way to sample, clip, share and correlate, in all combinations: what one unit does to a sum is what is claimed.

And each way to sample against its accountant, on a toy whose exact privacy loss is known.
"""

from __future__ import annotations

import math
from datetime import timedelta
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import binomtest
from torch import Tensor, nn

import hush
from hush.accounting import PldAccountant
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Relation, Unit, UnitKind
from hush.randomness import TestSource
from hush.training import (
    Adaptive,
    Augmented,
    Automatic,
    Ball,
    BallsInBins,
    Banded,
    BufferedToeplitz,
    CyclicPoisson,
    ExponentialCurve,
    FixedSize,
    Flat,
    Full,
    Global,
    InOrder,
    LinearCurve,
    Microbatches,
    Normalized,
    PerExample,
    PerLayer,
    PiecewiseCurve,
    Poisson,
    PrivateTraining,
    Projected,
    Schedule,
    ShuffledEpochs,
    UserGroups,
    Users,
    compare_units,
)
from hush.training.loop import session

SAMPLINGS = [
    Poisson(8),
    Poisson(8, max_batch_size=36),
    Full(),
    FixedSize(8),
    ShuffledEpochs(8),
    InOrder(8),
    BallsInBins(8),
    CyclicPoisson(3, parts=3),
]
CONTRIBUTIONS = [PerExample(), Augmented(3), Microbatches(4), Projected(4)]
CLIPPINGS = [
    Flat(0.5),
    Flat(0.5, PerLayer()),
    Flat(1e6),
    Automatic(0.5),
    Normalized(0.5),
    Global(0.5, threshold=3.0),
    Adaptive(0.5),
]
UNITS = ["example", "users", "groups", "windows"]
MORE: list[dict[str, Any]] = [
    {},
    {"schedule": Schedule(noise_multiplier=LinearCurve(1.0, 2.0, 3), clip_norm=ExponentialCurve(1.0, 0.5, 3))},
    {"schedule": Schedule(batch_size=PiecewiseCurve({0: 1.0, 1: 2.0}))},
    {"correlated": Banded(bands=3)},
    {"correlated": BufferedToeplitz(buffers=2)},
]
COUNT = 40
IDS = np.arange(COUNT) // 4


def model() -> nn.Module:
    """Return a network in which an input of zeros has gradient 0."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 6, bias=False), nn.Tanh(), nn.Linear(6, 3, bias=False))


def unit(kind: str) -> Any:
    return {
        "example": None,
        "users": Users(IDS, rows_per_unit=4),
        "groups": UserGroups(IDS, rows_per_unit=4),
        "windows": Users(IDS // 2, 4, np.arange(COUNT) * 900.0, timedelta(hours=1)),
    }[kind]


def run(x: Tensor, y: Tensor, **settings: Any) -> PrivateTraining:
    network = model()
    settings = {"noise_multiplier": 2.0, "delta": 1e-3, "num_steps": 3} | settings
    optimizer = torch.optim.SGD(network.parameters(), lr=0.0)
    return hush.privatize(network, optimizer, (x, y), source=TestSource(5), **settings)


def sums(private: PrivateTraining) -> list[tuple[Tensor, float, float]]:
    """Return each step's noiseless sum, its noise and its divisor."""
    found: list[tuple[Tensor, float, float]] = []

    def record(key: bytes, step: int, totals: dict[str, Tensor], noise: float, divisor: float, stream: Any) -> None:
        shapes = {name: each.shape for name, each in private.model.named_parameters()}
        parts = [totals.get(name, torch.zeros(shape)).flatten().double() for name, shape in shapes.items()]
        found.append((torch.cat(parts), noise, divisor))

    private._updater = record  # type: ignore[assignment]
    for x, y in private.loader:

        def losses(x: Tensor = x, y: Tensor = y) -> Tensor:
            return nn.functional.cross_entropy(private.model(x), y, reduction="none")

        private.step(losses if isinstance(private.plan.contribution, Projected) else losses())
    return found


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(COUNT, 5, generator=generator), torch.randint(0, 3, (COUNT,), generator=generator)


COMBINATIONS = [
    (sampling, contribution, clipping, kind, more)
    for sampling, contribution, clipping, kind, more in product(SAMPLINGS, CONTRIBUTIONS, CLIPPINGS, UNITS, MORE)
    # all pairs; of larger combinations, those of the ways that change what a contribution is
    if (clipping == CLIPPINGS[0]) + (kind == "example") + (more == {}) >= 2
]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=repr)
def test_one_unit_moves_a_sum_by_what_the_event_says(sampling: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches come in pieces where nothing else is unusual; and what the first one is checked for has its own tests."""
    for check in ("check_batch", "check_calls"):
        monkeypatch.setattr(session, check, lambda *_: None)
    worked = refused = 0
    unnamed: list[str] = []
    for one, contribution, clipping, kind, more in COMBINATIONS:
        if one is not sampling:
            continue
        for relation in Relation:
            settings = {
                "sampling": sampling,
                "contribution": contribution,
                "clipping": clipping,
                "unit": unit(kind),
                "relation": relation,
                "physical_batch_size": 24 if clipping == CLIPPINGS[0] and not more else 200,
            } | more
            try:
                move(settings, relation)
                worked += 1
            except Unsupported as error:
                names = [type(each).__name__ for each in (sampling, contribution, clipping, *more.values())]
                words = [*names, "UserGroups", "users", "schedule", "relation", "group", "gaussian", "noise"]
                unnamed += [] if any(word in str(error) for word in words) else [str(error)]
                refused += 1
    assert not unnamed
    assert worked > 10
    assert refused > 10


def move(settings: dict[str, Any], relation: Relation) -> None:
    """Change everything of the unit of example 20, and compare sums."""
    x, y = data()
    other = x.clone()
    own = np.flatnonzero(IDS[20] == IDS) if settings["unit"] is not None else [20]
    if getattr(settings["unit"], "window", None) is not None:
        own = np.arange(20, 24)
    chance = torch.Generator().manual_seed(4)
    other[own] = 50.0 * torch.randn(len(own), 5, generator=chance) if relation is Relation.REPLACE else 0.0
    before, after = run(x, y, **settings), run(other, y, **settings)
    plan = before.plan
    PldAccountant(relation=relation, unit=plan.unit).compose(plan.event())  # it can be accounted for
    group = plan.group_size
    taken = [batch.indices[batch.real] for step in range(plan.num_steps) for batch in before._batches(step)]
    moved = False
    for step, ((one, noise, divisor), (two, _, _)) in enumerate(zip(sums(before), sums(after), strict=True)):
        clip_norm = plan.clipping.clip_norm * plan.clip_factor(step)
        if isinstance(plan.clipping, Adaptive):
            clip_norm = max(clip_norm, 1.0)  # it has moved; its own test looks closer
        allowed = clip_norm * plan.contribution.sensitivity(relation) * (2 if relation is Relation.REPLACE else 1)
        if not isinstance(plan.contribution, Projected):
            assert float((one - two).norm()) <= allowed * group * (1 + 1e-4)
        moved = moved or not torch.equal(one, two)
        if not isinstance(plan.clipping, Adaptive):
            expected = plan.setting(step)[0] * clip_norm * plan.contribution.sensitivity(relation)
            assert noise == pytest.approx(expected)
        assert divisor == plan.setting(step)[1] / plan.contribution.examples
    assert moved == bool(np.isin(own, np.concatenate(taken)).any())


def test_a_broken_twin_that_clips_examples_of_a_user_one_by_one_is_caught() -> None:
    """Four clipped gradients of one user, which are the same here, move the sum by four clip norms."""
    x, y = data()
    x[IDS == 5], y[IDS == 5] = x[20].clone(), y[20].clone()
    other = x.clone()
    other[IDS == 5] = 0.0
    one, two = (sums(run(each, y, sampling=Full(), clip_norm=0.01))[0][0] for each in (x, other))
    assert float((one - two).norm()) > 0.035
    one, two = (sums(run(each, y, sampling=Full(), clip_norm=0.01, unit=Users(IDS)))[0][0] for each in (x, other))
    assert 0.005 < float((one - two).norm()) <= 0.01


def test_a_broken_twin_of_microbatches_is_caught() -> None:
    """The clipped mean turns around: nearly twice the clip norm, and not within one."""
    x = torch.tensor([[1.0], [1.0], [1.0], [-30.0]])
    found = []
    for inputs in (x, torch.cat([x[:3], torch.zeros(1, 1)])):
        network = nn.Linear(1, 1, bias=False)
        private = hush.privatize(
            network,
            torch.optim.SGD(network.parameters(), lr=0.0),
            (inputs,),
            sampling=Full(),
            contribution=Microbatches(4),
            relation=Relation.ZERO_OUT,
            clip_norm=0.1,
            noise_multiplier=1.0,
            delta=1e-3,
            num_steps=1,
        )
        totals: list[Tensor] = []
        keep = totals.append
        private._updater = lambda key, step, sums, *rest, keep=keep: keep(sums["weight"])  # type: ignore[assignment,misc]
        for (batch,) in private.loader:
            private.step(private.model(batch).sum(1))
        found.append(float(totals[0]))
    assert abs(found[0] - found[1]) > 1.9 * 0.1
    assert private.plan.noise_on_sum(0) == 2.0


def test_a_users_gradient_is_the_clipped_sum_of_its_examples() -> None:
    x, y = data()
    found, _, divisor = sums(run(x, y, sampling=Full(), clip_norm=0.3, unit=Users(IDS, rows_per_unit=4)))[0]
    network = model()
    total = torch.zeros_like(found)
    for user in range(10):
        rows = torch.from_numpy(user == IDS)
        loss = nn.functional.cross_entropy(network(x[rows]), y[rows], reduction="sum")
        gradient = torch.cat(
            [each.flatten().double() for each in torch.autograd.grad(loss, list(network.parameters()))]
        )
        total += gradient * min(1.0, 0.3 / float(gradient.norm()))
    assert divisor == 10
    assert torch.allclose(found, total, atol=1e-4)


def test_augmented_examples_are_averaged_before_they_are_clipped() -> None:
    x, y = data()

    def mirrored(batch: Any) -> Any:
        signs = torch.where(torch.arange(len(batch[0])) % 2 == 0, 1.0, -1.0).unsqueeze(1)
        return batch[0] * signs, batch[1]

    found, _, _ = sums(run(x, y, sampling=Full(), clip_norm=0.3, contribution=Augmented(2, mirrored)))[0]
    network = model()
    total = torch.zeros_like(found)
    for index in range(COUNT):
        both = torch.stack([x[index], -x[index]])
        loss = nn.functional.cross_entropy(network(both), y[index].repeat(2))
        gradient = torch.cat(
            [each.flatten().double() for each in torch.autograd.grad(loss, list(network.parameters()))]
        )
        total += gradient * min(1.0, 0.3 / float(gradient.norm()))
    assert torch.allclose(found, total, atol=1e-4)


# Units


def test_columns_name_units_and_repeated_ids_are_not_overlooked() -> None:
    x, y = data()
    dataset = {"x": x, "y": y, "user_id": torch.from_numpy(IDS)}
    network = model()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    settings: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-3, "num_steps": 2, "batch_size": 5}
    with pytest.raises(InvalidArgument, match="user_id"):
        hush.privatize(network, optimizer, dataset, **settings)
    private = hush.privatize(network, optimizer, dataset, unit="user_id", **settings)
    assert private.plan.num_units == 10
    assert private.guarantee().unit.kind is UnitKind.USER
    for batch in private.loader:
        private.step(nn.functional.cross_entropy(private.model(batch["x"]), batch["y"], reduction="none"))
    other = model()
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    assert hush.privatize(other, optimizer, dataset, unit=Unit.example(), **settings).plan.num_units == COUNT
    with pytest.raises(InvalidArgument, match="^unit='nobody'"):
        hush.privatize(model(), optimizer, dataset, unit="nobody", **settings)
    with pytest.raises(InvalidArgument, match="one id for each of the 40"):
        run(x, y, unit=np.arange(3), batch_size=5)
    with pytest.raises(InvalidArgument, match="^unit='missing'"):
        run(x, y, unit=np.full(COUNT, np.nan), batch_size=5)


def test_windows_split_users() -> None:
    x, y = data()
    private = run(x, y, unit=Users(IDS, 2, np.arange(COUNT) * 60.0, timedelta(minutes=2)), batch_size=5)
    assert private.plan.num_units == 20
    assert str(private.guarantee().unit) == "user within 2 minutes"


def test_no_user_has_more_examples_than_the_bound() -> None:
    x, y = data()
    ids = np.zeros(COUNT, dtype=int)
    ids[30:] = np.arange(1, 11)
    private = run(x, y, unit=Users(ids, rows_per_unit=3), sampling=Full(), num_steps=20)
    seen = set()
    for step in range(20):
        for batch in private._batches(step):
            own = batch.indices[batch.real]
            assert np.sum(own < 30) == 3
            seen |= set(own[own < 30].tolist())
    # Fifteen of thirty are never among three once in 1 / (C(30, 15) (C(15, 3) / C(30, 3))^20) = 6e10 times.
    assert len(seen) > 15, "drawn afresh in every step"
    groups = run(x, y, unit=UserGroups(ids, rows_per_unit=3), sampling=Full(), num_steps=20)
    assert groups.plan.num_units == 13
    kept = {tuple(batch.indices[batch.real].tolist()) for step in range(20) for batch in groups._batches(step)}
    assert len(kept) == 1, "the same ones all along"


def test_two_ways_to_protect_users_are_compared_with_numbers() -> None:
    few = compare_units(
        num_users=100, examples_per_user=2, batch_size=100, noise_multiplier=5.0, num_steps=10, delta=1e-5
    )
    assert few.users.epsilon == pytest.approx(few.groups.epsilon, rel=1e-6), "without sampling there is no difference"
    many = compare_units(
        num_users=1000, examples_per_user=8, batch_size=20, noise_multiplier=1.0, num_steps=500, delta=1e-5
    )
    assert many.recommended is UserGroups
    assert f"{many.groups.epsilon:.3g}" in str(many)


# Plans


def test_schedules_are_accounted_for_step_by_step() -> None:
    x, y = data()
    plain = run(x, y, batch_size=8, num_steps=4).plan
    curve = PiecewiseCurve({0: 1.0, 2: 0.5})
    less = run(x, y, batch_size=8, num_steps=4, schedule=Schedule(noise_multiplier=curve)).plan
    assert [less.setting(step) for step in range(4)] == [(2.0, 8), (2.0, 8), (1.0, 8), (1.0, 8)]
    assert less.guarantee(2).epsilon == pytest.approx(plain.guarantee(2).epsilon)
    assert less.guarantee().epsilon > 1.5 * plain.guarantee().epsilon
    clips = run(x, y, batch_size=8, num_steps=4, schedule=Schedule(clip_norm=ExponentialCurve(1.0, 0.01, 3))).plan
    assert clips.guarantee().epsilon == plain.guarantee().epsilon, "noise moves with the clip norm"
    target = run(
        x, y, batch_size=8, num_steps=4, schedule=Schedule(noise_multiplier=curve), noise_multiplier=None, epsilon=1.0
    )
    assert 0.999 < target.plan.guarantee().epsilon <= 1.0
    stopped = run(x, y, batch_size=8, num_steps=400, schedule=Schedule(noise_multiplier=curve), epsilon=2.0)
    assert stopped.plan.num_steps < 400
    assert stopped.plan.guarantee().epsilon <= 2.0 < stopped.plan.guarantee(stopped.plan.num_steps).epsilon * 1.5


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=repr)
def test_noise_is_calibrated_for_every_sampling(sampling: Any) -> None:
    x, y = data()
    private = run(x, y, sampling=sampling, noise_multiplier=None, epsilon=1.5, num_steps=12)
    assert 1.49 < private.plan.guarantee().epsilon <= 1.5
    assert private.guarantee().epsilon == 0


def test_shuffled_epochs_say_that_they_are_not_amplified() -> None:
    x, y = data()
    promised = run(x, y, sampling=ShuffledEpochs(8), num_steps=10).plan.guarantee()
    assert "not amplified" in promised.method
    assert promised.epsilon == pytest.approx(run(x, y, sampling=Full(), num_steps=2).plan.guarantee().epsilon)
    assert promised.relation is Relation.ZERO_OUT


def test_weights_stay_in_their_ball() -> None:
    x, y = data()
    network = model()
    optimizer = torch.optim.SGD(network.parameters(), lr=5.0)
    private = hush.privatize(
        network, optimizer, (x, y), noise_multiplier=1.0, delta=1e-3, num_steps=4, projection=Ball(0.7)
    )
    for inputs, targets in private.loader:
        private.step(nn.functional.cross_entropy(private.model(inputs), targets, reduction="none"))
        assert float(torch.cat([each.detach().flatten() for each in network.parameters()]).norm()) <= 0.7 + 1e-5


@pytest.mark.parametrize("correlated", [Banded(bands=3), BufferedToeplitz(buffers=2), BufferedToeplitz(window=3)])
def test_correlated_noise_survives_a_resumption(correlated: Any) -> None:
    """Also under a new key: what was drawn before is still taken back."""
    x, y = data()

    def start(source: Any) -> PrivateTraining:
        network = model()
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        return hush.privatize(
            network,
            optimizer,
            (x, y),
            sampling=InOrder(8),
            correlated=correlated,
            noise_multiplier=2.0,
            delta=1e-3,
            num_steps=9,
            source=source,
        )

    def go(private: PrivateTraining, until: int) -> None:
        for inputs, targets in private.loader:
            private.step(nn.functional.cross_entropy(private.model(inputs), targets, reduction="none"))
            if private.steps_taken == until:
                return

    whole, first, second = start(TestSource(7)), start(TestSource(7)), start(TestSource(8))
    go(whole, 9)
    go(first, 4)
    second.load_state_dict(first.state_dict())
    go(second, 9)
    for one, two in zip(whole.model.parameters(), second.model.parameters(), strict=True):
        assert torch.allclose(one, two, atol=1e-5)
    secret = start(None)
    go(secret, 4)
    resumed = start(None)
    resumed.load_state_dict(secret.state_dict())
    go(resumed, 5)
    assert [first for first, _ in resumed._keys] == [0, 4]
    old, new = secret._noise_stream(), resumed._noise_stream()
    assert old is not None
    assert new is not None
    assert torch.equal(old(3), new(3))
    assert not torch.equal(old(5), new(5))


@pytest.mark.parametrize("sampling", [ShuffledEpochs(8), BallsInBins(8)], ids=repr)
def test_an_epoch_stays_one_when_it_is_resumed_under_a_new_key(sampling: Any) -> None:
    x, y = data()

    def start() -> PrivateTraining:
        network = model()
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        settings: dict[str, Any] = {"sampling": sampling, "noise_multiplier": 1.0, "delta": 1e-3, "num_steps": 10}
        return hush.privatize(network, optimizer, (x, y), **settings)

    private = start()
    seen = [private._batches.sample(step) for step in range(3)]
    for inputs, targets in private.loader:
        private.step(nn.functional.cross_entropy(private.model(inputs), targets, reduction="none"))
        if private.steps_taken == 3:
            break
    resumed = start()
    resumed.load_state_dict(private.state_dict())
    seen += [resumed._batches.sample(step) for step in range(3, 5)]
    assert sorted(np.concatenate(seen).tolist()) == list(range(COUNT))
    assert [first for first, _ in resumed._keys] == [0, 3]
    # By chance, all 40 are in the same batches in 8!^5 / 40! = 1e-25 of the times, or in 5^-40.
    later = [[each._batches.sample(step) for step in range(5, 10)] for each in (resumed, private)]
    same = [np.array_equal(one, other) for one, other in zip(*later, strict=True)]
    assert not all(same), "the next epoch is a new one"


# Each sampling against its accountant: units take part as a law says; and under that law, the loss is what is claimed


FALSE_ALARMS = 1e-8  # of each comparison with something true; at most 32 in a test
NOISE, STEPS, UNITS_OF_TOY = 1.0, 4, 8
TOYS = [
    (Poisson(2), Relation.ADD_OR_REMOVE, "tight"),
    (Full(), Relation.ADD_OR_REMOVE, "tight"),
    (FixedSize(2), Relation.REPLACE, "bound"),
    (ShuffledEpochs(2), Relation.ZERO_OUT, "bound"),
    (InOrder(2), Relation.ZERO_OUT, "tight"),
    (BallsInBins(2), Relation.ADD_OR_REMOVE, "tight"),
    (CyclicPoisson(2, parts=2), Relation.ADD_OR_REMOVE, "bound"),
]
PATTERNS = np.array(list(product((0, 1), repeat=STEPS)))


def law(sampling: Any) -> np.ndarray:
    """Return how likely each pattern of participations of unit 5 should be."""
    rate = sampling.size(UNITS_OF_TOY) / UNITS_OF_TOY
    total = PATTERNS.sum(1)
    if isinstance(sampling, InOrder):
        return np.array((PATTERNS == [0, 0, 1, 0]).all(1) * 1.0)  # it is in the third batch
    if isinstance(sampling, (ShuffledEpochs, BallsInBins)):
        return np.where(total == 1, 1 / STEPS, 0.0)
    if isinstance(sampling, CyclicPoisson):  # a coin for the part, and coins in the steps of that part
        own = sampling.rate(UNITS_OF_TOY)
        turns = [
            np.where(PATTERNS[:, 1 - part :: 2].any(1), 0, own**total * (1 - own) ** (2 - total)) for part in (0, 1)
        ]
        return np.array(sum(turns) / 2)
    return np.array(rate**total * (1 - rate) ** (STEPS - total))


@pytest.mark.parametrize("sampling", [toy[0] for toy in TOYS], ids=repr)
def test_units_take_part_as_their_law_says(sampling: Any) -> None:
    """In runs with keys of their own, by exact binomial tests: 16 patterns."""
    source, runs = TestSource(11), 2_000
    counts = np.zeros(len(PATTERNS), dtype=int)
    for _ in range(runs):
        key = source.words(4).tobytes()
        batches = [
            sampling.sample(lambda step, key=key: key, step, UNITS_OF_TOY, sampling.size(UNITS_OF_TOY))
            for step in range(STEPS)
        ]
        counts[int("".join(str(int(5 in batch)) for batch in batches), 2)] += 1
    chances = law(sampling)
    assert chances.sum() == pytest.approx(1)
    for pattern, count, chance in zip(PATTERNS, counts.tolist(), chances, strict=True):
        assert binomtest(count, runs, min(chance, 1.0)).pvalue > FALSE_ALARMS, pattern


def simulated_delta(chances: np.ndarray, shift: float, noise: float, epsilon: float) -> tuple[float, float]:
    """Bounds on delta(P, Q) for releases of a unit that adds ``shift`` to sums of nothing else, when it takes part.

    P is a mixture of normal laws, so that the loss of a release is known exactly. The mean of what is in [0, 1] is
    bounded by the empirical Bernstein inequality (Audibert, Munos & Szepesvari 2009, Theorem 1).
    """
    random, runs = np.random.default_rng(0), 200_000
    means = shift * PATTERNS[chances > 0]
    chances = chances[chances > 0]
    seen = means[random.choice(len(means), size=runs, p=chances)] + noise * random.standard_normal((runs, STEPS))
    loss = logsumexp((seen @ means.T - 0.5 * (means**2).sum(1)) / noise**2, axis=1, b=chances)
    gains = np.maximum(-np.expm1(epsilon - loss), 0.0)
    chance = math.log(3 / FALSE_ALARMS) / runs
    slack = math.sqrt(2 * float(gains.var()) * chance) + 3 * chance
    return float(gains.mean()) - slack, float(gains.mean()) + slack


@pytest.mark.parametrize(("sampling", "relation", "kind"), TOYS, ids=lambda value: str(value))
def test_simulated_losses_are_what_the_accountant_says(sampling: Any, relation: Relation, kind: str) -> None:
    epsilon = 0.5
    low, high = simulated_delta(law(sampling), 2 if relation is Relation.REPLACE else 1, NOISE, epsilon)
    event = sampling.event([(NOISE, sampling.size(UNITS_OF_TOY))] * STEPS, UNITS_OF_TOY, PerExample().mechanism)
    claimed = PldAccountant(relation=relation).compose(event).delta(epsilon)
    assert low <= claimed
    if kind == "tight":
        assert high >= claimed * 0.97


def test_a_broken_twin_that_counts_shuffling_as_poisson_is_caught() -> None:
    """Shuffled batches accounted for as Poisson samples of the same rate exceed the claim, by 50 standard errors."""
    epsilon, noise = 4.0, 0.3
    low, _ = simulated_delta(law(ShuffledEpochs(2)), 1, noise, epsilon)
    event = Poisson(2).event([(noise, 2)] * STEPS, UNITS_OF_TOY, PerExample().mechanism)
    claimed = PldAccountant().compose(event).delta(epsilon)
    assert low > claimed
