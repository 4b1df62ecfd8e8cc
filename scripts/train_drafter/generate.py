"""Has a running Rowlock server write the training text: one JSON line for each answer, with the token ids of prompt and answer."""

import argparse
import json
import random
import time
import urllib.request
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from prompts import prompt

TEMPERATURES = [0.0, 0.7, 0.7, 1.0]


def request_of(index: int, seed: int, max_tokens: int) -> dict:
    """The request with this number is the same in every run."""
    source = random.Random(f"{seed}:{index}")
    temperature = source.choice(TEMPERATURES)
    return {"messages": prompt(source), "temperature": temperature, "seed": index, "max_tokens": max_tokens, "return_token_ids": True}


def answer(url: str, request: dict) -> dict:
    http_request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(request).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(http_request, timeout=600) as response:
        body = json.load(response)
    choice = body["choices"][0]
    return {"prompt_ids": body["prompt_token_ids"], "token_ids": choice["token_ids"], "temperature": request["temperature"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--out", required=True)
    parser.add_argument("--tokens", type=int, default=280_000, help="stop after as many answered tokens")
    parser.add_argument("--max-tokens", type=int, default=300, help="of one answer")
    parser.add_argument("--max-minutes", type=float, default=25)
    parser.add_argument("--parallel", type=int, default=32, help="requests at a time")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.max_minutes
    num_tokens, index = 0, 0
    pending: set[Future] = set()
    with open(options.out, "w") as out, ThreadPoolExecutor(options.parallel) as pool:
        while num_tokens < options.tokens and time.monotonic() < end:
            while len(pending) < options.parallel:
                pending.add(pool.submit(answer, options.url, request_of(index, options.seed, options.max_tokens)))
                index += 1
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                result = future.result()
                num_tokens += len(result["token_ids"])
                out.write(json.dumps(result) + "\n")
            out.flush()
        for future in pending:
            out.write(json.dumps(future.result()) + "\n")
    print(f"{num_tokens} tokens of {index} answers")


if __name__ == "__main__":
    main()
