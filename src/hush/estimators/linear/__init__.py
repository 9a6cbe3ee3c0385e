"""Linear models: `regression` from noisy moments; `classifiers` by objective, output or gradient perturbation."""
