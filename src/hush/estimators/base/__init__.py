"""The common ground of all estimators, in reading order.

- `labels`: reads labels and cells one by one, so that no record changes how others are read.
- `estimator`: the base class. It checks parameters, charges the budget and states the guarantee.
- `users`: one row of each user, for guarantees about people.
- `bounds`: public bounds and clip norms, and `LearnBounds`, which learns them privately.
- `two_stage_budget`: a budget split between a noisy overview and the release that it shapes.
- `networks`: `PrivateClassifier` and `PrivateRegressor`, around `hush.training`.
"""
