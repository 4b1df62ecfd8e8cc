import { ClientGoneError, type Exchange } from "./exchange.ts";
import type { EngineLease } from "./model_pool.ts";
import type { PooledModel } from "./pooled_model.ts";
import type { AppServices, Services } from "./services.ts";
import { timeoutError } from "./start_generation.ts";

/**
 * What a request with this model uses. The model stays loaded until the generation has ended, and in every case no longer than the exchange.
 * @throws {ApiError} 404 `model_not_found`; 504 when the request's time is over before the model is loaded.
 * @throws {EngineError} when it cannot be loaded.
 */
export async function acquireModel(app: AppServices, exchange: Exchange, name: string | null | undefined): Promise<Services> {
  const pooled = app.pool.find(name);
  const { engine, release } = pooled.isReady ? await app.pool.acquire(pooled) : await waitForModel(app, exchange, pooled);
  exchange.atEnd(release);
  return { ...app, model: pooled.served, admission: pooled.admission, engine, releaseModel: release };
}

/** Waits for as long as the client does and the request may take. */
async function waitForModel({ pool, options }: AppServices, exchange: Exchange, pooled: PooledModel): Promise<EngineLease> {
  const { requestTimeoutMs } = options;
  const given = Promise.withResolvers<never>();
  given.promise.catch(() => {});
  const timer = requestTimeoutMs < Infinity ? setTimeout(() => given.reject(timeoutError(requestTimeoutMs)), requestTimeoutMs) : undefined;
  exchange.watchClient(() => given.reject(new ClientGoneError("The client went away")));
  try {
    return await pool.acquire(pooled, given.promise);
  } finally {
    clearTimeout(timer);
    exchange.unwatchClient();
  }
}
