import type { Engine } from "../engine/engine.ts";
import type { Admission } from "./admission.ts";
import type { Exchange } from "./exchange.ts";
import type { Generation } from "./generation.ts";
import type { ServerMetrics } from "./metrics.ts";
import type { ServerOptions } from "./options.ts";
import type { ServedModel } from "./served_model.ts";

/** What every route may use. One per app. */
export interface Services {
  readonly model: ServedModel;
  readonly engine: Engine;
  readonly options: ServerOptions;
  readonly admission: Admission;
  readonly metrics: ServerMetrics;
  /** Generations that run, so that a shutdown can end them. */
  readonly live: Set<Generation>;
}

/** Answers one request. What it throws becomes an error answer. */
export type Handler = (services: Services, exchange: Exchange) => Response | Promise<Response>;
