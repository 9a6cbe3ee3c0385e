"""The training loop: from a plan and data to a trained model.

Read in this order:

- `entry_points`: `privatize` makes the plan, and starts the run; `start_training` takes a plan that you have made.
- `ready_loop`: `fit` starts the run, and runs the loop for you. `progress` is its progress bar.
- `session`: `PrivateTraining`, the state of a run: one `step` for each physical batch.
- `batches`: the physical batches of a step, as a function of the run's `keys`.
- `batch_sums`: from the losses of a physical batch to its clipped sum.
- `update`: noise on the clipped sum, and the optimizers' step. `optimizer_checks`: which optimizers may take it.
- `payment`: the reservation of a run's cost in a budget.

Additions that need no accounting: `optimizers` (AdamBC, which knows the noise level) and `averaging` (averages of the
weights over the steps, as post-processing).
"""
