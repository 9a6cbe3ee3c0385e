"""The data of `hush attack demo`: which dataset is used, and which archives are refused."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from hush.cli import main
from hush.cli.commands.attack_data import ARCHIVE, open_people, read_location
from hush.errors import InvalidArgument

pytest.importorskip("sklearn")


def test_location_is_used_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HUSH_DATA", raising=False)
    assert main(["attack", "demo", "--data", "location"]) == 2
    assert "HUSH_DATA" in capsys.readouterr().err
    assert open_people(None, tmp_path).name == "digits"
    row = '"1",' + ",".join(["0", "1"] * 223)
    _archive(tmp_path / ARCHIVE, "\n".join([row] * 5010))
    monkeypatch.setenv("HUSH_DATA", str(tmp_path))
    people = open_people(None, None)
    assert (people.name, people.x.shape, people.num_classes) == ("Location-30", (5010, 446), 30)
    assert set(people.labels) == {0}
    assert open_people("digits", None).name == "digits"


def test_other_archives_are_refused(tmp_path: Path) -> None:
    _archive(tmp_path / ARCHIVE, "1,0\n2,1")
    with pytest.raises(InvalidArgument, match="5010 rows"):
        read_location(tmp_path / ARCHIVE)


def _archive(path: Path, text: str) -> None:
    with tarfile.open(path, "w:gz") as files:
        member = tarfile.TarInfo("table")
        member.size = len(text.encode())
        files.addfile(member, io.BytesIO(text.encode()))


def test_digits_are_scaled() -> None:
    people = open_people("digits", None)
    assert people.x.shape == (1797, 64)
    assert (people.x.min(), people.x.max()) == (0, 1)
    assert set(people.labels.tolist()) == set(range(people.num_classes))
