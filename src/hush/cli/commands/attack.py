"""`hush attack demo`: a model without privacy loses its members, a private one keeps them."""

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
    advantage_bounds,
    coin_sample,
    lira_offline,
    lira_online,
    logit_confidence,
    roc_document,
    shadows,
)
from hush.cli.commands.attack_data import People, open_people
from hush.cli.commands.train import ProgressBar
from hush.cli.terminal import table
from hush.errors import InvalidArgument, Unsupported, check_count, check_positive
from hush.guarantee import Guarantee

_GUESSED = 20  # one in so many is guessed to be a member, which is fixed before anything is trained
_FPR = 0.01
_CONFIDENCE = 0.95
_ATTACKS: dict[str, Callable[[Any, Any, Any], NDArray[np.float64]]] = {
    "LiRA online": lira_online,
    "LiRA offline": lira_offline,
}


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser("attack", help="membership attacks on models", description="Attack models.")
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND")
    demo = kinds.add_parser(
        "demo",
        help="a model without privacy loses its members, a private one keeps them",
        description="Train a network with and without privacy, and shadow models of both; then find out, by likelihood "
        "ratios (LiRA), who was in the training. About a minute on two cores.",
    )
    demo.add_argument("--data", choices=["location", "digits"], help="default: Location-30 if it is there, else digits")
    demo.add_argument("--data-dir", type=Path, metavar="DIR", help="where Location-30 is; $HUSH_DATA without it")
    demo.add_argument("--epsilon", type=float, default=4.0, help="of the private model (default: 4)")
    demo.add_argument("--shadows", type=int, default=16, metavar="N", help="shadow models of each kind, an even number")
    demo.add_argument("--seconds", type=float, default=90.0, help="about how long shadow models may take in all")
    demo.add_argument("--figure", type=Path, metavar="FILE.svg", help="draw both ROC curves, on logarithmic axes")
    demo.add_argument("--quiet", action="store_true", help="no progress")
    demo.add_argument("--json", action="store_true", help="print one JSON object")
    demo.set_defaults(run=run)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackResult:
    """One attack on one model."""

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
class _Attacked:
    """A model, what was found out about it, and what it had promised."""

    findings: list[AttackResult]
    curve: Roc
    guarantee: Guarantee | None
    num_shadows: int


def run(options: argparse.Namespace) -> None:
    """Attack both models, and print what was found."""
    people = open_people(options.data, options.data_dir)
    progress = ProgressBar(quiet=options.quiet or options.json)
    try:
        without, private = attack_both(people, options, progress)
    finally:
        progress.close()
    if options.figure is not None:
        _draw(without, private, options.figure)
    found = [*without.findings, *private.findings]
    print(_as_json(people, found, private) if options.json else _as_text(people, found, without, private, options))


def attack_both(people: People, options: argparse.Namespace, progress: ProgressBar) -> tuple[_Attacked, _Attacked]:
    """Train both models on one sample of coins, and attack them with shadow models of their own."""
    try:
        from hush.cli.commands.attack_models import PrivateNetwork, one_thread, plain
    except ModuleNotFoundError as error:
        raise Unsupported(f"the demonstration needs {error.name}", "pip install 'hush[train]'") from None
    count, seconds = check_count("shadows", options.shadows, minimum=4), check_positive("seconds", options.seconds)
    epsilon = check_positive("epsilon", options.epsilon)
    rng = np.random.default_rng()
    member = coin_sample(len(people.labels), rng=rng)
    private = PrivateNetwork(people.num_classes, epsilon=epsilon, expected=len(people.labels) / 2)
    attacked = []
    for name, fit in (("not private", plain(people.num_classes)), ("private", private)):

        def show(done: int, total: int, name: str = name) -> None:
            progress.show(f"{people.name}, {name}: shadow models", done, total)

        show(0, count)
        with one_thread():
            probabilities = fit(people.x[member], people.labels[member])(people.x)
            guarantee = private.guarantee if name == "private" else None
            others = shadows(
                fit,
                people.x,
                people.labels,
                num_models=count,
                num_classes=people.num_classes,
                rng=rng,
                progress=show,
                seconds=seconds / 2,
            )
        attacked.append(_attack(name, probabilities, others, member, guarantee))
    return attacked[0], attacked[1]


