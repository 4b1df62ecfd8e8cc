import { openApiDocument } from "../schemas/openapi.ts";
import type { AppServices } from "../services.ts";

/** GET /openapi.json */
export function openApi({ options }: AppServices): Response {
  return Response.json(openApiDocument(options.version));
}
