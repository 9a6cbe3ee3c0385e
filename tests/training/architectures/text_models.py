"""Small models of transformers that read text, as people load them: by their configurations, with random weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from training.architectures.packages import package

VOCABULARY, LENGTH, SIZE = 41, 6, 3

# What most configurations call their sizes. A configuration ignores the names that it does not know.
_SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 24,
    "max_position_embeddings": 32,
    "head_dim": 8,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_SEQUENCES: dict[str, Any] = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "decoder_start_token_id": 1,
}
_EXPERTS: dict[str, Any] = {
    "num_local_experts": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 12,
    "shared_expert_intermediate_size": 12,
}

# By the name of the configuration: what differs from the sizes above.
CAUSAL: dict[str, dict[str, Any]] = {
    "gpt2": {},
    "gpt_neo": {"num_layers": 2, "num_heads": 2, "attention_types": [[["global", "local"], 1]], "window_size": 4},
    "gptj": {"n_embd": 16, "n_layer": 2, "n_head": 2, "rotary_dim": 4},
    "gpt_neox": {},
    "gpt_bigcode": {"n_embd": 16, "n_layer": 2, "n_head": 2},
    "codegen": {"num_attention_heads": 4, "rotary_dim": 2},
    "opt": {"ffn_dim": 24, "word_embed_proj_dim": 16},
    "bloom": {"n_layer": 2, "n_head": 2},
    "llama": {},
    "mistral": {},
    "qwen2": {},
    "qwen3": {},
    "qwen2_moe": _EXPERTS,
    "qwen3_moe": _EXPERTS,
    "mixtral": _EXPERTS,
    "gemma": {},
    "gemma2": {},
    "gemma3_text": {},
    "phi": {"num_key_value_heads": 2},
    "phi3": {},
    "falcon": {},
    "mpt": {"d_model": 16, "n_layers": 2, "n_heads": 2, "max_seq_len": 32},
    "olmo": {},
    "olmo2": {},
    "cohere": {},
    "granite": {},
    "stablelm": {},
    "starcoder2": {},
    "persimmon": {},
    "xglm": {"d_model": 16, "ffn_dim": 24, "num_layers": 2, "attention_heads": 2},
    "biogpt": {},
    "ctrl": {"n_embd": 16, "dff": 24, "n_layer": 2, "n_head": 2},
    "mamba": {"state_size": 4},
}
CLASSIFIERS: dict[str, dict[str, Any]] = {
    "bert": {},
    "roberta": {},
    "distilbert": {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24},
    "albert": {"embedding_size": 8},
    "electra": {"embedding_size": 8},
    "deberta": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "mpnet": {},
    "squeezebert": {
        "embedding_size": 16,
        **{f"{part}_groups": 2 for part in ("q", "k", "v", "intermediate", "output")},
    },
    "mobilebert": {"embedding_size": 8, "intra_bottleneck_size": 8, "true_hidden_size": 8},
    "convbert": {"embedding_size": 16, "num_attention_heads": 4},
    "roformer": {"embedding_size": 16},
    "modernbert": {},
    "nystromformer": {},
    "rembert": {"input_embedding_size": 8, "output_embedding_size": 8},
    "funnel": {"d_model": 16, "block_sizes": [1, 1], "n_head": 2, "d_head": 8, "d_inner": 24, "num_decoder_layers": 1},
    "fnet": {},
    "xlm-roberta": {},
}
SEQUENCE_TO_SEQUENCE: dict[str, dict[str, Any]] = {
    "t5": {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2},
    "mt5": {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2},
    "switch_transformers": {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2, **_EXPERTS},
    "bart": _SEQUENCES,
    "mbart": _SEQUENCES,
    "pegasus": _SEQUENCES,
    "marian": _SEQUENCES,
    "blenderbot": _SEQUENCES,
}


def _configured(kind: str, options: dict[str, Any]) -> Any:
    transformers = package("transformers")
    config = transformers.AutoConfig.for_model(kind)
    # Not all configurations may set all names: some are other names of one number.
    sizes = {name: value for name, value in _SIZES.items() if name in vars(config) or name in config.attribute_map}
    no_dropout = {name: 0.0 for name in vars(config) if "drop" in name and isinstance(getattr(config, name), float)}
    return transformers.AutoConfig.for_model(kind, **sizes | no_dropout | options)


def tokens() -> Tensor:
    """Tokens, of which some repeat within an example; 0 to 2 mean padding, start and end."""
    generator = torch.Generator().manual_seed(5)
    ids = torch.randint(3, VOCABULARY, (SIZE, LENGTH), generator=generator)
    ids[:, 3] = ids[:, 1]
    return ids


def causal(kind: str) -> tuple[nn.Module, dict[str, Any]]:
    config = _configured(kind, CAUSAL[kind])
    if torch.get_default_dtype() is torch.float64 and "num_experts_per_tok" in CAUSAL[kind]:
        config._experts_implementation = "eager"  # torch multiplies groups of matrices in single precision only
    model = package("transformers").AutoModelForCausalLM.from_config(config)
    return model, {"input_ids": tokens(), "use_cache": False}


def classifier(kind: str) -> tuple[nn.Module, dict[str, Any]]:
    config = _configured(kind, CLASSIFIERS[kind])
    model = package("transformers").AutoModelForSequenceClassification.from_config(config)
    inputs = {"input_ids": tokens()}
    if kind not in ("fnet",):
        mask = torch.ones(SIZE, LENGTH, dtype=torch.long)
        mask[1, 4:] = 0
        inputs["attention_mask"] = mask
    return model, inputs


def sequence_to_sequence(kind: str) -> tuple[nn.Module, dict[str, Any]]:
    config = _configured(kind, SEQUENCE_TO_SEQUENCE[kind])
    model = package("transformers").AutoModelForSeq2SeqLM.from_config(config)
    return model, {"input_ids": tokens(), "decoder_input_ids": tokens()[:, :4].flip(1), "use_cache": False}
