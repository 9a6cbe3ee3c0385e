"""Downloads: complete and with the published checksum, or not at all."""

from __future__ import annotations

import hashlib
import io
import os
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from hush.data.formats.download import Remote, download
from hush.errors import InvalidArgument

CONTENT = b"0123456789" * 100_000  # more than one chunk
REMOTE = Remote(url="https://example.org/files/data.bin", sha256=hashlib.sha256(CONTENT).hexdigest())


class Response(io.BytesIO):
    """What the network answers, and how often it was asked."""

    def __init__(self, content: bytes, *, breaks: bool = False) -> None:
        super().__init__(content)
        self.headers = {"Content-Length": str(len(content))}
        self.breaks = breaks
        self.requests: list[str] = []

    def read(self, *size: Any) -> bytes:
        if self.breaks and self.tell() > 0:
            raise ConnectionResetError
        return super().read(*size)

    def __call__(self, url: str, timeout: float) -> Response:
        self.requests.append(url)
        return self


def answered_by(monkeypatch: pytest.MonkeyPatch, response: Any) -> Any:
    monkeypatch.setattr(urllib.request, "urlopen", response)
    return response


def test_a_file_is_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    response = answered_by(monkeypatch, Response(CONTENT))
    folder = tmp_path / "new" / "folder"
    path = download(REMOTE, folder, advice="")
    assert (path.name, path.read_bytes()) == ("data.bin", CONTENT)
    assert download(REMOTE, folder, advice="") == path
    assert response.requests == [REMOTE.url]
    assert list(folder.iterdir()) == [path]


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (Response(CONTENT + b"!"), "the published checksum"),
        (Response(CONTENT, breaks=True), "a network connection, and enough disk space"),
    ],
    ids=["another file", "broken off"],
)
def test_a_failure_leaves_nothing_and_gives_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, response: Response, message: str
) -> None:
    answered_by(monkeypatch, response)
    with pytest.raises(InvalidArgument, match=message) as caught:
        download(REMOTE, tmp_path, advice="Put it there yourself")
    assert str(caught.value).endswith("Put it there yourself.")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0 if hasattr(os, "geteuid") else True, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InvalidArgument, match="^data_dir="):
        download(REMOTE, tmp_path, advice="")


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match="^data_dir="):
        download(REMOTE, tmp_path / "file" / "folder", advice="")


def test_progress_is_shown_on_a_terminal_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answered_by(monkeypatch, Response(CONTENT))
    download(REMOTE, tmp_path / "quiet", advice="")
    assert capsys.readouterr() == ("", "")
    answered_by(monkeypatch, Response(CONTENT))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    download(REMOTE, tmp_path / "shown", advice="")
    shown = capsys.readouterr().err
    assert "\rdata.bin [" in shown
    assert shown.endswith("[##############################] 1.0 MB\n")
