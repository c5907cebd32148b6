// Every text of the console, in Chinese. en.js has the same keys.

/** Since when a change counts, which the server says in English. */
function effect(said) {
  const [, here, by] = /^(here now, )?on every replica.* by (\S+)$/.exec(said) ?? [];
  if (by) {
    const time = `${by.slice(11, 19)} UTC`;
    return here ? `本副本已生效，其他副本最迟 ${time} 生效` : `各副本（含本副本）最迟 ${time} 生效`;
  }
  const [, later] = /^for leases that are granted or renewed from (\d\S+) on$/.exec(said) ?? [];
  if (later) return `${later.slice(0, 10)} ${later.slice(11, 19)} UTC 起新租或续租的租约生效`;
  return { 'now, on every replica': '所有副本已生效', 'on every replica with its next reload': '各副本下次重载时生效', 'on every replica within 3 s': '3 秒内在所有副本生效', 'for leases that are granted or renewed from now on': '之后新租或续租的租约生效' }[said] ?? said;
}

/** A fact of an alarm, which the server says in English. */
const fact = (said) => said.replace(/^apps? /, '应用 ').replace(/^name /, '命名空间 ').replace(/^UIDs end in /, 'UID 还可支撑 ');

export const text = {
  locale: 'zh-CN',
  unknown: '–',
  modes: { queue: '队列', segment: '号段', snowflake: '雪花', uid: 'UID', sequence: '序列' },
  mode: (name) => (name === 'uid' ? 'UID 模式' : `${text.modes[name]}模式`),
  region: (id, bits) => `地域 ${id}（共 ${2 ** bits} 个）`,
  since: (lasted) => `持续 ${lasted}`,
  ago: (age) => `${age}前`,
  moreThan: (what) => `> ${what}`,
  of: (n, all) => `${n} / ${all}`,
  failed: (message) => `页面的这一部分无法显示：${message}。请刷新页面，并反馈给开发者。`,
  away: (lasts) => `暂时无法读取，显示的是 ${lasts}前的数据。`,
  together: (parts) => parts.join('，'),
  all: (parts) => [parts.slice(0, -1).join('、'), parts.at(-1)].filter(Boolean).join('和'),
  rate: (n) => `${n}/秒`,
  percent: (n) => `${n}%`,
  milliseconds: (n) => `${n} 毫秒`,
  units: { year: '年', day: '天', hour: '小时', minute: '分', second: '秒' },

  page: {
    skip: '跳到正文', sections: '页内导航', others: '其他页面', docs: '文档',
    health: '健康状态', replicas: '副本', queue: '队列', rates: '趋势', modes: '其他模式', decode: 'ID 解析',
    single: '内嵌存储只供一个副本使用：另一个副本如果用它自己的内嵌存储，会发出同样的 ID。要运行多个副本，请改用 MySQL 和 Redis。',
    lock: '查看本服务的状态需要令牌。', show: '查看',
    memory: '令牌只保存在本页内存中，离开或刷新页面后即失效。',
    newApp: '新建应用', apps: '应用',
    heatmap: '64 个列表各自的余量',
    scale: '图例：余量占应用步长的百分比上限', firstFifth: '≤ 20%', more: '更多',
    tags: '号段标签', newTag: '新建标签', searchTags: '搜索标签',
    names: '工作节点 ID 命名空间', newName: '新建命名空间', searchNames: '搜索命名空间',
    sequences: '序列', newSpace: '新建序列空间', searchSpaces: '搜索序列空间',
  },

  manual: { console: '控制台', runbook: '处理手册', running: '部署与运行', neverTwice: '不重号的保证' },

  alarms: {
    ShardidRepeatedIndices: ['给出了重复的序号或号段', '请立即查明是哪个程序在写列表或 leaf_alloc。它们给出了重复的序号，本副本已拒绝使用。',
      (indices, segments) => `列表重复序号 ${indices} 个，leaf_alloc 重复号段 ${segments} 个。`],
    ShardidDatabaseWentBack: ['数据库数据回退', '请查明数据库从何处恢复；回退幅度大时，还要查丢了什么数据。max_id 低于已发放的序号，已自动抬高，不会重号。',
      (times) => (times ? `回退超过 100,000 个序号，max_id 已大幅抬高 ${times} 次。` : '')],
    ShardidIndicesLeftOut: ['已跳过一段序号', '请查明数据库发生了什么，以及 Redis 为何不能作证。为避免重号，跳过了一段序号或 ID。',
      (indices, ids) => `列表跳过序号 ${indices} 个，标签跳过 ID ${ids} 个。`],
    ShardidConfirmationNeeded: ['等待人工确认', '请与业务中已使用的 ID 核对，再执行下方给出的 shardid confirm 命令。max_id 可能已回退，相关列表暂停发号。',
      (apps, commands) => `${fact(apps)}：${commands}`],
    ShardidAppLimit: ['应用的 ID 上限', '请调高 max_limit_id，或为业务新建应用。有分片剩余的序号不足一成，或已经用完、调用方收到 -5。', fact],
    ShardidSetting: ['配置需要留意', '请运行 shardid doctor 查看。存储的配置不安全或不够理想；或应用的策略是 wrap，超过上限后 ID 会重复。', fact],
    ShardidStoreAway: ['存储不可用', '请尽快恢复。存储暂时无法使用，只能发放手中已有的 ID。'],
    ShardidConditionFailing: ['补号或后台任务失败', '请按下方的报错处理。无法取得新的序号或号段；或有后台任务反复重试仍然失败。'],
    ShardidStarved: ['取号超时，或环取空', '请检查存储状态与补号耗时；UID 请看 uid.boost_power 与 uid.padding_factor。有调用方没能及时取得序号、号段或 UID。'],
    ShardidWorkerID: ['工作节点 ID', '请检查注册中心、数据库，或命名空间的持有者，详见下方。没有可信的工作节点 ID，或命名空间的已全部租出，调用方收到 -8；或续约失败，即将停发。',
      (what, error) => (error ? `${error}（还可支撑 ${what}）` : fact(what))],
    ShardidClockOffset: ['时钟偏差过大', '请检查 NTP 校时。本机时钟与注册中心的时钟相差过大。',
      (offset, most) => `偏差 ${offset}，最多允许 ${most}。`],
    ShardidLifetime: ['时间位用尽', '请改用时间位更多的布局，或使用更晚的起始时间并把新 ID 存进另一列。雪花 ID 或 UID 的时间位不足一年，或已经用尽而停发。'],
    ShardidInternalErrors: ['内部错误', '请把日志中的详情反馈给开发者。有调用方收到 -11，这是 shardid 自身的问题。'],
    ShardidSlow: ['响应变慢', '请检查补号耗时与本机 CPU。最近十分钟里有五分钟以上，某种模式百分之一的请求超过 250 毫秒。',
      (_, modes) => `模式：${modes}`],
  },
  codes: {
    '-2': () => '对象不存在，可能已被删除。',
    '-5': () => '已达上限。',
    '-6': (message) => `填写有误：${message}`,
    '-7': (message) => `令牌缺失、无效或权限不足，或请求被拒绝：${message}`,
    '-10': () => '服务端没有这个路径，请刷新页面。',
    '-11': () => '服务端内部错误，已记入日志，请再试一次。',
    '-12': () => '此令牌的请求过于频繁，请稍后再试。',
    '-13': (message) => `操作被拒绝，没有做任何改动：${message}`,
  },
  conditions: {
    database: '数据库', redis: 'Redis', zookeeper: 'ZooKeeper', tokens: '令牌文件', tls: 'TLS 证书',
    pop: '列表取号', refill: '补号', reload: '应用重载', 'segment load': '号段加载', 'segment reload': '标签重载',
    'snowflake worker ID': '雪花工作节点 ID', 'uid node': 'UID 节点登记', sequence: '序列租约',
  },

  net: {
    late: (seconds) => `${seconds} 秒内没有响应`,
    unreachable: '无法连接服务端',
    perhaps: (why) => `重试之前，请先确认更改是否已经生效：${why}。`,
    notJSON: (status) => `HTTP ${status}，响应不是 JSON`,
    status: (status) => `HTTP ${status}`,
  },

  link: {
    connecting: '连接中', live: '实时', paused: '已暂停', locked: '等待输入令牌',
    away: (seen) => `服务端没有响应，${seen ? `当前显示的是 ${seen} UTC 的数据。` : '尚未收到它的数据。'}`,
    up: (age) => `已运行 ${age}`,
    language: 'EN', // the other one, as it calls itself
  },

  health: {
    wrong: '异常与告警', affected: '当前不可用', working: '运行正常',
    replica: '本副本',
    ready: '就绪', degraded: '就绪（降级）', notReady: '未就绪',
    serving: '服务中', able: '可提供服务',
    works: '正常', fails: '异常', waits: '等待恢复',
    severity: { critical: '严重', warning: '警告', info: '提示' },
    heading: (severity, name) => `${text.health.severity[severity]}：${name}`,
    impact: {
      store: (name, address) => ({ database: '数据库', redis: 'Redis', zookeeper: 'ZooKeeper' }[name] + (address && `（${address}）`)),
      away: (stores, silent) => `${text.all(stores)}${stores.length > 1 ? '都' : ''}${silent ? '连接不上' : '不可用'}`,
      hit: (modes, code) => `${text.all(modes)}模式的调用方收到 ${code}`,
      on: (modes, held) => `${text.all(modes)}模式照常发号${held ? '，直到用完手中已有的' : ''}`,
      none: '各模式照常发号，直到用完手中已有的',
      whole: (cause, parts) => [cause, parts.join('；')].filter(Boolean).map((words) => `${words}。`).join(''),
    },
    witness: '见证者', held: 'Redis 为数据库作证', witnesses: { named: '已指定，本副本未持有', none: '无：没有谁为数据库作证', unknown: '尚不清楚' },
    follows: (names) => `由此引发：${names.join('、')}。`,
    runbook: '处理手册', page: 'docs/zh/operations.md', failures: '依赖出故障时会怎样',
    allWell: '一切正常',
    well: (names) => (names.length === 0 ? '没有其他信息' : `正常：${names.join('、')}`),
  },

  fleet: {
    sum: (replicas, ready) => `${replicas} 个副本，${ready} 个就绪`,
    alone: '副本之间没有共享的 Redis，只能显示本副本。',
    away: (message) => `无法读取其他副本的记录：${message}`,
    self: '本页',
    ready: '就绪', notReady: '未就绪',
    heard: (age) => `${age}前有消息`,
    off: '未启用',
    none: '无',
    alarm: (severity, n) => `${text.health.severity[severity]} ${n}`,
    columns: { replica: '副本', state: '状态', worker: '工作节点 ID', alarms: '告警', version: '版本', up: '运行时长' },
  },

  queue: {
    columns: { id: 'ID', name: '名称', lists: '列表', rate: '本副本速率' },
    sum: (apps, issued, held) => `${apps} 个应用，启动以来发放 ${issued} 个 ID，本副本预取 ${held} 个`,
    badges: { exhausted: '已达上限', unconfirmed: '待确认', wrap: '允许重复', scrambled: '已打乱' },
    unreadable: '尚未看到',
    empty: (n) => `${n} 个已空`,
    unknown: (n) => `${n} 个未知`,
    low: (n) => `${n} 个低水位`,
    unused: (n) => (n === 64 ? '尚未使用' : `${n} 个尚未使用`),
    lowest: (n) => `最低 ${n}`,
    none: '还没有应用。',
    facts: {
      rate: '本副本速率', issued: '本副本累计发放', inLists: '列表余量', held: '本副本预取', lists: '列表状态', refills: '补号次数', step: '步长',
      limit: 'ID 上限', beyond: '超过上限时', highest: '最大序号', left: '剩余', exhausted: '已达上限', unconfirmed: '等待确认',
    },
    sinceStart: (n) => `启动以来 ${n} 次`,
    ids: (n) => `启动以来 ${n} 个 ID`,
    indices: (n) => `${n} 个序号`,
    ofLists: (parts) => (parts.length === 0 ? '64 个列表都有余量' : `64 个列表中 ${text.together(parts)}`),
    of64: (n) => `64 个列表中有 ${n} 个`,
    noLimit: '无上限',
    wraps: 'wrap：ID 会重复',
    rejects: 'reject：拒绝发号',
    nothingAllocated: '尚未分配',
    left: (share) => `${share} 的序号`,
  },

  list: {
    unknown: '未知', unused: '尚未使用', empty: '已空',
    cell: (shard, words) => `分片 ${shard}：${words}`,
  },

  charts: {
    issued: '每秒发放 ID', issuedOf: (name) => `所有副本每秒发放 ID：${name}`, p99: '最慢副本的延迟 P99', refused: '每秒拒绝请求',
    byCaller: '调用方有误', byService: '服务端无法发放',
    units: { ids: '个/秒', milliseconds: '毫秒', requests: '次/秒' },
    none: '暂无历史数据',
    sum: (rate, replicas, why) => `${why ? '仅本副本' : `${replicas} 个副本合计`} ${rate}；最近一小时，时间为 UTC${why ? `（${why}）` : ''}`,
  },

  pages: { back: '上一页', on: '下一页', place: (first, last, all) => `第 ${first}–${last} 个，共 ${all} 个` },

  tags: {
    columns: { tag: '标签', shardBits: '分片位', step: '步长', held: '本副本持有', rate: '本副本速率', lasts: '可用时长', loaded: '上次加载' },
    sum: (all, loaded) => `${all} 个标签${loaded && `，本副本已加载 ${loaded} 个`}`,
    none: '还没有标签。',
    noneFound: '没有匹配的标签',
  },

  names: {
    columns: { name: '命名空间', epoch: '起始时间', widths: '位宽', hold: '保持时长', leased: '已租出' },
    sum: (names, leased) => `${names} 个命名空间${leased && `，已租出 ${leased} 个工作节点 ID`}`,
    widths: (time, worker, seq, shard) => `时间 ${time}，工作节点 ${worker}，序列号 ${seq}${shard ? `，分片键 ${shard}` : ''}`,
    none: '还没有命名空间，可在此新建，也可用 shardid names add 创建。',
    noneFound: '没有匹配的命名空间',
  },

  sequences: {
    columns: { space: '序列空间', step: '步长', used: '已用分区', highest: '最大号' },
    sum: (spaces) => `${spaces} 个序列空间`,
    none: '还没有序列空间，可在此新建，也可用 shardid spaces add 创建。',
    noneFound: '没有匹配的序列空间',
  },

  snowflake: {
    rows: {
      state: '状态', worker: '工作节点 ID', registry: '注册中心', address: '实例地址', bound: '发号时间上限', trusted: '租约可信时长',
      clock: '时钟偏差', issued: '累计发放', error: '注册中心报错',
    },
    states: { serving: '已持有工作节点 ID', offline: '续约失败，暂时仍可发号', waiting: '等待工作节点 ID' },
    none: '无',
    registrys: '注册中心',
  },

  uid: {
    rows: {
      generator: '生成器', worker: '工作节点 ID', ring: '环形缓冲', newest: '最新 ID 时间', ahead: '与时钟相比', marked: '时间登记至',
      issued: '累计发放',
    },
    unused: '尚无，首次取号时获取',
    filled: (share, n, size) => `${share}，${n} / ${size}`,
    clock: '系统时钟',
  },

  against: (time, behind, what) => `比${what}${behind ? '慢' : '快'} ${time}`,
  lifetime: '时间位还可用',

  decode: { label: 'ID', example: '例如 16385', kind: '模式', format: '格式', submit: '解析' },

  admin: {
    token: '管理员令牌', cancel: '取消',
    column: '操作', edit: '编辑', remove: '删除', editOf: (what) => `编辑${what}`, removeOf: (what) => `删除${what}`,
    app: (id, name) => `应用 ${id} ${name}`,
    tag: (name) => `标签 ${name}`,
    name: (name) => `命名空间 ${name}`,
    space: (name) => `序列空间 ${name}`,
    titles: { app: '新建应用', tag: '新建号段标签', name: '新建工作节点 ID 命名空间', space: '新建序列空间', edit: (what) => `编辑${what}`, remove: (what) => `删除${what}` },
    submits: { token: '继续', create: '创建', edit: '保存', remove: '删除' },
    fields: { id: '应用 ID', tag: '标签', space: '序列空间', sections: '分区数', name: '名称', description: '描述', step: '步长', maxLimitId: 'ID 上限', limitPolicy: '超过上限时', maxId: '起始 ID', scramble: '打乱 ID', epoch: '起始时间', workerBits: '工作节点位宽', seqBits: '序列号位宽', shardBits: '分片位宽', hold: '保持时长', pattern: '单号格式', reset: '重新计数', zone: '时区', nextId: '下一个 ID', confirm: (name) => `请输入 ${name} 以确认` },
    hints: { id: '0 到 255，已填入下一个未用的', maxLimitId: '0 表示无上限', sections: '以后不能更改', epoch: '毫秒时间戳，以后不能更改', workerBits: '以后不能更改', seqBits: '以后不能更改', shardBits: 'ID 最低的这么多位取自分片键；留空则没有，以后不能更改', hold: '连不上服务时持有者还能发号多久，秒数或分钟数，例如 60s、5m', nextId: '只能调大', pattern: '留空则为纯数字；业务单号如 ORD-{yyyyMMdd}-{seq:8}', zone: 'UTC、+05:30 或 Asia/Shanghai；留空为 UTC' },
    choices: {
      limitPolicy: { reject: 'reject：拒绝发号', wrap: 'wrap：ID 会重复' },
      scramble: { false: '否：能看出先后与数量', true: '是：看不出任何信息，以后不能更改' },
      reset: { day: '每天', month: '每月', year: '每年', none: '从不' },
    },
    wrapWarning: '使用 wrap 后，超过上限的 ID 会重复。',
    warnings: {
      app: '删除后，调用方将无法取号（返回 -2）。系统会记住已发放到哪里：以同一应用 ID 重建时从其后继续，不会重号。请勿把这个应用 ID 分给其他业务。',
      tag: '删除后，调用方将无法取号（返回 -2）。系统会记住已发放到哪里：以同一名称重建时从其后继续，不会重号。',
      name: '删除后，不再租出它的工作节点 ID（返回 -2）；还有租约时不能删除。系统会记住它的位宽与租约：以同一名称重建时从其后继续。',
      space: '删除后，调用方将无法取号（返回 -2）。系统会记住已发放到哪里：以同一名称重建时，所有序列从其后继续，不会重号。',
    },
    wholeNumber: (label, value) => `${label}须为整数，不能是 ${JSON.stringify(value)}`,
    nothing: '没有改动。',
    busy: '正在请求服务端…',
    done: { create: (what, when) => `已创建${what}，${effect(when)}。`, edit: (what, when) => `已修改${what}，${effect(when)}。`, remove: (what, when) => `已删除${what}，${effect(when)}。` },
  },
};
