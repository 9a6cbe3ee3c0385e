"""The laboratory: demonstrations and theory for teaching and research. Its interfaces may change in any release.

Nothing here is private. The functions read models and data as they are, to show why privacy is needed or what it costs.

- ``hush.lab.reconstruction``: a table, rebuilt from statistics that are too exact. Run
  ``python examples/reconstruction.py`` for a tour.
- ``hush.lab.anonymity``: why removing names is not enough: linkage, k-anonymity and the attacks on it. Run
  ``python examples/anonymity.py`` for a tour.
- ``hush.lab.attributes``, ``hush.lab.extraction``: attributes of people, and whole models, from predictions.
- ``hush.lab.trained_attacks``, ``hush.lab.slicing``, ``hush.lab.data_overlap``: older attacks on membership, and ways
  to look at scores.
- ``hush.lab.histogram``, ``hush.lab.divergence``: other attacks on mechanisms, for `hush.audit.testers`.
- ``hush.lab.composition``: the classic theorems. ``hush.lab.radius``: the first certified radius of smoothing.
- ``hush.lab.ratios``: approximate confidence bounds on a ratio of two rates, to compare with other packages.
- ``hush.lab.ntk``: how clipping and noise change the convergence of training, by the neural tangent kernel; needs
  ``hush[torch]``. Run ``python examples/ntk_laboratory.py`` for a tour.
"""

from typing import TYPE_CHECKING

from hush.lazy_loading import lazy_names

if TYPE_CHECKING:
    from hush.lab import anonymity as anonymity
    from hush.lab import attributes as attributes
    from hush.lab import composition as composition
    from hush.lab import data_overlap as data_overlap
    from hush.lab import divergence as divergence
    from hush.lab import extraction as extraction
    from hush.lab import histogram as histogram
    from hush.lab import ntk as ntk
    from hush.lab import radius as radius
    from hush.lab import ratios as ratios
    from hush.lab import reconstruction as reconstruction
    from hush.lab import slicing as slicing
    from hush.lab import trained_attacks as trained_attacks
else:  # a type checker that saw this would take every misspelt name for a module
    __getattr__, __dir__ = lazy_names(
        __name__,
        dict.fromkeys(
            (
                "anonymity",
                "attributes",
                "composition",
                "data_overlap",
                "divergence",
                "extraction",
                "histogram",
                "ntk",
                "radius",
                "ratios",
                "reconstruction",
                "slicing",
                "trained_attacks",
            )
        ),
    )

__all__ = [
    "anonymity",
    "attributes",
    "composition",
    "data_overlap",
    "divergence",
    "extraction",
    "histogram",
    "ntk",
    "radius",
    "ratios",
    "reconstruction",
    "slicing",
    "trained_attacks",
]
