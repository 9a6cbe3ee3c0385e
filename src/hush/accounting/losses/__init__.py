"""Privacy losses: from the profile of one mechanism to the epsilon of a composition.

    events -> pairs -> lattice -> spectrum -> delta(epsilon) -> epsilon

In reading order:

- `profile`: delta as a function of epsilon, for a pair of distributions.
- `noise_profiles`, `sampled_profiles`, `projected_profile`, `allocation`: the profile of each mechanism.
- `pairs`: from an event to its dominating pairs.
- `lattice`: a pair on a grid, from above and from below.
- `saddle_point`, `grid`: the choice of the grid.
- `composition`: many pairs on a grid, composed in the frequency domain with certified errors.
- `failures`: infinite losses, which are composed separately.
- `solver`: certified bounds on epsilon and delta.
- `renyi`: Renyi divergences, from the same profiles.
"""
