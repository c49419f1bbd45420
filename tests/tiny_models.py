"""Models of Hugging Face with few, random weights, saved to folders with their tokenizers."""

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertModel,
    EsmConfig,
    EsmModel,
    EsmTokenizer,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
    T5Config,
    T5Model,
)

# The vocabulary of ESM-2 as it is published, one token per line.
ESM = ["<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSERTIDPKQNFYMHWCXBUZO.-", "<null_1>", "<mask>"]

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


def save(folder, model, tokenizer):
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def tiny_esm(folder, *, seed=0, **settings):
    """ESM-2 as it is published, but small."""
    folder.mkdir()
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(ESM))
    torch.manual_seed(seed)
    given = {"position_embedding_type": "rotary", "token_dropout": True, "max_position_embeddings": 1026, **settings}
    config = EsmConfig(vocab_size=33, pad_token_id=1, mask_token_id=32, **SIZES, **given)
    return save(folder, EsmModel(config), EsmTokenizer(str(vocabulary)))


def fast(model, before, **specials):
    """A tokenizer with `[CLS]` and `[SEP]` around what `before` cuts into words."""
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = before
    ends = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", **specials}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def tiny_bert(folder):
    """A model of ProtBert's kind, whose tokenizer wants blanks between letters; at most 64 tokens."""
    torch.manual_seed(1)
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"LAGVESIKRDTPNQFYMHCWXUBZO"]
    words = models.WordPiece({name: number for number, name in enumerate(names)}, unk_token="[UNK]")
    config = BertConfig(vocab_size=len(names), pad_token_id=0, max_position_embeddings=64, **SIZES)
    return save(folder, BertModel(config), fast(words, pre_tokenizers.Whitespace()))


def tiny_bpe(folder):
    """A model of DNABERT-2's kind, whose tokens are several letters; at most 12 of them."""
    torch.manual_seed(2)
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"ACGT", "AC", "GT", "ACGT"]
    merges = [("A", "C"), ("G", "T"), ("AC", "GT")]
    pairs = models.BPE({name: number for number, name in enumerate(names)}, merges, unk_token="[UNK]")
    config = RobertaConfig(vocab_size=len(names), pad_token_id=0, max_position_embeddings=13, **SIZES)
    return save(folder, RobertaModel(config), fast(pairs, pre_tokenizers.Whitespace()))


def tiny_t5(folder):
    """An encoder with a decoder, of ProtT5's kind: an end mark, no start, no limit of length."""
    torch.manual_seed(3)
    names = ["<pad>", "</s>", "<unk>", *"ALGVSREDTIPKFQNYMHWCXBOUZ"]
    tokenizer = Tokenizer(models.WordPiece({name: k for k, name in enumerate(names)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    ends = {"pad_token": "<pad>", "unk_token": "<unk>", "eos_token": "</s>"}
    config = T5Config(vocab_size=len(names), d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2)
    return save(folder, T5Model(config), PreTrainedTokenizerFast(tokenizer_object=tokenizer, **ends))
