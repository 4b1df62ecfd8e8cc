import type { Health } from "../schemas/responses.ts";
import type { Services } from "../services.ts";

/** GET /health: 200 while requests can be served, else 503 with the reason. */
export function health({ engine, admission }: Services): Response {
  const { ok, reason } = admission.isDraining ? { ok: false, reason: "The server is shutting down" } : engine.health;
  const body: Health = { status: ok ? "ok" : "unavailable", reason };
  return Response.json(body, { status: ok ? 200 : 503 });
}
