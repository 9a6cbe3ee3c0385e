"""A private search for hyper-parameters: only the best of a secret number of runs is released.

The costs of different settings enter by the maximum of their privacy profiles, or of their Renyi divergences at each
order. Read in this order:

- `space`: the settings, drawn at random.
- `repetitions`: the distribution of the number of runs.
- `scores`: how runs are compared.
- `search`: a `TuningPlan`, and the search under it.
- `calibration`: `plan_tuning` calibrates the noise of a plan, and `tune` then searches.
- `silence`: keeps runs from revealing anything while the search goes on.
"""
