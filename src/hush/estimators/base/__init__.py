"""What estimators share: charging and guarantees (`estimator`), `bounds`, `labels`, and networks."""
