"""Train a small network privately on handwritten digits, and explain what it reveals.

The 1,797 images come with scikit-learn. A quarter of them is held out and treated as public data, so that the accuracy
shown during training costs nothing.

    python examples/digits.py [--epsilon 3] [--epochs 40]
"""

from __future__ import annotations

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn

import hush


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilon", type=float, default=3.0)
    parser.add_argument("--epochs", type=float, default=40)
    options = parser.parse_args()

    images, labels = load_digits(return_X_y=True)
    x = torch.tensor(images, dtype=torch.float32).view(-1, 1, 8, 8) / 16
    y = torch.tensor(labels)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    held_out, training = order[: len(x) // 4], order[len(x) // 4 :]

    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.Tanh(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 10),
    )
    nn.init.zeros_(model[-1].weight)  # a head that starts at zero spends no noise on unlearning
    print(f"Training on {len(training)} digits until epsilon = {options.epsilon:g} is spent; {len(held_out)} held out.")
    private = hush.fit(
        model,
        (x[training], y[training]),
        test=(x[held_out], y[held_out]),
        epsilon=options.epsilon,
        delta=1e-5,
        epochs=options.epochs,
        batch_size=512,
        clip_norm=0.3,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.8, momentum=0.9),
    )
    with torch.no_grad():
        accuracy = (model(x[held_out]).argmax(1) == y[held_out]).float().mean()
    print(f"\nAccuracy on digits that were held out: {accuracy:.1%}\n")
    print(private.guarantee().explain())


if __name__ == "__main__":
    main()
