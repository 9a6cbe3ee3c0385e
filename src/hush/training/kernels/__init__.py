"""Triton kernels and CUDA graphs. Nothing here changes what is computed, only how fast."""
