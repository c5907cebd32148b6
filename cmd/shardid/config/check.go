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
	"time"

	"shardid/repository/redisstore"
	"shardid/service/access"
	"shardid/service/queue"

	"github.com/go-playground/validator/v10"
	"github.com/go-sql-driver/mysql"
)

// Placeholder stands for secrets in the examples of deploy/.
const Placeholder = "CHANGE-ME"

// formats are the texts that the validator does not know, by the name in the tag
// validate. The error follows the text in a message and says what to write instead.
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
			host, port, ok := splitAddr(text)
			return unless(ok && host != "" && port != 0,
				"is not host:port: write an address such as 10.0.0.5:6379, with a port from 1 to 65535")
		},
		"zookeeper": func(text string) error {
			server, chroot, found := strings.Cut(text, "/")
			host, port, ok := splitAddr(server)
			path := regexp.MustCompile(`^[\w-][\w.-]*(/[\w-][\w.-]*)*$`)
			return unless(ok && host != "" && port != 0 && (!found || path.MatchString(chroot)),
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
	v := validator.New()
	v.RegisterCustomTypeFunc(func(i reflect.Value) any { return time.Duration(i.Int()) }, Interval(0))
	for name, is := range formats() {
		valid := func(f validator.FieldLevel) bool { return is(f.Field().String()) == nil }
		if err := v.RegisterValidation(name, valid); err != nil {
			panic(err) // the names are constants
		}
	}
	for _, k := range l.Keys {
		if k.unread {
			continue
		}
		if problem := k.check(v); problem != "" {
			l.note(k.fail(problem))
		}
	}
	if len(l.problems) > 0 {
		return
	}
	if l.Snowflake.Worker.Mode == "zk_normal" {
		l.Snowflake.Worker.Mode = "zk"
	}
	for _, problem := range append(l.Server.conflicts(), l.Database.conflict(), l.Redis.conflict(),
		l.RESP.conflict(l.Server), l.snowflakeConflict(), l.UID.conflict(), l.regionConflict()) {
		if problem != "" {
			l.note(fmt.Errorf("%s: %s", l.Blame(problem), problem))
		}
	}
}

// Blame is the source of the first of the keys that a problem names and that was set at
// all; redis.tls_* stands for all that begin so.
func (l *Loaded) Blame(problem string) string {
	for _, named := range regexp.MustCompile(`\b[a-z]+\.[a-z_.]+\*?`).FindAllString(problem, -1) {
		beginning, any := strings.CutSuffix(named, "*")
		for _, k := range l.Keys {
			if k.From != "default" && (k.Path == named || any && strings.HasPrefix(k.Path, beginning)) {
				return k.From
			}
		}
	}
	return "configuration"
}

// check answers what is wrong with the value by itself, or "".
func (k *Key) check(v *validator.Validate) string {
	text, isText := k.value.Interface().(string)
	switch {
	case isText && text == "" && k.Default == "":
		return ""
	case isText && text == "":
		return "is empty: set it, the default is " + k.Default
	case k.Secret && strings.Contains(text, Placeholder):
		return "the value still holds " + Placeholder + " of the example: write your own secret"
	case k.rule == "":
		return ""
	}
	var wrong validator.ValidationErrors
	if !errors.As(v.Var(k.value.Interface(), k.rule), &wrong) {
		return ""
	}
	value, advice := wrong[0].Value(), ", the default is "+k.Default
	if kind := k.value.Kind(); kind == reflect.Slice || kind == reflect.Map {
		advice = ""
	}
	switch tag := wrong[0].Tag(); tag {
	case "oneof":
		choices := strings.ReplaceAll(wrong[0].Param(), " ", ", ")
		return fmt.Sprintf("%s is not one of %s: choose one%s", show(text), choices, advice)
	case "unique":
		return "gives one worker ID to two instances: give each its own"
	case "min", "max":
		ends := regexp.MustCompile(`min=([^,]+),max=([^,]+)`).FindStringSubmatch(k.rule)
		return fmt.Sprintf("%v is not in %s…%s: choose a value in this range%s", value, ends[1], ends[2], advice)
	default:
		shown := "the value"
		if !k.Secret {
			shown = show(value.(string))
		}
		return shown + " " + formats()[tag](value.(string)).Error()
	}
}

// The conflict functions answer what is wrong with keys that belong together, or "". The
// problem names the keys, that which is to blame first: see Blame.

// conflicts are what may be wrong at once.
func (s Server) conflicts() (all []string) {
	if s.DrainDelay >= s.ShutdownTimeout {
		all = append(all, fmt.Sprintf("server.drain_delay %s leaves nothing of server.shutdown_timeout %s: "+
			"raise the timeout or lower the delay", s.DrainDelay, s.ShutdownTimeout))
	}
	if s.RequireToken && s.TokensFile == "" {
		all = append(all, "server.require_token is true but server.tokens_file is empty: "+
			"name the file that has the tokens, see shardid token --help")
	}
	if s.ProtectMonitoring && s.TokensFile+s.AdminToken == "" {
		all = append(all, "server.protect_monitoring is true but there is no token: "+
			"set server.tokens_file or server.admin_token")
	}
	if s.TLSClientCAFile != "" && s.TLSCertFile == "" {
		all = append(all, "server.tls_client_ca_file is set but server.tls_cert_file is empty: "+
			"clients show certificates over TLS only")
	}
	return append(all, pairConflict("server", s.TLSCertFile, s.TLSKeyFile))
}

func pairConflict(section, cert, key string) string {
	if (cert == "") == (key == "") {
		return ""
	}
	return fmt.Sprintf("%[1]s.tls_cert_file and %[1]s.tls_key_file belong together: set both or none", section)
}

// conflict: encrypted says whether the store is asked over TLS at all.
func (t TLSFiles) conflict(section string, encrypted bool, advice string) string {
	if !encrypted && t != (TLSFiles{}) {
		return fmt.Sprintf("a %s.tls_* key is set, and the connections are not encrypted: %s", section, advice)
	}
	return pairConflict(section, t.TLSCertFile, t.TLSKeyFile)
}

func (r RESP) conflict(s Server) string {
	if r.Addr == s.Addr && !strings.HasSuffix(r.Addr, ":0") {
		return "resp.addr is the same as server.addr: give it a port of its own"
	}
	return ""
}

func (d Database) conflict() string {
	const write = "write user:password@tcp(host:3306)/shardid or mysql://user:password@host:3306/shardid"
	dsn, err := mysql.ParseDSN(d.driverDSN())
	switch isMySQL := d.Driver == "mysql"; {
	case isMySQL && d.DSN == "":
		return "database.driver is mysql but database.dsn is empty: " + write + ", best in SHARDID_DATABASE_DSN"
	case isMySQL && err != nil:
		return "database.dsn is no data source name of MySQL: " + write
	case isMySQL && dsn.DBName == "":
		return "database.dsn names no database: " + write
	case isMySQL && d.TLS && dsn.TLSConfig != "":
		return "database.dsn has a parameter tls, and database.tls is true too: remove the parameter"
	case isMySQL && dsn.AllowAllFiles:
		return "database.dsn has allowAllFiles, by which the server may read every file of this user: remove the parameter"
	case isMySQL && dsn.AllowCleartextPasswords && !d.verified(dsn):
		return "database.dsn has allowCleartextPasswords, and whoever answers at its address gets the password, as its certificate " +
			"is not checked: set database.tls to true, or remove the parameter"
	case !isMySQL && namesServer(d.DSN):
		return "database.dsn is that of a server but database.driver is sqlite, which takes the path of a file: " +
			"set database.driver to mysql, the only servers are MySQL and MariaDB, or correct database.dsn"
	case !isMySQL && len(d.Hosts) > 0:
		return "database.hosts is set but database.driver is sqlite, a file: set database.driver to mysql"
	case !isMySQL && d.TLS:
		return "database.tls is true but database.driver is sqlite, a file: set database.driver to mysql"
	}
	return d.TLSFiles.conflict("database", d.TLS, "set database.tls to true")
}

// verified says whether the certificate of the server is checked.
func (d Database) verified(dsn *mysql.Config) bool {
	return d.TLS || dsn.TLSConfig != "" && !anybody(dsn)
}

// anybody says whether a data source name takes every certificate, or none.
func anybody(dsn *mysql.Config) bool {
	return slices.Contains([]string{"false", "skip-verify", "preferred"}, strings.ToLower(dsn.TLSConfig))
}

// Warnings are settings that make the service open to somebody between it and a store, and
// that may be meant.
func (c Config) Warnings() []string {
	const risk = "so whoever is between this service and %s can read and change everything: %s"
	var all []string
	dsn, err := mysql.ParseDSN(c.Database.driverDSN())
	if c.Database.Driver == "mysql" && err == nil && dsn.TLSConfig != "false" && anybody(dsn) {
		all = append(all, fmt.Sprintf("database.dsn has tls=%s, which checks no certificate, "+risk, dsn.TLSConfig,
			"the database", "set database.tls to true and database.tls_ca_file to its authority instead"))
	}
	if redis, err := redisstore.ParseURL(c.Redis.URL); err == nil && redis.TLS != nil && redis.TLS.InsecureSkipVerify {
		all = append(all, fmt.Sprintf("redis.url has skip_verify, which checks no certificate, "+risk, "Redis",
			"set redis.tls_ca_file to its authority instead"))
	}
	return all
}

// namesServer reports whether a data source name is plainly no path of a file:
// user:password@tcp(host)/db, user@/db, postgres://host/db, host=h dbname=d.
func namesServer(dsn string) bool {
	server := `^[A-Za-z][A-Za-z0-9+.-]*://|@[a-z]*\(.*\)/|@/|^[^/\\@:]{2,}:[^@]*@|\bdbname=`
	return regexp.MustCompile(server).MatchString(dsn)
}

func (r Redis) conflict() string {
	encrypted := strings.HasPrefix(r.URL, "rediss://")
	return r.TLSFiles.conflict("redis", encrypted, "begin redis.url with rediss://")
}

func (c Config) snowflakeConflict() string {
	s, w := c.Snowflake, c.Snowflake.Worker
	for _, address := range slices.Sorted(maps.Keys(w.LocalMap)) {
		bits, less := max(0, s.WorkerBits-c.Region.Bits), ""
		if c.Region.Bits > 0 {
			less = fmt.Sprintf(" less region.bits %d", c.Region.Bits)
		}
		if id := w.LocalMap[address]; id >= 1<<bits {
			return fmt.Sprintf("snowflake.worker.local_map gives %s the worker ID %d, and snowflake.worker_bits %d%s has room for 0…%d: "+
				"give it another one", address, id, s.WorkerBits, less, 1<<bits-1)
		}
	}
	switch {
	case s.WorkerBits+s.SeqBits > 22:
		return fmt.Sprintf("snowflake.worker_bits and snowflake.seq_bits add up to %d: make the sum 22 or less, as 41 bits are time",
			s.WorkerBits+s.SeqBits)
	case w.Mode == "local" && len(w.LocalMap) == 0:
		return "snowflake.worker.mode is local but snowflake.worker.local_map is empty: " +
			"list ip:port with a worker ID for each instance"
	case strings.HasPrefix(w.Mode, "zk") && len(c.ZooKeeper.Addrs) == 0:
		return "snowflake.worker.mode is " + w.Mode + " but zookeeper.addrs is empty: list host:port of the servers"
	case w.Mode == "redis" && c.Redis.URL == "":
		return "snowflake.worker.mode is redis but redis.url is empty: set it, or another snowflake.worker.mode"
	}
	return ""
}

// regionConflict: each worker ID is a region's, so that at least one bit is left for them.
func (c Config) regionConflict() string {
	switch r := c.Region; {
	case r.ID >= 1<<r.Bits:
		return fmt.Sprintf("region.id %d does not fit into region.bits %d: there are the regions 0…%d", r.ID, r.Bits, 1<<r.Bits-1)
	case c.Snowflake.Enabled && r.Bits >= c.Snowflake.WorkerBits:
		return fmt.Sprintf("region.bits %d leaves no worker IDs of snowflake.worker_bits %d: lower it, or switch "+
			"snowflake off",
			r.Bits, c.Snowflake.WorkerBits)
	case c.UID.Enabled && r.Bits >= c.UID.WorkerBits:
		return fmt.Sprintf("region.bits %d leaves no worker IDs of uid.worker_bits %d: lower it, or switch uid off",
			r.Bits, c.UID.WorkerBits)
	}
	return ""
}

func (u UID) conflict() string {
	switch sum := u.TimeBits + u.WorkerBits + u.SeqBits; {
	case u.Mode == "cached" && u.SeqBits+u.BoostPower > 30:
		return fmt.Sprintf("the ring has 2^(uid.boost_power + uid.seq_bits) slots and %d + %d is more than 30: "+
			"lower uid.boost_power, or set uid.mode to default", u.BoostPower, u.SeqBits)
	case sum != 63:
		return fmt.Sprintf("uid.time_bits, uid.worker_bits and uid.seq_bits add up to %d: make the sum 63", sum)
	}
	return ""
}
