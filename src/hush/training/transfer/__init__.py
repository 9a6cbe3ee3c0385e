"""Prepares a model for a private run: the part to train, and starting weights from public data.

- `trained_part`: freezes layers, or replaces the output layer.
- `lora`: low-rank adapters, by the library peft.
- `batch_norm`: replaces layers that mix the examples of a batch.
- `pretraining`: training on public data, which costs nothing.
"""
