"""Models that partition the space: k-means and trees, in reading order.

- `kmeans`: `PrivateKMeans`, from a noisy overview (`kmeans_start`) by noisy Lloyd iterations (`kmeans_rounds`).
- `cube_noise`: noise for sums in which one row changes every coordinate.
- `trees`: `PrivateRandomForestClassifier` and `PrivateDecisionTreeClassifier`; their parts are in `tree_growth`.
"""
