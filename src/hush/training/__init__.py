"""Private training on PyTorch.

- `privatize`: three added lines in an ordinary loop; `fit`: no loop at all. Both return a `PrivateTraining`.
- `TrainingPlan`: what was agreed on: sampling, clipping, noise, normaliser, event. `start_training` begins under one.
- `check`, `clipped_sum`: per-example norms and clipped sums for inspection, compared with a plain loop (`looped_sum`).
- `Flat`, `Automatic`, `Normalized`, `Global`, `Adaptive`: ways to clip; `PerLayer`, `ByName`: what is clipped together.
- `Poisson`, `Full`, `FixedSize`, `ShuffledEpochs`, `InOrder`, `BallsInBins`, `CyclicPoisson`: ways to sample.
- `Users`, `UserGroups`: whose data is protected together; `compare_units`: which of the two costs less.
- `PerExample`, `Augmented`, `Microbatches`, `Projected`: what is clipped.
- `Schedule` of `PiecewiseCurve`, `LinearCurve` and `ExponentialCurve` curves: noise, clip norm and batch size that change.
- `Banded`, `BufferedToeplitz`: noise that is correlated over the steps. `Ball`: weights that stay within one.
- `AdamBC`: Adam without the noise in its second moment; `MovingAverage`, `TailAverage`: averages of the weights.
- `freeze_except`, `replace_head`, `add_lora`, `merge_lora`: training a part of a model.
- `pretrain`, `PublicPhase`: a phase on public data, which is not accounted for, and stated with the guarantee.
- `replace_batchnorm`: makes models with batch statistics trainable.
- `tune`: a private search for settings, with its cost. `plan_tuning` calibrates one (`TuningPlan`); it finds a `Tuned`.
  `Candidate`, `HeldOutAnswers`: what a run returns; `PublicScore`, `PrivateScore`, `ChargedScore`: how runs are compared;
  `LogRange`, `UniformRange`: settings that are numbers; `LogarithmicRepetitions`,
  `NegativeBinomialRepetitions`, `PoissonRepetitions`: laws of their number, which is secret.
- ``hush.training.scattering``: wavelet features of images, which cost no privacy.
- ``hush.lab.ntk``: a laboratory for what clipping and noise do to convergence.
"""

from typing import TYPE_CHECKING

