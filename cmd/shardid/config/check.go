package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"shardid/repository/redisstore"
	"shardid/service/access"
	"shardid/service/queue"

	"github.com/go-sql-driver/mysql"
)

// Placeholder stands for secrets in the examples of deploy/.
const Placeholder = "CHANGE-ME"

// formats are what a text may have to be, by the name in the tag is. The error follows the text in a message and says
// what to write instead.
func formats() map[string]func(text string) error {
	return map[string]func(string) error{
		"token": access.CheckToken,
		"redis": func(text string) error {
			_, err := redisstore.ParseURL(text)
			return err
		},
		"cron": func(text string) error {
			_, err := queue.ParseCron(text)
			return err
		},
		"name": func(text string) error { // of one folder and one ZooKeeper node
			return unless(regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`).MatchString(text),
				"is not a name: use 1 to 128 of letters, digits, '.', '_' and '-', a letter or digit first")
		},
		"listen": func(text string) error {
			_, _, ok := splitAddr(text)
			return unless(ok, "is not host:port: write an address such as 127.0.0.1:8080, "+
				"or :8080 for every interface, with a port from 0 to 65535")
		},
		"hostport": func(text string) error {
			return unless(isServer(text),
				"is not host:port: write an address such as 10.0.0.5:6379, with a port from 1 to 65535")
		},
		"zookeeper": func(text string) error {
			server, chroot, found := strings.Cut(text, "/")
			path := regexp.MustCompile(`^[\w-][\w.-]*(/[\w-][\w.-]*)*$`)
			return unless(isServer(server) && (!found || path.MatchString(chroot)),
				"is not host:port: write an address such as 10.0.0.7:2181, with a port from 1 to 65535; "+
					"a chroot follows the last one, as in 10.0.0.7:2181/leaf")
		},
		"ipport": func(text string) error {
			a, err := netip.ParseAddrPort(text)
			return unless(err == nil && a.Port() != 0,
				"is not ip:port: write an address such as 10.0.0.5:8080, with a port from 1 to 65535")
		},
	}
}

func unless(ok bool, problem string) error {
	if ok {
		return nil
	}
	return errors.New(problem)
}

func isServer(text string) bool {
	host, port, ok := splitAddr(text)
	return ok && host != "" && port != 0
}

func splitAddr(text string) (host string, port uint64, ok bool) {
	host, digits, err := net.SplitHostPort(text)
	if err != nil || strings.ContainsAny(host, " \t\r\n/@\"',;=") {
		return "", 0, false
	}
	port, err = strconv.ParseUint(digits, 10, 16)
	return host, port, err == nil
}

// check holds every value against its tag and, where each by itself is right, those that
// belong together.
func (l *Loaded) check() {
	for _, k := range l.Keys {
		if problem := k.check(); problem != "" && !k.unread {
			l.note(k.fail(problem))
		}
	}
	if len(l.problems) > 0 {
		return
	}
	for _, problem := range l.conflicts() {
		l.note(fmt.Errorf("%s: %s", l.blame(problem), problem))
	}
}

// blame is the source of the first of the keys that a problem names and that was set at all.
func (l *Loaded) blame(problem string) string {
	for _, named := range regexp.MustCompile(`\b[a-z]+\.[a-z_.]+`).FindAllString(problem, -1) {
		if k := l.key(strings.TrimRight(named, ".")); k != nil && k.From != "default" {
			return k.From
		}
	}
	return "configuration"
}

// check answers what is wrong with the value by itself, or "".
func (k *Key) check() string {
	var texts []string
	switch value := k.value.Interface().(type) {
	case string:
		texts = []string{value}
	case []string:
		texts = value
	case map[string]int:
		texts = slices.Sorted(maps.Keys(value))
	}
	text, choices, format := strings.Join(texts, ","), strings.Split(k.rule, "|"), formats()[k.rule]
	low, high, isRange := strings.Cut(k.rule, "…")
	switch isText := k.value.Kind() == reflect.String; {
	case isText && text == "" && k.Default == "":
		return ""
	case isText && text == "":
		return "is empty: set it, the default is " + k.Default
	case k.Secret && strings.Contains(text, Placeholder):
		return "the value still holds " + Placeholder + " of the example: write your own secret"
	case k.Default == "off" && k.value.IsZero():
		return ""
	case isRange && (k.value.Int() < k.bound(low) || k.value.Int() > k.bound(high)):
		return fmt.Sprintf("%v is not in %s: choose a value in this range, the default is %s", k.value, k.rule,
			k.Default)
	case len(choices) > 1 && !slices.Contains(choices, text):
		return fmt.Sprintf("%s is not one of %s: choose one, the default is %s", show(text),
			strings.Join(choices, ", "), k.Default)
	case format == nil:
		return ""
	}
	for _, text := range texts {
		if err := format(text); err != nil && k.Secret {
			return "the value " + err.Error()
		} else if err != nil {
			return show(text) + " " + err.Error()
		}
	}
	return ""
}

// bound is an end of the range of a key's values.
func (k *Key) bound(text string) int64 {
	end := Key{value: reflect.New(k.value.Type()).Elem()}
	if err := end.set(text); err != nil {
		panic(fmt.Sprintf("the range of %s: %v", k.Path, err)) // tests check the defaults
	}
	return end.value.Int()
}

// conflicts are what is wrong with keys that belong together. Each names the keys, that which is to blame first: see
// blame.
func (l *Loaded) conflicts() (all []string) {
	when := func(isWrong bool, problem string, args ...any) {
		if isWrong {
			all = append(all, fmt.Sprintf(problem, args...))
		}
	}
	s := l.Server
	when(s.DrainDelay >= s.ShutdownTimeout, "server.drain_delay %s leaves nothing of server.shutdown_timeout %s: "+
		"raise the timeout or lower the delay", s.DrainDelay, s.ShutdownTimeout)
	when(s.RequireToken && s.TokensFile == "", "server.require_token is true but server.tokens_file is empty: "+
		"name the file that has the tokens, see shardid token --help")
	when(s.ProtectMonitoring && s.TokensFile+s.AdminToken == "", "server.protect_monitoring is true but there is no "+
		"token: set server.tokens_file or server.admin_token")
	when(s.TLSClientCAFile != "" && s.TLSCertFile == "", "server.tls_client_ca_file is set but server.tls_cert_file "+
		"is empty: clients show certificates over TLS only")

	d, isMySQL := l.Database, l.Database.Driver == "mysql"
	const write = "write user:password@tcp(host:3306)/shardid or mysql://user:password@host:3306/shardid"
	dsn, err := mysql.ParseDSN(d.driverDSN())
	when(isMySQL && d.DSN == "", "database.driver is mysql but database.dsn is empty: %s, best in SHARDID_DATABASE_DSN",
		write)
	when(isMySQL && d.DSN != "" && err != nil, "database.dsn is no data source name of MySQL: %s", write)
	if isMySQL && d.DSN != "" && err == nil {
		when(dsn.Net == "tcp" && !isServer(dsn.Addr), "database.dsn has no host with a port in 1…65535: %s", write)
		when(dsn.DBName == "", "database.dsn names no database: %s", write)
		when(d.TLS && dsn.TLSConfig != "",
			"database.dsn has a parameter tls, and database.tls is true too: remove the parameter")
	}
	const toMySQL = "set database.driver to mysql"
	ofServer := regexp.MustCompile(`^\w+://|@(\w*\(.*\))?/|^[^/\\@:]{2,}:[^@]*@|\bdbname=`).MatchString(d.DSN)
	when(!isMySQL && ofServer, "database.dsn is that of a server but database.driver is sqlite, which takes "+
		"the path of a file: %s, the only servers are MySQL and MariaDB, or correct database.dsn", toMySQL)
	when(!isMySQL && len(d.Hosts) > 0, "database.hosts is set but database.driver is sqlite, a file: %s", toMySQL)
	when(!isMySQL && d.TLS, "database.tls is true but database.driver is sqlite, a file: %s", toMySQL)

	const encrypt = "%[1]s.tls_ca_file, %[1]s.tls_cert_file or %[1]s.tls_key_file is set, and the connections are " +
		"not encrypted: %[2]s"
	when(!d.TLS && d.TLSFiles != TLSFiles{}, encrypt, "database", "set database.tls to true")
	when(!strings.HasPrefix(l.Redis.URL, "rediss://") && l.Redis.TLSFiles != TLSFiles{}, encrypt, "redis",
		"begin redis.url with rediss://")
	for section, files := range map[string][2]string{
		"server": {s.TLSCertFile, s.TLSKeyFile}, "database": {d.TLSCertFile, d.TLSKeyFile},
		"redis": {l.Redis.TLSCertFile, l.Redis.TLSKeyFile},
	} {
		when((files[0] == "") != (files[1] == ""),
			"%[1]s.tls_cert_file and %[1]s.tls_key_file belong together: set both or none", section)
	}

	f, r := l.Snowflake, l.Region
	when(f.WorkerBits+f.SeqBits > 22, "snowflake.worker_bits and snowflake.seq_bits add up to %d: make the sum 22 or "+
		"less, as 41 bits are time", f.WorkerBits+f.SeqBits)
	w, bits := f.Worker, max(0, f.WorkerBits-r.Bits)
	holders := map[int]string{}
	for _, address := range slices.Sorted(maps.Keys(w.LocalMap)) {
		id := w.LocalMap[address]
		when(holders[id] != "", "snowflake.worker.local_map gives the worker ID %d to %s and to %s: give each its own",
			id, holders[id], address)
		holders[id] = address
		when(id < 0 || id >= 1<<bits, "snowflake.worker.local_map gives %s the worker ID %d, and "+
			"snowflake.worker_bits %d less region.bits %d has room for 0…%d: give it another one",
			address, id, f.WorkerBits, r.Bits, 1<<bits-1)
	}
	when(w.Mode == "local" && len(w.LocalMap) == 0, "snowflake.worker.mode is local but snowflake.worker.local_map is "+
		"empty: list ip:port with a worker ID for each instance")
	when(strings.HasPrefix(w.Mode, "zk") && len(l.ZooKeeper.Addrs) == 0,
		"snowflake.worker.mode is %s but zookeeper.addrs is empty: list host:port of the servers", w.Mode)

	u := l.UID
	sum := u.TimeBits + u.WorkerBits + u.SeqBits
	when(u.Mode == "cached" && u.SeqBits+u.BoostPower > 30, "the ring has 2^(uid.boost_power + uid.seq_bits) slots "+
		"and %d + %d is more than 30: lower uid.boost_power, or set uid.mode to default", u.BoostPower, u.SeqBits)
	when(sum != 63, "uid.time_bits, uid.worker_bits and uid.seq_bits add up to %d: make the sum 63", sum)
	// Each worker ID is a region's, so that at least one bit is left for them.
	when(r.ID >= 1<<r.Bits, "region.id %d does not fit into region.bits %d: there are the regions 0…%d",
		r.ID, r.Bits, 1<<r.Bits-1)
	when(f.Enabled && r.Bits >= f.WorkerBits, "region.bits %d leaves no worker IDs of snowflake.worker_bits %d: lower "+
		"it, or switch snowflake off", r.Bits, f.WorkerBits)
	when(u.Enabled && r.Bits >= u.WorkerBits, "region.bits %d leaves no worker IDs of uid.worker_bits %d: lower it, "+
		"or switch uid off", r.Bits, u.WorkerBits)
	return all
}
