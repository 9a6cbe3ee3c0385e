"""Oracles: slow, independent answers that the tests and the benchmarks take as the truth.

- `contour`: epsilon and delta of a composition. Start here.
- `mechanisms`: the moment generating functions of the privacy loss, which `contour` inverts.
- `gaussian_moment`: the one of the sampled Gaussian, by contour integration.
- `closed_form`: single steps, randomised response and Laplace, without numerical inversion.

No oracle imports hush or shares an algorithm with it: there is no grid on the privacy loss, and no FFT.
"""
