"""Inputs of PATE: rows that cannot be used are dropped one by one."""

from __future__ import annotations

import numpy as np

from estimators.pate.blobs import LABELS, PUBLIC, TRAIN, Y, pate
from hush.estimators.pate.rows import private_rows


def test_text_labels_and_rows_that_cannot_be_used_are_dropped_one_by_one() -> None:
    names = np.array(["a", "b", "c"])
    labels = names[LABELS].astype(object)
    rows = TRAIN.copy()
    rows[0], rows[1, 1] = np.nan, np.inf
    labels[2], labels[3] = "never heard of", None
    model = pate(classes=["c", "a", "b"]).fit(rows, labels, public=PUBLIC)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert (model.predict(PUBLIC) == names[Y[2500:]]).mean() > 0.85
    usable, numbers, _ = private_rows(rows, labels, None, names, model)
    assert len(usable) == len(numbers) == 2496
    three = np.arange(3)
    assert len(private_rows(TRAIN, np.where(np.arange(2500) < 7, np.nan, LABELS), None, three, model).rows) == 2493
    assert len(private_rows(TRAIN, [None, *LABELS[1:]], None, three, model).rows) == 2499
