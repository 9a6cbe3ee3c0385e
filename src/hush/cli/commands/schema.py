"""`hush schema`: a template to declare what is known of the data. No value is looked at."""

from __future__ import annotations

import argparse
from pathlib import Path

from hush.cli.declarations import add_source
from hush.errors import InvalidArgument


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "schema",
        help="write a template to declare what is known of the data",
        description="Write a schema template: names of columns, and types where the file declares them. No value is "
        "looked at. Fill in what is public, and give it to hush train --schema.",
    )
    add_source(parser)
    parser.add_argument("--output", metavar="FILE", help="the file to write; printed without it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write the template."""
    from hush.data import open_data, template

    source = open_data(
        options.data, data_dir=options.data_dir, download=not options.no_download, delimiter=options.delimiter
    )
    text = template(source).to_json()
    if options.output is None:
        print(text, end="")
        return
    try:
        with Path(options.output).open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InvalidArgument("output", options.output, "a file that does not exist yet") from None
    except OSError as error:
        raise InvalidArgument("output", options.output, "a file that can be written", error.strerror or "") from None
    print(f"Written to {options.output}: fill in what is public, and use it with hush train --schema {options.output}")
