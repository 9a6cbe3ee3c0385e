"""Events: immutable descriptions of what was run on the data, for accountants to analyse.

An event says what was computed, not how private it is. Noise is stated relative to the contribution
bound of one record. A sum of vectors of norm at most C, with Gaussian noise of standard deviation sigma * C, is
``GaussianEvent(sigma)``. Under the add-or-remove and zero-out relations such a sum moves by at most C, under
replacement by up to 2 C. The accountant knows the relation; the event is the same. A mechanism that knows only how far
its value moves between neighbours says so: `PerChangeEvent`.

*Claims* (`ApproximateDPEvent`, `ZeroConcentratedDPEvent`, `ExponentialMechanismEvent`, `NoisyMaxEvent`,
`RandomizedResponseEvent`) describe a mechanism by what was proven about it. They must hold for the relation of the
accountant that you pass them to: that is your duty.

In reading order:

- `event`: the base class, and the JSON form of all events.
- `noise`, `claims`: single mechanisms. `ranges`: the numbers that they accept.
- `sampling`, `shuffling`, `composition`, `repetition`: events made of events.
- `qualified_event`: an event tied to a relation and a unit.
"""

from hush.accounting.events.claims import ApproximateDPEvent as ApproximateDPEvent
from hush.accounting.events.claims import ExponentialMechanismEvent as ExponentialMechanismEvent
from hush.accounting.events.claims import NoisyMaxEvent as NoisyMaxEvent
from hush.accounting.events.claims import RandomizedResponseEvent as RandomizedResponseEvent
from hush.accounting.events.claims import ZeroConcentratedDPEvent as ZeroConcentratedDPEvent
from hush.accounting.events.composition import ComposedEvent as ComposedEvent
from hush.accounting.events.composition import GroupEvent as GroupEvent
from hush.accounting.events.composition import ParallelByIndexEvent as ParallelByIndexEvent
from hush.accounting.events.composition import ParallelEvent as ParallelEvent
from hush.accounting.events.composition import SelfComposedEvent as SelfComposedEvent
from hush.accounting.events.composition import is_part as is_part
from hush.accounting.events.composition import unrolled as unrolled
from hush.accounting.events.event import Event as Event
from hush.accounting.events.event import decode_event as decode_event
from hush.accounting.events.noise import DiscreteGaussianEvent as DiscreteGaussianEvent
from hush.accounting.events.noise import DiscreteLaplaceEvent as DiscreteLaplaceEvent
from hush.accounting.events.noise import GaussianEvent as GaussianEvent
from hush.accounting.events.noise import GaussianMixtureEvent as GaussianMixtureEvent
from hush.accounting.events.noise import LaplaceEvent as LaplaceEvent
from hush.accounting.events.noise import PerChangeEvent as PerChangeEvent
from hush.accounting.events.noise import ProjectedGaussianEvent as ProjectedGaussianEvent
from hush.accounting.events.qualified_event import QualifiedEvent as QualifiedEvent
from hush.accounting.events.qualified_event import parts_of as parts_of
from hush.accounting.events.qualified_event import plain_event as plain_event
from hush.accounting.events.repetition import RepeatNegativeBinomialEvent as RepeatNegativeBinomialEvent
from hush.accounting.events.repetition import RepeatPoissonEvent as RepeatPoissonEvent
from hush.accounting.events.sampling import AllocatedEvent as AllocatedEvent
from hush.accounting.events.sampling import BallsInBinsEvent as BallsInBinsEvent
from hush.accounting.events.sampling import FixedSizeSampledEvent as FixedSizeSampledEvent
from hush.accounting.events.sampling import PoissonSampledEvent as PoissonSampledEvent
from hush.accounting.events.sampling import TruncatedPoissonSampledEvent as TruncatedPoissonSampledEvent
from hush.accounting.events.shuffling import ShuffledEvent as ShuffledEvent
