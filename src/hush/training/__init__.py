"""Private training on PyTorch (DP-SGD and its relatives), with exact per-example clipping from one backward pass.

Contents
--------

Train: `privatize` adds privacy to your own loop, `fit` runs the loop for you; both return a `PrivateTraining`.
`start_training` starts a run under an existing `TrainingPlan`. `replace_batchnorm` replaces layers that mix
examples.

Choose, by passing a value to `privatize`:

- sampling: `Poisson`, `Full`, `FixedSize`, `ShuffledEpochs`, `InOrder`, `BallsInBins`, `CyclicPoisson`
- clipping, a `Clipping`: `Flat`, `Automatic`, `Normalized`, `Global`, `Adaptive`; by groups of parameters: `PerLayer`,
  `ByName`
- the contribution that is clipped: `PerExample`, `Augmented`, `Microbatches`, `Projected`
- the privacy unit: `Users`, `UserGroups`; `compare_units` computes which of the two costs less
- noise over the steps: a `Schedule` of `Curve`s; correlated noise: `Banded`, `BufferedToeplitz`
- a ball to which the weights are confined: `Ball`

Train a part of a model, or start from public data: `freeze_except`, `replace_head`, `add_lora` and `merge_lora` (with
``hush[lora]``), `pretrain`, `PublicPhase`. Get more out of the noisy steps: `AdamBC`, `MovingAverage`, `TailAverage`.

Search for hyper-parameters: `tune`, or `plan_tuning` to see the cost first. Runs return a
`Candidate` or `HeldOutAnswers`, and are compared by a `Score`. Settings are
lists or a `Range`; `Repetitions` is the distribution of the secret number of runs.

Inspect: `clipped_sum` returns norms and clipped sums, and `check` compares them with a plain loop.

``hush.training.scattering`` computes image features that cost no privacy; ``hush.lab.ntk`` shows how clipping and noise
affect convergence.

How it works
------------

A step samples privacy units, computes their gradients in one backward pass, clips and sums them, adds noise once,
divides by the expected batch size, and lets the optimizer step. The folders, from top to bottom (imports point down):

- ``tuning``: private search over many runs.
- ``loop``: the run itself: batches, steps, noise and optimizer, resumption, budgets, averages.
- ``transfer``: adapters, frozen layers, public pre-training. ``per_example``: gradients, norms and clipped sums of all
  examples of a batch.
- ``watch``: what moves data past the clipping: examples that mix, models that store data, ordinary steps.
- ``plan``: everything that is fixed before a run reads data, and determines its guarantee.
- ``noise``: the noise of a step, independent or correlated over the steps.
- ``kernels``: Triton kernels and CUDA graphs, which change the speed only. ``scattering``: features.

Four ideas run through all of it:

- **The plan is a value made of types.** The kind of sampling, contribution, clipping, unit and noise is a type each. A
  sampling knows which units take part, for which neighbouring relations that is proven, and the accounting event.
  Unsupported combinations are refused in one place. A test walks through all combinations, and measures how far one
  unit moves a sum.
- **Contributions are rows.** Users, augmentations and micro-batches are the same to the engine: a number of consecutive
  rows of a batch that are joined before they are clipped. The clip norm bounds a contribution whatever the kind of
  clipping, so the event does not depend on it.
- **Everything random is a function of a key and the step.** So a run can be resumed, and its state contains no gradient
  without noise. A resumed run draws its noise under a new key; otherwise two runs from one state would share it.
- **Checks do not depend on data.** A run compares itself with a plain loop at its first batch, and replaces some
  examples of a batch at secret steps, all of them made up: whether a run is refused must not depend on the contents
  of the data.
"""

from typing import TYPE_CHECKING

from hush.lazy_loading import lazy_names

