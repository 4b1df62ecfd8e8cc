import { assertEquals, assertStringIncludes } from "@std/assert";
import { tryLine } from "../../src/cli/try_line.ts";
import type { LoadedModel } from "../../src/models/loaded_model.ts";

const TOKENIZER = {} as NonNullable<LoadedModel["tokenizer"]>;
const TEMPLATE = {} as NonNullable<LoadedModel["chatTemplate"]>;

Deno.test("the line to try asks for what the model can do", () => {
  const lineFor = (model: Pick<LoadedModel, "tokenizer" | "chatTemplate">): string => tryLine("http://h:1", model, false);
  assertStringIncludes(lineFor({ tokenizer: TOKENIZER, chatTemplate: TEMPLATE }), "curl http://h:1/v1/chat/completions ");
  assertStringIncludes(lineFor({ tokenizer: TOKENIZER, chatTemplate: TEMPLATE }), '"temperature":0.3,"top_p":0.9,"max_tokens":64');
  assertStringIncludes(lineFor({ tokenizer: TOKENIZER, chatTemplate: null }), '"prompt":"Once upon a time","temperature":0.3');
  assertStringIncludes(lineFor({ tokenizer: null, chatTemplate: null }), '"prompt":[1,2,3]');
});

Deno.test("a server with keys asks for one and never shows its own", () => {
  const model = { tokenizer: null, chatTemplate: null };
  assertEquals(tryLine("http://h:1", model, true).includes('-H "authorization: Bearer $ROWLOCK_KEY"'), true);
  assertEquals(tryLine("http://h:1", model, false).includes("authorization"), false);
});
