// The console: asks its replica for as long as the page is seen, and hands the answers
// to the sections.

import { $, anyFailed, draw, setAttribute, setText } from './dom.js';
import { text } from './text.js';
import { age, duration } from './format.js';
import { Poller } from './net.js';
import { Admin } from './admin.js';
import { Decoder } from './decode.js';
import { Fleet } from './fleet.js';
import { Health } from './health.js';
import { Modes } from './modes.js';
import { Queue } from './queue.js';
import { Rates } from './charts.js';
import { Names, Sequences, Tags } from './things.js';

/** How often the server is asked, in milliseconds. */
const statusPeriod = 2000;
const replicasPeriod = 3000;
const historyPeriod = 5000;
const tagsPeriod = 30000;
const namesPeriod = 5000;
const spacesPeriod = 5000;

class Console {
  #token = ''; // shown to the monitoring routes; in memory only
  #version = null; // of the server that this page came from
  #apps = [];
  #on = {}; // the modes, of the latest status
  #seen = 0; // when the latest status came, in milliseconds of this page
  #away = null; // since when the server is away, likewise; null while it is there
  #next = 0; // when it is asked again

  #admin = new Admin(() => this.#token, (path, answer) => this.#administered(path, answer));
  #health = new Health();
  #fleet = new Fleet();
  #modes = new Modes();
  #tags = new Tags(this.#admin, () => this.#tagList.wake());
  #names = new Names(this.#admin, { names: () => this.#nameList.wake(), holders: () => this.#askHolders() });
  #rates = new Rates();
  #sequences = new Sequences(this.#admin, () => this.#spaces.wake());
  #queue = new Queue(() => this.#appHistory.wake(), this.#admin);

  #status = this.#poller(statusPeriod, () => `api/status${this.#tags.query}`, (status, now) => this.#show(status, now), (err, pause) => this.#fail(err, pause));
  #replicas = this.#poller(replicasPeriod, () => 'api/replicas', (view, now) => draw($('replicas'), () => this.#fleet.show(view, now)), () => {});
  #tagList = this.#poller(tagsPeriod, () => `db${this.#tags.query}`, ({ tags, total }) => this.#tags.showAll(tags, total), () => {});
  #nameList = this.#poller(namesPeriod, () => this.#names.path, (page) => this.#names.show(page), (err) => this.#names.fail(err));
  #holders = this.#poller(namesPeriod, () => this.#names.holdersPath, (answer, now) => this.#names.showHolders(answer, now), (err) => this.#names.failHolders(err));
  #spaces = this.#poller(spacesPeriod, () => this.#sequences.path, (page) => this.#sequences.show(page), (err) => this.#sequences.fail(err));
  #history = this.#poller(historyPeriod, () => 'api/history', (history) => draw($('rates'), () => this.#rates.show(history)), () => {});
  #appHistory = this.#poller(historyPeriod, () => `api/history?app=${this.#queue.selected}`, (history) => draw($('app-detail'), () => this.#queue.showHistory(history)), () => {});

  #poller(period, path, answer, failure) {
    return new Poller(period, path, () => this.#token, { answer, failure });
  }

  start() {
    new Decoder(() => this.#token, (id) => this.#apps.find((app) => app.appId === id)?.name ?? '');
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
    if (!document.hidden) {
      this.#status.wake();
      return;
    }
    this.#status.hold();
    this.#holdOthers();
    this.#link('paused', text.link.paused);
  }

  #show(status, now) {
    const resumed = !['live', 'broken'].includes(document.body.dataset.link);
    this.#seen = Date.now();
    this.#away = null;
    setAttribute($('lock'), 'hidden', true);
    this.#head(status, now);
    this.#apps = status.queue?.apps ?? [];
    this.#on = status.modes ?? {};
    draw($('health'), () => this.#health.show(status, now));
    draw($('queue'), () => this.#queue.show(status.queue));
    this.#modes.show(status);
    this.#tags.show(status.segment, now);
    setAttribute($('sequences'), 'hidden', !this.#on.sequence?.enabled);
    setAttribute(document.body, 'data-admin', status.administration);
    if (anyFailed()) this.#link('broken', text.link.broken);
    else this.#link('live', text.link.live);
    if (resumed) this.#wakeOthers();
  }

  #holdOthers() {
    for (const poller of [this.#replicas, this.#tagList, this.#nameList, this.#holders, this.#spaces, this.#history, this.#appHistory]) poller.hold();
  }

  #wakeOthers() {
    for (const poller of [this.#replicas, this.#nameList, this.#history]) poller.wake();
    this.#wakeModes();
    this.#askHolders();
    if (!Number.isNaN(this.#queue.selected)) this.#appHistory.wake();
  }

  /** Asks for what modes have that are enabled. */
  #wakeModes() {
    if (this.#on.segment?.enabled) this.#tagList.wake();
    if (this.#on.sequence?.enabled) this.#spaces.wake();
  }

  #askHolders() {
    if (this.#names.holdersPath) this.#holders.wake();
    else this.#holders.hold();
  }

  #head(status, now) {
    setText($('version'), status.version ?? '');
    setText($('region'), status.region ? text.region(status.region.id, status.region.bits) : '');
    const up = age(status.startedAt, now);
    setText($('uptime'), up && text.link.up(up));
    this.#version ??= status.version;
    setAttribute($('renewed'), 'hidden', status.version === this.#version);
    setAttribute($('single'), 'hidden', Boolean(status.witness)); // a database server always has one, if only its want
  }

  #fail(err, pause) {
    if (err.status === 401 || (err.status === 403 && this.#token)) {
      this.#ask(err);
      return;
    }
    this.#away ??= Date.now();
    this.#next = Date.now() + pause;
    this.#holdOthers();
    this.#link('away', err.message);
    this.#tick();
  }

  /** Asks for a token: the server shows its status to no one without. */
  #ask(err) {
    this.#status.hold();
    this.#holdOthers();
    setText($('lock-error'), this.#token ? err.message : '');
    setAttribute($('lock'), 'hidden', false);
    this.#link('locked', text.link.locked);
    $('lock-token').focus();
  }

  #unlock(event) {
    event.preventDefault();
    this.#token = $('lock-token').value.trim();
    $('lock-token').value = '';
    this.#watch();
  }

  #link(state, words) {
    setAttribute($('link'), 'data-state', state);
    setText($('link-text'), words);
    setAttribute($('retry'), 'hidden', state !== 'away');
    setAttribute($('stale'), 'hidden', state !== 'away');
    setAttribute(document.body, 'data-link', state);
  }

  /** Counts the seconds while the server is away. */
  #tick() {
    if (this.#away === null || document.hidden) return;
    const since = this.#seen === 0 ? text.link.nothingYet : text.link.old(duration(Math.round((Date.now() - this.#seen) / 1000)));
    const wait = Math.max(0, Math.round((this.#next - Date.now()) / 1000));
    setText($('stale'), text.link.away(since, wait));
  }

  #administered(path, answer) {
    if (path === 'admin/apps') this.#queue.select(answer.id);
    this.#status.wake();
    this.#nameList.wake();
    this.#wakeModes();
  }
}

/** The button of the other language: the page is loaded again in it. */
function languageButton() {
  const other = text.locale === 'zh-CN' ? 'en' : 'zh-CN';
  setAttribute($('language'), 'lang', other);
  $('language').addEventListener('click', () => {
    try {
      localStorage.setItem('shardid.language', other);
      location.reload();
    } catch {
      location.search = `lang=${other}`; // Storage is forbidden: the choice is in the address.
    }
  });
}

const page = new Console();
languageButton();
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => page.recolour());
page.start();
