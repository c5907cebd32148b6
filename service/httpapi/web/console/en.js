// Every text of the console, in English. zh.js has the same keys, and functions with the same
// parameters.

/** n is a number, or one as it is written. */
const plural = (n, one, many) => (String(n) === '1' ? one : many);

export const text = {
  locale: 'en-US',
  unknown: '–',
  modes: { queue: 'queue', segment: 'segment', snowflake: 'snowflake', uid: 'UID', sequence: 'sequence' },
  mode: (name) => `${text.modes[name]} mode`,
  region: (id, bits) => `region ${id} of ${2 ** bits}`,
  since: (lasted) => `for ${lasted}`,
  ago: (age) => `${age} ago`,
  moreThan: (what) => `> ${what}`,
  of: (n, all) => `${n} of ${all}`,
  failed: (message) => `This part of the page cannot be drawn: ${message}. Load the page again; please report it.`,
  away: 'This cannot be read now, and what is shown may be old:',
  together: (parts) => parts.join(', '),
  all: (parts) => [parts.slice(0, -1).join(', '), parts.at(-1)].filter(Boolean).join(' and '),
  rate: (n) => `${n} /s`,
  percent: (n) => `${n} %`,
  milliseconds: (n) => `${n} ms`,
  units: { year: 'y', day: 'd', hour: 'h', minute: 'min', second: 's' },

  page: {
    skip: 'Skip to the content', sections: 'Sections', others: 'Other pages', docs: 'documentation',
    health: 'Health', replicas: 'Replicas', queue: 'Queue', rates: 'Rates', modes: 'Modes', decode: 'Decode',
    single: 'These embedded stores are for one replica: a second one with stores of its own issues the same IDs. For more, use MySQL and Redis.',
    lock: 'This server shows its status to those with a token.', show: 'Show',
    memory: "It is kept in this page's memory only, until you leave or reload it.",
    newApp: 'New app', apps: 'Apps',
    heatmap: 'Indices in each of the 64 lists',
    scale: "Scale: indices in per cent of the app's step, up to", firstFifth: '≤ 20 %', more: 'more',
    lately: 'this replica, the last 15 minutes; times in UTC',
    tags: 'Segment tags', newTag: 'New tag', searchTags: 'Search tags',
    names: 'Names of worker IDs', newName: 'New name', searchNames: 'Search names',
    sequences: 'Sequences', newSpace: 'New space', searchSpaces: 'Search spaces',
  },

  manual: { console: 'Console', runbook: 'Runbook', running: 'Running shardid', neverTwice: 'Never twice' },

  // What the server names, by its names, and what it refuses, by the code of the error table. Its own words are
  // English: they need no others here.
  alarms: {}, // [title, meaning, sentence of the facts]
  conditions: {},
  codes: {},

  net: {
    late: (seconds) => `no answer within ${seconds} s`,
    unreachable: 'the server cannot be reached',
    notJSON: (status) => `HTTP ${status}, and the answer is not JSON`,
    status: (status) => `HTTP ${status}`,
  },

  link: {
    connecting: 'connecting', live: 'live', paused: 'paused', locked: 'waiting for a token',
    away: (seen) => `The server does not answer. ${seen ? `What is shown is of ${seen} UTC.` : 'Nothing has come from it yet.'}`,
    up: (age) => `up ${age}`,
    language: '中文', // the other one, as it calls itself
  },

  health: {
    wrong: 'What is wrong', affected: 'What does not work now', working: 'What works',
    replica: 'replica',
    ready: 'ready', degraded: 'ready, degraded', notReady: 'not ready',
    serving: 'serving', able: 'able to serve',
    works: 'works', fails: 'fails', waits: 'waits',
    severity: { critical: 'critical', warning: 'warning', info: 'info' },
    heading: (severity, name) => `${text.health.severity[severity]}: ${name}`,
    impact: {
      store: (name, address) => ({ database: 'the database', redis: 'Redis', zookeeper: 'ZooKeeper' }[name] + (address && ` at ${address}`)),
      away: (stores, silent) => `${text.all(stores)} ${silent ? `${plural(stores.length, 'is', 'are')} unreachable` : 'cannot be used'}`,
      hit: (modes, code) => `${text.all(modes)} callers get ${code}`,
      on: (modes, held) => `${text.all(modes)} ${plural(modes.length, 'keeps', 'keep')} issuing${held ? ' until the IDs held by the replicas run out' : ''}`,
      none: 'all callers are served until the IDs held by the replicas run out',
      whole: (cause, parts) => [cause, parts.join('; ')].filter(Boolean).map((words) => `${words[0].toUpperCase()}${words.slice(1)}.`).join(' '),
    },
    witness: 'witness', held: 'Redis vouches for the database', witnesses: { named: 'named, not held by this replica', none: 'none: nobody vouches for the database', unknown: 'not known yet' },
    follows: (names) => `What follows from it: ${text.together(names)}.`,
    runbook: 'What to do', page: 'docs/operations.md', failures: 'when-something-fails',
    well: (names) => (names.length === 0 ? 'Nothing else is known' : `Working: ${text.together(names)}`),
  },

  fleet: {
    sum: (replicas, ready, rate) => `${replicas} ${plural(replicas, 'replica', 'replicas')}, ${ready} ready, ${rate} in all`,
    alone: 'Without a Redis that replicas share, only this one can be shown.',
    away: (message) => `Only this replica is shown, as the others' records cannot be read: ${message}`,
    self: 'this page',
    ready: 'ready', notReady: 'not ready',
    heard: (age) => `last heard of ${age} ago`,
    off: 'off',
    none: 'none',
    alarm: (severity, n) => `${n} ${text.health.severity[severity]}`,
    columns: { replica: 'Replica', state: 'State', worker: 'Worker ID', alarms: 'Alarms', version: 'Version', up: 'Up' },
  },

  queue: {
    columns: { id: 'ID', name: 'Name', lists: 'Lists', rate: 'Rate' },
    sum: (apps, issued, held) => `${apps} ${plural(apps, 'app', 'apps')}, ${issued} ${plural(issued, 'ID', 'IDs')} issued since the start, ${held} held here`,
    badges: { exhausted: 'limit reached', unconfirmed: 'confirm', wrap: 'wrap', scrambled: 'scrambled' },
    unreadable: 'not seen yet',
    empty: (n) => `${n} empty`,
    unknown: (n) => `${n} unknown`,
    low: (n) => `${n} low`,
    unused: (n) => (n === 64 ? 'not used yet' : `${n} not used yet`),
    lowest: (n) => `lowest ${n}`,
    none: 'No app is provisioned yet.',
    facts: {
      rate: 'Rate', issued: 'Issued', inLists: 'In the lists', held: 'Held here', lists: 'Lists', refills: 'Refills', step: 'Step',
      limit: 'Highest ID', beyond: 'Beyond it', highest: 'Highest index', left: 'Left', exhausted: 'Limit reached by', unconfirmed: 'Wait for confirm',
    },
    sinceStart: (n) => `${n} since the start`,
    ids: (n) => `${n} ${plural(n, 'ID', 'IDs')} since the start`,
    indices: (n) => `${n} ${plural(n, 'index', 'indices')}`,
    ofLists: (parts) => (parts.length === 0 ? 'all 64 filled' : `${text.together(parts)} of 64`),
    of64: (n) => `${n} of 64 lists`,
    noLimit: 'no limit',
    wraps: 'wrap: IDs repeat',
    rejects: 'reject: no ID',
    nothingAllocated: 'none is allocated yet',
    left: (share) => `${share} of the indices`,
  },

  list: {
    unknown: 'unknown', unused: 'not used yet', empty: 'empty',
    cell: (shard, words) => `shard ${shard}: ${words}`,
  },

  charts: {
    issued: 'IDs a second', p99: 'Latency, 99th percentile', refused: 'Refused requests a second',
    byCaller: 'the caller is wrong', byService: 'we cannot serve',
    units: { ids: 'IDs/s', milliseconds: 'ms', requests: 'requests/s' },
    none: 'no history yet',
  },

  tags: {
    columns: { tag: 'Tag', step: 'Step', held: 'Held', rate: 'Rate of 30 s', lasts: 'Lasts', loaded: 'Last load' },
    sum: (all, loaded) => `${all} ${plural(all, 'tag', 'tags')}${loaded && `, ${loaded} loaded here`}`,
    none: 'There is no tag yet.',
    noneFound: 'no tag is called so',
    more: (n) => `and ${n} more: search for them`,
  },

  names: {
    columns: { name: 'Name', epoch: 'Epoch', widths: 'Bits', hold: 'Hold', leased: 'Leased' },
    sum: (names, leased) => `${names} ${plural(names, 'name', 'names')}${leased && `, ${leased} worker ${plural(leased, 'ID', 'IDs')} leased`}`,
    widths: (time, worker, seq) => `${time} time, ${worker} worker ID, ${seq} sequence`,
    none: 'There is no name yet: New name makes one, and so does shardid names add.',
    noneFound: 'no name is called so',
  },

  sequences: {
    columns: { space: 'Space', step: 'Step', used: 'Sections used', highest: 'Highest number' },
    sum: (spaces) => `${spaces} ${plural(spaces, 'space', 'spaces')}`,
    none: 'There is no space yet: New space makes one, and so does shardid spaces add.',
    noneFound: 'no space is called so',
  },

  snowflake: {
    rows: {
      state: 'State', worker: 'Worker ID', registry: 'Registry', address: 'Address', bound: 'Time bound', trusted: 'Trusted for',
      clock: 'Clock', issued: 'Issued', error: 'Registry says',
    },
    states: { serving: 'worker ID is held', offline: 'registry is unreachable, issues by its file', waiting: 'waits for a worker ID' },
    none: 'none',
    registrys: "the registry's",
  },

  uid: {
    rows: {
      generator: 'Generator', worker: 'Worker ID', ring: 'Ring', newest: 'Newest ID', ahead: 'That is', marked: 'Marked until',
      issued: 'Issued',
    },
    unused: 'none yet: the first caller gets one',
    filled: (share, n, size) => `${share}, ${n} of ${size}`,
    clock: 'the clock',
  },

  against: (time, behind, what) => `${time} ${behind ? 'behind' : 'ahead of'} ${what}`,
  lifetime: 'IDs last another',

  decode: { label: 'An ID', example: 'such as 16385', kind: 'Mode', submit: 'Decode' },

  admin: {
    token: "Administrator's token", cancel: 'Cancel',
    column: 'Change', edit: 'Edit', remove: 'Delete', editOf: (what) => `Edit ${what}`, removeOf: (what) => `Delete ${what}`,
    app: (id, name) => `app ${id} ${name}`,
    tag: (name) => `tag ${name}`,
    name: (name) => `name ${name}`,
    space: (name) => `space ${name}`,
    titles: { app: 'A new app', tag: 'A new segment tag', name: 'A new name of worker IDs', space: 'A new space of sequences', edit: (what) => `Change ${what}`, remove: (what) => `Delete ${what}` },
    submits: { token: 'Continue', create: 'Create', edit: 'Change', remove: 'Delete' },
    fields: { id: 'App ID', tag: 'Tag', space: 'Space', sections: 'Sections', name: 'Name', description: 'Description', step: 'Step', maxLimitId: 'Highest ID', limitPolicy: 'Beyond it', maxId: 'First ID', scramble: 'IDs show', epoch: 'Epoch', workerBits: 'Worker bits', seqBits: 'Sequence bits', hold: 'Hold', pattern: 'Pattern', reset: 'Begins again', zone: 'Time zone', nextId: 'Next ID', confirm: (name) => `To confirm, type ${name}` },
    hints: { maxLimitId: '0 means no limit', sections: 'they never change', epoch: 'Unix milliseconds; it never changes', workerBits: 'they never change', seqBits: 'they never change', hold: 'how long a holder may issue without reaching shardid, such as 60s or 5m', nextId: 'it only rises', pattern: 'empty for plain numbers; for texts such as ORD-{yyyyMMdd}-{seq:8}', zone: 'UTC, +05:30 or Asia/Shanghai; UTC when empty' },
    choices: {
      limitPolicy: { reject: 'reject: no ID is issued', wrap: 'wrap: IDs repeat' },
      scramble: { false: 'order and number', true: 'nothing: they are scrambled, for ever' },
      reset: { day: 'each day', month: 'each month', year: 'each year', none: 'never' },
    },
    wrapWarning: 'With wrap, IDs repeat from the limit on.',
    warnings: {
      app: 'Its callers get no ID any more (-2). Its highest index is remembered: an app made again under this ID resumes above it, so no ID repeats. Never give the ID to another application.',
      tag: 'Its callers get no ID any more (-2). Its highest ID is remembered: a tag made again under this name resumes above it, so no ID repeats.',
      name: 'Nobody gets a worker ID of it any more (-2), and it is refused while one is leased. Its layout and its leases are remembered: a name made again resumes after them.',
      space: 'Its callers get no number any more (-2). Its numbers are remembered: a space made again under this name resumes above them, so no number repeats.',
    },
    wholeNumber: (label, value) => `${label} must be a whole number, not ${JSON.stringify(value)}`,
    nothing: 'Nothing is changed yet.',
    busy: 'asking the server …',
    done: { create: (what, when) => `Made ${what}. In effect ${when}.`, edit: (what, when) => `Changed ${what}. In effect ${when}.`, remove: (what, when) => `Deleted ${what}. In effect ${when}.` },
  },
};
