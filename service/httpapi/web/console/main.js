// The console: asks its replica for as long as the page is seen, and hands the answers
// to the sections.

import { $, describe, draw, setAttribute, setText } from './dom.js';
import { text } from './text.js';
import { age, clock } from './format.js';
import { Poller, ask } from './net.js';
import { Admin } from './admin.js';
import { Fleet } from './fleet.js';
import { Health } from './health.js';
import { Modes } from './modes.js';
import { Queue } from './queue.js';
import { Chosen, Rates } from './charts.js';
import { chosenTag, names, sequences, tags } from './things.js';

/** How often the server is asked, in milliseconds. */
const statusPeriod = 2000;
const replicasPeriod = 3000;
const listPeriod = 5000; // of names and of spaces
const tagsPeriod = 10000; // and of the history

class Console {
  #token = ''; // shown to the monitoring routes; in memory only
  #on = {}; // the modes, of the latest status
  #seen = ''; // when the latest status came, by the server's clock

  #admin = new Admin(() => this.#token, (task, answer) => this.#administered(task, answer));
  #health = new Health();
  #fleet = new Fleet();
  #modes = new Modes();
  #tags = tags(this.#admin, () => this.#tagList.wake());
  #names = names(this.#admin, () => this.#nameList.wake());
  #rates = new Rates();
  #rateOfApp = new Chosen($('app-chart'));
  #rateOfTag = new Chosen($('tag-chart'));
  #sequences = sequences(this.#admin, () => this.#spaces.wake());
  #queue = new Queue(this.#admin);

  #status = this.#poller(statusPeriod, () => 'api/status', (status, now) => this.#show(status, now), (err) => this.#fail(err));
  #replicas = this.#poller(replicasPeriod, () => 'api/replicas', (view, now) => draw($('replicas'), () => this.#fleet.show(view, now)));
  #tagList = this.#lister(tagsPeriod, this.#tags);
  #nameList = this.#lister(listPeriod, this.#names);
  #spaces = this.#lister(listPeriod, this.#sequences);
  #history = this.#poller(tagsPeriod, () => this.#historyPath(), (history) => this.#showHistory(history));

  #poller(period, path, answer, failure = () => {}) {
    return new Poller(period, path, () => this.#token, { answer, failure });
  }

  #lister(period, list) {
    return this.#poller(period, () => list.path, (answer, now) => list.answer(answer, now), (err) => list.fail(err));
  }

  start() {
    document.addEventListener('visibilitychange', () => this.#watch());
    window.addEventListener('online', () => this.#watch());
    window.addEventListener('hashchange', () => this.#choose());
    $('lock').addEventListener('submit', (event) => this.#unlock(event));
    $('decode-form').addEventListener('submit', (event) => this.#decode(event));
    this.#watch();
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
    const resumed = document.body.dataset.link !== 'live';
    this.#seen = clock(new Date(now));
    setAttribute($('lock'), 'hidden', true);
    this.#head(status, now);
    this.#on = status.modes ?? {};
    draw($('health'), () => this.#health.show(status, now));
    draw($('queue'), () => this.#queue.show(status, now));
    this.#modes.show(status);
    setAttribute($('tags'), 'hidden', !this.#on.segment?.enabled);
    setAttribute($('sequences'), 'hidden', !this.#on.sequence?.enabled);
    setAttribute(document.body, 'data-admin', status.administration);
    this.#link('live', text.link.live);
    if (resumed) this.#wakeOthers();
  }

  #holdOthers() {
    for (const poller of [this.#replicas, this.#tagList, this.#nameList, this.#spaces, this.#history]) poller.hold();
  }

  #wakeOthers() {
    for (const poller of [this.#replicas, this.#history]) poller.wake();
    this.#wakeLists();
  }

  /** Shows another app or tag. */
  #choose() {
    $('language').hash = location.hash;
    this.#history.wake();
    if (chosenTag()) this.#tagList.wake();
  }

  #historyPath() {
    const [app, tag] = [this.#queue.selected, chosenTag()];
    return `api/history?${new URLSearchParams({ ...(Number.isNaN(app) ? {} : { app }), ...(tag && { tag }) })}`;
  }

  #showHistory(history) {
    draw($('rates'), () => this.#rates.show(history));
    draw($('app-detail'), () => this.#rateOfApp.show(history, `app.${this.#queue.selected}.issued`, this.#queue.called));
    draw($('tags'), () => this.#rateOfTag.show(history, `tag.${chosenTag()}.issued`, chosenTag()));
  }

  /** Asks for what is provisioned, of modes that are enabled. */
  #wakeLists() {
    this.#nameList.wake();
    if (this.#on.segment?.enabled) this.#tagList.wake();
    if (this.#on.sequence?.enabled) this.#spaces.wake();
  }

  #head(status, now) {
    setText($('version'), status.version ?? '');
    setText($('region'), status.region ? text.region(status.region.id, status.region.bits) : '');
    const up = age(status.startedAt, now);
    setText($('uptime'), up && text.link.up(up));
    setAttribute($('single'), 'hidden', Boolean(status.witness)); // a database server always has one, if only its want
  }

  #fail(err) {
    if (err.status === 401 || (err.status === 403 && this.#token)) {
      this.#ask(err);
      return;
    }
    this.#holdOthers();
    setText($('stale'), err.status === 0 ? text.link.away(this.#seen) : err.message);
    this.#link('away', err.message);
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

  /** Shows the parts of an ID, by the names that the API has for them. */
  async #decode(event) {
    event.preventDefault();
    const given = Array.from(new FormData(event.target), ([name, value]) => [name, value.trim()]);
    let [answer, error] = [{}, ''];
    try {
      ({ answer } = await ask(`decode?${new URLSearchParams(given)}`));
    } catch (err) {
      error = err.message;
    }
    const asked = ['code', 'id', 'idStr', 'kind'];
    describe($('decoded'), Object.entries(answer).filter(([name]) => !asked.includes(name)));
    setText($('decode-error'), error);
  }

  #link(state, words) {
    setAttribute($('link'), 'data-state', state);
    setText($('link-text'), words);
    setAttribute($('stale'), 'hidden', state !== 'away');
    setAttribute(document.body, 'data-link', state);
  }

  #administered({ does, path }, answer) {
    if (path === 'admin/apps') location.hash = `app=${answer.id}`;
    if (does === 'remove' && path === `admin/tags/${encodeURIComponent(chosenTag())}`) location.hash = 'tag=';
    this.#status.wake();
    this.#wakeLists();
  }
}

const [tag, lang] = text.locale === 'zh-CN' ? ['en', 'en'] : ['zh-CN', 'zh'];
setAttribute($('language'), 'lang', tag);
setAttribute($('language'), 'href', `?lang=${lang}${location.hash}`);
new Console().start();
