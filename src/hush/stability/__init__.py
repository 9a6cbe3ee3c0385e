"""Uses of stability beyond privacy.

A computation that hardly depends on any single record does not overfit it, and a prediction that hardly depends on any
single pixel cannot be flipped by changing it. Both are differential privacy with another reading of "record". What any
guarantee says about overfitting and about poisoned records is in `Guarantee.generalization` and `Guarantee.poisoned`.

- `ReusableHoldout` answers adaptive queries about held-out rows without being overfitted. `SplitHoldout` is the
  baseline: a part of the rows for each query.
- `SmoothedClassifier` makes predictions that no small change of the input can flip. `gaussian_radius` computes how
  large the change may be.
- `NoisyNetwork` does so with a `NoiseLayer` inside a network of torch (PixelDP), and expected scores. `fgsm` and `pgd`
  attack predictions, in an `InputNorm`.
- `MetricLaplace` hides a point among those nearby (metric privacy), which treats people alike who are alike (individual
  fairness).

In reading order: `row_queries`, `split_holdout`, `holdout_noise` and `holdout`; `radius`, `smoothing`,
`convolution_norm`, `noise_layer`, `noisy_network` and `adversarial_attack`; `metric_guarantee` and `metric_laplace`.
"""

from typing import TYPE_CHECKING

from hush.lazy_loading import lazy_names
from hush.stability.holdout import ReusableHoldout as ReusableHoldout
from hush.stability.metric_laplace import MetricLaplace as MetricLaplace
from hush.stability.radius import InputNorm as InputNorm
from hush.stability.radius import gaussian_radius as gaussian_radius
from hush.stability.smoothing import SmoothedClassifier as SmoothedClassifier
from hush.stability.split_holdout import SplitHoldout as SplitHoldout

# isort: split
# Shared inside hush, not public.
from hush.stability.radius import check_probabilities as check_probabilities

if TYPE_CHECKING:
    from hush.stability.adversarial_attack import fgsm as fgsm
    from hush.stability.adversarial_attack import pgd as pgd
    from hush.stability.noise_layer import NoiseLayer as NoiseLayer
    from hush.stability.noisy_network import NoisyNetwork as NoisyNetwork
else:  # these load torch
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "NoiseLayer": "hush.stability.noise_layer",
            "NoisyNetwork": "hush.stability.noisy_network",
            "fgsm": "hush.stability.adversarial_attack",
            "pgd": "hush.stability.adversarial_attack",
        },
    )

__all__ = [
    "InputNorm",
    "MetricLaplace",
    "NoiseLayer",
    "NoisyNetwork",
    "ReusableHoldout",
    "SmoothedClassifier",
    "SplitHoldout",
    "fgsm",
    "gaussian_radius",
    "pgd",
]
