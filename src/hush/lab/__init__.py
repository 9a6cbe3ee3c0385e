"""The laboratory: demonstrations and theory for teaching and research. Its interfaces may change in any release.

Nothing here is private. The functions read models and data as they are, to show why privacy is needed or what it costs.

- ``hush.lab.ntk``: how clipping and noise change the convergence of training, by the neural tangent kernel; needs
  ``hush[torch]``. Run ``python examples/ntk_laboratory.py`` for a tour.
- ``hush.lab.anonymity``: why removing names is not enough: linkage, k-anonymity and the attacks on it. Run
  ``python examples/anonymity.py`` for a tour.
- ``hush.lab.ratios``: approximate confidence bounds on a ratio of two rates, to compare with other packages.
"""

from typing import TYPE_CHECKING

from hush.lazy_loading import lazy_names

if TYPE_CHECKING:
    from hush.lab import anonymity as anonymity
    from hush.lab import ntk as ntk
    from hush.lab import ratios as ratios
else:  # a type checker that saw this would take every misspelt name for a module
    __getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(("anonymity", "ntk", "ratios")))

__all__ = ["anonymity", "ntk", "ratios"]
