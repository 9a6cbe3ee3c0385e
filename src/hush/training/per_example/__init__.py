"""Per-example gradients with one backward pass: every layer provides what clipping needs instead of a weight gradient.

The flow of one private step, and where to read about it:

1. `rules` and `sequence_rules` replace the forward of common layers, on the instance only: type, names and state stay.
   What a model does with parameters otherwise, `watching` sees one operation at a time; `training.operations` tells it
   which entries of a tensor belong to which example.
2. A rule calls an autograd function (`autograd`, `convolution`) with *taps*: expanded zeros that require a gradient
   (`taps`). Parameters take no part in autograd. As the "gradient" of a tap, the backward pass returns what clipping
   needs. Nothing is stored by side effect, and torch.compile sees one graph.
3. `gradients` turns that into a *form* of every example's gradient: dense, products left undone, patches of a
   convolution, rows of a table. Shapes, device and memory choose the form; it never changes the guarantee. Several uses
   of a parameter (tied, called twice, recurrent) are merged first, so that cross terms count.
4. `norms` measures all forms together and returns clip factors; `clipped_sum` returns the sum of the clipped gradients.

Rounding is part of the bound. Sums are in fp64, and clip factors keep a margin (`norms.rounding_slack`). Norms from
products carry a *doubt*, which rounding could hide where positions cancel, and a *rounding*, which half precision adds
to a contribution. Both are added to the norm.

- `engine` runs all of this, eagerly or compiled. `buffers` detects models that store data in their buffers.
- `checks` and `invented_calls` compare the result with a plain loop over examples.
- `projected_clipping` and `passes` clip by estimated norms instead, for any model, without touching its layers.

To add a layer, write a rule (and a function, if none fits), and add a row to ``tests/training/models.py``, which enrols
it in tests of exactness, bounds, NaN and compilation. To add an operation, write a rule in ``watching``, and add a row
to ``tests/training/per_example/program_models.py``.
"""
