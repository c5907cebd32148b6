package javaconf

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
)

// leaf takes over the keys of leaf.properties, and those of NotFound9's fork.
func (d *draft) leaf() {
	if !d.has("leaf.") {
		return
	}
	d.text("snowflake.name", d.take("leaf.name"))
	d.boolean("segment.enabled", d.take("leaf.segment.enable"))
	d.boolean("snowflake.enabled", d.take("leaf.snowflake.enable"))
	d.database(d.take("leaf.jdbc.url"), d.take("leaf.jdbc.username"), d.take("leaf.jdbc.password"))
	if port := d.take("leaf.snowflake.port"); port != "" {
		d.note("leaf.snowflake.port", "the port of snowflake.advertise, ip:port, which is another one on each machine: "+
			"set it in SHARDID_SNOWFLAKE_ADVERTISE")
	}
	var addrs []string
	if zk := d.take("leaf.snowflake.zk.address"); zk != "" {
		for server := range strings.SplitSeq(zk, ",") {
			host, chroot, found := strings.Cut(strings.TrimSpace(server), "/")
			host = withPort(host, "2181")
			if found && chroot != "" {
				host += "/" + chroot
			}
			addrs = append(addrs, host)
		}
		d.list("zookeeper.addrs", addrs)
	}
	workers := d.take("leaf.snowflake.local.workIdMap")
	switch mode := d.take("leaf.snowflake.mode"); mode {
	case "", "zk", "zk_normal", "zk_recycle":
		if len(addrs) > 0 {
			d.text("snowflake.worker.mode", cmp.Or(mode, "zk"))
		}
	case "mysql":
		d.text("snowflake.worker.mode", mode)
	case "local":
		d.text("snowflake.worker.mode", mode)
		d.localMap(workers)
	default:
		d.note("leaf.snowflake.mode", "no counterpart of this value: choose snowflake.worker.mode, see docs/leaf.md")
	}
}

func (d *draft) localMap(text string) {
	ids := map[string]int{}
	if err := json.Unmarshal([]byte(text), &ids); err != nil {
		d.problems = append(d.problems, errors.New(`leaf.snowflake.local.workIdMap is not like {"10.0.0.5:8080":1}`))
		return
	}
	var pairs []string
	for _, address := range slices.Sorted(maps.Keys(ids)) {
		pairs = append(pairs, fmt.Sprintf("%s: %d", strconv.Quote(address), ids[address]))
	}
	d.values["snowflake.worker.local_map"] = "{" + strings.Join(pairs, ", ") + "}"
}

// withPort is host:port of an address that may lack the port.
func withPort(address, port string) string {
	if _, _, err := net.SplitHostPort(address); err == nil || address == "" {
		return address
	}
	return net.JoinHostPort(strings.Trim(address, "[]"), port)
}

// baiduEpoch is the epoch without epochStr, whatever the zone.
const baiduEpoch = "2016-05-20T00:00:00+08:00"

// uid takes over a bean of UidGenerator, and its mysql.properties.
func (d *draft) uid() {
	d.database(d.take("jdbc.url"), d.take("jdbc.username"), d.take("jdbc.password"))
	d.number("database.max_open_conns", d.take("jdbc.maxActive"))
	class := d.take(generatorClass)
	if class == "" {
		return
	}
	d.text("uid.mode", "cached")
	switch class[strings.LastIndex(class, ".")+1:] {
	case "CachedUidGenerator":
	case "DefaultUidGenerator":
		d.text("uid.mode", "default")
	default:
		d.note("class", "no counterpart of this generator: taken for the cached one")
	}
	d.number("uid.time_bits", d.take("timeBits"))
	d.number("uid.worker_bits", d.take("workerBits"))
	d.number("uid.seq_bits", d.take("seqBits"))
	d.number("uid.boost_power", d.take("boostPower"))
	d.number("uid.padding_factor", d.take("paddingFactor"))
	if seconds := d.take("scheduleInterval"); seconds != "" {
		d.text("uid.schedule_interval", seconds+"s")
	}
	d.epoch(d.take("epochStr"))
	if ref := d.take("workerIdAssigner"); ref != "" {
		assigner := d.take(beanClass + ref)
		if strings.HasSuffix(assigner, ".DisposableWorkerIdAssigner") {
			d.text("uid.worker", "node")
		} else {
			d.note("workerIdAssigner", "no counterpart of its class: choose uid.worker, see docs/uid.md")
		}
	}
	for _, which := range []string{"Put", "Take"} {
		if ref := d.take("rejected" + which + "BufferHandler"); ref != "" {
			d.take(beanClass + ref)
			d.note("rejected"+which+"BufferHandler", "a class of your own: choose uid.reject_"+strings.ToLower(which)+", see docs/uid.md")
		}
	}
}

