"""Models that are computed from noisy moments, in reading order.

- `gram`: exact second moments of clipped rows, and Gaussian noise on them.
- `moments`: exact counts, sums and squares of bounded features within classes, and noise on them.
- `second_moments`: `AnalyzeGauss`, `Wishart` (noise in `wishart`) and `ExponentialPCA` (sampler in `bingham`).
- `pca`, `covariance`: `PrivatePCA` and `PrivateCovariance`, by one of these methods.
- `discriminant`, `naive_bayes`: classifiers from the moments of each class.
- `density`: a histogram density.
- `scalers`: `PrivateStandardScaler` and `PrivateMinMaxScaler`; they learn bounds as statistics do
  (`hush.statistics.LearnBounds`).
"""
