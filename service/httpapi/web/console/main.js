// The console of one replica: asks api/status and api/history for as long as the page
// is seen, and hands the answers to the sections.

import { $, setAttribute, setText } from './dom.js';
import { age, duration } from './format.js';
import { Poller } from './net.js';
import { Alarms, Health } from './health.js';
import { Decoder } from './decode.js';
import { Modes } from './modes.js';
import { Provision } from './provision.js';
import { Queue } from './queue.js';
import { Rates } from './charts.js';

/** How often the server is asked, in milliseconds. */
const statusPeriod = 2000;
const historyPeriod = 5000;

class Console {
  #token = ''; // shown to the monitoring routes; in memory only
  #version = null; // of the server that this page came from
  #apps = [];
  #seen = 0; // when the latest status came, in milliseconds of this page
  #away = null; // since when the server is away, likewise; null while it is there
  #next = 0; // when it is asked again

  #alarms = new Alarms();
  #health = new Health();
  #modes = new Modes();
  #rates = new Rates();
  #queue = new Queue(() => this.#appHistory.wake());

  #status = this.#poller(statusPeriod, () => 'api/status', (status, now) => this.#show(status, now), (err, pause) => this.#fail(err, pause));
  #history = this.#poller(historyPeriod, () => 'api/history', (history) => this.#rates.show(history), () => {});
  #appHistory = this.#poller(historyPeriod, () => `api/history?app=${this.#queue.selected}`, (history) => this.#queue.showHistory(history), () => {});

  #poller(period, path, answer, failure) {
    return new Poller(period, path, () => this.#token, { answer, failure });
  }

  start() {
    new Decoder(() => this.#token, (id) => this.#apps.find((app) => app.appId === id)?.name ?? '');
    new Provision(() => this.#token, (path, fields) => this.#created(path, fields));
    document.addEventListener('visibilitychange', () => this.#watch());
    window.addEventListener('online', () => this.#watch());
    $('retry').addEventListener('click', () => this.#watch());
    $('lock').addEventListener('submit', (event) => this.#unlock(event));
    setInterval(() => this.#tick(), 1000);
    this.#watch();
  }

  recolour() {
    this.#queue.recolour();
    this.#rates.recolour();
  }

  /** Asks while the page is seen, and only then. */
  #watch() {
    const pollers = [this.#status, this.#history, this.#appHistory];
    if (!document.hidden) {
      this.#status.wake();
      return;
    }
    for (const poller of pollers) poller.hold();
    this.#link('paused', 'paused');
  }

  #show(status, now) {
    const resumed = document.body.dataset.link !== 'live';
    this.#seen = Date.now();
    this.#away = null;
    this.#link('live', 'live');
    setAttribute($('lock'), 'hidden', true);
    this.#head(status, now);
    this.#apps = status.queue?.apps ?? [];
    this.#alarms.show(status.alarms ?? [], now);
    this.#health.show(status, now);
    this.#queue.show(status.queue);
    this.#modes.show(status, now);
    if (resumed) this.#histories();
  }

  #histories() {
    this.#history.wake();
    if (!Number.isNaN(this.#queue.selected)) this.#appHistory.wake();
  }

  #head(status, now) {
    setText($('version'), status.version ?? '');
    const up = age(status.startedAt, now);
    setText($('uptime'), up && `up ${up}`);
    this.#version ??= status.version;
    setAttribute($('renewed'), 'hidden', status.version === this.#version);
  }

  #fail(err, pause) {
    if (err.status === 401 || (err.status === 403 && this.#token)) {
      this.#ask(err);
      return;
    }
    this.#away ??= Date.now();
    this.#next = Date.now() + pause;
    this.#history.hold();
    this.#appHistory.hold();
    this.#link('away', err.message);
    this.#tick();
  }

  /** Asks for a token: the server shows its status to nobody else. */
  #ask(err) {
    for (const poller of [this.#status, this.#history, this.#appHistory]) poller.hold();
    setText($('lock-error'), this.#token ? err.message : '');
    setAttribute($('lock'), 'hidden', false);
    this.#link('locked', 'waiting for a token');
    $('lock-token').focus();
  }

  #unlock(event) {
    event.preventDefault();
    this.#token = $('lock-token').value.trim();
    $('lock-token').value = '';
    this.#watch();
  }

  #link(state, text) {
    setAttribute($('link'), 'data-state', state);
    setText($('link-text'), text);
    setAttribute($('retry'), 'hidden', state !== 'away');
    setAttribute($('stale'), 'hidden', state !== 'away');
    setAttribute(document.body, 'data-link', state);
  }

  /** Counts the seconds while the server is away. */
  #tick() {
    if (this.#away === null || document.hidden) return;
    const since = this.#seen === 0 ? 'Nothing has come from the server yet.' : `What is shown is ${duration(Math.round((Date.now() - this.#seen) / 1000))} old.`;
    const wait = Math.max(0, Math.round((this.#next - Date.now()) / 1000));
    setText($('stale'), `The server does not answer. ${since} ${wait > 0 ? `Next attempt in ${wait} s.` : 'Trying now.'}`);
  }

  #created(path, fields) {
    if (path === 'admin/apps') this.#queue.select(Number(fields.get('id')));
    this.#status.wake();
  }
}

/** The button that goes through the themes: the system's, light, dark. */
function themeButton(changed) {
  const themes = ['system', 'light', 'dark'];
  const root = document.documentElement;
  const write = () => setText($('theme-text'), `Theme: ${root.dataset.theme ?? 'system'}`);
  $('theme').addEventListener('click', () => {
    const theme = themes[(themes.indexOf(root.dataset.theme ?? 'system') + 1) % themes.length];
    if (theme === 'system') delete root.dataset.theme;
    else root.dataset.theme = theme;
    try {
      localStorage.setItem('shardid.theme', theme);
    } catch {
      // Storage is forbidden: the choice holds for this page.
    }
    write();
    changed();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', changed);
  write();
}

const page = new Console();
themeButton(() => page.recolour());
page.start();
