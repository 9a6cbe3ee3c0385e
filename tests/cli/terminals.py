"""A terminal for tests."""

from __future__ import annotations


class Terminal:
    """Standard error that claims to be a terminal of some width."""

    def __init__(self, handle: int) -> None:
        self.handle, self.text = handle, ""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        if self.handle < 0:
            raise OSError("no file")
        return self.handle

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass
