/**
 * Client of the budgetrec service, for browsers and Node. The types are made from the service's OpenAPI document
 * (schema.ts, by `make client`); a parameter that the service gains is one of the client as soon as that has run.
 */
import { ApiError, DeadlineExceeded, Unreachable } from "./errors.js";
import type { components, paths } from "./schema.js";

export { ApiError, BudgetrecError, DeadlineExceeded, Unreachable } from "./errors.js";
export type { components, paths } from "./schema.js";

type Schemas = components["schemas"];
export type Recommendation = Schemas["Recommendation"];
export type SimilarItems = Schemas["SimilarItems"];
export type Item = Schemas["Item"];
export type Budgets = Schemas["Budgets"];
export type ModelDescription = Schemas["ModelDescription"];
export type ServedModels = Schemas["ServedModels"];
export type Scenarios = Schemas["Scenarios"];
export type BatchAnswer = Schemas["BatchAnswer"];
export type FoundItems = Schemas["FoundItems"];
export type SomeUsers = Schemas["SomeUsers"];
export type AttributeList = Schemas["AttributeList"];
export type Versions = Schemas["Versions"];

/** Who and how much: a user or a vector, and any of the parameters of POST /recommend. */
export type Question = Partial<Schemas["RecommendRequest"]>;
/** The parameters of GET /similar. */
export type SimilarQuestion = NonNullable<paths["/similar"]["get"]["parameters"]["query"]>;
/** The parameters of GET /items, GET /users and GET /attributes. */
export type ItemsQuestion = NonNullable<paths["/items"]["get"]["parameters"]["query"]>;
export type UsersQuestion = NonNullable<paths["/users"]["get"]["parameters"]["query"]>;
export type AttributesQuestion = NonNullable<paths["/attributes"]["get"]["parameters"]["query"]>;

export interface ClientOptions {
  /** Sent as X-API-Key; in a web page, a browse key. */
  key?: string;
  /** Milliseconds that a call without a deadline may take, attempts and pauses included; 10,000 if left out. */
  timeoutMs?: number;
  /** The deadline of calls that name none. */
  deadlineMs?: number;
  /** How often a read is tried again; 2 if left out. */
  retries?: number;
  /** Under overload, batch shrinks first. */
  priority?: "interactive" | "batch";
  /** In place of the global fetch. */
  fetch?: typeof fetch;
}

/** Options of one call; aborting the signal ends it with the signal's reason. */
export interface CallOptions {
  signal?: AbortSignal;
}

/** Of what is left of a deadline, the service gets this share; the rest is for the way there and back. */
const SERVICE_SHARE = 0.8;
/** The pause before the second attempt, where the service names none; it doubles. */
const FIRST_PAUSE_MS = 20;
/** Lists whose entries may have commas. */
const REPEATED = new Set(["boost"]);
const TRY_AGAIN = new Set([429, 502, 503, 504]);

interface Request {
  method: "GET" | "POST";
  path: string;
  body?: unknown;
  deadlineMs?: number | undefined;
}

/** The calls of one service. */
export class Client {
  readonly #url: string;
  readonly #options: ClientOptions;

  constructor(url: string, options: ClientOptions = {}) {
    this.#url = url.replace(/\/+$/, "");
    this.#options = options;
  }

