"""The report on a run: one HTML page that can be read offline, on a phone, on paper and by a screen reader.

- `render`: from a run's record (a plain mapping) to the page.
- `with_audit`: a page with what an audit found.
- `publishable`: the same page without what is not private.
- ``hush.report.parts``: what pages are made of, for reports of other layers.

Standard library only. The page has no script and refers to nothing outside itself.
"""

from hush.report._attack import with_audit as with_audit
from hush.report._page import render as render
from hush.report._section import publishable as publishable

__all__ = ["publishable", "render", "with_audit"]
