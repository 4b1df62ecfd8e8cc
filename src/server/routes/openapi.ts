import { openApiDocument } from "../schemas/openapi.ts";
import type { Services } from "../services.ts";

/** GET /openapi.json */
export function openApi({ options }: Services): Response {
  return Response.json(openApiDocument(options.version));
}
