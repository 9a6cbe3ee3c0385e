"""Watches a run for what moves data past the clipping: losses that mix examples, models that store data.

Every step, at next to no cost:

- `held`: tensors that modules hold in plain attributes, which `hush.training.per_example.buffers` compares
- `weights`: parameters that were changed outside of a private step
- `loss_graphs`: a loss of a new kind, a scaled one, and parameters of a criterion

At secret steps and at the last one (`check_steps`), the forward runs again on invented rows (`rows`). Some rows are
then replaced, under the same random seeds: the losses of the others must not move. It runs in two ways (`rehearsal`):
the model's own code again, which follows its branches, and a `tape` of everything between the loader and the losses,
which follows the loop.
"""
