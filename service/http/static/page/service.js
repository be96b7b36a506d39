// The service: asks it, says in words what went wrong, and notices when it goes away and returns.

const KEY = "budgetrec.key";
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5000;

/** An answer other than 200: `code` for programs, `message` and `hint` for people. */
export class Refusal extends Error {
  constructor(status, { code, message, hint }, retryAfter = null) {
    super(message);
    Object.assign(this, { status, code, hint, retryAfter });
  }
}

/** No answer at all. */
export class Gone extends Error {}

const listeners = { gone: [], back: [], key: [] };
let pause = null;

/** Calls back when the service goes away ("gone"), is there again ("back"), or wants a key ("key"). */
export const on = (event, listener) => listeners[event].push(listener);
const tell = (event, detail) => listeners[event].forEach((listener) => listener(detail));

let remembered = null;

/** The key of this tab, or null. */
export function key() {
  try {
    return sessionStorage.getItem(KEY) ?? remembered;
  } catch {
    return remembered; // storage is switched off
  }
}

/** Keep a key as long as the tab is open. */
export function useKey(text) {
  remembered = text;
  try {
    sessionStorage.setItem(KEY, text);
  } catch {
    // Then it is kept as long as the page is.
  }
}

/** A query string; lists are separated by commas, a comma in an entry is escaped. What is empty is left out. */
export function query(values) {
  const parts = Object.entries(values)
    .filter(([, value]) => value !== null && value !== undefined && value !== "" && value.length !== 0)
    .map(([name, value]) => `${name}=${[value].flat().map(encodeURIComponent).join(",")}`);
  return parts.length > 0 ? `?${parts.join("&")}` : "";
}

async function send(path, values, signal) {
  const headers = key() === null ? {} : { "X-API-Key": key() };
  let response;
  try {
    response = await fetch(path + query(values), { headers, signal, cache: "no-store" });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Gone("The service does not answer.");
  }
  if (response.ok) return response;
  const wait = Number(response.headers.get("retry-after")) || null;
  let error = { code: "http", message: `The answer is HTTP ${response.status}.`, hint: "" };
  try {
    error = (await response.json()).error ?? error;
  } catch {
    // Something between here and the service answered.
  }
  throw new Refusal(response.status, error, wait);
}

/** The JSON of a call, or its text. Throws a Refusal or Gone. */
export async function ask(path, values = {}, { signal, text = false } = {}) {
  try {
    const response = await send(path, values, signal);
    return await (text ? response.text() : response.json());
  } catch (error) {
    if (error instanceof Gone || error.code === "not_ready" || [502, 504].includes(error.status)) lost(error);
    if (["missing_key", "unknown_key"].includes(error.code)) tell("key", error);
    throw error;
  }
}

/** The JSON of a call that may be missing, or that this key may not make: null then. */
export async function askIfThere(path, values = {}, options = {}) {
  try {
    return await ask(path, values, options);
  } catch (error) {
    if (error instanceof Refusal && [403, 404, 409].includes(error.status)) return null;
    throw error;
  }
}

/** Note that the service is gone or not ready, and ask until it is there. */
function lost(error) {
  if (pause === null) again(FIRST_PAUSE_MS);
  tell("gone", error);
}

function again(milliseconds) {
  pause = setTimeout(async () => {
    try {
      await send("health/ready", {});
    } catch (error) {
      if (error instanceof Gone || error.status >= 500) {
        tell("gone", error);
        again(Math.min(2 * milliseconds, LONGEST_PAUSE_MS));
        return;
      }
    }
    pause = null;
    tell("back");
  }, milliseconds);
}
