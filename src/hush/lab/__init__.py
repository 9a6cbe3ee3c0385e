"""A laboratory: what the theory of differential privacy teaches, to try out. Outside the promise of stability.

- ``hush.lab.ntk``: the neural tangent kernel's view of how DP-SGD converges; needs ``hush[torch]``.
- ``hush.lab.anonymity``: why removing names is not enough: k-anonymity, l-diversity, linkage.
- ``hush.lab.ratios``: approximate confidence intervals for a ratio of two rates, as others print them.
"""

from typing import TYPE_CHECKING

from hush.lazy import lazy_names

if TYPE_CHECKING:
    from hush.lab import anonymity as anonymity
    from hush.lab import ntk as ntk
    from hush.lab import ratios as ratios
else:  # a type checker that saw this would take every misspelt name for a module
    __getattr__, __dir__ = lazy_names(
        __name__,
        dict.fromkeys(
            (
                "anonymity",
                "ntk",
                "ratios",
            )
        ),
    )
