/// <reference lib="deno.worker" />
/** The worker that reads and writes pages, so that the engine's thread never waits for a disk. */
import type { ToDisk } from "./disk_messages.ts";
import { DiskServer } from "./disk_server.ts";

const scope = self as unknown as DedicatedWorkerGlobalScope;
const server = new DiskServer({
  post: (message, transfer) => scope.postMessage(message, transfer),
  warn: (text) => console.error(`rowlock: ${text}`),
  later: (act, delayMs) => void setTimeout(act, delayMs),
});
scope.onmessage = (event: MessageEvent<ToDisk>) => void server.handle(event.data);
