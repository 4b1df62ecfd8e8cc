/// <reference lib="deno.worker" />
import type { ModelBackend } from "./backend.ts";
import { EngineServer } from "./engine_server.ts";
import { StepPacker } from "./packed_step.ts";
import type { EngineOptions, ToEngine } from "./messages.ts";

/** Makes the current worker an engine whose models come from `loadBackend`. */
export function serveWorkerScope(loadBackend: (options: EngineOptions) => ModelBackend): void {
  const scope = self as unknown as DedicatedWorkerGlobalScope;
  const packer = new StepPacker();
  const server = new EngineServer({ post: (message) => scope.postMessage(packer.pack(message)), close: () => scope.close() }, loadBackend);
  scope.onmessage = (event: MessageEvent<ToEngine>) => server.handle(event.data);
}
