"""Linear models, in reading order.

- `regression`: `PrivateLinearRegression` and `PrivateRidge`, from noisy sufficient statistics.
- `classifiers`: `PrivateLogisticRegression` and `PrivateLinearSVC`. Each is a loss (`losses`) and a method (`method`).
- The methods: `objective`, `output`, `bolt_on`, `noisy_gradients`, `frank_wolfe`, `functional_mechanism`. The last one
  also holds `FunctionalRegression`.
- Their tools: `minimum` (approximate minimisers), `noise` (noise vectors and `mask_error`), `sums` (exact sums).
"""
