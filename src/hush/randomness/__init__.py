"""Random bits, and exact samplers that turn them into noise.

**Decided exactly, computed fast.** A sampler computes in floating point, vectorised, with the first 64 bits of each
uniform variable, and it knows a bound on its error. If rounding, or the bits not drawn yet, could change an outcome
(one draw in a million, or rarer), `resolution` decides it with exact arithmetic and further bits. So the distribution
is exact, at the speed of NumPy.

**Floors instead of roundings.** Noise on real numbers is the floor of a continuous variable, on a grid whose spacing is
a power of two (`Grid`). The release is then a function of the textbook mechanism's output, in any dimension, so the
textbook theorem applies unchanged. The value itself is rounded to the grid first, which adds to the sensitivity.

**Running times** depend on the public configuration, on rejected proposals and on how often exact arithmetic is
needed, never on the released value.

Sources of random bits:

- `RandomSource`: the interface. Every function of hush that draws noise takes one as ``source``.
- `SystemSource`: ChaCha20 under keys from the operating system; `system_source` returns this process's own.
- `KeyedSource`: a function of a secret key and a number, for computations that must be resumed.
- `TestSource`: repeatable, for tests. Every guarantee made with it says so.

Samplers, on which the mechanisms of hush are built (not part of the public interface):

- Noise on the integers: `discrete_laplace`, `discrete_gaussian`, `floored_laplace`, `floored_gaussian`,
  `floored_cauchy`, `geometric`.
- Choices: `uniform_below`, `bernoulli`, `flip`, `flip_exp`, and `rank` (with `gap`), which orders candidates by scores
  with real-valued `Noise`.
- `standard_normal`: bulk Gaussian noise in single precision, for smoothed predictions. It is not exact, and it must
  not hide anything: sums with it show their low bits.

Randomness that protects no one, such as that of a bootstrap, is an ``rng``: `public_generator` takes a seed or a NumPy
generator.

In reading order: `source`, `resolution`, `exact_samplers`, `grid`, `choice`, `ranking`, `bulk_noise`.
"""

from hush.randomness.bulk_noise import standard_normal as standard_normal
from hush.randomness.choice import bernoulli as bernoulli
from hush.randomness.choice import flip as flip
from hush.randomness.choice import flip_exp as flip_exp
from hush.randomness.choice import floored_cauchy as floored_cauchy
from hush.randomness.choice import uniform_below as uniform_below
from hush.randomness.exact_samplers import MAX_SCALE as MAX_SCALE
from hush.randomness.exact_samplers import discrete_gaussian as discrete_gaussian
from hush.randomness.exact_samplers import discrete_laplace as discrete_laplace
from hush.randomness.exact_samplers import floored_gaussian as floored_gaussian
from hush.randomness.exact_samplers import floored_laplace as floored_laplace
from hush.randomness.exact_samplers import geometric as geometric
from hush.randomness.grid import Grid as Grid
from hush.randomness.public_generator import public_generator as public_generator
from hush.randomness.ranking import Key as Key
from hush.randomness.ranking import Noise as Noise
from hush.randomness.ranking import gap as gap
from hush.randomness.ranking import rank as rank
from hush.randomness.resolution import ExactInterval as ExactInterval
from hush.randomness.resolution import Uniform as Uniform
from hush.randomness.resolution import exp_interval as exp_interval
from hush.randomness.source import KEYED_RANDOMNESS as KEYED_RANDOMNESS
from hush.randomness.source import TEST_RANDOMNESS as TEST_RANDOMNESS
from hush.randomness.source import UNVERIFIED_RANDOMNESS as UNVERIFIED_RANDOMNESS
from hush.randomness.source import KeyedSource as KeyedSource
from hush.randomness.source import RandomSource as RandomSource
from hush.randomness.source import TestSource as TestSource
from hush.randomness.source import assumptions_of as assumptions_of
from hush.randomness.source import chacha20 as chacha20
from hush.randomness.source import source_or_default as source_or_default

__all__ = ["KeyedSource", "RandomSource", "TestSource"]
