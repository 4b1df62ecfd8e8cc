"""The training text with what the target leaves at every position of it, and batches of it."""

import json
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from target import Target

CHUNK_SAMPLES = 100


@dataclass
class Sample:
    tokens: torch.Tensor  # [positions]
    num_prompt: int
    first: int  # position of the first token in the flat tensors of Features


@dataclass
class Features:
    """Of all positions of all samples, one behind the other."""

    captured: torch.Tensor  # float16 [positions, captured layers * hidden]
    final: torch.Tensor  # float16 [positions, hidden], what the target's head sees
    log_sum: torch.Tensor  # float32 [positions], of the target's exponentiated logits


@dataclass
class Batch:
    """Padded at the right; `is_learned` marks the entries whose next but one token belongs to an answer."""

    tokens: torch.Tensor
    captured: torch.Tensor
    final: torch.Tensor
    log_sum: torch.Tensor
    is_learned: torch.Tensor


def read_samples(path: str, max_positions: int) -> list[Sample]:
    samples, first = [], 0
    for line in Path(path).read_text().splitlines():
        answer = json.loads(line)
        tokens = torch.tensor((answer["prompt_ids"] + answer["token_ids"])[:max_positions])
        if len(tokens) - len(answer["prompt_ids"]) < 4:
            continue
        samples.append(Sample(tokens, len(answer["prompt_ids"]), first))
        first += len(tokens)
    return samples


def frequent_tokens(samples: list[Sample], count: int) -> torch.Tensor:
    """The `count` tokens that answers have most often, in the order of their ids."""
    counter = Counter(token for sample in samples for token in sample.tokens[sample.num_prompt :].tolist())
    chosen = [token for token, _ in counter.most_common(count)]
    # A small training text may not have so many: the lowest ids are the most frequent pieces of a byte-pair vocabulary.
    known = set(chosen)
    chosen += [token for token in range(2 * count) if token not in known][: count - len(chosen)]
    covered = sum(counter[token] for token in chosen) / max(1, counter.total())
    print(f"{count} draft tokens cover {100 * covered:.2f} % of the answers, which have {len(counter)} different ones")
    return torch.tensor(sorted(chosen))


def load_features(target: Target, samples: list[Sample], layers: list[int], folder: Path) -> Features:
    """Computed in chunks that are kept in `folder`: a run that was interrupted, or began before all text was there, goes on."""
    features = empty_features(target, sum(len(sample.tokens) for sample in samples), len(layers))
    for start in range(0, len(samples), CHUNK_SAMPLES):
        chunk = samples[start : start + CHUNK_SAMPLES]
        key = [len(chunk), sum(len(sample.tokens) for sample in chunk), layers]
        path = folder / f"features-{start}.pt"
        stored = torch.load(path) if path.exists() else None
        if stored is None or stored["key"] != key:
            computed = compute_features(target, chunk, layers)
            stored = {"key": key, "features": [computed.captured, computed.final, computed.log_sum]}
            torch.save(stored, path)
            print(f"features of {start + len(chunk)} of {len(samples)} samples", flush=True)
        for all_chunks, part in zip((features.captured, features.final, features.log_sum), stored["features"]):
            all_chunks[chunk[0].first :][: key[1]] = part
    return features


def empty_features(target: Target, num_positions: int, num_layers: int) -> Features:
    hidden = target.config["hidden_size"]
    return Features(torch.empty(num_positions, hidden * num_layers, dtype=torch.float16), torch.empty(num_positions, hidden, dtype=torch.float16),
                    torch.empty(num_positions))


@torch.no_grad()
def compute_features(target: Target, samples: list[Sample], layers: list[int]) -> Features:
    origin = samples[0].first
    features = empty_features(target, sum(len(sample.tokens) for sample in samples), len(layers))
    for group in groups_by_length(samples, 2048, random.Random(0)):
        tokens = torch.nn.utils.rnn.pad_sequence([sample.tokens for sample in group], batch_first=True)
        captured, final = target.forward(tokens, layers)
        for row, sample in enumerate(group):
            length = len(sample.tokens)
            place = slice(sample.first - origin, sample.first - origin + length)
            features.captured[place] = captured[row, :length].half()
            features.final[place] = final[row, :length].half()
            features.log_sum[place] = F.linear(final[row, :length].bfloat16(), target.head).float().logsumexp(-1)
    return features


def groups_by_length(samples: list[Sample], max_positions: int, source: random.Random) -> list[list[Sample]]:
    """Groups of samples of about the same length, shuffled."""
    keyed = sorted(samples, key=lambda sample: len(sample.tokens) + source.uniform(0, 40))
    groups: list[list[Sample]] = [[]]
    for sample in keyed:
        longest = max([len(sample.tokens)] + [len(other.tokens) for other in groups[-1]])
        if groups[-1] and longest * (len(groups[-1]) + 1) > max_positions:
            groups.append([])
        groups[-1].append(sample)
    source.shuffle(groups)
    return groups


def make_batch(group: list[Sample], features: Features) -> Batch:
    def padded(rows: list[torch.Tensor]) -> torch.Tensor:
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)

    places = [slice(sample.first, sample.first + len(sample.tokens)) for sample in group]
    learned = []
    for sample in group:
        entries = torch.arange(len(sample.tokens))
        learned.append((entries + 2 >= sample.num_prompt + 1) & (entries + 1 < len(sample.tokens)))
    return Batch(padded([sample.tokens for sample in group]), padded([features.captured[place] for place in places]).float(),
                 padded([features.final[place] for place in places]), padded([features.log_sum[place] for place in places]), padded(learned))