if TYPE_CHECKING:
    from hush.training import scattering as scattering
    from hush.training.loop.averaging import MovingAverage as MovingAverage
    from hush.training.loop.averaging import TailAverage as TailAverage
    from hush.training.loop.entry_points import privatize as privatize
    from hush.training.loop.entry_points import start_training as start_training
    from hush.training.loop.optimizers import AdamBC as AdamBC
    from hush.training.loop.ready_loop import fit as fit
    from hush.training.loop.session import PrivateTraining as PrivateTraining
    from hush.training.loop.update import Ball as Ball
    from hush.training.noise.correlated_noise import Banded as Banded
    from hush.training.noise.correlated_noise import BufferedToeplitz as BufferedToeplitz
    from hush.training.per_example.checks import check as check
    from hush.training.per_example.checks import clipped_sum as clipped_sum
    from hush.training.plan.clipping import Adaptive as Adaptive
    from hush.training.plan.clipping import Automatic as Automatic
    from hush.training.plan.clipping import ByName as ByName
    from hush.training.plan.clipping import Clipping as Clipping
    from hush.training.plan.clipping import Flat as Flat
    from hush.training.plan.clipping import Global as Global
    from hush.training.plan.clipping import Normalized as Normalized
    from hush.training.plan.clipping import PerLayer as PerLayer
    from hush.training.plan.contributions import Augmented as Augmented
    from hush.training.plan.contributions import Microbatches as Microbatches
    from hush.training.plan.contributions import PerExample as PerExample
    from hush.training.plan.contributions import Projected as Projected
    from hush.training.plan.public_phase import PublicPhase as PublicPhase
    from hush.training.plan.samplers import BallsInBins as BallsInBins
    from hush.training.plan.samplers import CyclicPoisson as CyclicPoisson
    from hush.training.plan.samplers import FixedSize as FixedSize
    from hush.training.plan.samplers import Full as Full
    from hush.training.plan.samplers import InOrder as InOrder
    from hush.training.plan.samplers import Poisson as Poisson
    from hush.training.plan.samplers import ShuffledEpochs as ShuffledEpochs
    from hush.training.plan.schedule import Curve as Curve
    from hush.training.plan.schedule import Schedule as Schedule
    from hush.training.plan.training_plan import TrainingPlan as TrainingPlan
    from hush.training.plan.units import UserGroups as UserGroups
    from hush.training.plan.units import Users as Users
    from hush.training.plan.units import compare_units as compare_units
    from hush.training.transfer.batch_norm import replace_batchnorm as replace_batchnorm
    from hush.training.transfer.lora import add_lora as add_lora
    from hush.training.transfer.lora import merge_lora as merge_lora
    from hush.training.transfer.pretraining import pretrain as pretrain
    from hush.training.transfer.trained_part import freeze_except as freeze_except
    from hush.training.transfer.trained_part import replace_head as replace_head
    from hush.training.tuning.calibration import plan_tuning as plan_tuning
    from hush.training.tuning.calibration import tune as tune
    from hush.training.tuning.repetitions import Repetitions as Repetitions
    from hush.training.tuning.scores import Candidate as Candidate
    from hush.training.tuning.scores import HeldOutAnswers as HeldOutAnswers
    from hush.training.tuning.scores import Score as Score
    from hush.training.tuning.space import Range as Range

    # isort: split
    # Shared inside hush, not public.
    from hush.training.loop.session import leave_out_unit as leave_out_unit
    from hush.training.loop.session import unit_rows as unit_rows
    from hush.training.per_example.checks import looped_sum as looped_sum
    from hush.training.tuning.search import Tuned as Tuned
    from hush.training.tuning.search import TuningPlan as TuningPlan
