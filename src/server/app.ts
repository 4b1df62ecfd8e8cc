/** The application: every route, what stands in front of all of them, and what happens to what they throw. */
import { Hono } from "hono";
import { Admission } from "./admission.ts";
import { BodyBudget, bodyBudgetBytes } from "./body_budget.ts";
import { ApiError, errorResponse, shuttingDown, toApiError } from "./errors.ts";
import { Exchange } from "./exchange.ts";
import type { Generation } from "./generation.ts";
import { formatRecord } from "./logging.ts";
import { ServerMetrics } from "./metrics.ts";
import { ModelPool, type PoolLimits } from "./model_pool.ts";
import { OpenExchanges } from "./open_exchanges.ts";
import { type ServerOptions, withDefaults } from "./options.ts";
import { PooledModel, type PoolMember } from "./pooled_model.ts";
import { chatCompletions } from "./routes/chat_completions.ts";
import { completions } from "./routes/completions.ts";
import { health } from "./routes/health.ts";
import { metrics } from "./routes/metrics.ts";
import { getModel, listModels } from "./routes/models.ts";
import { openApi } from "./routes/openapi.ts";
import { root } from "./routes/root.ts";
import { applyTemplate, detokenize, tokenize } from "./routes/tokenize.ts";
import { Security } from "./security.ts";
import { serveModel } from "./served_model.ts";
import type { AppServices, Handler } from "./services.ts";

export interface AppOptions {
  /** At least one, with ids that differ. The first is meant when a request names none. */
  readonly models: readonly PoolMember[];
  readonly limits?: PoolLimits;
  /** What is left out takes its default. */
  readonly options?: Partial<ServerOptions>;
}

/** The application, to be called by `Deno.serve` or by a test. */
export interface App {
  readonly fetch: (request: Request) => Promise<Response>;
  /** Requests whose generation runs. */
  readonly numLive: number;
  /** Resolves when no request of any kind is being answered. */
  idle(): Promise<void>;
  /** New requests are refused; those that run go on. */
  drain(): void;
  /** Ends every running generation; streams get `error` as their last event. */
  abortAll(error: Error): void;
  /** Unloads the models. */
  close(): Promise<void>;
}

type Env = { Bindings: { readonly exchange: Exchange } };
type Method = "GET" | "POST";

const ROUTES: readonly (readonly [Method, string, Handler])[] = [
  ["GET", "/", root],
  ["POST", "/v1/chat/completions", chatCompletions],
  ["POST", "/v1/completions", completions],
  ["GET", "/v1/models", listModels],
  ["GET", "/v1/models/:id{.+}", getModel],
  ["POST", "/tokenize", tokenize],
  ["POST", "/detokenize", detokenize],
  ["POST", "/apply-template", applyTemplate],
  ["GET", "/openapi.json", openApi],
  ["GET", "/health", health],
  ["GET", "/metrics", metrics],
];

/** Routes that tell how the server is: they answer until it ends. */
const ROUTES_WHILE_DRAINING: readonly string[] = ["/health", "/metrics"];
/** The client's next request goes to a server that stays. */
const CLOSE: Readonly<Record<string, string>> = { connection: "close" };

/** A route as people write it: `/v1/models/{id}`. */
function routeName(path: string): string {
  return path.replace(/:(\w+)(?:\{.*\})?/g, "{$1}");
}

export function createApp({ models, limits, options }: AppOptions): App {
  const settings = withDefaults(options ?? {});
  const pool = new ModelPool(models.map((member) => pooled(member, settings)), limits);
  const bodies = new BodyBudget(bodyBudgetBytes(settings.maxBodyBytes), settings.bodyWaitMs);
  const services: AppServices = {
    pool,
    options: settings,
    bodies,
    metrics: new ServerMetrics(pool, () => pool.numLiveSequences, () => bodies.numBytes),
    live: new Set<Generation>(),
  };
  const security = new Security(settings);
  const hono = routes(services, security);
  const open = new OpenExchanges();
  return {
    fetch: (request) => handle(services, security, hono, open, request),
    get numLive(): number {
      return services.live.size;
    },
    idle: () => open.empty(),
    drain: () => pool.drain(),
    abortAll: (error): void => {
      pool.stopWaiting(error);
      services.live.forEach((generation) => generation.abort(error));
    },
    close: (): Promise<void> => {
      services.metrics.close();
      return pool.close();
    },
  };
}

