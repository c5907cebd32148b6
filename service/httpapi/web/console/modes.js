// The modes whose IDs are made here: snowflake and UID.

import { $, describe, draw, setAttribute } from './dom.js';
import { text } from './text.js';
import { count, digits, duration, instant, percent } from './format.js';

/** Less time than this until the IDs end is worth a sign, in seconds. */
const year = 365 * 86400;

/** The panels of the two modes. */
export class Modes {
  show(status) {
    const panels = { snowflake: (s) => this.#snowflake(s), uid: (u) => this.#uid(u, status.modes?.uid?.ready) };
    for (const [mode, rows] of Object.entries(panels)) {
      const panel = $(mode).parentElement;
      setAttribute(panel, 'hidden', !status[mode]);
      draw(panel, () => describe($(mode), status[mode] ? rows(status[mode]) : []));
    }
  }

  #snowflake(s) {
    const states = { serving: null, offline: 'warning', waiting: 'warning' };
    const names = text.snowflake.rows;
    return [
      [names.state, text.snowflake.states[s.state] ?? s.state, states[s.state] ?? null],
      [names.worker, s.workerId < 0 ? text.snowflake.none : String(s.workerId)],
      [names.registry, s.mode],
      [names.address, s.address],
      [names.bound, instant(s.reservedUntil)],
      [names.trusted, duration(s.trustSeconds)],
      [names.clock, against(s.clockOffsetSeconds, text.snowflake.registrys)],
      lifetime(s),
      [names.issued, count(s.issued)],
      s.error ? [names.error, s.error, 'warning'] : null,
    ];
  }

  /** ready says whether the mode could serve: until its first caller it needs no worker ID. */
  #uid(u, ready) {
    const names = text.uid.rows;
    const unused = u.workerId < 0 && ready;
    return [
      [names.generator, u.mode],
      [names.worker, unused ? text.uid.unused : u.workerId < 0 ? text.snowflake.none : digits(String(u.workerId)), u.workerId < 0 && !unused ? 'warning' : null],
      u.ringSize > 0 ? [names.ring, text.uid.filled(percent(u.ringFilled / u.ringSize), count(u.ringFilled), count(u.ringSize)), u.ringFilled === 0 && !unused ? 'warning' : null] : null,
      [names.newest, instant(u.lastSecond)],
      [names.ahead, against(u.aheadSeconds, text.uid.clock)],
      [names.marked, instant(u.markedUntil)],
      lifetime(u),
      [names.issued, count(u.issued)],
    ];
  }
}

function against(seconds, what) {
  return text.against(duration(Math.abs(seconds)), seconds < 0, what);
}

function lifetime(mode) {
  const left = mode.remainingLifetimeSeconds;
  return [text.lifetime, duration(left), left < year ? 'warning' : null];
}
