"""Trains an EAGLE-3 head on text that its target has written. See README.md."""

import argparse
import random
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing
import torch.nn.functional as F
from data import Batch, Features, Sample, frequent_tokens, groups_by_length, load_features, make_batch, read_samples
from head import Head, head_tables
from target import Target

STEP_DECAY = 0.8  # weight of an unrolled step against the one before
UNROLL_FROM = (0.0, 0.45, 0.75)  # share of the training from which a further step is unrolled; what is unrolled costs
WARM_UP = 0.04  # share of the training


def counted_entries(batch: Batch, num_steps: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows and entries that are learned; no chain can be so long at a text's beginning."""
    counted = batch.is_learned.clone()
    counted[:, : num_steps - 1] = False
    return counted.nonzero(as_tuple=True)


def unroll(head: Head, target: Target, batch: Batch, num_steps: int):
    """The head's last hidden states and logits at the counted entries, for each step of drafting. They should agree with the target's one position further on."""
    embedded = target.embedding[batch.tokens.roll(-1, 1)].float()
    tables = head_tables(batch.tokens.shape[1], head.head_dim)
    hidden, history = head.fuse(batch.captured), []
    rows, entries = counted_entries(batch, num_steps)
    for _ in range(num_steps):
        hidden = head.step(embedded, hidden, history, tables)
        normed = head.norm(hidden[rows, entries])
        yield normed, head.lm_head(normed).float()
        # A chain's next draft starts from what its last one has left, one entry further on.
        hidden = F.pad(hidden, (0, 0, 1, 0))[:, :-1]


def loss_of(head: Head, target: Target, batch: Batch, num_steps: int) -> torch.Tensor:
    """
    Cross entropy against the target's probabilities of the draft tokens, where what the target says of others weighs an entry down; and the distance to
    the target's own hidden state, which teaches more at first.
    """
    rows, entries = counted_entries(batch, num_steps)
    with torch.no_grad():
        final = batch.final[rows, entries + 1].float()
        wanted = F.linear(final.bfloat16(), target.head[head.draft_tokens]).float()
        wanted = (wanted - batch.log_sum[rows, entries + 1, None]).exp()
    total = torch.zeros(())
    for step, (normed, logits) in enumerate(unroll(head, target, batch, num_steps)):
        distance = (normed - final).square().mean() / final.var()
        total = total + STEP_DECAY**step * (distance - (wanted * logits.log_softmax(-1)).sum(-1).mean())
    return total


@torch.no_grad()
def agreement(head: Head, target: Target, groups: list[list[Sample]], features: Features, num_steps: int, temperature: float) -> list[float]:
    """Share of drafts, step by step, that equal the target's draw with the same noise."""
    source = torch.Generator().manual_seed(7)
    hits, tested = [0.0] * num_steps, 0
    for group in groups:
        batch = make_batch(group, features)
        rows, entries = counted_entries(batch, num_steps)
        wanted = F.linear(batch.final[rows, entries + 1].bfloat16(), target.head).float()
        noise = torch.zeros(())
        if temperature > 0:
            noise = -torch.empty(wanted.shape).exponential_(generator=source).log()
            wanted, noise = wanted / temperature + noise, noise[:, head.draft_tokens]
        draws = wanted.argmax(-1)
        with torch.autocast("cpu", torch.bfloat16):
            for step, (_, logits) in enumerate(unroll(head, target, batch, num_steps)):
                drafts = (logits / (temperature or 1) + noise).argmax(-1)
                hits[step] += float((draws == head.draft_tokens[drafts]).sum())
        tested += len(rows)
    return [hit / tested for hit in hits]


def layer_matrices(head: Head) -> list[torch.nn.Parameter]:
    return [p for name, p in head.named_parameters() if p.dim() == 2 and name != "lm_head.weight"]


def optimizers_of(head: Head, rate: float, rank: int, num_workers: int) -> list[torch.optim.Optimizer]:
    """Muon for the layer's matrices, because few steps have to do; its steps are dear, so each worker makes those of its own share. Adam for the rest."""
    vectors = [p for p in head.parameters() if p.dim() == 1]
    return [torch.optim.Muon(layer_matrices(head)[rank::num_workers], lr=rate, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW([{"params": vectors, "weight_decay": 0.0}, {"params": [head.lm_head.weight], "lr": rate / 5}], lr=rate / 2,
                              betas=(0.9, 0.95))]


def typical_sizes(features: Features, num_layers: int) -> list[float]:
    """Medians, because the first token of a text has values that are hundreds of times larger."""
    parts = features.captured[:: max(1, len(features.captured) // 4000)].float().chunk(num_layers, -1)
    return [float(part.square().mean(-1).sqrt().median()) for part in parts]


def average_gradients(head: Head, num_workers: int) -> None:
    if num_workers == 1:
        return
    gradients = [parameter.grad for parameter in head.parameters()]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    flat /= num_workers
    for gradient, part in zip(gradients, flat.split([gradient.numel() for gradient in gradients])):
        gradient.copy_(part.view_as(gradient))


def share_matrices(head: Head, num_workers: int) -> None:
    for i, matrix in enumerate(layer_matrices(head)):
        if num_workers > 1:
            dist.broadcast(matrix.data, i % num_workers)


def share_done(options: argparse.Namespace, step: int, seconds: float) -> float:
    """Of the training, by steps or by time, whichever is further; the same for all workers."""
    share = torch.tensor(max(step / options.steps, seconds / (60 * options.max_minutes)))
    if options.workers > 1:
        dist.broadcast(share, 0)
    return min(1.0, float(share))


def set_rates(optimizers: list[torch.optim.Optimizer], share: float) -> None:
    """Up for a while, then down to nothing in a straight line."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            start = group.setdefault("start", group["lr"])
            group["lr"] = start * min(1, (share + 0.001) / WARM_UP) * (1 - share)


def train(rank: int, options: argparse.Namespace) -> None:
    """One of `options.workers` processes, each with one thread: on a busy machine they wait for each other less than threads would."""
    torch.set_num_threads(1 if options.workers > 1 else 2)
    torch.manual_seed(options.seed)
    target = Target(options.target)
    samples = read_samples(options.text, options.max_positions)
    draft_tokens = frequent_tokens(samples, options.draft_vocab)
    features = load_features(target, samples, options.layers, Path(options.work))
    source = random.Random(options.seed)
    source.shuffle(samples)
    num_held = max(1, min(16, len(samples) // 20))
    held = groups_by_length(samples[:num_held], 2048, random.Random(0))
    head = Head(target, typical_sizes(features, len(options.layers)), draft_tokens, options.intermediate)
    if options.start is not None:
        head.load(Path(options.start))
    optimizers = optimizers_of(head, options.rate, rank, options.workers)
    groups: list[list[Sample]] = []
    start, average, share = time.monotonic(), 0.0, 0.0
    for step in range(options.steps):
        if len(groups) < options.workers:
            groups = groups_by_length(samples[num_held:], options.batch // options.workers, source)
        own = [groups.pop() for _ in range(options.workers)][rank]
        share = share_done(options, step, time.monotonic() - start)
        set_rates(optimizers, share)
        num_unrolled = options.unroll if options.start is not None else min(options.unroll, sum(share >= begin for begin in UNROLL_FROM))
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(head, target, make_batch(own, features), num_unrolled)
        loss.backward()
        average_gradients(head, options.workers)
        torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        head.zero_grad()
        share_matrices(head, options.workers)
        average += (float(loss.detach()) - average) * max(0.03, 1 / (step + 1))
        is_last = step + 1 == options.steps or share == 1
        if rank == 0 and (is_last or (step + 1) % options.report == 0):
            cells = [" ".join(f"{100 * x:.1f}" for x in agreement(head, target, held, features, options.unroll, t)) for t in (0, 0.7)]
            print(f"step {step + 1} loss {average:.3f} agreement % at 0: {cells[0]}, at 0.7: {cells[1]} ({time.monotonic() - start:.0f} s)", flush=True)
            head.save(Path(options.out), options.layers, options.draft_tokens)
        if is_last:
            break


def run_worker(rank: int, options: argparse.Namespace) -> None:
    dist.init_process_group("gloo", init_method=f"file://{Path(options.work).resolve()}/meeting", rank=rank, world_size=options.workers)
    train(rank, options)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", required=True, help="folder with the target's config.json and float32 safetensors")
    parser.add_argument("--text", required=True, help="what generate.py wrote")
    parser.add_argument("--work", required=True, help="folder for the features")
    parser.add_argument("--out", required=True, help="folder of the head")
    parser.add_argument("--start", help="folder of a head to go on from; a lower --rate suits it")
    parser.add_argument("--layers", type=lambda text: [int(item) for item in text.split(",")], default=[9, 19, 28], help="captured layers, from 0")
    parser.add_argument("--draft-vocab", type=int, default=5120)
    parser.add_argument("--intermediate", type=int, default=1152)
    parser.add_argument("--unroll", type=int, default=3)
    parser.add_argument("--draft-tokens", type=int, default=3, help="what the head proposes in a round unless told otherwise")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--max-minutes", type=float, default=40, help="ends earlier when the steps take longer; the rate falls accordingly")
    parser.add_argument("--batch", type=int, default=2048, help="positions, of all workers together")
    parser.add_argument("--max-positions", type=int, default=512, help="of one sample")
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--report", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    Path(options.work).mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(2)
    if options.workers == 1:
        return train(0, options)
    # All features are there before the workers read them.
    load_features(Target(options.target), read_samples(options.text, options.max_positions), options.layers, Path(options.work))
    (Path(options.work) / "meeting").unlink(missing_ok=True)
    torch.multiprocessing.spawn(run_worker, (options,), options.workers)


if __name__ == "__main__":
    main()
