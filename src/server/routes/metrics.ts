import type { AppServices } from "../services.ts";

/** GET /metrics: Prometheus text. */
export function metrics({ metrics }: AppServices): Response {
  return new Response(metrics.render(), { headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8" } });
}