def _attack(
    name: str, probabilities: NDArray[np.float64], others: Shadows, member: NDArray[np.bool_], claim: Guarantee | None
) -> _Attacked:
    own = logit_confidence(probabilities, others.labels)
    right = probabilities.argmax(1) == others.labels
    findings, curves = [], []
    for attack, score in _ATTACKS.items():
        scores = score(own, others.logit_confidence, others.included)
        curves.append(roc(scores[member], scores[~member]))
        shown = _shown(scores, member)
        findings.append(
            AttackResult(
                model=name,
                attack=attack,
                train_accuracy=float(right[member].mean()),
                test_accuracy=float(right[~member].mean()),
                auc=curves[-1].auc,
                tpr=float(curves[-1].tpr_at(_FPR)),
                advantage=curves[-1].advantage,
                epsilon_lower=shown.epsilon_lower,
                epsilon_claimed=None if claim is None else claim.epsilon,
            )
        )
    best = max(curves, key=lambda curve: curve.auc)
    return _Attacked(findings=findings, curve=best, guarantee=claim, num_shadows=len(others.included))


def _shown(scores: NDArray[np.float64], member: NDArray[np.bool_]) -> AuditResult:
    """Return what one run shows: members were drawn by coins, and the number of guesses is fixed beforehand."""
    from hush.cli.commands.attack_models import DELTA

    return audit_one_run(
        scores,
        member,
        num_guesses=len(member) // _GUESSED,
        delta=DELTA,
        confidence=_CONFIDENCE,
        num_trials=len(_ATTACKS),
    )


def _draw(without: _Attacked, private: _Attacked, path: Path) -> None:
    curves = {"not private": without.curve, "private": private.curve}
    try:
        path.write_text(roc_document(curves, claimed=private.guarantee), encoding="utf-8")
    except OSError as error:
        raise InvalidArgument("figure", str(path), f"a file that can be written ({error.strerror})") from None


def _as_json(people: People, found: list[AttackResult], private: _Attacked) -> str:
    assert private.guarantee is not None
    document = {
        "schema": "hush.attack/1",
        "data": people.name,
        "fpr": _FPR,
        "confidence": _CONFIDENCE,
        "shadows": private.num_shadows,
        "findings": [asdict(each) for each in found],
        "guarantee": json.loads(private.guarantee.to_json()),
    }
    return json.dumps(document, allow_nan=False)


def _as_text(
    people: People, found: list[AttackResult], without: _Attacked, private: _Attacked, options: argparse.Namespace
) -> str:
    assert private.guarantee is not None
    lines = [
        f"Who was in the training? {people.name}, {len(people.labels):,} people, of whom coins chose half; "
        f"{without.num_shadows} and {private.num_shadows} shadow models",
        "",
        table(
            ("model", "attack", "accuracy", "AUC", f"TPR at {_FPR:.0%} FPR", "epsilon shown", "epsilon claimed"),
            [_row(each) for each in found],
        ),
        "",
        _sentence(found, private.guarantee),
        "",
        f"Accuracy is that on people who were left out. Epsilon shown: {_CONFIDENCE:.0%} confidence, one training, "
        f"corrected for both attacks;\nno attack on the private model can have an advantage (TPR - FPR) above "
        f"{advantage_bounds(private.guarantee.epsilon, private.guarantee.delta).tight:.3f}.",
    ]
    return "\n".join(lines if options.figure is None else [*lines, "", f"ROC curves: {options.figure}"])


def _row(found: AttackResult) -> tuple[str, ...]:
    return (
        found.model,
        found.attack,
        f"{found.test_accuracy:.3f}",
        f"{found.auc:.3f}",
        f"{found.tpr:.3f}",
        f"{math.floor(100 * found.epsilon_lower) / 100:.2f}",
        "none" if found.epsilon_claimed is None else f"{found.epsilon_claimed:.2f}",
    )


def _sentence(found: list[AttackResult], claim: Guarantee) -> str:
    lost, kept = (
        max((each for each in found if each.model == model), key=lambda each: each.tpr)
        for model in ("not private", "private")
    )
    return (
        f"Falsely accusing {_FPR:.0%} of the others, the attack names {lost.tpr:.1%} of the members of the model "
        f"without privacy,\nand {kept.tpr:.1%} of the private one's, where guessing names {_FPR:.0%} "
        f"and epsilon {claim.epsilon:.3g} allows {claim.max_tpr(_FPR):.1%}."
    )
