"""Names of operations, whichever way they are spelled, and their kinds as far as examples are concerned."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Questions about a tensor: nothing is computed.
QUESTIONS = _words(
    "shape size dim ndim ndimension device dtype layout stride numel nelement is_contiguous requires_grad grad grad_fn "
    "is_floating_point is_complex is_cuda is_sparse is_leaf data_ptr storage_offset element_size nbytes itemsize len "
    "is_meta is_nested is_quantized is_mps is_xpu name retain_grad register_hook get_device is_inference names "
    "is_same_size is_mkldnn hash dim_order _version is_signed is_conj is_neg output_nr repr str format"
)
# Views that keep the order of all entries.
RESHAPES = _words("view reshape flatten unflatten view_as reshape_as ravel squeeze unsqueeze")
# Views that can be tried on a tensor which says of each entry whose it is.
VIEWS = _words(
    "permute transpose movedim moveaxis swapaxes swapdims t T mT H mH adjoint select narrow expand expand_as "
    "broadcast_to chunk split split_with_sizes tensor_split unbind hsplit vsplit dsplit unfold diagonal slice"
)
# The result has the argument's shape, and its examples where the argument has them.
SAME_SHAPE = _words(
    "contiguous clone detach data to type type_as float double half bfloat16 int long bool short byte cpu cuda "
    "requires_grad zeros_like ones_like empty_like full_like rand_like randn_like randint_like dropout alpha_dropout "
    "feature_dropout feature_alpha_dropout dropout1d dropout2d dropout3d softmax log_softmax softmin layer_norm "
    "rms_norm group_norm instance_norm batch_norm normalize cumsum cumprod logcumsumexp cummax cummin sort argsort "
    "masked_fill copy fill zero tril triu flip roll nan_to_num "
    "local_response_norm relu relu6 gelu silu elu selu celu hardtanh "
    "leaky_relu rrelu softplus softshrink hardshrink tanhshrink softsign threshold logsigmoid mish hardswish "
    "hardsigmoid sigmoid tanh clip clamp gumbel_softmax where masked_scatter scatter scatter_add scatter_reduce "
    "index_add index_copy index_fill index_put fft ifft fft2 ifft2 fftn ifftn fftshift ifftshift setitem "
    "native_dropout is_nonzero resolve_conj real imag logical_and logical_or logical_not logical_xor pin_memory"
)
# The dimension of the batch stays where it is; others may change.
SAME_DIM = _words(
    "conv1d conv2d conv3d conv_transpose1d conv_transpose2d "
    "conv_transpose3d max_pool1d max_pool2d max_pool3d avg_pool1d "
    "avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d "
    "adaptive_max_pool2d adaptive_max_pool3d lp_pool1d lp_pool2d interpolate upsample pad pixel_shuffle "
    "pixel_unshuffle channel_shuffle fold grid_sample affine_grid embedding topk glu gather take_along_dim one_hot "
    "scaled_dot_product_attention linear bilinear kthvalue diff rfft irfft stft lstm_cell gru_cell rnn_tanh_cell "
    "rnn_relu_cell view_as_real view_as_complex cosine_similarity embedding_bag max_pool2d_with_indices "
    "boolean_dispatch max_unpool2d im2col"
)
REDUCTIONS = _words(
    "sum nansum mean nanmean amax amin aminmax max min var std prod norm vector_norm any all logsumexp argmax argmin "
    "median nanmedian mode count_nonzero var_mean std_mean"
)
# Their results mix entries along a dimension.
ALONG = _words(
    "sort argsort topk cumsum cumprod cummax cummin logcumsumexp softmax log_softmax softmin flip roll normalize "
    "gumbel_softmax diff"
)
# Values are written into the first argument, at places that are given as indices.
WRITES = _words("index_add index_copy index_put index_fill scatter scatter_add scatter_reduce masked_scatter")
PRODUCTS = _words("matmul mm bmm mv addmm baddbmm")
# Of a tensor, they take the type and the device only.
CONSTANTS = _words("new_zeros new_ones new_full new_empty new_empty_strided new_tensor")
# The first argument becomes like the second one, of which only the type or the shape counts.
LIKE_ANOTHER = _words("to type_as expand_as view_as reshape_as")
# Dynamo does not show these to a function mode.
UNSEEN_BY_DYNAMO = _words("T mT H mH real imag weight_norm")
# Random numbers: a function of parameters that draws some cannot be computed again.
RANDOM = _words(
    "dropout alpha_dropout feature_dropout dropout1d dropout2d dropout3d rand_like randn_like randint_like bernoulli "
    "normal multinomial gumbel_softmax rrelu uniform random exponential"
)
BROADCASTS = _words("where prelu lerp clamp clip masked_fill addcmul addcdiv logaddexp maximum minimum fmod")


def name_of(func: Any) -> str:
    """Return the plain name of an operation: ``mul`` for ``a * b``, ``a.mul_(b)`` and ``torch.mul(a, b)``."""
    if func is torch.nn.functional.unfold:
        return "im2col"  # patches of an image; the method of this name cuts windows out of one dimension
    name: str = getattr(func, "__name__", "") or type(func).__name__
    if name == "__get__":
        name = getattr(func.__self__, "__name__", "")
    elif name == "__set__":
        return "set_" + getattr(func.__self__, "__name__", "")
    return plain_name(name)


@cache
def plain_name(name: str) -> str:
    """Return a name without underscores, and without the letters that mark places and sides."""
    plain = name.strip("_")
    if name.startswith("__") and name.endswith("__") and plain[0] in "ri" and plain[1:] in _OPERATORS:
        plain = plain[1:]
    elif name[:1] in "ri" and name[1:] in _OPERATORS:
        plain = name[1:]
    return {"truediv": "div", "divide": "div", "multiply": "mul", "subtract": "sub", "getattr": "data"}.get(
        plain, plain
    )


_OPERATORS = _words("add sub mul truediv div floordiv mod pow matmul and or xor lshift rshift")


def writes_in_place(func: Any) -> bool:
    """Return whether an operation changes its first argument."""
    name: str = getattr(func, "__name__", "")
    if name.startswith("__"):
        return (name[2:3] == "i" and name.strip("_")[1:] in _OPERATORS) or name == "__setitem__"
    return name.endswith("_") or (name[:1] == "i" and name[1:] in _OPERATORS)


@cache
def is_pointwise(name: str) -> bool:
    """Return whether entries of the result depend on those of the arguments at the same place only."""
    if name in BROADCASTS or name in _OPERATORS:
        return name != "matmul"
    packet = getattr(torch.ops.aten, name, None)
    if packet is None or not hasattr(packet, "overloads"):
        return False
    return any(torch.Tag.pointwise in getattr(packet, overload).tags for overload in packet.overloads())
