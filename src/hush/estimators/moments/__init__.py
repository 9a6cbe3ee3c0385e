"""Models of noisy moments: PCA, covariance, scalers, naive Bayes, discriminants, densities."""
