"""GPU kernels: Triton and CUDA graphs. They make a step faster and never change its guarantee.

All callers of this package also run on a CPU, in plain torch. For tensors on a GPU, the same functions dispatch here.
Modules whose name ends in ``_cuda`` import Triton and are loaded only then. Results agree with the CPU's up to
rounding; noise is designed to be the same to the last bit.

In reading order:

- `gram`: norms of sums of outer products, from T x T inner products; `gram_cuda` is its kernel.
- `sums_cuda`: squared norms, clip factors and weighted sums of all parameters' gradients, one kernel for all of them.
- `recurrence`: the steps of recurrent layers with their gates' gradients, by torch's own kernels on a GPU.
- `noise_cuda`: integer noise from ChaCha20's stream; it joins the clipped sum in the optimizer's step.
- `constants`: small tensors that are copied to the device once.
- `graphs`: records the kernels of a clipping step as one CUDA graph, and replays it.
"""
