"""Texts by a pretrained language model that the user brings: fine-tuned by DP-SGD with low-rank adapters (LoRA), or asked.

The pretrained weights are public and stay as they are; only the adapters are trained, and only they are released. A model
that is only asked sees no private text at all.
`transformers` and `peft`, the extra `text`, are imported when a model is loaded.
"""