function pooled(member: PoolMember, { maxContext, version, nowMs, maxBatch, maxQueue }: ServerOptions): PooledModel {
  return new PooledModel(member, serveModel(member.model, maxContext, version, nowMs()), new Admission(maxBatch, maxQueue));
}

function routes(services: AppServices, security: Security): Hono<Env> {
  const hono = new Hono<Env>();
  hono.use(async (context, next) => {
    const { path, raw } = context.req;
    security.checkHost(raw);
    if (path !== "/health") security.checkKey(raw);
    if (services.pool.isDraining && !ROUTES_WHILE_DRAINING.includes(path)) throw shuttingDown(CLOSE);
    await next();
  });
  for (const [method, path, handler] of ROUTES) {
    const name = routeName(path);
    hono.on(method, path, (context) => {
      const { exchange } = context.env;
      exchange.route = name;
      return handler(services, exchange);
    });
    hono.all(path, ({ env: { exchange } }) => {
      throw new ApiError(405, `${name} takes ${method}; found ${exchange.request.method}`, {
        code: "method_not_allowed",
        headers: { allow: method === "GET" ? "GET, HEAD, OPTIONS" : "POST, OPTIONS" },
      });
    });
  }
  hono.notFound((context) => {
    throw new ApiError(404, `There is no route ${JSON.stringify(context.req.path.slice(0, 200))}`, { code: "not_found" });
  });
  hono.onError((error, context) => {
    context.env.exchange.fail(error);
    return errorResponse(toApiError(error));
  });
  return hono;
}

/** Everything around a request: its id, CORS, its line in the log, its place in the counters. */
async function handle(
  services: AppServices,
  security: Security,
  hono: Hono<Env>,
  open: OpenExchanges,
  request: Request,
): Promise<Response> {
  const { options, metrics } = services;
  const exchange = new Exchange({
    request,
    requestId: requestIdOf(request) ?? `req_${options.newId()}`,
    startMs: options.nowMs(),
    onEnd: (ended) => {
      open.delete(ended);
      const record = ended.record(options.nowMs());
      metrics.countRequest(ended.route, ended.status, record.outcome);
      if (ended.isClientGone) metrics.countDisconnect();
      options.writeLog?.(formatRecord(record, options.logFormat, options.nowMs()), record);
    },
  });
  open.add(exchange);
  const response = await answer(hono, exchange);
  const { body, status } = response;
  const headers = new Headers(response.headers);
  headers.set("x-request-id", exchange.requestId);
  security.addCorsHeaders(request, headers);
  if (!exchange.isClientGone) exchange.status = status;
  if (!exchange.isStreaming) exchange.end();
  return new Response(body, { status, headers });
}

/** What the routes answer, before what all answers have. */
async function answer(hono: Hono<Env>, exchange: Exchange): Promise<Response> {
  const { request } = exchange;
  // A preflight never has a key. It gets no data, and allowed pages get the headers they ask for.
  if (request.method === "OPTIONS") return new Response(null, { status: 204 });
  if (request.method !== "HEAD") return await hono.fetch(request, { exchange });
  // An answer to HEAD has the headers of the one to GET, the length of the body that is left out among them.
  const whole = await hono.fetch(new Request(request, { method: "GET" }), { exchange });
  const headers = new Headers(whole.headers);
  headers.set("content-length", String((await whole.arrayBuffer()).byteLength));
  return new Response(null, { status: whole.status, headers });
}

/** The client's own id, when it is one that can stand in a log. */
function requestIdOf(request: Request): string | null {
  const id = request.headers.get("x-request-id");
  return id !== null && /^[\w.-]{1,64}$/.test(id) ? id : null;
}
