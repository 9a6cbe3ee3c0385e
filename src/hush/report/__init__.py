"""The report on a run: one HTML page that can be read offline, on a phone, on paper and by a screen reader.

- `render`: from a run's record (a plain mapping) to the page.
- `with_audit`: a page with what an audit found.
- `publishable`: the same page without what is not private.
- ``hush.report.parts``: what pages are made of, for reports of other layers.

Standard library only. The page has no script and refers to nothing outside itself.
"""

from typing import TYPE_CHECKING

from hush.lazy import lazy_names
from hush.report.page import render as render
from hush.report.sections.attack import with_audit as with_audit
from hush.report.sections.section import publishable as publishable

if TYPE_CHECKING:
    from hush.report import parts as parts
else:  # a type checker that saw this would take every misspelt name for a module
    __getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(("parts",)))

__all__ = ["publishable", "render", "with_audit"]
