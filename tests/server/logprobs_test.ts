import { assertEquals } from "@std/assert";
import { chatLogprobs, CompletionLogprobsBuilder } from "../../src/server/logprobs.ts";
import { nameToken } from "../../src/server/token_names.ts";
import { ByteTokenizer, EOS } from "./fakes.ts";

const TOKENIZER = new ByteTokenizer();

Deno.test("a token that cannot come has the lowest logprob that JSON can say", () => {
  const top = [{ token: 97, logprob: -0.5 }, { token: 98, logprob: -Infinity }];
  const [entry] = chatLogprobs(TOKENIZER, [{ id: 98, start: 0, logprob: { logprob: -Infinity, top } }]);
  assertEquals([entry!.logprob, entry!.top_logprobs.map(({ logprob }) => logprob)], [-9999, [-0.5, -9999]]);
});

Deno.test("of two tokens with one name the likelier one is listed", () => {
  const top = [{ token: 262, logprob: -1 }, { token: 263, logprob: -2 }];
  const lists = new CompletionLogprobsBuilder(TOKENIZER, 2).answer([{ id: 263, start: 0, logprob: { logprob: -2, top } }], "");
  assertEquals(lists.top_logprobs, [{ "": -1 }]);
});

Deno.test("control tokens are named by their text and have no bytes", () => {
  assertEquals(nameToken(TOKENIZER, EOS), { token: "<|im_end|>", bytes: [] });
  assertEquals(nameToken(null, 5), { token: "token_id:5", bytes: [] });
});
