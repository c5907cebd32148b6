// Every text of the console, in English. zh.js has the same keys, and functions with the same
// parameters.

/** n is a number, or one as it is written. */
const plural = (n, one, many) => (String(n) === '1' ? one : many);

const capital = (words = '') => words.charAt(0).toUpperCase() + words.slice(1);

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
  away: (lasts) => `This cannot be read now. What is shown is ${lasts} old.`,
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
    tags: 'Segment tags', newTag: 'New tag', searchTags: 'Search tags',
    names: 'Names of worker IDs', newName: 'New name', searchNames: 'Search names',
    sequences: 'Sequences', newSpace: 'New space', searchSpaces: 'Search spaces',
  },

  manual: { console: 'Console', runbook: 'Runbook', running: 'Running shardid', neverTwice: 'Never twice' },

  // By the names of the server: a title, what it means and what to do, and a sentence of the facts.
  alarms: {
    ShardidRepeatedIndices: ['Repeated indices or segments', 'Find the other program that writes to the lists or to leaf_alloc, before anything else. They gave the same numbers again, and this replica refused them.',
      (indices, segments) => `Refused: ${indices} ${plural(indices, 'index', 'indices')} of lists, ${segments} ${plural(segments, 'segment', 'segments')} of leaf_alloc.`],
    ShardidDatabaseWentBack: ['Database went back in time', 'Find out what restored the database, and what else it lost. max_id was below what had been issued, and was raised, so no ID repeats.',
      (times) => (times ? `It went back by more than 100,000 indices: max_id was raised by so much ${times} ${plural(times, 'time', 'times')}.` : '')],
    ShardidIndicesLeftOut: ['Numbers skipped', 'Find out what happened to the database, and why Redis could not vouch for it. Numbers were skipped so that no ID repeats.',
      (indices, ids) => `Skipped: ${indices} ${plural(indices, 'index', 'indices')} of lists, ${ids} ${plural(ids, 'ID', 'IDs')} of tags.`],
    ShardidConfirmationNeeded: ['Confirmation needed', 'Check max_id against the IDs in use, then run the command below. max_id may have gone back, so the lists wait.',
      (apps, commands) => `${capital(apps)}: ${commands}`],
    ShardidAppLimit: ['Limit of an app', 'Raise max_limit_id, or provision another app. A shard has less than a tenth of its indices left, or none, and then its callers get -5.', capital],
    ShardidSetting: ['Setting to look at', 'Run shardid doctor if a setting of a store is named. If an app is named, its policy is wrap, and IDs repeat once they pass the limit.', capital],
    ShardidStoreAway: ['Store unreachable', 'Bring it back. Replicas issue the IDs that they hold, then refuse.'],
    ShardidConditionFailing: ['Refills or background work fail', 'Look at the error below. No new IDs arrive, or work in the background fails each time that it is tried.'],
    ShardidStarved: ['Callers got no ID in time', 'Look at the stores, and at how long refills take; for UIDs at uid.boost_power and uid.padding_factor.'],
    ShardidWorkerID: ['Worker ID', 'Look at the registry of worker IDs, at the database, or at the holders of a name. No worker ID can be trusted, or all of a name are leased, and callers get -8; or one was not renewed, and IDs end soon.',
      (what, error) => (error ? `${capital(error)} (IDs last another ${what})` : capital(what))],
    ShardidClockOffset: ['Clock offset', "Set the clocks (NTP). This machine's clock and the registry's differ too much.",
      (offset, most) => `The offset is ${offset}; at most ${most} is allowed.`],
    ShardidLifetime: ['Time bits end', 'Use a layout with more time bits, or a later epoch and another column for its IDs.', capital],
    ShardidInternalErrors: ['Internal errors', 'Report what the log says. Callers got -11, which is a fault of shardid.'],
    ShardidSlow: ['Slow answers', 'Look at how long refills take, and at the CPU. For over five of the last ten minutes, one in a hundred requests of a mode took more than 250 ms.',
      (_, modes) => `Modes: ${modes}.`],
  },
  conditions: {
    database: 'database', redis: 'Redis', zookeeper: 'ZooKeeper', tokens: 'token file', tls: 'TLS certificate', pop: 'lists', refill: 'refills', reload: 'reading of apps', 'segment load': 'segments',
    'segment reload': 'reading of tags', 'snowflake worker ID': 'worker ID of snowflakes', 'uid node': 'worker ID of UIDs', sequence: 'leases of sequences',
  },
  codes: {}, // what it refuses is said in English, too

  net: {
    late: (seconds) => `no answer within ${seconds} s`,
    unreachable: 'the server cannot be reached',
    perhaps: (why) => `Look whether the change was made before you repeat it: ${why}.`,
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
    heading: (severity, name) => `${capital(text.health.severity[severity])}: ${name}`,
    impact: {
      store: (name, address) => ({ database: 'the database', redis: 'Redis', zookeeper: 'ZooKeeper' }[name] + (address && ` at ${address}`)),
      away: (stores, silent) => `${text.all(stores)} ${silent ? `${plural(stores.length, 'is', 'are')} unreachable` : 'cannot be used'}`,
      hit: (modes, code) => `${text.all(modes)} callers get ${code}`,
      on: (modes, held) => `${text.all(modes)} ${plural(modes.length, 'keeps', 'keep')} issuing${held ? ' until the IDs held by the replicas run out' : ''}`,
      none: 'all callers are served until the IDs held by the replicas run out',
      whole: (cause, parts) => [cause, parts.join('; ')].filter(Boolean).map((words) => `${capital(words)}.`).join(' '),
    },
    witness: 'witness', held: 'Redis vouches for the database', witnesses: { named: 'named, not held by this replica', none: 'none: nobody vouches for the database', unknown: 'not known yet' },
    follows: (names) => `It also causes: ${text.together(names)}.`,
    runbook: 'What to do', page: 'docs/operations.md', failures: 'when-something-fails',
    allWell: 'Everything works',
    well: (names) => (names.length === 0 ? 'Nothing else is known' : `Working: ${text.together(names)}`),
  },

  fleet: {
    sum: (replicas, ready) => `${replicas} ${plural(replicas, 'replica', 'replicas')}, ${ready} ready`,
    alone: 'Without a Redis that replicas share, only this one can be shown.',
    away: (message) => `The records of other replicas cannot be read: ${message}`,
    self: 'this page',
    ready: 'ready', notReady: 'not ready',
    heard: (age) => `last heard of ${age} ago`,
    off: 'off',
    none: 'none',
    alarm: (severity, n) => `${n} ${text.health.severity[severity]}`,
    columns: { replica: 'Replica', state: 'State', worker: 'Worker ID', alarms: 'Alarms', version: 'Version', up: 'Up' },
  },

  queue: {
    columns: { id: 'ID', name: 'Name', lists: 'Lists', rate: 'Rate here' },
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
      rate: 'Rate here', issued: 'Issued here', inLists: 'In the lists', held: 'Held here', lists: 'Lists', refills: 'Refills', step: 'Step',
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
    issued: 'IDs a second', issuedOf: (name) => `IDs a second by all replicas: ${name}`, p99: 'Latency of the slowest replica, 99th percentile', refused: 'Refused requests a second',
    byCaller: 'the caller is wrong', byService: 'we cannot serve',
    units: { ids: 'IDs/s', milliseconds: 'ms', requests: 'requests/s' },
    none: 'no history yet',
    sum: (rate, replicas, why) => `${rate} ${why ? 'by this replica' : plural(replicas, 'by one replica', `by ${replicas} replicas together`)}; the last hour, times in UTC${why ? ` (${why})` : ''}`,
  },

  pages: { back: 'The page before', on: 'The next page', place: (first, last, all) => `${first}–${last} of ${all}` },

  tags: {
    columns: { tag: 'Tag', shardBits: 'Shard bits', step: 'Step', held: 'Held here', rate: 'Rate here', lasts: 'Lasts', loaded: 'Last load' },
    sum: (all, loaded) => `${all} ${plural(all, 'tag', 'tags')}${loaded && `, ${loaded} loaded here`}`,
    none: 'There is no tag yet.',
    noneFound: 'no tag is called so',
  },

  names: {
    columns: { name: 'Name', epoch: 'Epoch', widths: 'Bits', hold: 'Hold', leased: 'Leased' },
    sum: (names, leased) => `${names} ${plural(names, 'name', 'names')}${leased && `, ${leased} worker ${plural(leased, 'ID', 'IDs')} leased`}`,
    widths: (time, worker, seq, shard) => `${time} time, ${worker} worker ID, ${seq} sequence${shard ? `, ${shard} shard key` : ''}`,
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
    states: { serving: 'worker ID is held', offline: 'worker ID was not renewed, still issues', waiting: 'waits for a worker ID' },
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

  decode: { label: 'An ID', example: 'such as 16385', kind: 'Mode', format: 'Format', submit: 'Decode' },

  admin: {
    token: "Administrator's token", cancel: 'Cancel',
    column: 'Change', edit: 'Edit', remove: 'Delete', editOf: (what) => `Edit ${what}`, removeOf: (what) => `Delete ${what}`,
    app: (id, name) => `app ${id} ${name}`,
    tag: (name) => `tag ${name}`,
    name: (name) => `name ${name}`,
    space: (name) => `space ${name}`,
    titles: { app: 'A new app', tag: 'A new segment tag', name: 'A new name of worker IDs', space: 'A new space of sequences', edit: (what) => `Change ${what}`, remove: (what) => `Delete ${what}` },
    submits: { token: 'Continue', create: 'Create', edit: 'Change', remove: 'Delete' },
    fields: { id: 'App ID', tag: 'Tag', space: 'Space', sections: 'Sections', name: 'Name', description: 'Description', step: 'Step', maxLimitId: 'Highest ID', limitPolicy: 'Beyond it', maxId: 'First ID', scramble: 'IDs show', epoch: 'Epoch', workerBits: 'Worker bits', seqBits: 'Sequence bits', shardBits: 'Shard bits', hold: 'Hold', pattern: 'Pattern', reset: 'Begins again', zone: 'Time zone', nextId: 'Next ID', confirm: (name) => `To confirm, type ${name}` },
    hints: { id: 'from 0 to 255; the next free one is proposed', maxLimitId: '0 means no limit', sections: 'they never change', epoch: 'Unix milliseconds; it never changes', workerBits: 'they never change', seqBits: 'they never change', shardBits: 'so many low bits of an ID are those of a shard key; none when empty; they never change', hold: 'how long a holder may issue without reaching shardid, such as 60s or 5m', nextId: 'it only rises', pattern: 'empty for plain numbers; for texts such as ORD-{yyyyMMdd}-{seq:8}', zone: 'UTC, +05:30 or Asia/Shanghai; UTC when empty' },
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
