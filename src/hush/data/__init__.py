"""Data: from a file to examples, with public or privately learned preprocessing only.

- `open_data` finds a CSV, Parquet or NPZ file, a folder of IDX files or images, or a known data set, and looks at no
  value. It returns a `RawData`.
- `Schema` says what is declared: `Numeric`, `Category`, `Text` and `Ignore` columns, classes, unit, groups, `Images`.
  `template` makes one to fill in; `needs_learning` tells what is left to be learned.
- `prepare` learns that privately (`Learn` is the noise), holds some units out and returns `Prepared`: `Examples` to
  train from and to test with, the event that learning cost, and the complete schema.
- `transform` and `examples` apply a complete schema to other data.

Numbers are scaled to [-1, 1] by their bounds, categories become one place each, text counts of public words, images
numbers in [0, 1]. What a single record holds never raises an exception, and never decides a type.
"""

from hush.data.formats.open import open_data as open_data
from hush.data.preparation.examples import Examples as Examples
from hush.data.preparation.examples import examples as examples
from hush.data.preparation.examples import transform as transform
from hush.data.preparation.learn import Learn as Learn
from hush.data.preparation.plan import needs_learning as needs_learning
from hush.data.preparation.plan import template as template
from hush.data.preparation.prepare import Prepared as Prepared
from hush.data.preparation.prepare import prepare as prepare
from hush.data.tables.columns import Category as Category
from hush.data.tables.columns import Ignore as Ignore
from hush.data.tables.columns import Images as Images
from hush.data.tables.columns import Numeric as Numeric
from hush.data.tables.columns import Text as Text
from hush.data.tables.raw import RawData as RawData
from hush.data.tables.schema import Schema as Schema

__all__ = [
    "Category",
    "Examples",
    "Ignore",
    "Images",
    "Learn",
    "Numeric",
    "Prepared",
    "RawData",
    "Schema",
    "Text",
    "examples",
    "needs_learning",
    "open_data",
    "prepare",
    "template",
    "transform",
]
