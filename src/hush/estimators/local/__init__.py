"""The local model: every person randomises their own record before it is collected.

In reading order:

- `estimates`: unbiased shares, means and second moments from reports.
- `randomizer`: `LocalRandomizer`, which turns rows of a table into reports.
- `learner`: models that learn from reports: `LocalNaiveBayes` (`bayes`) and `LocalLinearRegression`
  (`linear_regression`).
- `rappor`: `Rappor`, for words that are reported again and again.
"""
