"""Asks a server for answers that come late and prints them as JSON. Arguments: base URL, prompt."""
import json
import sys

import openai

base_url, prompt = sys.argv[1:]
client = openai.OpenAI(base_url=base_url, api_key="none", max_retries=0)
chat = client.chat.completions.create(messages=[{"role": "user", "content": prompt}], model="default").choices[0]
completion = client.completions.create(prompt=prompt, model="default").choices[0]
print(json.dumps([chat.message.content, chat.finish_reason, completion.text]))
