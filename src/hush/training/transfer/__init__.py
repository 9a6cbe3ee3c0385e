"""The model before a private run: which part of it is trained, and what its weights have learned from public data.

- `trained_part`: freezes layers, or replaces the output layer.
- `lora`: low-rank adapters, by the library peft.
- `batch_norm`: replaces layers that mix the examples of a batch.
- `pretraining`: training on public data, which costs nothing.
"""
