"""`hush schema`: a template for declarations about the data.

No value is read: the names of the columns come from the header, and types from the format if it has any. Whatever you
fill in is treated as public; `hush train` learns the rest privately.
"""

from __future__ import annotations

import argparse

from hush.cli.settings import add_settings
from hush.cli.template_file import write_template


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "schema",
        help="write a template for declaring public facts about the data",
        description="Write a schema template with the names of the columns, and their types if the file declares them. "
        "No value is read. Fill in what is public, and pass the file to hush train --schema.",
    )
    add_settings(parser, "schema")
    parser.add_argument("--output", metavar="PATH", help="the file to write; if omitted, the template is printed")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write the template."""
    from hush.data import open_data, template

    data = open_data(
        options.data,
        data_dir=options.data_dir,
        download=options.download is not False,
        delimiter=options.delimiter,
    )
    text = template(data).to_json()
    write_template(text, options.output, "hush train --schema")
