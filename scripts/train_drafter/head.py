"""The EAGLE-3 head: one layer that attends over [embedding of the next token | fused features], unrolled in training as it is in drafting."""

import json
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from target import Target, rms_norm, rope_tables, rotate
from torch import nn

ROPE_THETA = 10_000.0


class Norm(nn.Module):
    def __init__(self, weight: torch.Tensor, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(weight.clone()), eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return rms_norm(x, self.weight, self.eps)


def linear(columns: int, rows: int, std: float = 0.02) -> nn.Linear:
    layer = nn.Linear(columns, rows, bias=False)
    nn.init.normal_(layer.weight, std=std)
    return layer


class Head(nn.Module):
    """Module names are those of the checkpoint (SGLang's layout)."""

    def __init__(self, target: Target, feature_scales: list[float], draft_tokens: torch.Tensor, intermediate_size: int) -> None:
        """feature_scales: typical size of each captured layer's values; the last layer's are the start of the head's own hidden state."""
        super().__init__()
        config = target.config
        hidden, eps = config["hidden_size"], config["rms_norm_eps"]
        self.num_heads, self.num_kv_heads, self.head_dim = (config[key] for key in ("num_attention_heads", "num_key_value_heads", "head_dim"))
        self.config, self.intermediate_size, self.draft_tokens = config, intermediate_size, draft_tokens
        self.fc = linear(hidden * len(feature_scales), hidden, 0.002)
        with torch.no_grad():
            self.fc.weight[:, -hidden:] += torch.eye(hidden)
            for part, scale in zip(self.fc.weight.split(hidden, 1), feature_scales):
                part.div_(scale)
        ones = torch.ones(hidden)
        attention = {"q_proj": linear(2 * hidden, self.num_heads * self.head_dim), "k_proj": linear(2 * hidden, self.num_kv_heads * self.head_dim),
                     "v_proj": linear(2 * hidden, self.num_kv_heads * self.head_dim), "o_proj": linear(self.num_heads * self.head_dim, hidden, 0.03)}
        self._attend_to_self(attention)
        mlp = {"gate_proj": linear(hidden, intermediate_size), "up_proj": linear(hidden, intermediate_size),
               "down_proj": linear(intermediate_size, hidden)}
        self.midlayer = nn.ModuleDict({"hidden_norm": Norm(ones, eps), "input_layernorm": Norm(ones, eps), "post_attention_layernorm": Norm(ones, eps),
                                       "self_attn": nn.ModuleDict(attention), "mlp": nn.ModuleDict(mlp)})
        self.norm = Norm(target.final_norm, eps)
        self.lm_head = linear(hidden, len(draft_tokens))
        with torch.no_grad():
            self.lm_head.weight.copy_(target.head[draft_tokens].float())

    @torch.no_grad()
    def _attend_to_self(self, attention: dict[str, nn.Linear]) -> None:
        """
        A head's newest token reaches its hidden state through attention alone. Where queries equal keys, every entry looks at itself first, so that the
        token is there from the first training step on, and not as one of hundreds. One head in each group is made so, and one half so.
        """
        keys = attention["k_proj"].weight.mul_(1.5).view(self.num_kv_heads, self.head_dim, -1)
        queries = attention["q_proj"].weight.view(self.num_kv_heads, -1, self.head_dim, keys.shape[-1])
        queries[:, 0] = keys
        if queries.shape[1] > 2:
            queries[:, 1] = 0.5 * keys

    def fuse(self, features: torch.Tensor) -> torch.Tensor:
        return self.fc(features).float()

    def step(self, embedded: torch.Tensor, hidden: torch.Tensor, history: list[tuple[torch.Tensor, torch.Tensor]],
             tables: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """One more draft of every chain, [batch, positions, hidden]. `history`: keys and values of the steps so far; this step's are added."""
        layer = self.midlayer
        both = torch.cat([layer["input_layernorm"](embedded), layer["hidden_norm"](hidden)], -1)
        x = hidden + self._attention(both, history, tables)
        normed = layer["post_attention_layernorm"](x)
        mlp = layer["mlp"]
        return x + mlp["down_proj"](F.silu(mlp["gate_proj"](normed)) * mlp["up_proj"](normed))

    def _attention(self, both: torch.Tensor, history: list[tuple[torch.Tensor, torch.Tensor]], tables: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """A chain's draft sees the entries made from the target's features up to where the chain began, then the chain's own, one from each step."""
        batch, length, _ = both.shape
        projections = self.midlayer["self_attn"]

        def split(name: str, count: int) -> torch.Tensor:
            return projections[name](both).float().view(batch, length, count, self.head_dim).transpose(1, 2)

        groups = self.num_heads // self.num_kv_heads
        queries = rotate(split("q_proj", self.num_heads), tables)
        keys = rotate(split("k_proj", self.num_kv_heads), tables).repeat_interleave(groups, 1)
        history.append((keys, split("v_proj", self.num_kv_heads).repeat_interleave(groups, 1)))
        num_own = len(history) - 1
        first_keys, first_values = history[0]
        scores = queries @ first_keys.transpose(-1, -2)
        seen = torch.ones(length, length, dtype=torch.bool).tril(-num_own)
        parts = [scores.masked_fill(~seen, float("-inf"))]
        for step in range(1, num_own + 1):
            parts.append((queries * shifted(history[step][0], num_own - step)).sum(-1, keepdim=True))
        weights = torch.cat(parts, -1).div(self.head_dim**0.5).softmax(-1)
        mixed = weights[..., :length] @ first_values
        for step in range(1, num_own + 1):
            mixed = mixed + weights[..., length + step - 1 : length + step] * shifted(history[step][1], num_own - step)
        return projections["o_proj"](mixed.transpose(1, 2).reshape(batch, length, -1)).float()

    def load(self, folder: Path) -> None:
        """Takes the weights of a head of the same sizes and draft vocabulary."""
        tensors = load_file(str(folder / "model.safetensors"))
        distances = tensors.pop("d2t")
        if not torch.equal(distances, self.draft_tokens - torch.arange(len(self.draft_tokens))):
            raise ValueError(f"The head in {folder} has another draft vocabulary than the training text gives")
        self.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})

    def save(self, folder: Path, captured: list[int], num_draft_tokens: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {name: tensor.detach().to(torch.float16).contiguous() for name, tensor in self.state_dict().items()}
        tensors["d2t"] = self.draft_tokens - torch.arange(len(self.draft_tokens))
        save_file(tensors, str(folder / "model.safetensors"))
        (folder / "model.safetensors").chmod(0o644)
        kept = ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "rms_norm_eps", "vocab_size", "max_position_embeddings")
        config = {
            "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", **{key: self.config[key] for key in kept},
            "intermediate_size": self.intermediate_size, "num_hidden_layers": 1, "hidden_act": "silu", "rope_theta": ROPE_THETA, "attention_bias": False,
            "tie_word_embeddings": False, "draft_vocab_size": len(self.draft_tokens), "target_hidden_size": self.config["hidden_size"],
            "eagle_config": {"eagle_aux_hidden_state_layer_ids": captured},
            "speculators_config": {"proposal_methods": [{"speculative_tokens": num_draft_tokens}]}, "torch_dtype": "float16",
        }
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def shifted(x: torch.Tensor, by: int) -> torch.Tensor:
    """Every position [batch, heads, positions, head_dim] gets what stands `by` before it."""
    return x if by == 0 else F.pad(x, (0, 0, by, 0))[..., : x.shape[-2], :]


def head_tables(num_positions: int, head_dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    return rope_tables(num_positions, head_dim, ROPE_THETA)
