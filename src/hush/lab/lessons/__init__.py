"""Ideas of lecture notes, for teaching and not for releases: a module for each idea.

- `local_sensitivity`: the change from one dataset, why noise must not follow it, and sensitivities seen on random data.
- `graphs`: smooth sensitivity, on the triangles of a graph.
- `top_counts`: the sparse vector technique against the iterated exponential mechanism.
- `utility`: the excess risk that a training plan promises on convex losses, and the one that it reaches.
- `langevin`: noisy Langevin sampling, and what its last iterate alone reveals.
- `plots`: line plots for notebooks.
"""

from typing import TYPE_CHECKING

from hush.lazy_loading import lazy_names

if TYPE_CHECKING:
    from hush.lab.lessons import graphs as graphs
    from hush.lab.lessons import langevin as langevin
    from hush.lab.lessons import local_sensitivity as local_sensitivity
    from hush.lab.lessons import plots as plots
    from hush.lab.lessons import top_counts as top_counts
    from hush.lab.lessons import utility as utility
else:  # a type checker that saw this would take every misspelt name for a module
    __getattr__, __dir__ = lazy_names(
        __name__, dict.fromkeys(("graphs", "langevin", "local_sensitivity", "plots", "top_counts", "utility"))
    )

__all__ = ["graphs", "langevin", "local_sensitivity", "plots", "top_counts", "utility"]
