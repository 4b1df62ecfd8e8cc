import type { Engine } from "../engine/engine.ts";
import type { Admission } from "./admission.ts";
import type { BodyBudget } from "./body_budget.ts";
import type { Exchange } from "./exchange.ts";
import type { Generation } from "./generation.ts";
import type { ServerMetrics } from "./metrics.ts";
import type { ModelPool } from "./model_pool.ts";
import type { ServerOptions } from "./options.ts";
import type { ServedModel } from "./served_model.ts";

/** What every route may use. One per app. */
export interface AppServices {
  readonly pool: ModelPool;
  readonly options: ServerOptions;
  readonly metrics: ServerMetrics;
  /** What all request bodies take together while they are read. */
  readonly bodies: BodyBudget;
  /** Generations that run, so that a shutdown can end them. */
  readonly live: Set<Generation>;
}

/** The same with the model that one request names. */
export interface Services extends AppServices {
  readonly model: ServedModel;
  readonly engine: Engine;
  readonly admission: Admission;
  /** The request needs the engine no more. */
  releaseModel(): void;
}

/** Answers one request. What it throws becomes an error answer. */
export type Handler = (app: AppServices, exchange: Exchange) => Response | Promise<Response>;
