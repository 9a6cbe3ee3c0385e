"""Where commands write templates: to a new file, or to standard output."""

from __future__ import annotations

from pathlib import Path

from hush.errors import InvalidArgument


def write_template(text: str, output: str | None, next_command: str) -> None:
    """Write a template to a new file and say what to do next; without a file, print it."""
    if output is None:
        print(text, end="")
        return
    try:
        with Path(output).open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InvalidArgument("output", output, "a file that does not exist yet") from None
    except OSError as error:
        raise InvalidArgument("output", output, "a file that can be written", error.strerror or "") from None
    print(f"Written to {output}. Fill in what is public, then run {next_command} {output}")
