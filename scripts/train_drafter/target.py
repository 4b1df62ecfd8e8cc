"""The target model (Llama family) in plain PyTorch: what every position leaves for the head, and what the head shall learn to say there."""

import json
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    x = x.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def rope_tables(num_positions: int, head_dim: int, theta: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines, each [positions, head_dim]."""
    frequencies = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    angles = torch.arange(num_positions, dtype=torch.float64)[:, None] * torch.cat([frequencies, frequencies])
    return angles.cos().float(), angles.sin().float()


def rotate(x: torch.Tensor, tables: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """x: [..., positions, head_dim], its halves paired."""
    cosines, sines = tables
    first, second = x.chunk(2, -1)
    return x * cosines + torch.cat([-second, first], -1) * sines


class Target:
    """Weights are kept in bfloat16 for the products, the residual stream in float32."""

    def __init__(self, folder: str) -> None:
        self.config = json.loads((Path(folder) / "config.json").read_text())
        self.weights: dict[str, torch.Tensor] = {}
        with safe_open(str(Path(folder) / "model.safetensors"), "pt") as file:
            for name in file.keys():
                tensor = file.get_tensor(name)
                self.weights[name] = tensor.float() if tensor.dim() == 1 else tensor.bfloat16()
        self.embedding = self.weights["model.embed_tokens.weight"]
        self.final_norm = self.weights["model.norm.weight"]
        self.head = self.weights.get("lm_head.weight", self.embedding)

    def _linear(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return F.linear(x.bfloat16(), self.weights[name + ".weight"])

    def _norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return rms_norm(x, self.weights[name + ".weight"], self.config["rms_norm_eps"])

    def _attention(self, x: torch.Tensor, layer: str, tables: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        batch, length, _ = x.shape
        heads, kv_heads, head_dim = (self.config[key] for key in ("num_attention_heads", "num_key_value_heads", "head_dim"))

        def split(name: str, count: int) -> torch.Tensor:
            return self._linear(x, f"{layer}.self_attn.{name}").view(batch, length, count, head_dim).transpose(1, 2)

        queries, keys = (rotate(split(name, count).float(), tables).bfloat16() for name, count in (("q_proj", heads), ("k_proj", kv_heads)))
        mixed = F.scaled_dot_product_attention(queries, keys, split("v_proj", kv_heads), is_causal=True, enable_gqa=True)
        return self._linear(mixed.transpose(1, 2).reshape(batch, length, -1), f"{layer}.self_attn.o_proj")

    @torch.no_grad()
    def forward(self, tokens: torch.Tensor, captured: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """tokens [batch, positions], padded at the right. Gives the captured layers' outputs side by side and the normed last hidden state."""
        tables = rope_tables(tokens.shape[1], self.config["head_dim"], self.config["rope_theta"])
        x = self.embedding[tokens].float()
        features = []
        for index in range(self.config["num_hidden_layers"]):
            layer = f"model.layers.{index}"
            x = x + self._attention(self._norm(x, f"{layer}.input_layernorm"), layer, tables)
            normed = self._norm(x, f"{layer}.post_attention_layernorm")
            gated = F.silu(self._linear(normed, f"{layer}.mlp.gate_proj")) * self._linear(normed, f"{layer}.mlp.up_proj")
            x = x + self._linear(gated, f"{layer}.mlp.down_proj")
            if index in captured:
                features.append(x)
        return torch.cat(features, -1), rms_norm(x, self.final_norm, self.config["rms_norm_eps"])
