"""The models that studies measure: what `named.build` takes, by the name in tables.

Standard library only: the harness refuses other names before there is a torch.
"""

_DRY = "hidden_dropout_prob=0&attention_probs_dropout_prob=0"

# --- peaks, and by-hand

PEAKS = {
    "decoder": "decoder",
    "encoder": "encoder",
    "convnet": "convnet",
    "moe": "moe",
    "llama": "transformers:llama?num_hidden_layers=6&hidden_size=1024"
    "&intermediate_size=2752&num_attention_heads=16&num_key_value_heads=16"
    "&vocab_size=8192&length=1024&batch=2&dtype=float32",
    "llama_32": "transformers:llama?num_hidden_layers=32&hidden_size=256"
    "&intermediate_size=688&num_attention_heads=8&num_key_value_heads=8"
    "&vocab_size=4096&length=1024&batch=2&dtype=float32",
    "gpt2": "transformers:gpt2?resid_pdrop=0&embd_pdrop=0&attn_pdrop=0&batch=4",
    "gpt2_dropout": "transformers:gpt2?n_layer=6&batch=4",
    "bert": f"transformers:bert?{_DRY}&length=512&batch=32",
    "bert_dropout": "transformers:bert?num_hidden_layers=6&length=512&batch=32",
    "vit": "transformers:vit?hidden_dropout_prob=0&batch=32",
    "t5": "transformers:t5?dropout_rate=0&batch=8&length=512",
    "resnet": "transformers:resnet?batch=32",
    "convnext": "transformers:convnext?batch=16",
}
BY_HAND = {
    "llama": PEAKS["llama"],
    "bert": PEAKS["bert"],
    "llama32": "acknap.inside.public.models:llama",
    "bert32": "acknap.inside.public.models:dry_bert",
    "bert32_dropout": "acknap.inside.public.models:bert",
}

# --- limits: a step takes less than a second

_WORDS = "vocab_size=512&length=256&batch=4&dtype=float32"
_WIDE = "num_hidden_layers=3&hidden_size=128&num_attention_heads=4"
LIMITS = {
    "llama": f"transformers:llama?{_WIDE}&intermediate_size=344"
    f"&num_key_value_heads=4&{_WORDS}",
    "bert_dropout": f"transformers:bert?{_WIDE}&intermediate_size=512&{_WORDS}",
    "gpt2": "transformers:gpt2?n_layer=3&n_embd=128&n_head=4&n_positions=256"
    f"&resid_pdrop=0&embd_pdrop=0&attn_pdrop=0&{_WORDS}",
    "vit": f"transformers:vit?{_WIDE}&intermediate_size=512&hidden_dropout_prob=0"
    "&image_size=96&patch_size=8&batch=8&dtype=float32",
    "t5": "transformers:t5?num_layers=2&d_model=128&d_ff=512&d_kv=32&num_heads=4"
    f"&dropout_rate=0&{_WORDS}",
    "convnet": "acknap.inside.limits.trained:convnet",
    "residual": "acknap.inside.limits.trained:residual",
}

# --- optimum

_OPTIMUM = "acknap.inside.optimum.optimum"
_TEXT = "batch=2&length=256&dtype=float32&vocab_size=2048"
_ONE = "num_hidden_layers=1&hidden_size=256&num_attention_heads=4"
_ONE += "&intermediate_size=1024"
_GPT = "n_embd=256&n_head=4&resid_pdrop=0&embd_pdrop=0&attn_pdrop=0"
_T5 = "d_model=256&d_ff=1024&num_heads=4&d_kv=64&dropout_rate=0"

OPTIMUM = {
    "gpt 1 layer": f"transformers:gpt2?n_layer=1&{_GPT}&{_TEXT}",
    "gpt 2 layers": f"transformers:gpt2?n_layer=2&{_GPT}&{_TEXT}",
    "llama 1 layer": f"transformers:llama?{_ONE}&{_TEXT}",
    "bert 1 layer": f"transformers:bert?{_ONE}&{_DRY}&{_TEXT}",
    "vit 1 layer": f"transformers:vit?{_ONE}&{_DRY}&batch=4&dtype=float32",
    "t5 1 layer": f"transformers:t5?num_layers=1&{_T5}&{_TEXT}",
    "decoder 1 layer": f"{_OPTIMUM}:decoder",
    "mixture 1 layer": f"{_OPTIMUM}:moe",
    "U-net": f"{_OPTIMUM}:convnet",
    "residual convolutions": f"{_OPTIMUM}:residual",
    "perceptron 8 layers": f"{_OPTIMUM}:perceptron",
    "gated experts": f"{_OPTIMUM}:experts",
}

# --- blocks: of the transformers library, the name with options

_TINY = "batch=4&length=64&vocab_size=256&dtype=float32"
_BLOCK_WIDE = f"hidden_size=64&intermediate_size=176&num_attention_heads=4&{_TINY}"
_BLOCK_LLAMA = f"num_hidden_layers=3&num_key_value_heads=2&{_BLOCK_WIDE}"
_BLOCK_BERT = f"bert?num_hidden_layers=3&{_BLOCK_WIDE}"
_BLOCK_GPT2 = f"gpt2?n_layer=3&n_embd=64&n_head=4&n_positions=64&{_TINY}"
_BLOCK_T5 = f"t5?num_layers=2&d_model=64&d_ff=176&d_kv=16&num_heads=4&{_TINY}"
_BLOCK_IMAGES = "batch=4&image_size=32&dtype=float32"
_BLOCK_VIT = (
    "num_hidden_layers=3&hidden_size=64&intermediate_size=176&num_attention_heads=4"
)

BLOCKS_LIBRARY = {
    "bert": _BLOCK_BERT,
    "bert, no dropout": f"{_BLOCK_BERT}&{_DRY}",
    "gpt2": _BLOCK_GPT2,
    "gpt2, no dropout": f"{_BLOCK_GPT2}&resid_pdrop=0.0&embd_pdrop=0.0&attn_pdrop=0.0",
    "llama": f"llama?{_BLOCK_LLAMA}",
    "llama, eager attention": f"llama?attention=eager&{_BLOCK_LLAMA}",
    "qwen3": f"qwen3?head_dim=16&{_BLOCK_LLAMA}",
    "vit": f"vit?patch_size=4&{_BLOCK_VIT}&{_BLOCK_IMAGES}",
    "t5": _BLOCK_T5,
    "t5, no dropout": f"{_BLOCK_T5}&dropout_rate=0.0",
}
BLOCKS = ("decoder", "encoder", "moe", "convnet", *BLOCKS_LIBRARY)
