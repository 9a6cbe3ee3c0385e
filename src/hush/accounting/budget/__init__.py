"""Budgets: the cost of a release, and whether it fits under a cap on everything ever released.

    event         a description of the next release
    Cost          six integers: the cost of the event under each rule (`Cap.cost`)
    total         costs add up, exactly, in any database
    Cap           one (epsilon, delta) guarantee for all releases from some data; `Cap.fits` checks a total

A `Cap` holds even if choices depend on earlier answers: the next query, its parameters, and when to stop. Costs are
integers, rounded up, so a database can add them exactly and enforce the cap by a constraint.

**Three rules, side by side.** A total fits if the deltas of claims are within their share, and one of three rules
accepts everything that was charged: the Renyi divergence at one fixed order, the sum of epsilons, or the comparison
with Gaussian noise (`hush.accounting.gaussian_rule`). Each has a share of delta that is fixed in advance.

*Why this is valid.* Take the Renyi and the Gaussian rule, valid for (epsilon, d_1) and (epsilon, d_2). Let M be what an
analyst gets who stops when neither accepts more, and M_1 and M_2 the same analyst, stopped by one rule alone. Sort each
outcome by the rule that accepts all of it, by the first if both do. On outcomes of the first kind M and M_1 are the
same, and on the others M and M_2, so for any set S of outcomes

    P(M in S) = P(M_1 in S_1) + P(M_2 in S_2) <= e^epsilon (P'(M_1 in S_1) + P'(M_2 in S_2)) + d_1 + d_2

and the sum in brackets is P'(M in S). The sum of epsilons needs no share: on outcomes that only it accepts, the privacy
loss never exceeds epsilon. A claim with a delta is a pure claim, except on an event of that probability (Kairouz, Oh &
Viswanath 2015): these probabilities add up to at most the claims' share. A share that could be moved after
seeing outcomes would not be covered by this: K choices can cost up to K times as much.

*Renyi.* Let L be the privacy loss of everything released, and R the divergence charged at order a. At a fixed order,
exp((a - 1)(L - R)) is a supermartingale, whatever is run next (Feldman & Zrnic 2021), and (1 - e^(epsilon - L))_+ is at
most c e^((a - 1)(L - epsilon)) for the constant c of the conversion.

**The first event** of an untouched budget may be larger than any rule's share of delta allows, and still within the
cap. Then it is charged all of delta (`Cap.first_cost`), and only the Gaussian rule goes on, with what is left beside
it. That is valid because the choice is made from the event's public parameters, before anything is released.

If it has several cases, such as a record that is trained on or held out, nothing is left beside it: the case could
follow the answers of other releases. It is refunded only while nothing else was charged: if a later answer decided
whether it is run, delta would be spent twice, once on outcomes with it and once on those without.

**A box** (`hush.accounting.box`) is declared with the budget, and paid with it: its composed privacy loss distribution.

**Runs that stop early** may do so because of what they showed. Renyi divergences and epsilons add up step by step, so
what was not run is refunded. The price in Gaussian noise is that of the whole run, and less than the sum of its steps'
prices: it is refunded by whole parts of a composed event only (`Cap.part_cost`). Where the whole exceeded that rule,
and another one accepted it, what was run is priced step by step.

**Large runs** can cost too much under every rule and still fit by their privacy loss distribution. Then the whole run
is charged as one claim (`Cap.claimed_cost`). That is valid because none of its output was seen before; for the same
reason, no part of the charge can be refunded.

`Budget` and `Reservation` are the protocol through which everything below the ledger charges: `Charge` is the request.

In reading order: `cost`; `prices`, which turns events into costs; `cap`; `charge`, the protocol.
"""

from hush.accounting.box import Box as Box
from hush.accounting.budget.cap import CLAIMS_SHARE as CLAIMS_SHARE
from hush.accounting.budget.cap import FIRST as FIRST
from hush.accounting.budget.cap import GAUSSIAN_SHARE as GAUSSIAN_SHARE
from hush.accounting.budget.cap import NO_GAUSSIAN as NO_GAUSSIAN
from hush.accounting.budget.cap import Cap as Cap
from hush.accounting.budget.charge import AnswerStore as AnswerStore
from hush.accounting.budget.charge import Budget as Budget
from hush.accounting.budget.charge import Charge as Charge
from hush.accounting.budget.charge import Repeat as Repeat
from hush.accounting.budget.charge import Reservation as Reservation
from hush.accounting.budget.charge import StoredAnswer as StoredAnswer
from hush.accounting.budget.charge import run_sealed as run_sealed
from hush.accounting.budget.cost import DELTA_STEPS as DELTA_STEPS
from hush.accounting.budget.cost import LOSS_STEPS as LOSS_STEPS
from hush.accounting.budget.cost import Cost as Cost
from hush.accounting.gaussian_rule import GaussianRule as GaussianRule
from hush.errors import BudgetExceeded as BudgetExceeded
