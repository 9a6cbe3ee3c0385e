"""Private training on PyTorch.

- `privatize`: three added lines in an ordinary loop; `fit`: no loop at all. Both return a `PrivateTraining`.
- `Plan`: what was agreed on: sampling, clipping, noise, normaliser, event.
- `check`, `clipped_sum`: per-example norms and clipped sums for inspection, compared with a plain loop (`looped_sum`).
- `Flat`, `Automatic`, `Normalized`, `Global`, `Adaptive`: ways to clip; `PerLayer`, `ByName`: what is clipped together.
- `replace_batchnorm`: makes models with batch statistics trainable.
"""

from hush.training._check import check as check
from hush.training._check import clipped_sum as clipped_sum
from hush.training._check import looped_sum as looped_sum
from hush.training._clipping import Adaptive as Adaptive
from hush.training._clipping import Automatic as Automatic
from hush.training._clipping import ByName as ByName
from hush.training._clipping import Clipping as Clipping
from hush.training._clipping import Flat as Flat
from hush.training._clipping import Global as Global
from hush.training._clipping import Groups as Groups
from hush.training._clipping import Normalized as Normalized
from hush.training._clipping import PerLayer as PerLayer
from hush.training._clipping import Together as Together
from hush.training._fit import fit as fit
from hush.training._fit import replace_batchnorm as replace_batchnorm
from hush.training._plan import Plan as Plan
from hush.training._sampling import Loader as Loader
from hush.training._session import PrivateTraining as PrivateTraining
from hush.training._session import Step as Step
from hush.training._session import privatize as privatize
from hush.training._sum import ClippedSum as ClippedSum

__all__ = [
    "Adaptive",
    "Automatic",
    "ByName",
    "ClippedSum",
    "Clipping",
    "Flat",
    "Global",
    "Groups",
    "Loader",
    "Normalized",
    "PerLayer",
    "Plan",
    "PrivateTraining",
    "Step",
    "Together",
    "check",
    "clipped_sum",
    "fit",
    "looped_sum",
    "privatize",
    "replace_batchnorm",
]