else:  # a type checker that saw this would take every misspelt name for a module
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "scattering": None,
            "AdamBC": "hush.training.loop.optimizers",
            "Adaptive": "hush.training.plan.clipping",
            "Augmented": "hush.training.plan.contributions",
            "Automatic": "hush.training.plan.clipping",
            "Ball": "hush.training.loop.update",
            "BallsInBins": "hush.training.plan.samplers",
            "Banded": "hush.training.noise.correlated_noise",
            "BufferedToeplitz": "hush.training.noise.correlated_noise",
            "ByName": "hush.training.plan.clipping",
            "Candidate": "hush.training.tuning.scores",
            "Clipping": "hush.training.plan.clipping",
            "CyclicPoisson": "hush.training.plan.samplers",
            "FixedSize": "hush.training.plan.samplers",
            "Flat": "hush.training.plan.clipping",
            "Full": "hush.training.plan.samplers",
            "Global": "hush.training.plan.clipping",
            "HeldOutAnswers": "hush.training.tuning.scores",
            "InOrder": "hush.training.plan.samplers",
            "Microbatches": "hush.training.plan.contributions",
            "MovingAverage": "hush.training.loop.averaging",
            "Normalized": "hush.training.plan.clipping",
            "PerExample": "hush.training.plan.contributions",
            "PerLayer": "hush.training.plan.clipping",
            "Poisson": "hush.training.plan.samplers",
            "PrivateTraining": "hush.training.loop.session",
            "Projected": "hush.training.plan.contributions",
            "PublicPhase": "hush.training.plan.public_phase",
            "Schedule": "hush.training.plan.schedule",
            "Score": "hush.training.tuning.scores",
            "ShuffledEpochs": "hush.training.plan.samplers",
            "TailAverage": "hush.training.loop.averaging",
            "TrainingPlan": "hush.training.plan.training_plan",
            "UserGroups": "hush.training.plan.units",
            "Users": "hush.training.plan.units",
            "add_lora": "hush.training.transfer.lora",
            "check": "hush.training.per_example.checks",
            "clipped_sum": "hush.training.per_example.checks",
            "compare_units": "hush.training.plan.units",
            "fit": "hush.training.loop.ready_loop",
            "freeze_except": "hush.training.transfer.trained_part",
            "merge_lora": "hush.training.transfer.lora",
            "plan_tuning": "hush.training.tuning.calibration",
            "pretrain": "hush.training.transfer.pretraining",
            "privatize": "hush.training.loop.entry_points",
            "replace_batchnorm": "hush.training.transfer.batch_norm",
            "replace_head": "hush.training.transfer.trained_part",
            "start_training": "hush.training.loop.entry_points",
            "tune": "hush.training.tuning.calibration",
            "Repetitions": "hush.training.tuning.repetitions",
            "Range": "hush.training.tuning.space",
            "Curve": "hush.training.plan.schedule",
            # Shared inside hush, not public.
            "Tuned": "hush.training.tuning.search",
            "TuningPlan": "hush.training.tuning.search",
            "leave_out_unit": "hush.training.loop.session",
            "looped_sum": "hush.training.per_example.checks",
            "unit_rows": "hush.training.loop.session",
        },
    )

__all__ = [
    "AdamBC",
    "Adaptive",
    "Augmented",
    "Automatic",
    "Ball",
    "BallsInBins",
    "Banded",
    "BufferedToeplitz",
    "ByName",
    "Candidate",
    "Clipping",
    "Curve",
    "CyclicPoisson",
    "FixedSize",
    "Flat",
    "Full",
    "Global",
    "HeldOutAnswers",
    "InOrder",
    "Microbatches",
    "MovingAverage",
    "Normalized",
    "PerExample",
    "PerLayer",
    "Poisson",
    "PrivateTraining",
    "Projected",
    "PublicPhase",
    "Range",
    "Repetitions",
    "Schedule",
    "Score",
    "ShuffledEpochs",
    "TailAverage",
    "TrainingPlan",
    "UserGroups",
    "Users",
    "add_lora",
    "check",
    "clipped_sum",
    "compare_units",
    "fit",
    "freeze_except",
    "merge_lora",
    "plan_tuning",
    "pretrain",
    "privatize",
    "replace_batchnorm",
    "replace_head",
    "start_training",
    "tune",
]