func (d *draft) epoch(text string) {
	if text == "" {
		d.text("uid.epoch", baiduEpoch)
		return
	}
	at, err := time.ParseInLocation(time.DateOnly, text, d.Zone)
	if err != nil {
		d.problems = append(d.problems, errors.New("epochStr is not like 2016-05-20"))
		return
	}
	d.text("uid.epoch", at.Format(time.RFC3339))
	d.note("epochStr", "midnight in the zone of the JVM, taken for "+d.Zone.String()+
		": another one has other IDs, so compare one whose time you know, see docs/uid.md")
}

// spring takes over the stores of a Spring service.
func (d *draft) spring() {
	d.database(d.take("spring.datasource.url", "spring.datasource.hikari.jdbc-url", "spring.datasource.druid.url"),
		d.take("spring.datasource.username", "spring.datasource.hikari.username", "spring.datasource.druid.username"),
		d.take("spring.datasource.password", "spring.datasource.hikari.password", "spring.datasource.druid.password"))
	d.number("database.max_open_conns", d.take("spring.datasource.hikari.maximum-pool-size", "spring.datasource.druid.max-active"))
	if d.has("spring.redis.", "spring.data.redis.") {
		d.redis()
	}
	if d.has("spring.") {
		if port := d.take("server.port"); port != "" {
			d.text("server.addr", ":"+port)
		}
	}
}

func (d *draft) redis() {
	take := func(key string) string { return d.take("spring.data.redis."+key, "spring.redis."+key) }
	host, port, username, password, db := take("host"), take("port"), take("username"), take("password"), take("database")
	tls := strings.EqualFold(d.take("spring.data.redis.ssl.enabled", "spring.data.redis.ssl", "spring.redis.ssl.enabled", "spring.redis.ssl"), "true")
	if text := take("url"); text != "" {
		o, err := redis.ParseURL(text)
		if err == nil {
			host, port, err = net.SplitHostPort(o.Addr) // which is a path in unix://
		}
		if err != nil {
			d.problems = append(d.problems, errors.New("spring.redis.url is not like redis://user:password@host:6379"))
			return
		}
		username, password, db, tls = o.Username, o.Password, strconv.Itoa(o.DB), o.TLSConfig != nil
	}
	mode, addrs := "single", []string{net.JoinHostPort(strings.Trim(cmp.Or(host, "localhost"), "[]"), cmp.Or(port, "6379"))}
	nodes := func(text, port string) (all []string) {
		for _, node := range regexp.MustCompile(`[,\s]+`).Split(text, -1) {
			all = append(all, withPort(node, port))
		}
		return all
	}
	cluster, master := take("cluster.nodes"), take("sentinel.master")
	sentinels, sentinelUser, sentinelPassword := take("sentinel.nodes"), take("sentinel.username"), take("sentinel.password")
	switch {
	case master != "":
		mode, addrs = "sentinel", nodes(sentinels, "26379")
		d.text("redis.master_name", master)
		d.text("redis.sentinel_username", sentinelUser)
		d.text("redis.sentinel_password", sentinelPassword)
	case cluster != "":
		mode, addrs, db = "cluster", nodes(cluster, "6379"), ""
	}
	d.text("redis.mode", mode)
	d.list("redis.addrs", addrs)
	d.text("redis.username", username)
	d.text("redis.password", password)
	if db != "" && db != "0" {
		d.settings = append(d.settings, setting{key: "db", value: db})
		d.number("redis.db", d.take("db"))
	}
	if tls {
		d.values["redis.tls"] = "true"
	}
	d.number("redis.pool_size", d.take("spring.data.redis.lettuce.pool.max-active", "spring.redis.lettuce.pool.max-active",
		"spring.data.redis.jedis.pool.max-active", "spring.redis.jedis.pool.max-active"))
}

