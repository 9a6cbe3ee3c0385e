"""Location-30: reference figures of attacks on scikit-learn's networks, and the same attacks on a private model."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hush.audit import Roc, roc
from hush.audit import membership as mi
from hush.cli.commands.attack_data import ARCHIVE, read_location
from hush.guarantee import Guarantee
from hush.lab.slicing import label_only

ROOTS = [Path(os.environ["HUSH_DATA"])] if os.environ.get("HUSH_DATA") else []
ROOTS.append(Path(__file__).resolve().parents[4] / "shared" / "data")
MODELS = 16


@pytest.fixture(scope="module")
def people() -> Any:
    for root in ROOTS:
        if (root / "location" / ARCHIVE).is_file():
            return read_location(root / "location" / ARCHIVE)
    pytest.skip("Location-30 is neither in $HUSH_DATA nor beside the repository")


def curve(scores: Any, member: Any) -> Roc:
    return roc(scores[member], scores[~member])


def network(x: Any, labels: Any) -> Any:
    """Train scikit-learn's network: 64 hidden units, tanh, 40 epochs.

    The learning rate is not on record. With 0.003, a single target has the accuracies that are on record.
    """
    from sklearn.neural_network import MLPClassifier

    model = MLPClassifier(
        (64,), activation="tanh", max_iter=40, learning_rate_init=0.003, random_state=int(labels.sum()) % 1000
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="sklearn")  # the recipe has 40 epochs, whether it converges or not
        model.fit(x, labels)
    assert len(model.classes_) == 30
    return model.predict_proba


@pytest.mark.slow
def test_reference_values(people: Any) -> None:
    """A single target and seed were measured. Tolerances allow for another seed with 5,010 examples."""
    rng = np.random.default_rng(0)
    member = mi.coin_sample(len(people.labels), rng=rng)
    target = network(people.x[member], people.labels[member])(people.x)
    trained = mi.shadows(network, people.x, people.labels, num_models=MODELS, num_classes=30, rng=rng)
    correct = target.argmax(1) == people.labels
    assert correct[member].mean() > 0.995
    assert correct[~member].mean() == pytest.approx(0.635, abs=0.03)

    losses = mi.cross_entropy(target, people.labels)
    swept = curve(mi.yeom(losses), member)
    assert swept.auc == pytest.approx(0.834, abs=0.03)
    assert swept.advantage == pytest.approx(0.702, abs=0.05)
    assert swept.tpr_at(0.01) < 0.03
    fixed = curve(mi.yeom(losses, mean_train_loss=float(losses[member].mean())), member)
    assert fixed.advantage == pytest.approx(0.379, abs=0.06)
    assert curve(label_only(target.argmax(1), people.labels), member).advantage == pytest.approx(0.365, abs=0.03)

    logits, table = mi.logit_confidence(target, people.labels), trained.logit_confidence
    online = curve(mi.lira_online(logits, table, trained.included), member)
    assert online.auc >= 0.93
    assert online.auc == pytest.approx(0.951, abs=0.02)
    assert online.tpr_at(0.01) == pytest.approx(0.412, abs=0.12)
    assert online.tpr_at(0.001) == pytest.approx(0.228, abs=0.15)
    offline = curve(mi.lira_offline(logits, table, trained.included), member)
    assert offline.auc == pytest.approx(0.883, abs=0.03)
    assert offline.tpr_at(0.01) == pytest.approx(0.353, abs=0.12)

    population = np.flatnonzero(~member)[:1000]
    scored = np.setdiff1d(np.arange(len(member)), population)
    confidence, confidences = mi.confidence(target, people.labels), trained.confidence
    scores = mi.rmia_offline(
        confidence[scored],
        confidences[:, scored],
        trained.included[:, scored],
        population=confidence[population],
        population_references=confidences[:, population],
        population_included=trained.included[:, population],
    )
    rmia = curve(scores, member[scored])
    assert rmia.auc == pytest.approx(0.891, abs=0.03)
    assert rmia.tpr_at(0.01) == pytest.approx(0.284, abs=0.12)

    risk = mi.example_risk(table, trained.included)
    at_risk = risk > np.quantile(risk, 0.9)
    assert curve(mi.lira_online(logits, table, trained.included)[at_risk], member[at_risk]).auc > online.auc


@pytest.mark.slow
def test_at_epsilon_four_the_attack_fails(people: Any) -> None:
    """The same attack on the demonstration's private network, with shadow models that are private, too."""
    torch = pytest.importorskip("torch")
    from hush.cli.commands.attack_models import PrivateNetwork, one_thread

    rng = np.random.default_rng(1)
    train = PrivateNetwork(30, epsilon=4.0, expected=len(people.labels) / 2)
    member = mi.coin_sample(len(people.labels), rng=rng)
    with one_thread():
        target = train(people.x[member], people.labels[member])(people.x)
        trained = mi.shadows(train, people.x, people.labels, num_models=MODELS, num_classes=30, rng=rng)
    assert train.guarantee is not None
    claim: Guarantee = train.guarantee
    assert 3.99 < claim.epsilon <= 4
    assert torch.get_num_threads() >= 1
    assert (target.argmax(1) == people.labels)[~member].mean() > 0.2  # the largest of 30 classes has 6 %

    logits, table = mi.logit_confidence(target, people.labels), trained.logit_confidence
    targets = [(logits, member, np.arange(MODELS))]
    targets += [(table[k], trained.included[k], np.delete(np.arange(MODELS), k)) for k in range(6)]
    online = [curve(mi.lira_online(t, table[r], trained.included[r]), m) for t, m, r in targets]
    offline = [curve(mi.lira_offline(t, table[r], trained.included[r]), m) for t, m, r in targets]
    assert np.mean([roc_curve.auc for roc_curve in online]) <= 0.55
    # Stronger than online: no mean of a few noisy models is subtracted.
    assert np.mean([roc_curve.auc for roc_curve in offline]) <= 0.62
    for roc_curve in (*online, *offline):
        for rate in (0.001, 0.01, 0.1):
            assert roc_curve.tpr_at(rate) < claim.max_tpr(rate)
