"""The laboratory: demonstrations and theory for teaching and research. Its interfaces may change in any release.

Nothing here is private. The functions read models and data without protection, to show why privacy is needed or what it
costs.

- ``hush.lab.reconstruction``: rebuild a table from statistics that are too exact. Run
  ``python examples/reconstruction.py`` for a tour.
- ``hush.lab.anonymity``: why removing names is not enough: linkage, k-anonymity and the attacks on it. Run
  ``python examples/anonymity.py`` for a tour.
- ``hush.lab.attributes``, ``hush.lab.extraction``: infer attributes of people, or copy whole models, from predictions.
- ``hush.lab.trained_attacks``, ``hush.lab.slicing``, ``hush.lab.data_overlap``: older membership attacks, and ways to
  explore scores.
- ``hush.lab.histogram``, ``hush.lab.divergence``: other attacks on mechanisms, for `hush.audit.testers`.
- ``hush.lab.composition``: the classic theorems. ``hush.lab.radius``: the first certified radius of smoothing.
- ``hush.lab.ratios``: approximate confidence bounds on a ratio of two rates, to compare with other packages.
- ``hush.lab.ntk``: how clipping and noise affect the convergence of training, studied with the neural tangent kernel;
  needs ``hush[torch]``. Run ``python examples/ntk_laboratory.py`` for a tour.
- ``hush.lab.lessons``: ideas of lecture notes, made executable: local sensitivity and its counter-example, triangles of
  graphs, SVT against the exponential mechanism, utility bounds of training plans, Langevin sampling.
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
    from hush.lab import lessons as lessons
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
                "lessons",
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
    "lessons",
    "ntk",
    "radius",
    "ratios",
    "reconstruction",
    "slicing",
    "trained_attacks",
]
