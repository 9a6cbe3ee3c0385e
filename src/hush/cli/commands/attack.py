"""`hush attack demo`: membership inference succeeding on an ordinary model and failing on a private one.

Coin flips make half of the people members. One model is trained on them without privacy, and one with. For each kind,
shadow models are trained on other halves, and LiRA (Carlini et al. 2022) compares them with the model under attack:

    coins  ->  model and its shadows  ->  scores of all people  ->  ROC curve, and a lower bound on epsilon
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.audit import AuditResult, Roc, audit_one_run, roc
from hush.audit.membership import (
    Shadows,
    coin_sample,
    lira_offline,
    lira_online,
    logit_confidence,
    roc_document,
    shadows,
)
from hush.cli.commands.attack_data import People, open_people
from hush.cli.terminal import TerminalProgress, table
from hush.errors import InvalidArgument, Unsupported, check_count, check_positive
from hush.guarantee import Guarantee

_PEOPLE_PER_GUESS = 20  # the attack guesses one in 20 to be a member, which is fixed before anything is trained
_FPR = 0.01
_CONFIDENCE = 0.95
_PLAIN, _PRIVATE = "not private", "private"
_ATTACKS: dict[str, Callable[[Any, Any, Any], NDArray[np.float64]]] = {
    "LiRA online": lira_online,
    "LiRA offline": lira_offline,
}


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "attack",
        help="run membership inference attacks on models",
        description="Run an attack, to see what differential privacy protects against.",
    )
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND")
    demo = kinds.add_parser(
        "demo",
        help="membership inference succeeding on an ordinary model and failing on a private one",
        description="Train a network with and without privacy, and shadow models of both. Then find out, by likelihood "
        "ratios (LiRA), who was in the training data. It takes about a minute on two cores.",
    )
    demo.add_argument(
        "--data",
        choices=["location", "digits"],
        help="the dataset; if omitted, Location-30 if its archive is found, and digits otherwise",
    )
    demo.add_argument("--data-dir", type=Path, metavar="DIR", help="the folder of Location-30; if omitted, $HUSH_DATA")
    demo.add_argument("--epsilon", type=float, default=4.0, help="the budget of the private model (default: 4)")
    demo.add_argument(
        "--shadows", type=int, default=16, metavar="N", help="shadow models of each kind, an even number (default: 16)"
    )
    demo.add_argument(
        "--seconds", type=float, default=90.0, help="about how long all shadow models may take (default: 90)"
    )
    demo.add_argument("--figure", type=Path, metavar="FILE.svg", help="draw both ROC curves, on logarithmic axes")
    demo.add_argument("--quiet", action="store_true", help="show no progress")
    demo.add_argument("--json", action="store_true", help="print one JSON object")
    demo.set_defaults(run=run)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackResult:
    """One attack on one model.

    Attributes:
        model, attack: Their names.
        train_accuracy, test_accuracy: The model's accuracy on members, and on non-members.
        auc, tpr, advantage: How well the attack separates the two; ``tpr`` is at a false positive rate of 1 %.
        epsilon_lower: The lower bound on epsilon that the attack shows.
        epsilon_claimed: The epsilon of the model; None if it is not private.
    """

    model: str
    attack: str
    train_accuracy: float
    test_accuracy: float
    auc: float
    tpr: float
    advantage: float
    epsilon_lower: float
    epsilon_claimed: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackedModel:
    """A model, the results of all attacks on it, and what it guarantees."""

    results: list[AttackResult]
    curve: Roc
    guarantee: Guarantee | None
    num_shadows: int


def run(options: argparse.Namespace) -> None:
    """Attack both models, and print the results."""
    people = open_people(options.data, options.data_dir)
    progress = TerminalProgress(quiet=options.quiet or options.json)
    try:
        plain, private = attack_both(people, options, progress)
    finally:
        progress.close()
    if options.figure is not None:
        _draw(plain, private, options.figure)
    print(_as_json(people, plain, private) if options.json else _as_text(people, plain, private, options.figure))


def attack_both(
    people: People, options: argparse.Namespace, progress: TerminalProgress
) -> tuple[AttackedModel, AttackedModel]:
    """Train both models on the same members, and attack each with shadow models of its kind."""
    try:
        from hush.cli.commands.attack_models import PrivateNetwork, one_thread, plain
    except ModuleNotFoundError as error:
        raise Unsupported(f"the demonstration needs {error.name}", "pip install 'hush[train]'") from None
    num_shadows = check_count("shadows", options.shadows, minimum=4)
    seconds, epsilon = check_positive("seconds", options.seconds), check_positive("epsilon", options.epsilon)
    rng = np.random.default_rng()
    is_member = coin_sample(len(people.labels), rng=rng)
    private = PrivateNetwork(people.num_classes, epsilon=epsilon, expected=len(people.labels) / 2)
    attacked = []
    for name, fit in ((_PLAIN, plain(people.num_classes)), (_PRIVATE, private)):

        def show(done: int, total: int, name: str = name) -> None:
            progress.show(f"{people.name}, {name}: shadow models", done, total)

        show(0, num_shadows)
        with one_thread():
            probabilities = fit(people.x[is_member], people.labels[is_member])(people.x)
            guarantee = private.guarantee if name == _PRIVATE else None  # before the shadows overwrite it
            shadow_models = shadows(
                fit,
                people.x,
                people.labels,
                num_models=num_shadows,
                num_classes=people.num_classes,
                rng=rng,
                progress=show,
                seconds=seconds / 2,
            )
        attacked.append(_attack(name, probabilities, shadow_models, is_member, guarantee))
    return attacked[0], attacked[1]


def _attack(
    name: str,
    probabilities: NDArray[np.float64],
    shadow_models: Shadows,
    is_member: NDArray[np.bool_],
    claim: Guarantee | None,
) -> AttackedModel:
    """Run all attacks on one model."""
    confidence = logit_confidence(probabilities, shadow_models.labels)
    is_correct = probabilities.argmax(1) == shadow_models.labels
    results, curves = [], []
    for attack, score in _ATTACKS.items():
        scores = score(confidence, shadow_models.logit_confidence, shadow_models.included)
        curve = roc(scores[is_member], scores[~is_member])
        curves.append(curve)
        results.append(
            AttackResult(
                model=name,
                attack=attack,
                train_accuracy=float(is_correct[is_member].mean()),
                test_accuracy=float(is_correct[~is_member].mean()),
                auc=curve.auc,
                tpr=float(curve.tpr_at(_FPR)),
                advantage=curve.advantage,
                epsilon_lower=_audit(scores, is_member).epsilon_lower,
                epsilon_claimed=None if claim is None else claim.epsilon,
            )
        )
    best = max(curves, key=lambda curve: curve.auc)
    return AttackedModel(results=results, curve=best, guarantee=claim, num_shadows=len(shadow_models.included))


def _audit(scores: NDArray[np.float64], is_member: NDArray[np.bool_]) -> AuditResult:
    """Return the lower bound on epsilon that one training shows. Coins drew the members, as the bound requires."""
    from hush.cli.commands.attack_models import DELTA

    return audit_one_run(
        scores,
        is_member,
        num_guesses=len(is_member) // _PEOPLE_PER_GUESS,
        delta=DELTA,
        confidence=_CONFIDENCE,
        num_trials=len(_ATTACKS),
    )


def _draw(plain: AttackedModel, private: AttackedModel, path: Path) -> None:
    """Write both ROC curves, with the limit that the private model's guarantee sets."""
    curves = {_PLAIN: plain.curve, _PRIVATE: private.curve}
    try:
        path.write_text(roc_document(curves, claimed=private.guarantee), encoding="utf-8")
    except OSError as error:
        raise InvalidArgument("figure", str(path), f"a file that can be written ({error.strerror})") from None


