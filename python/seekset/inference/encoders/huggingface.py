"""Models of Hugging Face: the mean of a layer's vectors over the residues of a sequence, or the vectors themselves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from seekset.errors import MismatchError, SeeksetError
from seekset.extras import require
from seekset.inference.encoders.protocol import UnknownModelError
from seekset.inference.encoders.vocabulary import table_of
from seekset.inference.encoders.weights import digest_of

if TYPE_CHECKING:
    from seekset.tokens import TokenTable

__all__ = ["HuggingFaceEncoder"]

_DTYPES = {
    "fp32": "float32",
    "float32": "float32",
    "bf16": "bfloat16",
    "bfloat16": "bfloat16",
    "fp16": "float16",
    "float16": "float16",
}

# Parts of models that have no say in the vectors of tokens: weights for them may be missing.
_ASIDE = ("pooler", "contact_head", "lm_head", "classifier")

# Tokenizers that know no limit say that it is astronomical.
_ABSURD = 1 << 30


class HuggingFaceEncoder:
    r"""A model of the transformers package, by its folder or its name.

    Sequences come as padded batches. If the tokenizer has a token for each letter, ids are made by a table, else by the
    tokenizer itself. Special tokens and padding are left out of the mean, which is taken in float32; a sequence without
    residues has zeros.

    Args:
        model: A folder as ``save_pretrained`` writes it, with the tokenizer, or a name on the hub.
        device: Where it computes.
        dtype: ``"fp32"`` (unless given), ``"bf16"`` or ``"fp16"``.
        layer: Which of the hidden states to take: 0 are the embeddings, -1 is the last layer. The model's output unless
            given.
        per_token: Whether to give the vectors of residues instead of their mean.
        trust_remote_code: Whether code that comes with the model may be run.
        unsafe_weights: Whether weights that are no safetensors may be loaded.
        **options: What ``from_pretrained`` takes besides, such as ``attn_implementation`` or ``revision``.

    >>> from transformers import EsmConfig, EsmModel, EsmTokenizer
    >>> tokens = ["<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSERTIDPKQNFYMHWCXBUZO.-", "<null_1>", "<mask>"]
    >>> _ = Path("vocab.txt").write_text("\n".join(tokens))
    >>> _ = EsmTokenizer("vocab.txt").save_pretrained("esm")
    >>> sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    >>> EsmModel(EsmConfig(vocab_size=33, pad_token_id=1, mask_token_id=32, **sizes)).save_pretrained("esm")
    >>> encoder = HuggingFaceEncoder("esm")
    >>> encoder.tokens, encoder.dim, encoder.max_length
    (TokenTable("esm"), 8, 1022)
    """

    layout: Literal["packed", "padded"] = "padded"
    arrays: Literal["torch", "numpy"] = "torch"

    def __init__(
        self,
        model: str,
        *,
        device: str = "cpu",
        dtype: str | None = None,
        layer: int | None = None,
        per_token: bool = False,
        trust_remote_code: bool = False,
        unsafe_weights: bool = False,
        **options: Any,
    ) -> None:
        self._name = model
        self._source = _source(model)
        self._per_token = per_token
        self._layer = layer
        tokenizer, self._model = self._loaded(_dtype(model, dtype), trust_remote_code, unsafe_weights, options)
        self._model = self._model.eval().requires_grad_(requires_grad=False).to(device)
        self.device: str = device
        config = self._model.config
        self._check_layer(config)
        self.dim: int = int(config.hidden_size)
        pad = next((pad for pad in (tokenizer.pad_token_id, config.pad_token_id) if pad is not None), 0)
        self.tokens: TokenTable | None = table_of(tokenizer, pad=pad)
        self.fingerprint: str = self._fingerprint()
        self._tokenizer = tokenizer
        self._most_tokens = _most_tokens(self._model, tokenizer)
        if self.tokens is None:
            self._prepare_own_tokens()
            self.max_length: int | None = None
        else:
            self._check_ids(self.tokens.largest)
            self._before, self._after = len(self.tokens.prefix), len(self.tokens.suffix)
            around = self._before + self._after
            self.max_length = None if self._most_tokens is None else max(self._most_tokens - around, 1)

    def __call__(self, batch: dict[str, Any]) -> Any:
        """A tensor with a row for each sequence of the batch, or for each of their residues."""
        import torch

        with torch.inference_mode():
            if self.tokens is None:
                ids, attended, residues = self._own_tokens(batch["sequences"])
            else:
                ids, attended = batch["input_ids"].to(self.device), batch["attention_mask"].to(self.device)
                places = torch.arange(ids.shape[1], device=self.device)
                ends = attended.sum(dim=1, keepdim=True) - self._after
                residues = (places >= self._before) & (places < ends)
            hidden = self._hidden(ids, attended)
            return hidden[residues] if self._per_token else _mean(hidden, residues)

    def _hidden(self, ids: Any, attended: Any) -> Any:
        layers = {} if self._layer is None else {"output_hidden_states": True}
        found = self._model(input_ids=ids, attention_mask=attended, return_dict=True, **layers)
        return found.last_hidden_state if self._layer is None else found.hidden_states[self._layer]

    def _own_tokens(self, sequences: list[str]) -> tuple[Any, Any, Any]:
        """Ids, attention and residues of sequences whose tokens are not letters."""
        found = self._tokenizer(
            sequences,
            padding=True,
            truncation=self._most_tokens is not None,
            max_length=self._most_tokens,
            return_special_tokens_mask=True,
            return_attention_mask=True,
            return_tensors="pt",
            verbose=False,
        ).to(self.device)
        attended = found["attention_mask"]
        return found["input_ids"], attended, (found["special_tokens_mask"] == 0) & (attended == 1)

    def _prepare_own_tokens(self) -> None:
        if self._per_token:
            message = "its tokenizer makes tokens of several letters: there are no vectors per residue"
            raise MismatchError(f"{self._name}: {message}")
        if self._tokenizer.pad_token is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token or self._tokenizer.unk_token
        self._tokenizer.padding_side = "right"
        self._check_ids(len(self._tokenizer) - 1)

    def _loaded(self, dtype: Any, trust_remote_code: bool, unsafe_weights: bool, options: dict[str, Any]) -> Any:
        """The tokenizer and the model."""
        try:
            import transformers
        except ImportError as error:
            message = f"models of Hugging Face need transformers ({error}): pip install 'seekset[inference]'"
            raise SeeksetError(f"{self._name}: {message}") from None
        common: dict[str, Any] = {"trust_remote_code": trust_remote_code}
        common |= {name: options.pop(name) for name in ("revision", "token", "cache_dir") if name in options}
        tokenizer = self._load("tokenizer", transformers.AutoTokenizer, common)
        config = self._load("configuration", transformers.AutoConfig, common)
        # Of an encoder with a decoder, the encoder alone is what gives vectors.
        kinds = transformers.AutoModelForTextEncoding if config.is_encoder_decoder else transformers.AutoModel
        common |= {"torch_dtype" if transformers.__version__.startswith("4.") else "dtype": dtype}
        common |= {"use_safetensors": None if unsafe_weights else True, "output_loading_info": True}
        # Those that don't fit are told by name below.
        common |= {"ignore_mismatched_sizes": True}
        model, told = self._load("model", kinds, {**common, **options})
        self._check_weights(model, told)
        return tokenizer, model

    def _load(self, part: str, kind: Any, options: dict[str, Any]) -> Any:
        try:
            return kind.from_pretrained(self._source, **options)
        except Exception as error:
            lines = str(error).strip().splitlines() or [""]
            hint = ""
            if options.get("use_safetensors") and "safetensors" in str(error):
                hint = " (weights in other formats are loaded if unsafe_weights is asked for)"
            message = f"{self._name}: the {part} can't be loaded: {type(error).__name__}: {lines[0]}{hint}"
            # Of a name that the hub doesn't know, or can't be asked about, nothing is there, not even the first part.
            absent = part == "tokenizer" and isinstance(error, OSError) and isinstance(self._source, str)
            raise (UnknownModelError if absent else SeeksetError)(message) from error

    def _check_weights(self, model: Any, told: dict[str, Any]) -> None:
        """Weights that are not there, or don't fit, would be drawn at random, anew in every worker."""
        # What is computed from settings, such as frequencies of positions, is no parameter.
        parameters = {name for name, _ in model.named_parameters()}
        drawn = parameters & {*told["missing_keys"], *(name for name, *_ in told["mismatched_keys"])}
        if lost := sorted(name for name in drawn if not set(_ASIDE) & set(name.split("."))):
            more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
            raise SeeksetError(f"{self._name}: the model can't be loaded: no weights fit {lost[0]}{more}")

    def _check_layer(self, config: Any) -> None:
        layers = int(config.num_hidden_layers)
        if self._layer is not None and not -layers - 1 <= self._layer <= layers:
            message = f"there is no layer {self._layer}; there are 0 (the embeddings) to {layers}, and -1 is the last"
            raise MismatchError(f"{self._name}: {message}")

    def _check_ids(self, largest: int) -> None:
        known = int(self._model.get_input_embeddings().weight.shape[0])
        if largest >= known:
            message = f"its tokenizer has ids up to {largest}, but the model knows {known} tokens"
            raise SeeksetError(f"{self._name}: {message}")

    def _fingerprint(self) -> str:
        if isinstance(self._source, Path):
            return digest_of(self._source)
        return f"{self._name} {getattr(self._model.config, '_commit_hash', None) or ''}".strip()


