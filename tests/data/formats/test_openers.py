"""What can be opened, and what is refused at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data.files import KEY, image_folder, source_of, write_csv
from hush import data
from hush.errors import HushError, InvalidArgument


def test_what_is_no_data_is_refused(tmp_path: Path) -> None:
    for name in ("nothing.csv", "empty-folder", "t.xls", "t.doc"):
        path = tmp_path / name
        if name == "empty-folder":
            path.mkdir()
        elif name != "nothing.csv":
            path.write_bytes(b"PK")
        with pytest.raises(InvalidArgument, match=r"expected a \.csv"):
            data.open_data(path)
    for name in ("t.parquet", "t.npz", "t.xlsx"):
        (tmp_path / name).write_bytes(b"garbage")
        with pytest.raises(HushError):
            data.open_data(tmp_path / name)
    (tmp_path / "a[b].parquet").write_bytes(b"garbage")
    with pytest.raises(InvalidArgument, match="Rename the file"):
        data.open_data(tmp_path / "a[b].parquet")


@pytest.mark.parametrize("role", ["target", "unit", "groups"])
def test_a_missing_column_is_refused_with_those_that_exist(tmp_path: Path, role: str) -> None:
    source = source_of(tmp_path, [b"1,2,1"])
    roles: dict[str, Any] = {"target": "y", role: ["z"] if role == "groups" else "z"}
    with pytest.raises(InvalidArgument, match=f"^{role}='z': expected one of the columns a, b, y"):
        data.prepare(source, **roles, learn=data.Learn(noise_multiplier=1.0), key=KEY)
    with pytest.raises(InvalidArgument, match="^target='z'"):
        data.open_data(tmp_path / "t.csv", target="z")


def test_a_path_takes_precedence_over_a_known_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert data.open_data("digits").is_image
    image_folder(tmp_path / "digits")
    source = data.open_data("digits")
    assert data.template(source).classes == ("cat", "dog")


@pytest.mark.parametrize("name", ["t.csv", "t.TSV", "t.csv.gz", "t.CSV"])
def test_files_are_known_by_their_endings(tmp_path: Path, name: str) -> None:
    path = write_csv(tmp_path / name)
    assert data.open_data(path).columns == ["a", "b", "label"]
    assert data.open_data(str(path)).name == str(path)


def test_several_archives_in_one_folder_are_refused(tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz"):
        np.savez(tmp_path / name, x=np.zeros((2, 3, 3)), y=np.zeros(2))
    with pytest.raises(InvalidArgument, match="or several"):
        data.open_data(tmp_path)
    with pytest.raises(InvalidArgument, match="^name="):
        data.open_data(3)  # type: ignore[arg-type]
