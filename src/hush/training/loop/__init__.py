"""The training loop: from a plan and a dataset to a trained model.

Read in this order:

- `privatize`: makes the plan, and starts the run; `fit` does that and runs the loop for you.
- `session`: `PrivateTraining`, the state of a run: one `step` for each physical batch.
- `batches`: the physical batches of a step, as a function of the run's keys.
- `update`: noise on the clipped sum, and the optimizers' step.
- `payment`: the reservation of a run's cost in a budget.
"""
