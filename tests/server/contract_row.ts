/** A row of the contract with clients, and the requests that rows are checked with. */
import { assertEquals } from "@std/assert";
import { eventsOf, HELLO, type Json, type TestApp } from "./fakes.ts";

export const CHAT = "/v1/chat/completions";
export const COMPLETIONS = "/v1/completions";

export type Check = (app: TestApp) => Promise<void>;

export interface Row {
  readonly id: string;
  readonly fault: string;
  readonly check: Check;
  /** Tokens that the engine answers with. @default "Hello" */
  readonly tokens?: readonly number[];
}

export async function send(app: TestApp, fields: Json, path = CHAT): Promise<{ readonly status: number; readonly json: Json }> {
  const response = await app.post(path, typeof fields === "string" ? fields : path === CHAT ? { ...HELLO, ...fields } : fields);
  return { status: response.status, json: await response.json() };
}

export async function stream(app: TestApp, fields: Json, path = CHAT): Promise<{ readonly text: string; readonly events: Json[] }> {
  const response = await app.post(path, { ...(path === CHAT ? HELLO : {}), ...fields, stream: true });
  const text = await response.text();
  assertEquals([response.status, response.headers.get("content-type")], [200, "text/event-stream; charset=utf-8"], text);
  return { text, events: eventsOf(text) };
}

/** The fields give the row's sampling that the other fields give. */
export const same = (fields: Json, other: Json): Check => async (app) => {
  assertEquals([(await send(app, fields)).status, (await send(app, other)).status], [200, 200]);
  assertEquals(app.engine.requests[0]!.sampling, app.engine.requests[1]!.sampling);
};

export const refused = (status: number, param: string | null, fields: Json, path = CHAT): Check => async (app) => {
  const { status: found, json } = await send(app, fields, path);
  assertEquals([found, json.error?.param], [status, param], JSON.stringify(json));
  assertEquals(app.engine.requests.length, 0);
};

export const answers = (expected: Json, fields: Json, path = CHAT): Check => async (app) => {
  const { status, json } = await send(app, fields, path);
  const found = json.choices?.map((choice: Json) => [choice.index, choice.text ?? choice.message.content, choice.finish_reason]);
  assertEquals([status, found], [200, expected], JSON.stringify(json));
};

export const HI = [[0, "Hello", "stop"]];
export const raw = (field: string): string => `{"messages":[{"role":"user","content":"Hi"}],${field}}`;
