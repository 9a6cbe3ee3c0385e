"""Data: from a file to examples, with public or privately learned preprocessing only.

- `open_source` finds a CSV, Parquet or NPZ file, a folder of IDX files or images, or a known data set, and looks at no
  value. It returns a `Source`.
- `Schema` says what is declared: `Numeric`, `Category`, `Text` and `Ignore` columns, classes, unit, groups, `Images`.
  `template` makes one to fill in; `needs_learning` tells what is left to be learned.
- `prepare` learns that privately (`Learn` is the noise), holds some units out and returns `Prepared`: `Examples` to
  train from and to test with, the event that learning cost, and the complete schema.
- `transform` and `examples` apply a complete schema to other data.

Numbers are scaled to [-1, 1] by their bounds, categories become one place each, text counts of public words, images
numbers in [0, 1]. What a single record holds never raises an exception, and never decides a type.
"""

from hush.data._examples import Examples as Examples
from hush.data._examples import examples as examples
from hush.data._examples import transform as transform
from hush.data._learn import Learn as Learn
from hush.data._open import open_source as open_source
from hush.data._plan import needs_learning as needs_learning
from hush.data._plan import template as template
from hush.data._prepare import Prepared as Prepared
from hush.data._prepare import prepare as prepare
from hush.data._schema import Category as Category
from hush.data._schema import Ignore as Ignore
from hush.data._schema import Images as Images
from hush.data._schema import Numeric as Numeric
from hush.data._schema import Schema as Schema
from hush.data._schema import Text as Text
from hush.data._source import Source as Source

__all__ = [
    "Category",
    "Examples",
    "Ignore",
    "Images",
    "Learn",
    "Numeric",
    "Prepared",
    "Schema",
    "Source",
    "Text",
    "examples",
    "needs_learning",
    "open_source",
    "prepare",
    "template",
    "transform",
]
