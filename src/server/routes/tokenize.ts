/** What a client sees of tokenizer and chat template. */
import { readJsonBody } from "../json_body.ts";
import { chatPromptText, encodeTexts, requireTokenizer } from "../prompts.ts";
import { parseRequest } from "../schemas/parse.ts";
import type { ApplyTemplateResponse, DetokenizeResponse, TokenizeResponse } from "../schemas/responses.ts";
import { ApplyTemplateRequest, DetokenizeRequest, TokenizeRequest } from "../schemas/tokenize.ts";
import { refuseUnsupported, UNSUPPORTED_IN_CHAT } from "../schemas/unsupported.ts";
import { checkTokenIds } from "../served_model.ts";
import type { Exchange } from "../exchange.ts";
import type { AppServices } from "../services.ts";
import type { Tokenizer } from "../../tokenizer/tokenizer.ts";
import { nameToken } from "../token_names.ts";

const TURN_TOKENS = 8192;
const encoder = new TextEncoder();

/** POST /tokenize */
export async function tokenize({ pool, options, bodies }: AppServices, { request }: Exchange): Promise<Response> {
  const fields = parseRequest(TokenizeRequest, await readJsonBody(request, options, bodies));
  const { served: model, maxRowTokens } = pool.find(fields.model);
  const tokenizer = requireTokenizer(model, "content");
  const encodeOptions = { addSpecial: fields.add_special ?? false, parseSpecial: fields.parse_special ?? false };
  const [tokens = []] = await encodeTexts(model, [fields.content], encodeOptions, "content");
  const body: TokenizeResponse = {
    tokens,
    count: tokens.length,
    max_model_len: maxRowTokens,
    ...(fields.with_pieces ? { pieces: tokens.map((id) => nameToken(tokenizer, id).token) } : {}),
  };
  return Response.json(body);
}

/** POST /detokenize */
export async function detokenize({ pool, options, bodies }: AppServices, { request }: Exchange): Promise<Response> {
  const fields = parseRequest(DetokenizeRequest, await readJsonBody(request, options, bodies));
  const model = pool.find(fields.model).served;
  const tokenizer = requireTokenizer(model, "tokens");
  checkTokenIds(fields.tokens, model.loaded.vocabSize, "tokens");
  const content = await decodeInTurns(tokenizer, fields.tokens, fields.keep_special ?? false);
  const body: DetokenizeResponse = { content };
  return Response.json(body);
}

/** POST /apply-template */
export async function applyTemplate({ pool, options, bodies }: AppServices, { request }: Exchange): Promise<Response> {
  const sent = await readJsonBody(request, options, bodies);
  refuseUnsupported(sent, UNSUPPORTED_IN_CHAT);
  const fields = parseRequest(ApplyTemplateRequest, sent);
  const model = pool.find(fields.model).served;
  const body: ApplyTemplateResponse = {
    prompt: await chatPromptText(model, { messages: fields.messages, kwargs: fields.chat_template_kwargs ?? {} }),
  };
  return Response.json(body);
}

/** `tokenizer.decode`, a part at a time, so that no stream waits for a long list. */
async function decodeInTurns(tokenizer: Tokenizer, ids: readonly number[], keepSpecial: boolean): Promise<string> {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  let text = "";
  for (let start = 0; start < ids.length; start += TURN_TOKENS) {
    if (start > 0) await new Promise((resolve) => setTimeout(resolve, 0));
    for (const id of ids.slice(start, start + TURN_TOKENS)) {
      const isShown = keepSpecial && tokenizer.isSpecial(id);
      const bytes = isShown ? encoder.encode(tokenizer.decode([id], { keepSpecial })) : tokenizer.tokenBytes(id);
      text += decoder.decode(bytes, { stream: true });
    }
  }
  text += decoder.decode();
  return tokenizer.stripsLeadingSpace && text.startsWith(" ") ? text.slice(1) : text;
}
