"""Randomness: the one source of noise.

- Sources: `SystemSource` (ChaCha20 under keys from the operating system; `system_source` is this process's own),
  `KeyedSource` (a function of a secret key and a number, for what must be resumed) and `TestSource` (repeatable; every
  guarantee made with it says so). `RandomSource` is their contract.
- Exact noise on the integers: `discrete_laplace`, `discrete_gaussian`, `floored_laplace`, `floored_gaussian`,
  `geometric`; `Grid` turns it into noise on real numbers.
- Exact choices: `uniform_below`, `bernoulli`, `flip`, `flip_exp`; `rank` (and `gap`), which order candidates by
  real-valued `Noise`; `floored_cauchy`.
- `standard_normal`: bulk Gaussian noise in single precision, for training.
"""

from hush.randomness.bulk import standard_normal as standard_normal
from hush.randomness.choice import bernoulli as bernoulli
from hush.randomness.choice import flip as flip
from hush.randomness.choice import flip_exp as flip_exp
from hush.randomness.choice import floored_cauchy as floored_cauchy
from hush.randomness.choice import uniform_below as uniform_below
from hush.randomness.exact import MAX_SCALE as MAX_SCALE
from hush.randomness.exact import discrete_gaussian as discrete_gaussian
from hush.randomness.exact import discrete_laplace as discrete_laplace
from hush.randomness.exact import floored_gaussian as floored_gaussian
from hush.randomness.exact import floored_laplace as floored_laplace
from hush.randomness.exact import geometric as geometric
from hush.randomness.grid import Grid as Grid
from hush.randomness.ranking import Key as Key
from hush.randomness.ranking import Noise as Noise
from hush.randomness.ranking import gap as gap
from hush.randomness.ranking import rank as rank
from hush.randomness.resolution import Interval as Interval
from hush.randomness.resolution import exp_interval as exp_interval
from hush.randomness.source import KeyedSource as KeyedSource
from hush.randomness.source import RandomSource as RandomSource
from hush.randomness.source import SystemSource as SystemSource
from hush.randomness.source import TestSource as TestSource
from hush.randomness.source import assumptions_of as assumptions_of
from hush.randomness.source import source_or_default as source_or_default
from hush.randomness.source import system_source as system_source
