/** The engine worker: one OS thread that owns the model and makes every native call. */
import { NativeBackend } from "./native_backend.ts";
import { serveWorkerScope } from "./worker_scope.ts";

serveWorkerScope((options) =>
  NativeBackend.load(options.libraryPath, options.model, options.isBatchInvariant, options.speculation?.drafter)
);
