import type { ServerInfo } from "../schemas/responses.ts";
import type { AppServices } from "../services.ts";

/** GET /: what this is and where the API lies, for people who open the server's address. */
export function root({ options }: AppServices): Response {
  const body: ServerInfo = { name: "rowlock", version: options.version, api: "/v1", documentation: "/openapi.json" };
  return Response.json(body);
}