var (
	// jdbcURL is a URL of Connector/J or of MariaDB's driver: the hosts, the
	// database, the parameters.
	jdbcURL = regexp.MustCompile(`^jdbc:(?:mysql|mariadb)(?::[a-z]+)?://([^/?]*)(?:/([^?]*))?(?:\?(.*))?$`)
	// jdbcHost is one of its hosts.
	jdbcHost = regexp.MustCompile(`(?:address=)?(?:\([^)]*\))+|[^,]+`)
	jdbcPart = regexp.MustCompile(`(host|port)=([^,)]+)`)
)

// database makes a data source name of a JDBC URL. "" is no URL.
func (d *draft) database(jdbc, user, password string) {
	if jdbc == "" {
		return
	}
	parts := jdbcURL.FindStringSubmatch(jdbc)
	if parts == nil {
		d.note("the JDBC URL", "no counterpart: shardid keeps its tables in MySQL or MariaDB, so set database.dsn")
		return
	}
	c := mysql.NewConfig()
	c.User, c.Passwd, c.Net, c.DBName = user, password, "tcp", parts[2]
	hosts := parts[1]
	if at := strings.LastIndexByte(hosts, '@'); at >= 0 {
		name, secret, _ := strings.Cut(hosts[:at], ":")
		c.User, c.Passwd, hosts = cmp.Or(user, unescaped(name)), cmp.Or(password, unescaped(secret)), hosts[at+1:]
	}
	c.Addr = d.firstHost(hosts)
	d.parameters(c, parts[3])
	d.text("database.driver", "mysql")
	dsn := c.FormatDSN()
	if read, err := mysql.ParseDSN(dsn); err != nil || read.User != c.User || read.Passwd != c.Passwd || read.DBName != c.DBName {
		d.problems = append(d.problems, errors.New("user, password or database of the JDBC URL cannot be in a data source name"))
	}
	d.text("database.dsn", dsn)
}

// firstHost is the address that a data source name has; it has one.
func (d *draft) firstHost(hosts string) string {
	all := jdbcHost.FindAllString(hosts, -1)
	if len(all) > 1 {
		d.note("the JDBC URL", "it has several hosts, and database.dsn has one, the first: it must be the primary, "+
			"or an address that leads there, such as a proxy's")
	}
	if len(all) == 0 {
		return "localhost:3306"
	}
	host, port := all[0], "3306"
	if strings.Contains(host, "(") {
		for _, part := range jdbcPart.FindAllStringSubmatch(host, -1) {
			if part[1] == "host" {
				host = part[2]
			} else {
				port = part[2]
			}
		}
		return net.JoinHostPort(strings.Trim(host, "[]"), port)
	}
	return withPort(host, port)
}

func unescaped(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil {
		return plain
	}
	return text
}

// parameters takes over those that a data source name, or a key of config.yaml, has.
func (d *draft) parameters(c *mysql.Config, query string) {
	encrypted := ""
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		value = unescaped(value)
		limit, _ := strconv.ParseUint(value, 10, 31) // ms; 0 for none, and for what is no number
		switch at := "JDBC parameter " + name; strings.ToLower(name) {
		case "":
		case "user":
			c.User = cmp.Or(c.User, value)
		case "password":
			c.Passwd = cmp.Or(c.Passwd, value)
		case "connecttimeout":
			c.Timeout = time.Duration(limit) * time.Millisecond
		case "sockettimeout":
			c.ReadTimeout = time.Duration(limit) * time.Millisecond
			c.WriteTimeout = c.ReadTimeout
		case "usessl", "requiressl", "sslmode":
			if value = strings.ToLower(value); value == "preferred" || value == "trust" {
				d.note(at, "no counterpart of this value: choose database.tls")
			} else {
				encrypted = cmp.Or(encrypted, strconv.FormatBool(value != "false" && value != "disabled" && value != "disable"))
			}
		case "verifyservercertificate":
			d.note(at, "database.tls always checks the certificate of the server, by database.tls_ca_file")
		case "trustcertificatekeystoreurl", "clientcertificatekeystoreurl":
			d.note(at, "write the key store as PEM, for database.tls_ca_file, or database.tls_cert_file and tls_key_file")
		default:
			d.note(at, "no counterpart")
		}
	}
	d.boolean("database.tls", encrypted)
}
