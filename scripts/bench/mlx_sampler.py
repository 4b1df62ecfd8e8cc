"""Samples rows the way servers over MLX do it when rows differ: a chain of array operations for each row, then one evaluation.

Usage: mlx_sampler.py ROWS VOCABULARY; the last line is JSON: case -> microseconds of one step, the median. Needs the package mlx.
"""

import json
import sys
import time

import mlx.core as mx

TIME_S = 0.15
MIN_CALLS = 5


def keep_top_k(logprobs, k):
    order = mx.argpartition(-logprobs, kth=k - 1, axis=-1)
    return mx.put_along_axis(logprobs, order[..., k:], mx.array(-float("inf")), axis=-1)


def keep_top_p(logprobs, p):
    order = mx.argsort(logprobs, axis=-1)
    mass = mx.cumsum(mx.take_along_axis(mx.exp(logprobs), order, axis=-1), axis=-1)
    ranks = mx.put_along_axis(mx.zeros_like(order), order, mx.arange(order.shape[-1])[None], axis=-1)
    return mx.where(mx.take_along_axis(mass, ranks, axis=-1) > 1 - p, logprobs, -float("inf"))


def keep_min_p(logprobs, p):
    return mx.where(logprobs >= logprobs.max(axis=-1, keepdims=True) + mx.log(mx.array(p)), logprobs, -float("inf"))


def sample_row(logits, config):
    if config.get("penalties"):
        ids = mx.arange(200)[None] * 61
        seen = mx.take_along_axis(logits, ids, axis=-1)
        logits = mx.put_along_axis(logits, ids, mx.where(seen < 0, seen * 1.1, seen / 1.1) - 0.5, axis=-1)
    logprobs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    if config["temperature"] == 0:
        return mx.argmax(logprobs, axis=-1), logprobs
    filtered = logprobs
    if config.get("top_p", 1) < 1:
        filtered = keep_top_p(filtered, config["top_p"])
    if config.get("min_p", 0) > 0:
        filtered = keep_min_p(filtered, config["min_p"])
    if config.get("top_k", 0) > 0:
        filtered = keep_top_k(filtered, config["top_k"])
    return mx.random.categorical(filtered / config["temperature"]), logprobs


def sample_step(rows, configs):
    tokens, alternatives = [], []
    for row, config in zip(rows, configs):
        token, logprobs = sample_row(row, config)
        tokens.append(token)
        if config.get("num_top"):
            best = mx.argpartition(-logprobs, kth=config["num_top"] - 1, axis=-1)[..., : config["num_top"]]
            alternatives.append(mx.take_along_axis(logprobs, best, axis=-1))
    mx.eval(mx.concatenate(tokens), alternatives)


def distinct(row):
    return {
        "temperature": 0.5 + 0.06 * row,
        "top_p": 1 if row % 3 == 0 else 0.99 - 0.02 * (row % 5),
        "top_k": 0 if row % 4 == 0 else 10 * (1 + row),
        "min_p": 0 if row % 2 == 0 else 0.02 + 0.005 * row,
    }


CASES = {
    "greedy": lambda row: {"temperature": 0},
    "temperature": lambda row: {"temperature": 0.8},
    "top_k": lambda row: {"temperature": 0.8, "top_k": 40},
    "top_p": lambda row: {"temperature": 0.8, "top_p": 0.9},
    "min_p": lambda row: {"temperature": 0.8, "min_p": 0.05},
    "all distinct": distinct,
    "penalties": lambda row: {"temperature": 0.8, "penalties": True},
    "logprobs": lambda row: {"temperature": 0.8, "num_top": 5},
}


def median_us(call):
    times, end = [], time.perf_counter() + TIME_S
    call()
    while len(times) < MIN_CALLS or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(1e6 * (time.perf_counter() - start))
    return sorted(times)[len(times) // 2]


def main():
    num_rows, vocabulary = int(sys.argv[1]), int(sys.argv[2])
    rows = [2 * mx.random.normal((1, vocabulary)) for _ in range(num_rows)]
    mx.eval(rows)
    steps = {name: [make(row) for row in range(num_rows)] for name, make in CASES.items()}
    print(json.dumps({name: median_us(lambda configs=configs: sample_step(rows, configs)) for name, configs in steps.items()}))


main()
