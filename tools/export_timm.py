#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Export a PyTorch or timm Vision Transformer to the two files that vitrine reads: model.safetensors and config.json.

    export_timm.py checkpoint.pth OUT --heads 3 --mean 0.5,0.5,0.5 --std 0.5,0.5,0.5
    export_timm.py vit_tiny_patch16_224 OUT            (a model name; needs timm, loads its pretrained weights)

A checkpoint is a state dict with timm's names, alone or under a key such as 'state_dict' or 'model', saved by
torch.save. It is read with pickle, which runs code: load only files you trust. What tensor shapes do not tell (the
number of heads, mean and std) has to be given. From your own script, call save_safetensors and save_config."""
import argparse
import json
import os
import struct

import torch

DTYPES = {torch.float32: "F32", torch.float16: "F16", torch.float64: "F64", torch.int64: "I64", torch.int32: "I32",
          torch.uint8: "U8", torch.bool: "BOOL"}


def save_safetensors(path, state_dict, metadata=None):
    """float32 and float16 stay what they are; bfloat16, which numpy lacks, becomes float32."""
    header, blobs, end = {}, [], 0
    if metadata:
        header["__metadata__"] = {key: str(value) for key, value in metadata.items()}
    for name, tensor in sorted(state_dict.items(), key=lambda item: (-item[1].element_size(), item[0])):
        tensor = tensor.detach().cpu().contiguous()
        tensor = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
        blobs.append(tensor.numpy().tobytes())
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [end, end + len(blobs[-1])]}
        end += len(blobs[-1])
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def save_config(path, architecture, model_args, mean, std, num_classes, input_size):
    """config.json in the form timm puts on the Hugging Face hub."""
    config = {"architecture": architecture, "num_classes": num_classes, "num_features": model_args.get("embed_dim"),
              "global_pool": model_args.get("global_pool", "token"), "model_args": model_args,
              "pretrained_cfg": {"input_size": input_size, "fixed_input_size": True, "mean": list(mean),
                                 "std": list(std), "num_classes": num_classes, "first_conv": "patch_embed.proj",
                                 "classifier": "head"}}
    with open(path, "w") as f:
        json.dump(config, f, indent=2)
        f.write("\n")


def state_dict_of(checkpoint):
    """The state dict inside a training checkpoint, without the prefixes that wrappers leave."""
    for key in ("state_dict", "model", "model_state_dict", "net"):
        if key in checkpoint and not torch.is_tensor(checkpoint[key]):
            checkpoint = checkpoint[key]
    state = {name: tensor for name, tensor in checkpoint.items() if torch.is_tensor(tensor)}
    for prefix in ("module.", "_orig_mod.", "model."):
        if state and all(name.startswith(prefix) for name in state):
            state = {name[len(prefix):]: tensor for name, tensor in state.items()}
    return state


def model_args_of(state, heads):
    """The arguments of timm's VisionTransformer as far as tensor shapes tell them."""
    dim, _, patch, _ = state["patch_embed.proj.weight"].shape
    prefix = 2 if "dist_token" in state else 1
    side = round((state["pos_embed"].shape[1] - prefix) ** 0.5) * patch
    args = {"img_size": side, "patch_size": patch, "embed_dim": dim, "num_heads": heads,
            "depth": 1 + max(int(name.split(".")[1]) for name in state if name.startswith("blocks.")),
            "mlp_ratio": state["blocks.0.mlp.fc1.weight"].shape[0] / dim}
    if "blocks.0.attn.qkv.bias" not in state:
        args["qkv_bias"] = False
    if "fc_norm.weight" in state:
        args["global_pool"] = "avg"
    return args


def numbers(text):
    return [float(part) for part in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="a checkpoint file, or the name of a timm model")
    parser.add_argument("out", help="folder for model.safetensors and config.json")
    parser.add_argument("--heads", type=int, help="attention heads (for a checkpoint file)")
    parser.add_argument("--mean", type=numbers, default=[0.5] * 3)
    parser.add_argument("--std", type=numbers, default=[0.5] * 3)
    parser.add_argument("--half", action="store_true", help="store float32 weights as float16")
    a = parser.parse_args()

    if os.path.exists(a.source):
        if not a.heads:
            parser.error("--heads is needed: tensor shapes do not tell the number of heads")
        state = state_dict_of(torch.load(a.source, map_location="cpu"))
        architecture, args, mean, std = "vision_transformer", model_args_of(state, a.heads), a.mean, a.std
        classes = len(state["head.weight"])
        size = [3, args["img_size"], args["img_size"]]
    else:
        try:
            import timm
        except ImportError:
            parser.error(f"{a.source} is not a file, and timm is not installed to look it up as a model")
        model = timm.create_model(a.source, pretrained=True)
        state, architecture, classes = model.state_dict(), a.source, model.num_classes
        cfg = model.pretrained_cfg
        mean, std, size, args = cfg["mean"], cfg["std"], list(cfg["input_size"]), {"img_size": cfg["input_size"][1]}
        if hasattr(model, "blocks"):
            args.update(embed_dim=model.embed_dim, num_heads=model.blocks[0].attn.num_heads)

    if a.half:
        state = {name: t.half() if t.dtype == torch.float32 else t for name, t in state.items()}
    os.makedirs(a.out, exist_ok=True)
    save_safetensors(os.path.join(a.out, "model.safetensors"), state, {"format": "pt"})
    save_config(os.path.join(a.out, "config.json"), architecture, args, mean, std, classes, size)
    print(f"{len(state)} tensors to {os.path.join(a.out, 'model.safetensors')}")


if __name__ == "__main__":
    main()
