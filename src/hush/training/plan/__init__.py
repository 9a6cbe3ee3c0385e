"""The plan of a training run: everything that is fixed before the run reads data, and determines its guarantee.

Read in this order:

- `samplers`: which units take part in a step, and the event of noisy sums over such samples.
- `units`: users, and users within time windows, as privacy units.
- `contributions`: the vectors that are clipped and summed for sampled units.
- `clipping`: how it is bounded.
- `schedule`: noise, clip norm and batch size that change over the steps.
- `public_phase`: where starting weights come from; stated with the guarantee.
- `training_plan`: the `TrainingPlan` that ties these together, its event and its guarantee.
- `combinations`: what does not go together.
- `completion`: from the arguments of `privatize` to a complete plan.
- `loader`: how examples become batches.
"""
