"""Oracles: slow, independent answers that the tests and the benchmark take as the truth.

- `contour`: epsilon and delta of a composition, the door to everything here.
- `mechanisms`: the moment generating functions of the privacy loss that `contour` inverts.
- `closed_form`: one step, randomised response and Laplace, without any numerical inversion.

Nothing here imports hush, and nothing here shares an algorithm with it: no grid on the privacy loss, no FFT.
"""
