"""Combinations of a plan's parts that have no proof. They are refused here, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hush.errors import Unsupported
from hush.guarantee import Relation, UnitKind
from hush.training.plan.clipping import Adaptive, Flat, Together
from hush.training.plan.contributions import Microbatches, Projected
from hush.training.plan.samplers import BallsInBins, Full, InOrder, Poisson
from hush.training.plan.schedule import Schedule

if TYPE_CHECKING:
    from hush.training.plan.training_plan import TrainingPlan


def refuse_combinations(plan: TrainingPlan) -> None:
    """Refuse, by name, combinations without a proof."""
    sampling, sampling_name = plan.sampling, type(plan.sampling).__name__
    if plan.relation not in sampling.relations:
        raise Unsupported(
            f"{sampling_name} under the relation {plan.relation.value!r}: nothing is proven for it",
            f"Use {' or '.join(f'Relation.{relation.name}' for relation in sampling.relations)}",
        )
    # An event is proven for a pair of sampling and relation. What follows breaks an assumption of those proofs.
    if isinstance(plan.contribution, Microbatches):
        _refuse_with_microbatches(plan, sampling_name)
    if isinstance(plan.contribution, Projected):
        _refuse_with_projections(plan)
    # Andrew et al. 2021, Theorem 1, splits the noise of one step. Correlated noise is one mechanism over all steps.
    if isinstance(plan.clipping, Adaptive) and plan.correlated is not None:
        raise Unsupported("Adaptive clipping with correlated noise: the noise on its counts is not correlated")
    if isinstance(sampling, InOrder) and plan.unit.kind is not UnitKind.EXAMPLE and plan.relation is Relation.REPLACE:
        raise Unsupported(
            "InOrder with users under the relation 'replace': the replacement may come at another position",
            "Use Relation.ZERO_OUT",
        )
    # GroupEvent needs units that are sampled independently: of k, a binomial number is in a batch.
    if plan.group_size > 1 and not isinstance(sampling, (Poisson, Full)):
        raise Unsupported(f"UserGroups with {sampling_name}: no analysis of groups is known", "Use Users, or Poisson")
    if plan.max_batch_size is not None and (plan.group_size > 1 or isinstance(plan.contribution, Projected)):
        raise Unsupported(
            "max_batch_size with UserGroups or Projected: a truncated sample is analysed for one Gaussian of one unit",
            "Use Poisson without a limit",
        )
    if plan.schedule is not None:
        _refuse_with_schedule(plan, plan.schedule, sampling_name)


def _refuse_with_microbatches(plan: TrainingPlan, sampling_name: str) -> None:
    # The sensitivity of 2 C holds if one micro-batch changes. If units move up, all of them may.
    if not plan.sampling.keeps_places or plan.relation is Relation.ADD_OR_REMOVE:
        raise Unsupported(
            f"Microbatches with {sampling_name} under {plan.relation.value!r}: adding or removing a unit moves others "
            "to another micro-batch",
            "Use FixedSize, ShuffledEpochs, InOrder or Full, with Relation.ZERO_OUT or REPLACE",
        )
    if isinstance(plan.clipping, Adaptive) or plan.rows_per_unit > 1:
        raise Unsupported("Microbatches with Adaptive clipping or Users: two ways to share a contribution")


def _refuse_with_projections(plan: TrainingPlan) -> None:
    if type(plan.clipping) is not Flat or not isinstance(plan.clipping.groups, Together):
        raise Unsupported("Projected with other than Flat clipping of all parameters together")
    if plan.rows_per_unit > 1 or plan.group_size > 1:
        raise Unsupported("Projected with users: its random sensitivity is analysed for single examples")
    if isinstance(plan.sampling, BallsInBins) or plan.correlated is not None:
        raise Unsupported("Projected with BallsInBins or correlated noise: no analysis is known", "Use Poisson")


def _refuse_with_schedule(plan: TrainingPlan, schedule: Schedule, sampling_name: str) -> None:
    if schedule.batch_size is not None and not plan.sampling.varies:
        raise Unsupported(f"a schedule of batch sizes with {sampling_name}", "Use Poisson or FixedSize")
    if schedule.clip_norm is not None and isinstance(plan.clipping, Adaptive):
        raise Unsupported("a schedule of clip norms with Adaptive clipping, which sets the clip norm itself")
    if plan.correlated is not None:
        raise Unsupported("a schedule with correlated noise: the correlation assumes equal steps")
