"""Small models that see or hear, of transformers, timm and torchvision, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn

from hush.training import replace_batchnorm
from training.architectures.packages import package

SIZE = 3
_VIT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
_IMAGES = {"image_size": 32, "patch_size": 16, "num_channels": 3}
_STAGES = {"embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2], "window_size": 2, "image_size": 16, "patch_size": 2}

# By the name of the configuration, and the size of images.
TRANSFORMERS: dict[str, tuple[int, dict[str, Any]]] = {
    "vit": (32, _VIT | _IMAGES),
    "beit": (32, _VIT | _IMAGES | {"use_relative_position_bias": True, "layer_scale_init_value": 0.1}),
    "dinov2": (32, _VIT | _IMAGES),
    "swin": (16, _STAGES),
    "swinv2": (16, _STAGES),
    "convnext": (32, {"hidden_sizes": [4, 8], "depths": [1, 1], "num_stages": 2}),
    "convnextv2": (32, {"hidden_sizes": [4, 8], "depths": [1, 1], "num_stages": 2}),
    "poolformer": (
        32,
        {"hidden_sizes": [4, 8], "depths": [1, 1], "num_encoder_blocks": 2}
        | {"patch_sizes": [7, 3], "strides": [4, 2], "padding": [2, 1]},
    ),
    "resnet": (32, {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}),
    "regnet": (32, {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "groups_width": 4}),
    "segformer": (
        32,
        {"hidden_sizes": [4, 8], "depths": [1, 1], "num_encoder_blocks": 2, "num_attention_heads": [1, 2]}
        | {"sr_ratios": [2, 1], "patch_sizes": [7, 3], "strides": [4, 2], "mlp_ratios": [2, 2]},
    ),
}
TORCHVISION: dict[str, tuple[int, dict[str, Any]]] = {
    "squeezenet1_1": (32, {}),
    "mobilenet_v2": (32, {"width_mult": 0.25}),
    "mobilenet_v3_small": (32, {"width_mult": 0.25}),
    "shufflenet_v2_x0_5": (32, {}),
    "mnasnet0_5": (32, {}),
    "regnet_y_400mf": (32, {}),
    "resnet18": (32, {}),
    "densenet": (32, {"growth_rate": 4, "block_config": (2, 2), "num_init_features": 8}),
    "efficientnet_b0": (64, {}),
    "googlenet": (32, {"aux_logits": False, "init_weights": False}),
    "vision_transformer": (
        32,
        {"image_size": 32, "patch_size": 16, "num_layers": 2, "num_heads": 2, "hidden_dim": 16, "mlp_dim": 24},
    ),
    "swin_transformer": (
        16,
        {"patch_size": [2, 2], "embed_dim": 8, "depths": [2, 2], "num_heads": [1, 2], "window_size": [2, 2]},
    ),
    "convnext": (32, {}),
    "maxvit": (
        32,
        {"input_size": (32, 32), "stem_channels": 8, "partition_size": 2, "block_channels": [8, 16]}
        | {"block_layers": [1, 1], "head_dim": 4, "stochastic_depth_prob": 0.0},
    ),
}
_TINY_VIT = {"img_size": 32, "patch_size": 16, "embed_dim": 16, "depth": 2, "num_heads": 2}
_MIXER = {"img_size": 32, "patch_size": 16, "embed_dim": 16, "num_blocks": 2, "class": "mlp_mixer.MlpMixer"}
TIMM: dict[str, tuple[int, dict[str, Any]]] = {
    "vit_tiny_patch16_224": (32, _TINY_VIT),
    "deit_tiny_distilled_patch16_224": (32, _TINY_VIT),
    "beit_base_patch16_224": (32, _TINY_VIT),
    "eva02_tiny_patch14_224": (28, _TINY_VIT | {"img_size": 28, "patch_size": 14}),
    "cait_xxs24_224": (32, _TINY_VIT),
    "xcit_nano_12_p16_224": (32, _TINY_VIT),
    "mixer": (32, _MIXER),
    "gmlp": (
        32,
        _MIXER | {"block_layer": "mlp_mixer.SpatialGatingBlock", "mlp_layer": "mlp_mixer.GatedMlp", "mlp_ratio": 2},
    ),
    "resmlp": (32, _MIXER | {"block_layer": "mlp_mixer.ResBlock", "mlp_ratio": 2}),
    "swin_tiny_patch4_window7_224": (
        32,
        {"img_size": 32, "patch_size": 4, "window_size": 4, "embed_dim": 8, "depths": (2, 2), "num_heads": (1, 2)},
    ),
    "test_vit": (160, {}),
    "test_resnet": (64, {}),
    "test_convnext": (64, {}),
    "test_efficientnet": (64, {}),
    "test_byobnet": (64, {}),
    "test_nfnet": (64, {}),
    "convnext_atto": (32, {"depths": (1, 1, 1, 1), "dims": (4, 8, 8, 8)}),
    "resnet18": (32, {"channels": (8, 8, 16, 16), "stem_width": 8}),
    "coat_tiny": (
        32,
        {"img_size": 32, "embed_dims": (16,) * 4, "serial_depths": (1,) * 4, "parallel_depth": 1, "num_heads": 8},
    ),
    "pvt_v2_b0": (32, {"embed_dims": (8, 8, 16, 16), "depths": (1, 1, 1, 1), "num_heads": (1, 1, 2, 2)}),
    "poolformer": (64, {"class": "metaformer.MetaFormer", "depths": (1, 1, 1, 1), "dims": (8, 8, 16, 16)}),
    "mobilenetv3_small_050": (32, {}),
    "efficientnet_lite0": (32, {}),
}


def images(pixels: int) -> Tensor:
    return torch.randn(SIZE, 3, pixels, pixels, generator=torch.Generator().manual_seed(7))


def seen_by_transformers(kind: str) -> tuple[nn.Module, dict[str, Any]]:
    pixels, options = TRANSFORMERS[kind]
    transformers = package("transformers")
    config = transformers.AutoConfig.for_model(kind)
    no_dropout = {name: 0.0 for name in vars(config) if "drop" in name and isinstance(getattr(config, name), float)}
    config = transformers.AutoConfig.for_model(kind, **no_dropout | options)
    model = transformers.AutoModelForImageClassification.from_config(config)
    return replace_batchnorm(model), {"pixel_values": images(pixels)}


def seen_by_torchvision(kind: str) -> tuple[nn.Module, dict[str, Any]]:
    models = package("torchvision").models
    pixels, options = TORCHVISION[kind]
    builders: dict[str, Callable[..., nn.Module]] = {
        "densenet": models.DenseNet,
        "vision_transformer": models.VisionTransformer,
        "swin_transformer": partial(models.SwinTransformer, mlp_ratio=2.0),
        "maxvit": models.MaxVit,
        "convnext": lambda **_: models.ConvNeXt(
            [models.convnext.CNBlockConfig(4, 8, 1), models.convnext.CNBlockConfig(8, None, 1)], num_classes=10
        ),
    }
    builder = builders.get(kind) or partial(models.get_model, kind, weights=None)
    model = builder(**options) if kind == "convnext" else builder(num_classes=10, **options)
    return replace_batchnorm(model), {"x": images(pixels)}


def seen_by_timm(kind: str) -> tuple[nn.Module, dict[str, Any]]:
    pixels, options = TIMM[kind]
    timm = package("timm")
    # A class or a block is named by its place within `timm.models`.
    named = {
        key: attrgetter(options[key])(timm.models) for key in ("class", "block_layer", "mlp_layer") if key in options
    }
    build = named.pop("class", partial(timm.create_model, kind, pretrained=False))
    options = {key: value for key, value in options.items() if key != "class"} | named
    model: nn.Module = build(num_classes=10, **options)
    return replace_batchnorm(model), {"x": images(pixels)}


_SPEECH = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
HEARD: dict[str, dict[str, Any]] = {
    "wav2vec2": _SPEECH
    | {"conv_dim": (8, 8), "conv_stride": (4, 4), "conv_kernel": (8, 4), "num_conv_pos_embeddings": 4},
    "hubert": _SPEECH
    | {"conv_dim": (8, 8), "conv_stride": (4, 4), "conv_kernel": (8, 4), "num_conv_pos_embeddings": 4},
}


def heard(kind: str) -> tuple[nn.Module, dict[str, Any]]:
    transformers = package("transformers")
    options = HEARD[kind] | {
        "num_conv_pos_embedding_groups": 2,
        "num_feat_extract_layers": 2,
        "apply_spec_augment": False,
    }
    config = transformers.AutoConfig.for_model(kind)
    no_dropout = {name: 0.0 for name in vars(config) if "drop" in name and isinstance(getattr(config, name), float)}
    model = transformers.AutoModel.from_config(transformers.AutoConfig.for_model(kind, **no_dropout | options))
    return model, {"input_values": torch.randn(SIZE, 320, generator=torch.Generator().manual_seed(9))}


def clip() -> tuple[nn.Module, dict[str, Any]]:
    transformers = package("transformers")
    config = transformers.CLIPVisionConfig(**_VIT, **_IMAGES)
    return transformers.CLIPVisionModel(config), {"pixel_values": images(32)}
