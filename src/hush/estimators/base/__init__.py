"""What all estimators share, in reading order.

- `labels`: reads labels and cells one by one, so that no record changes how others are read.
- `estimator`: the base class. It checks parameters, charges the budget and states the guarantee.
- `users`: selects one row per user, for guarantees about people.
- `bounds`: public bounds and clip norms, or `hush.statistics.LearnBounds`, which learns them privately.
- `two_stage_budget`: splits a budget between a noisy overview and the release that depends on it.
- `networks`: `PrivateClassifier` and `PrivateRegressor`, around `hush.training`.
"""
