// Asking the server, again and again, for as long as the page is seen.

import { text } from './text.js';

/** An answer with an error, or none at all: then status is 0. */
export class AnswerError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** How long an answer is waited for, in milliseconds; the server bounds its own work to 2 s. */
const patience = 8000;

/** The only place that sends a token. It stands in a header, never in a URL. */
async function request(path, { token = '', method = 'GET', body, confirm, signal } = {}) {
  const headers = { Accept: 'application/json' };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  const signals = [AbortSignal.timeout(patience), ...(signal ? [signal] : [])];
  try {
    return await fetch(confirm === undefined ? path : `${path}?confirm=${encodeURIComponent(confirm)}`, { method, headers, body, cache: 'no-store', redirect: 'error', signal: AbortSignal.any(signals) });
  } catch (err) {
    const why = err.name === 'TimeoutError' ? text.net.late(patience / 1000) : text.net.unreachable;
    throw new AnswerError(0, method === 'GET' ? why : text.net.perhaps(why));
  }
}

/** Sends a request and gives its JSON and the server's time; throws AnswerError. */
export async function ask(path, options) {
  const response = await request(path, options);
  let answer;
  try {
    answer = await response.json();
  } catch {
    throw new AnswerError(response.status, text.net.notJSON(response.status));
  }
  if (!response.ok) {
    const message = answer?.message ?? text.net.status(response.status);
    const said = text.codes[answer?.code]?.(message) ?? message;
    throw new AnswerError(response.status, answer?.code === -1 && options?.method ? text.net.perhaps(said) : said);
  }
  return { answer, now: Date.parse(response.headers.get('Date')) || Date.now() };
}

/** The longest pause between two attempts while the server is unreachable, in milliseconds. */
const longestPause = 8000;

/**
 * Asks for a path every period milliseconds while the page is seen; after a failure
 * twice as late each time. Its owner is told of each outcome.
 */
export class Poller {
  #period;
  #path;
  #token;
  #told;
  #timer = 0;
  #failures = 0;
  #flight = null;
  #held = false;

  /** path() and token() are asked before each request; told has answer(answer, now) and failure(error). */
  constructor(period, path, token, told) {
    this.#period = period;
    this.#path = path;
    this.#token = token;
    this.#told = told;
  }

  /** Asks now, whatever was planned. */
  wake() {
    this.#held = false;
    this.#poll();
  }

  /** Asks no more until wake(). */
  hold() {
    this.#held = true;
    clearTimeout(this.#timer);
    this.#flight?.abort();
  }

  async #poll() {
    clearTimeout(this.#timer);
    this.#flight?.abort();
    const flight = (this.#flight = new AbortController());
    let outcome = null;
    let error = null;
    try {
      outcome = await ask(this.#path(), { token: this.#token(), signal: flight.signal });
    } catch (err) {
      error = err;
    }
    if (flight !== this.#flight || this.#held) return; // overtaken by wake() or hold()
    this.#failures = error ? this.#failures + 1 : 0;
    const pause = error ? Math.min(longestPause, 1000 * 2 ** (this.#failures - 1)) : this.#period;
    this.#timer = setTimeout(() => this.#poll(), pause);
    if (error) this.#told.failure(error);
    else this.#told.answer(outcome.answer, outcome.now);
  }
}
