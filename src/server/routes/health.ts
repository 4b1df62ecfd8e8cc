import type { Health } from "../schemas/responses.ts";
import type { AppServices } from "../services.ts";

/** GET /health: 200 while requests can be served, else 503 with the reason; and how each model is. */
export function health({ pool }: AppServices): Response {
  const { ok, reason } = pool.isDraining ? { ok: false, reason: "The server is shutting down" } : pool.health;
  const status = pool.isDraining ? "draining" : ok ? "ok" : "unavailable";
  const models = pool.models.map(({ id, status, health }) => ({ id, status, reason: health.reason }));
  const body: Health = { status, reason, models };
  return Response.json(body, { status: ok ? 200 : 503 });
}
