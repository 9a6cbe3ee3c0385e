"""Choices made privately: features, hyper-parameters, and the splits that score them."""