def _source(model: str) -> Path | str:
    """The folder of a model, or its name on the hub. What can be no name is not looked for there."""
    path = Path(model).expanduser()
    if path.is_dir():
        return path
    if path.exists():
        raise UnknownModelError(f"{model} is a file; a model is a folder with its configuration, weights and tokenizer")
    if model.startswith((".", "/", "~")) or model.count("/") > 1 or not model:
        raise UnknownModelError(f"{model}: there is no such folder")
    return model


def _dtype(model: str, name: str | None) -> Any:
    require(f"{model}: a model", "torch", "inference")
    import torch

    if name is not None and name not in _DTYPES:
        raise MismatchError(f"{model}: dtype must be fp32, bf16 or fp16, but is {name!r}")
    return getattr(torch, _DTYPES[name or "fp32"])


def _most_tokens(model: Any, tokenizer: Any) -> int | None:
    """How many tokens a sequence may have, specials counted; ``None`` if nobody says."""
    limits = [tokenizer.model_max_length]
    if positions := getattr(model.config, "max_position_embeddings", None):
        # Models of RoBERTa's kind, ESM among them, count positions from after the padding's.
        padding = getattr(getattr(model, "embeddings", None), "padding_idx", None)
        limits.append(positions - (0 if padding is None else padding + 1))
    most = min(limits)
    return int(most) if 0 < most < _ABSURD else None


def _mean(hidden: Any, residues: Any) -> Any:
    # Filled, not multiplied: what stands in padding may be no number.
    total = hidden.float().masked_fill(~residues[..., None], 0).sum(dim=1)
    return total / residues.sum(dim=1, keepdim=True).clamp(min=1)
