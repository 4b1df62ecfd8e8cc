/** The worker that renders and tokenizes long prompts: a thread with the model's tokenizer and template, so that no stream waits for it. */
/// <reference lib="deno.worker" />
import { type ChatMessage, type ChatPromptOptions, encodeChat, renderChat } from "../tokenizer/chat_prompt.ts";
import type { EncodeOptions } from "../tokenizer/tokenizer.ts";
import { loadModel } from "./checkpoint.ts";
import type { LoadedModel } from "./loaded_model.ts";

export type PromptJob =
  | { readonly type: "texts"; readonly texts: readonly string[]; readonly options: EncodeOptions }
  | { readonly type: "chat" | "render"; readonly messages: readonly ChatMessage[]; readonly options: ChatPromptOptions };

/** Ids, one list for each text and one of a chat; of a chat that is rendered its text. */
export type PromptJobResult =
  | { readonly ids: readonly Int32Array[] }
  | { readonly text: string }
  | { readonly error: { readonly name: string; readonly message: string } };

const scope = self as unknown as DedicatedWorkerGlobalScope;
let model: LoadedModel | null = null;

/** The first message is the path of the model, every other one a job. */
scope.onmessage = ({ data }: MessageEvent<string | PromptJob>): void => {
  if (typeof data === "string") {
    model = loadModel(data);
    return;
  }
  scope.postMessage(run(model!, data));
};

function run({ tokenizer, chatTemplate }: LoadedModel, job: PromptJob): PromptJobResult {
  try {
    if (job.type === "render") return { text: renderChat(tokenizer!, chatTemplate!, job.messages, job.options) };
    const ids = job.type === "texts"
      ? job.texts.map((text) => tokenizer!.encode(text, job.options))
      : [encodeChat(tokenizer!, chatTemplate!, job.messages, job.options)];
    return { ids: ids.map((list) => Int32Array.from(list)) };
  } catch (error) {
    const { name, message } = error instanceof Error ? error : new Error(String(error));
    return { error: { name, message } };
  }
}
