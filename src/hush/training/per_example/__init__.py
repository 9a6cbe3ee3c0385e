"""Per-example gradients: `engine` runs a model with a rule for each layer, and returns the clipped sum.

Read in this order: `rules` and `sequence_rules` (one per layer type), `autograd` and `convolution` (the functions they
call), `gradients` (the forms of a gradient), `norms`, `clipped_sum`; `passes` and `projected` (norms by random
projections); `check` compares all of it with a plain loop.
"""
