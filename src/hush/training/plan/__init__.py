"""The plan of a training run: everything that is fixed before the run reads data, and determines its guarantee.

Read in this order:

- `samplers`: which units take part in a step, and the event of noisy sums over such samples.
- `units`: users, and users within time windows, as privacy units.
- `contributions`: what is clipped and summed for a sampled unit.
- `clipping`: how it is bounded.
- `schedule`: noise, clip norm and batch size that change over the steps.
- `phases`: public pre-training, which costs nothing and is stated with the guarantee.
- `plan`: the `TrainingPlan` that ties these together, its event and its guarantee.
- `transfer`: which parameters are trained; `loader`: how examples become batches.
"""
