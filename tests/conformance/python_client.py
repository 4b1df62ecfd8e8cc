"""Talks to a server with the official Python client and prints what it saw as JSON. Arguments: base URL, prompt."""
import json
import sys

import openai

base_url, prompt = sys.argv[1:]
client = openai.OpenAI(base_url=base_url, api_key="none", max_retries=0)
messages = [{"role": "user", "content": prompt}]
sampling = {"model": "default", "temperature": 0.8, "seed": 7, "max_tokens": 12}
seen = {}

whole = client.chat.completions.create(messages=messages, logprobs=True, top_logprobs=2, n=2, **sampling)
seen["whole"] = [choice.message.content for choice in whole.choices]
seen["usage"] = whole.usage.completion_tokens
seen["logprob_bytes"] = bytes(b for token in whole.choices[0].logprobs.content for b in token.bytes).decode()
seen["models"] = [model.id for model in client.models.list()]

text, finish, usage = "", None, None
for chunk in client.chat.completions.create(messages=messages, stream=True, stream_options={"include_usage": True}, **sampling):
    if chunk.choices:
        text += chunk.choices[0].delta.content or ""
        finish = chunk.choices[0].finish_reason or finish
    usage = chunk.usage or usage
seen["streamed"] = [text, finish, usage.completion_tokens]

with client.chat.completions.stream(messages=messages, **sampling) as stream:
    seen["helper"] = "".join(event.delta for event in stream if event.type == "content.delta")

ids = client.completions.create(prompt=[[1, 2], [3]], echo=True, logprobs=1, max_tokens=0, model="default")
seen["scored"] = [len(choice.logprobs.tokens) for choice in ids.choices]
seen["extra"] = client.completions.create(prompt="The sky is", model="default", max_tokens=2, extra_body={"top_k": 1}).choices[0].text

for name, fields in {"range": {"temperature": -1.0}, "model": {"model": "absent"}, "type": {"stop": [1]}}.items():
    try:
        client.chat.completions.create(messages=messages, **{**sampling, **fields})
    except openai.APIStatusError as error:
        seen[name] = [type(error).__name__, error.status_code, error.code, error.param, bool(error.request_id)]

for chunk in client.chat.completions.create(messages=messages, stream=True, extra_body={"ignore_eos": True}, **{**sampling, "max_tokens": 900}):
    break
print(json.dumps(seen))
