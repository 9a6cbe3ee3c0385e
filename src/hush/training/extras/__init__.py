"""Additions to a private training loop that need no accounting.

- `averaging`: averages of the weights over the steps, as post-processing.
- `optimizers`: AdamBC, which knows the noise level.
- `lora`: low-rank adapters, by the library peft.
"""
