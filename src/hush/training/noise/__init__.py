"""The noise of training: integers on a public grid, independent in every step or correlated over the steps (DP-FTRL).

A step releases the clipped sum of gradients plus noise. Independent noise is DP-SGD. Correlated noise is y = C^-1 z for
independent noise z and a lower triangular Toeplitz matrix C: later noise cancels part of the effect of earlier noise on
the weights. Releasing all sums x_t + y_t is as private as releasing C x + z, so the cost is that of one Gaussian
mechanism with the sensitivity of C x.

In reading order, from key bits to a noisy sum, and from a number of steps to a matrix C:

- `histogram`: boxes below a Gaussian curve, and the exact test of a point that may lie above it.
- `integer_gaussian`: independent noise: the floor of a Gaussian variable, a function of key, step and element.
- `noise_grid`: the grid, the cost of rounding to it, and the noisy sum: the one place where noise and data meet.
- `recursions`: computes y from z, one step at a time, and knows the matrix C.
- `stream`: a recursion over the steps of a run, with a few vectors of memory and nothing in a checkpoint.
- `factorisation`: the numerical work on C: sensitivity, error, and the optimisation of its coefficients.
- `correlated_noise`: the public ways to correlate noise (`Banded`, `BufferedToeplitz`), the steps an example may take
  part in, and the event that they add up to.

The sensitivity is computed exactly, from the single-precision coefficients that are really applied. The optimiser
affects utility only, never privacy.
"""
