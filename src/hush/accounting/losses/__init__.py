"""Privacy loss: from one mechanism to many.

Read in this order: `profile` (delta as a function of epsilon), `noise_profiles`, `sampled_profiles`,
`projected_profile` and `allocation` (the profile of each mechanism), `pairs` (events to dominating pairs), `lattice`,
`saddle_point`, `grid` and `composition` (many of them, on a grid), `solver` (epsilon and delta), `renyi` (moments).
"""
