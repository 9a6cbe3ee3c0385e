"""Reading lines from a terminal, and the history of statements, which only you can read.

Queries are not data, but they can name people, as in ``WHERE name = 'Ann'``, so the file has mode 600, and the
shell says where it is.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

_MOST_STATEMENTS = 1000


def history_file() -> Path:
    """Return the file in the user's state folder."""
    state = os.environ.get("XDG_STATE_HOME")
    folder = Path(state) if state else Path.home() / ".local" / "state"
    return folder / "hush" / "query_history"


class History:
    """Reads lines with readline, where Python has it, and remembers statements."""

    def __init__(self) -> None:
        """Read the statements of earlier sessions, if the file can be opened."""
        self._readline, self._file = _readline(), history_file()
        self.is_stored = self._readline is not None and self._open()

    def _open(self) -> bool:
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self._file, os.O_CREAT | os.O_WRONLY, 0o600))
            self._file.chmod(0o600)
            assert self._readline is not None
            self._readline.read_history_file(self._file)
        except OSError:
            return False
        return True

    def read(self, prompt: str) -> str:
        """Return a line from the terminal. Raises EOFError at Ctrl-D, and KeyboardInterrupt at Ctrl-C."""
        return input(prompt)

    def add(self, statement: str) -> None:
        """Remember a statement as one line. A statement with a comment up to the end of a line is skipped."""
        if self._readline is None or "--" in statement:
            return
        self._readline.add_history(" ".join(statement.split("\n")))
        if self.is_stored:
            try:
                self._readline.write_history_file(self._file)
                self._file.chmod(0o600)
            except OSError:
                self.is_stored = False  # a full disk must not end the session


def _readline() -> ModuleType | None:
    """Return the module, set up so that answers to questions are not remembered; None on Windows."""
    try:
        import readline
    except ImportError:
        return None
    readline.set_auto_history(False)
    readline.set_history_length(_MOST_STATEMENTS)
    return readline