  /** The best items for a user or a vector that a budget, a recall or a deadline buys. */
  recommend(question: Question, options: CallOptions = {}): Promise<Recommendation> {
    const { deadline_ms: deadlineMs, ...rest } = question as Record<string, unknown>;
    const values = given(rest);
    const deadline = deadlineMs as number | undefined;
    // Lists and vectors go as a body; everything else fits into a query string.
    const posted = Object.values(values).some((value) => typeof value === "object");
    return this.#ask(
      posted
        ? { method: "POST", path: "/recommend", body: values, deadlineMs: deadline }
        : { method: "GET", path: `/recommend${query(values)}`, deadlineMs: deadline },
      options,
    );
  }

  /** Many questions in one call, answered in their order. */
  recommendBatch(
    requests: Question[],
    options: CallOptions & { deadlineMs?: number } = {},
  ): Promise<BatchAnswer> {
    const path = "/recommend/batch";
    return this.#ask({ method: "POST", path, body: { requests }, deadlineMs: options.deadlineMs }, options);
  }

  /** Items like an item. */
  similar(question: SimilarQuestion, options: CallOptions = {}): Promise<SimilarItems> {
    const { deadline_ms: deadlineMs, ...rest } = question;
    return this.#ask({ method: "GET", path: `/similar${query(given(rest))}`, deadlineMs }, options);
  }

  /** What each budget buys and costs; `model` names one of several. */
  budgets({ model, ...options }: CallOptions & { model?: string } = {}): Promise<Budgets> {
    return this.#ask({ method: "GET", path: `/budgets${query(given({ model }))}` }, options);
  }

  /** What is being served; `model` names one of several. */
  model({ model, ...options }: CallOptions & { model?: string } = {}): Promise<ModelDescription> {
    return this.#ask({ method: "GET", path: `/model${query(given({ model }))}` }, options);
  }

  /** All models that are being served, and how an experiment deals users out to them. */
  models(options: CallOptions = {}): Promise<ServedModels> {
    return this.#ask({ method: "GET", path: "/models" }, options);
  }

  /** The recipes that a question can name as its scenario. */
  scenarios(options: CallOptions = {}): Promise<Scenarios> {
    return this.#ask({ method: "GET", path: "/scenarios" }, options);
  }

  /** Items by words of their titles, or the popular ones. */
  items(question: ItemsQuestion = {}, options: CallOptions = {}): Promise<FoundItems> {
    return this.#ask({ method: "GET", path: `/items${query(given(question))}` }, options);
  }

  /** The ids of a few users, to try the service with. */
  users(question: UsersQuestion = {}, options: CallOptions = {}): Promise<SomeUsers> {
    return this.#ask({ method: "GET", path: `/users${query(given(question))}` }, options);
  }

  /** What items can be filtered by, with some values. */
  attributes(question: AttributesQuestion = {}, options: CallOptions = {}): Promise<AttributeList> {
    return this.#ask({ method: "GET", path: `/attributes${query(given(question))}` }, options);
  }

  /** The versions of a model, the newest first; `model` names one of several. */
  versions({ model, ...options }: CallOptions & { model?: string } = {}): Promise<Versions> {
    return this.#ask({ method: "GET", path: `/versions${query(given({ model }))}` }, options);
  }

  /** Every call of this client is a read: it is tried again within its time. */
  async #ask<T>(request: Request, { signal }: CallOptions): Promise<T> {
    const { key, priority, retries = 2, timeoutMs = 10_000 } = this.#options;
    const deadlineMs = request.deadlineMs ?? this.#options.deadlineMs;
    const end = performance.now() + (deadlineMs ?? timeoutMs);
    const ask = this.#options.fetch ?? fetch;
    let pause = FIRST_PAUSE_MS;
    for (let attempt = 0; ; attempt++) {
      signal?.throwIfAborted();
      const left = end - performance.now();
      if (left <= 0) throw new DeadlineExceeded("The time of the call was used up; allow more, or ask for less.");
      const headers: Record<string, string> = {};
      if (key !== undefined) headers["X-API-Key"] = key;
      if (priority !== undefined) headers["X-Priority"] = priority;
      if (request.body !== undefined) headers["Content-Type"] = "application/json";
      if (deadlineMs !== undefined) headers["X-Request-Deadline-Ms"] = Math.max(0.001, left * SERVICE_SHARE).toFixed(3);
      const clock = new AbortController();
      const late = setTimeout(() => clock.abort(), left);
      const stop = () => clock.abort();
      signal?.addEventListener("abort", stop);
      let failure: Error;
      let wait = pause;
      try {
        const body = request.body === undefined ? {} : { body: JSON.stringify(request.body) };
        const response = await ask(this.#url + request.path, {
          method: request.method,
          headers,
          signal: clock.signal,
          ...body,
        });
        if (response.ok) return (await response.json()) as T;
        failure = await errorOf(response);
        if (!TRY_AGAIN.has(response.status)) throw failure;
        const named = response.headers.get("retry-after");
        if (named !== null && /^\d+$/.test(named)) wait = Number(named) * 1000;
      } catch (error) {
        if (error instanceof ApiError) throw error;
        signal?.throwIfAborted();
        if (clock.signal.aborted) {
          throw new DeadlineExceeded("No answer came in time; allow more, or ask for less.", { cause: error });
        }
        failure = new Unreachable(String(error), { cause: error });
      } finally {
        clearTimeout(late);
        signal?.removeEventListener("abort", stop);
      }
      if (attempt >= retries || performance.now() + wait >= end) throw failure;
      await sleep(wait, signal);
      pause *= 2;
    }
  }
}

/** A query string; lists are separated by commas, a comma in an entry is escaped. Filters are repeated. */
export function query(values: Record<string, unknown>): string {
  const parts = Object.entries(values).flatMap(([name, value]) => {
    const entries = (Array.isArray(value) ? value : [value]).map((entry) => encodeURIComponent(String(entry)));
    return (REPEATED.has(name) ? entries : [entries.join(",")]).map((text) => `${name}=${text}`);
  });
  return parts.length > 0 ? `?${parts.join("&")}` : "";
}

function given(values: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined && value !== null));
}

async function errorOf(response: Response): Promise<ApiError> {
  const requestId = response.headers.get("x-request-id");
  try {
    const { error } = (await response.json()) as Schemas["ErrorAnswer"];
    return new ApiError(response.status, error.code, error.message, error.hint, requestId);
  } catch {
    // Something between here and the service answered.
    return new ApiError(response.status, "http", `HTTP ${response.status}`, "", requestId);
  }
}

function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", stop, { once: true });
  });
}