from hush.lazy import lazy_names
from hush.training.extras.averaging import MovingAverage as MovingAverage
from hush.training.extras.averaging import TailAverage as TailAverage
from hush.training.extras.lora import add_lora as add_lora
from hush.training.extras.lora import merge_lora as merge_lora
from hush.training.extras.optimizers import AdamBC as AdamBC
from hush.training.loop.fit import fit as fit
from hush.training.loop.fit import replace_batchnorm as replace_batchnorm
from hush.training.loop.privatize import privatize as privatize
from hush.training.loop.privatize import start_training as start_training
from hush.training.loop.session import PrivateTraining as PrivateTraining
from hush.training.loop.session import Step as Step
from hush.training.loop.update import Ball as Ball
from hush.training.noise.correlated import Banded as Banded
from hush.training.noise.correlated import BufferedToeplitz as BufferedToeplitz
from hush.training.noise.correlated import CorrelatedNoise as CorrelatedNoise
from hush.training.per_example.check import check as check
from hush.training.per_example.check import clipped_sum as clipped_sum
from hush.training.per_example.check import looped_sum as looped_sum
from hush.training.per_example.clipped_sum import ClippedSum as ClippedSum
from hush.training.plan.clipping import Adaptive as Adaptive
from hush.training.plan.clipping import Automatic as Automatic
from hush.training.plan.clipping import ByName as ByName
from hush.training.plan.clipping import Clipping as Clipping
from hush.training.plan.clipping import Flat as Flat
from hush.training.plan.clipping import Global as Global
from hush.training.plan.clipping import Groups as Groups
from hush.training.plan.clipping import Normalized as Normalized
from hush.training.plan.clipping import PerLayer as PerLayer
from hush.training.plan.clipping import Together as Together
from hush.training.plan.contributions import Augmented as Augmented
from hush.training.plan.contributions import Contribution as Contribution
from hush.training.plan.contributions import Microbatches as Microbatches
from hush.training.plan.contributions import PerExample as PerExample
from hush.training.plan.contributions import Projected as Projected
from hush.training.plan.loader import Loader as Loader
from hush.training.plan.phases import PublicPhase as PublicPhase
from hush.training.plan.phases import pretrain as pretrain
from hush.training.plan.plan import TrainingPlan as TrainingPlan
from hush.training.plan.samplers import BallsInBins as BallsInBins
from hush.training.plan.samplers import CyclicPoisson as CyclicPoisson
from hush.training.plan.samplers import FixedSize as FixedSize
from hush.training.plan.samplers import Full as Full
from hush.training.plan.samplers import InOrder as InOrder
from hush.training.plan.samplers import Poisson as Poisson
from hush.training.plan.samplers import Sampling as Sampling
from hush.training.plan.samplers import ShuffledEpochs as ShuffledEpochs
from hush.training.plan.schedule import Curve as Curve
from hush.training.plan.schedule import ExponentialCurve as ExponentialCurve
from hush.training.plan.schedule import LinearCurve as LinearCurve
from hush.training.plan.schedule import PiecewiseCurve as PiecewiseCurve
from hush.training.plan.schedule import Schedule as Schedule
from hush.training.plan.transfer import freeze_except as freeze_except
from hush.training.plan.transfer import replace_head as replace_head
from hush.training.plan.units import UnitComparison as UnitComparison
from hush.training.plan.units import UserGroups as UserGroups
from hush.training.plan.units import Users as Users
from hush.training.plan.units import compare_units as compare_units
from hush.training.tuning.repetitions import LogarithmicRepetitions as LogarithmicRepetitions
from hush.training.tuning.repetitions import NegativeBinomialRepetitions as NegativeBinomialRepetitions
from hush.training.tuning.repetitions import PoissonRepetitions as PoissonRepetitions
from hush.training.tuning.repetitions import Repetitions as Repetitions
from hush.training.tuning.scores import Candidate as Candidate
from hush.training.tuning.scores import ChargedScore as ChargedScore
from hush.training.tuning.scores import HeldOutAnswers as HeldOutAnswers
from hush.training.tuning.scores import PrivateScore as PrivateScore
from hush.training.tuning.scores import PublicScore as PublicScore
from hush.training.tuning.scores import Score as Score
from hush.training.tuning.search import Tuned as Tuned
from hush.training.tuning.search import TuningPlan as TuningPlan
from hush.training.tuning.space import LogRange as LogRange
from hush.training.tuning.space import UniformRange as UniformRange
from hush.training.tuning.tune import plan_tuning as plan_tuning
from hush.training.tuning.tune import tune as tune

if TYPE_CHECKING:
    from hush.training import scattering as scattering
else:  # a type checker that saw this would take every misspelt name for a module
    __getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(("scattering",)))

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
    "ChargedScore",
    "ClippedSum",
    "Clipping",
    "Contribution",
    "CorrelatedNoise",
    "Curve",
    "CyclicPoisson",
    "ExponentialCurve",
    "FixedSize",
    "Flat",
    "Full",
    "Global",
    "Groups",
    "HeldOutAnswers",
    "InOrder",
    "LinearCurve",
    "Loader",
    "LogRange",
    "LogarithmicRepetitions",
    "Microbatches",
    "MovingAverage",
    "NegativeBinomialRepetitions",
    "Normalized",
    "PerExample",
    "PerLayer",
    "PiecewiseCurve",
    "Poisson",
    "PoissonRepetitions",
    "PrivateScore",
    "PrivateTraining",
    "Projected",
    "PublicPhase",
    "PublicScore",
    "Repetitions",
    "Sampling",
    "Schedule",
    "Score",
    "ShuffledEpochs",
    "Step",
    "TailAverage",
    "Together",
    "TrainingPlan",
    "Tuned",
    "TuningPlan",
    "UniformRange",
    "UnitComparison",
    "UserGroups",
    "Users",
    "add_lora",
    "check",
    "clipped_sum",
    "compare_units",
    "fit",
    "freeze_except",
    "looped_sum",
    "merge_lora",
    "plan_tuning",
    "pretrain",
    "privatize",
    "replace_batchnorm",
    "replace_head",
    "start_training",
    "tune",
]
