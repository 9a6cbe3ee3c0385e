"""Private tests of hypotheses: p-values that count the noise, intervals, and power before you spend.

| question | test |
|---|---|
| Do two or more groups have the same mean (A/B test, t-test, ANOVA)? | `compare_means` |
| Is an outcome equally frequent in two or more groups (A/B test of a rate)? | `compare_proportions` |
| Are two categorical columns independent (chi-squared, contingency table)? | `independence` |
| Do values have stated shares (chi-squared goodness of fit, binomial test)? | `goodness_of_fit` |
| Are two numeric columns independent, by their correlation (Pearson)? | `correlation` |
| How many people, or what epsilon, does a test of means or proportions need? | `Design` |

Each returns a `HypothesisResult`. The ideas:

- **One release, then simulation.** A test releases noisy totals, at the price of one count. Its p-value is the share of
  simulated datasets, with noise, whose statistic is at least as large. The classical p-value of a noisy statistic is
  wrong: it takes the noise for an effect (`simulation`).
- **Every unit counts once.** Rows of one person are not independent. One random row of each is used (`release`).
- **What noise hides is not known.** If the noise hides a group, then p = 1, and the interval is the whole range. The
  same comes out if no row could be used, because keys are not those of the column: an error would reveal it.
- **Adaptive analysis.** A p-value is valid for one hypothesis that was fixed before. Whoever tests many, and reports
  the smallest p (p-hacking), makes false discoveries, with privacy or without: multiply p-values by the number of tests
  (Bonferroni). If hypotheses are chosen after looking at answers (adaptive data analysis), statistical validity needs
  more. Privacy itself bounds overfitting (Dwork et al. 2015): `hush.stability.ReusableHoldout` and
  `Guarantee.generalization` state by how much. Budgets of a ledger charge each test, and stay valid when each question
  depends on earlier answers (a privacy filter).

In reading order: `simulation` (noise, p-values), `release` and `result`; `group_means` under `means`; `cells`;
`correlation`; `design`.
"""

from hush.statistics.hypotheses.cells import goodness_of_fit as goodness_of_fit
from hush.statistics.hypotheses.cells import independence as independence
from hush.statistics.hypotheses.correlation import correlation as correlation
from hush.statistics.hypotheses.design import Design as Design
from hush.statistics.hypotheses.means import compare_means as compare_means
from hush.statistics.hypotheses.means import compare_proportions as compare_proportions
from hush.statistics.hypotheses.result import HypothesisResult as HypothesisResult

__all__ = [
    "Design",
    "HypothesisResult",
    "compare_means",
    "compare_proportions",
    "correlation",
    "goodness_of_fit",
    "independence",
]