def _as_json(people: People, plain: AttackedModel, private: AttackedModel) -> str:
    """Write the results for scripts."""
    assert private.guarantee is not None
    document = {
        "format": "hush.attack/1",
        "data": people.name,
        "fpr": _FPR,
        "confidence": _CONFIDENCE,
        "shadows": private.num_shadows,
        "findings": [asdict(result) for result in (*plain.results, *private.results)],
        "guarantee": json.loads(private.guarantee.to_json()),
    }
    return json.dumps(document, allow_nan=False)


def _as_text(people: People, plain: AttackedModel, private: AttackedModel, figure: Path | None) -> str:
    """Write the results for people."""
    assert private.guarantee is not None
    limit = private.guarantee.advantage()
    lines = [
        f"Who was in the training data? {people.name}, {len(people.labels):,} people, half of them members, "
        f"chosen by coin flips; {plain.num_shadows} and {private.num_shadows} shadow models",
        "",
        table(
            ("model", "attack", "accuracy", "AUC", f"TPR at {_FPR:.0%} FPR", "epsilon shown", "epsilon claimed"),
            [_row(result) for result in (*plain.results, *private.results)],
        ),
        "",
        _comparison(plain, private),
        "",
        f"Accuracy is on non-members. Epsilon shown is a lower bound with {_CONFIDENCE:.0%} confidence, from one "
        f"training, corrected for two attacks.\nNo attack on the private model can have an advantage (TPR - FPR) above "
        f"{limit:.3f}.",
    ]
    return "\n".join(lines if figure is None else [*lines, "", f"ROC curves: {figure}"])


def _row(result: AttackResult) -> tuple[str, ...]:
    """Return one row of the table."""
    return (
        result.model,
        result.attack,
        f"{result.test_accuracy:.3f}",
        f"{result.auc:.3f}",
        f"{result.tpr:.3f}",
        f"{math.floor(100 * result.epsilon_lower) / 100:.2f}",  # a lower bound is rounded down
        "none" if result.epsilon_claimed is None else f"{result.epsilon_claimed:.2f}",
    )


def _comparison(plain: AttackedModel, private: AttackedModel) -> str:
    """Say in words how much better the attack does on the ordinary model."""
    assert private.guarantee is not None
    plain_tpr, private_tpr = (max(result.tpr for result in model.results) for model in (plain, private))
    return (
        f"At {_FPR:.0%} false positives, the attack finds {plain_tpr:.1%} of the members of the ordinary model,\n"
        f"and {private_tpr:.1%} of the private model's. Guessing finds {_FPR:.0%}, and epsilon "
        f"{private.guarantee.epsilon:.3g} allows {private.guarantee.max_tpr(_FPR):.1%}."
    )
