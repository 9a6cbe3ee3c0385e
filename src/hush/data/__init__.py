"""Data for training: turns files into examples, with preprocessing that is public or learned privately.

| step | where |
|---|---|
| open a file (CSV, Excel, Parquet, NPZ), a folder or a known dataset | `open_data`, which returns `RawData` |
| declare columns | `Numeric`, `Date`, `Category`, `Text`, `HashedText`, `Ignore`; `Images` |
| declare targets, classes, unit and groups, with columns | `Schema` |
| get a schema to fill in; see what would have to be learned | `template`, `needs_learning` |
| learn the rest privately, hold units out, encode | `prepare` with the noise `Learn`, which returns `Prepared` |
| apply a complete schema to other data | `transform`, `examples` |

The ideas of the package:

- **Opening reads no value.** Names and types of columns, and names of folders, are public; rows are read when they are
  needed. hush never reads anything from your data without charging for it.
- **Each record is read on its own.** No value raises an exception, decides a type, or changes how another row is read.
  All commands read files in the same way; `formats/csv.py` says what that means for CSV files.
- **Learned once, with one row per unit.** Bounds, values and classes that you do not declare come from Gaussian
  releases whose proof is in `preparation/learning.py`. Held-out units take no part in them.
- **One schema for all data.** The complete schema is a public file. It encodes new data exactly as the training data.

Numbers are scaled to [-1, 1] by their bounds, dates become a number and the time of year, week and day, categories
become one input per value, text becomes counts of words in a public vocabulary or by a public hash, and images become
numbers in [0, 1].

Sub-packages: `tables` (declarations and rows), `formats` (readers) and `preparation` (from raw data to examples).
"""

from hush.data.formats.openers import open_data as open_data
from hush.data.preparation.examples import Examples as Examples
from hush.data.preparation.examples import examples as examples
from hush.data.preparation.examples import transform as transform
from hush.data.preparation.learning import Learn as Learn
from hush.data.preparation.plan import needs_learning as needs_learning
from hush.data.preparation.plan import template as template
from hush.data.preparation.prepared_data import prepare as prepare
from hush.data.tables.columns import Category as Category
from hush.data.tables.columns import Column as Column
from hush.data.tables.columns import Date as Date
from hush.data.tables.columns import HashedText as HashedText
from hush.data.tables.columns import Ignore as Ignore
from hush.data.tables.columns import Images as Images
from hush.data.tables.columns import Numeric as Numeric
from hush.data.tables.columns import Text as Text
from hush.data.tables.schema import Schema as Schema

# isort: split
# Shared inside hush, not public.
from hush.data.formats.csv import CsvFile as CsvFile
from hush.data.formats.parquet import ParquetFile as ParquetFile
from hush.data.formats.table_files import open_table_file as open_table_file
from hush.data.preparation.encoding import num_inputs as num_inputs
from hush.data.preparation.inspection import TASKS as TASKS
from hush.data.preparation.inspection import Inspected as Inspected
from hush.data.preparation.inspection import inspect as inspect
from hush.data.preparation.learning import fewest_units as fewest_units
from hush.data.preparation.prepared_data import Outline as Outline
from hush.data.preparation.prepared_data import Prepared as Prepared
from hush.data.preparation.questions import OpenQuestions as OpenQuestions
from hush.data.preparation.questions import Question as Question
from hush.data.tables.catalog_template import TemplateTable as TemplateTable
from hush.data.tables.catalog_template import catalog_template as catalog_template
from hush.data.tables.catalog_toml import CatalogFile as CatalogFile
from hush.data.tables.catalog_toml import DeclaredTable as DeclaredTable
from hush.data.tables.catalog_toml import DeclaredUnit as DeclaredUnit
from hush.data.tables.catalog_toml import checked_address as checked_address
from hush.data.tables.catalog_toml import read_catalog as read_catalog
from hush.data.tables.catalog_toml import toml_key as toml_key
from hush.data.tables.columns import written as written
from hush.data.tables.quoting import quote_name as quote_name
from hush.data.tables.quoting import quote_text as quote_text
from hush.data.tables.raw_data import RawData as RawData
from hush.data.tables.table import RowTable as RowTable
from hush.data.tables.table import TableData as TableData
from hush.data.tables.table import connect as connect

__all__ = [
    "Category",
    "Date",
    "Examples",
    "HashedText",
    "Ignore",
    "Images",
    "Learn",
    "Numeric",
    "Schema",
    "Text",
    "examples",
    "needs_learning",
    "open_data",
    "prepare",
    "template",
    "transform",
]
