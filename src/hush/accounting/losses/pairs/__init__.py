"""From events to dominating pairs: how one change of the data affects each mechanism.

    relation       how neighbours differ
    changes        a record removed, added or replaced (or ``size`` records at once); the worst of them counts
    alternatives   for each change, an event unfolds into alternatives, usually one; the worst of them counts
    pairs          an alternative is a multiset of dominating pairs whose losses add up

An event without a proven pair is refused, and the error names it. To add a mechanism, register a `leaf_pair`.

In reading order: `change`, `single` (mechanisms), `unfolding` (compositions), `sampling`, `shuffling` and its
`shuffled_profile`.
"""

from hush.accounting.losses.pairs import sampling as sampling
from hush.accounting.losses.pairs import shuffling as shuffling
from hush.accounting.losses.pairs.change import Change as Change
from hush.accounting.losses.pairs.change import Direction as Direction
from hush.accounting.losses.pairs.change import changes as changes
from hush.accounting.losses.pairs.change import one_change as one_change
from hush.accounting.losses.pairs.change import refuse_group as refuse_group
from hush.accounting.losses.pairs.change import removed_from_sample as removed_from_sample
from hush.accounting.losses.pairs.change import require_claim as require_claim
from hush.accounting.losses.pairs.change import require_claim_on_one as require_claim_on_one
from hush.accounting.losses.pairs.single import leaf_pair as leaf_pair
from hush.accounting.losses.pairs.unfolding import Alternative as Alternative
from hush.accounting.losses.pairs.unfolding import all_sums as all_sums
from hush.accounting.losses.pairs.unfolding import alternatives as alternatives
from hush.accounting.losses.pairs.unfolding import merge_gaussians as merge_gaussians
from hush.accounting.losses.pairs.unfolding import parts_that_differ as parts_that_differ
