package config

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"shardid/model"
	"shardid/repository/redisstore"
	"shardid/service/access"
	"shardid/service/queue"

	"github.com/go-sql-driver/mysql"
)

// Placeholder stands for secrets in the examples of deploy/.
const Placeholder = "CHANGE-ME"

// formats are what a text may have to be, by the name in the tag is. The error follows the text in a message and has
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
				"use 1 to 128 of letters, digits, '.', '_' and '-', a letter or digit first", "is not a name")
		},
		"listen": func(text string) error {
			_, _, ok := splitAddr(text)
			return unless(ok, "write an address such as 127.0.0.1:8080, or :8080 for every interface, with a port "+
				"from 0 to 65535", "is not host:port")
		},
		"hostport": func(text string) error {
			return unless(isServer(text),
				"write an address such as 10.0.0.5:6379, with a port from 1 to 65535", "is not host:port")
		},
		"zookeeper": func(text string) error {
			server, chroot, found := strings.Cut(text, "/")
			path := regexp.MustCompile(`^[\w-][\w.-]*(/[\w-][\w.-]*)*$`)
			return unless(isServer(server) && (!found || path.MatchString(chroot)),
				"write an address such as 10.0.0.7:2181, with a port from 1 to 65535; a chroot follows the last one, "+
					"as in 10.0.0.7:2181/leaf", "is not host:port")
		},
		"ipport": func(text string) error {
			a, err := netip.ParseAddrPort(text)
			return unless(err == nil && a.Port() != 0,
				"write an address such as 10.0.0.5:8080, with a port from 1 to 65535", "is not ip:port")
		},
	}
}

// unless is an error about what is wrong, with what to do.
func unless(ok bool, do model.Remedy, wrong string) error {
	if ok {
		return nil
	}
	return fmt.Errorf("%w: %s", do, wrong)
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
		if err := k.check(); err != nil && !k.unread {
			l.note(k.fail(err))
		}
	}
	if len(l.problems) == 0 {
		l.checkTogether()
	}
}

// blame is the source of the first of the keys that a text names and that was set at all.
func (l *Loaded) blame(wrong string) string {
	for _, named := range regexp.MustCompile(`\b[a-z]+\.[a-z_.]+`).FindAllString(wrong, -1) {
		if k := l.key(strings.TrimRight(named, ".")); k != nil && k.From != "default" {
			return k.From
		}
	}
	return "configuration"
}

// check answers what is wrong with the value by itself.
func (k *Key) check() error {
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
		return nil
	case isText && text == "":
		return fmt.Errorf("%w: is empty", model.Do("set it, the default is %s", k.Default))
	case k.Secret && strings.Contains(text, Placeholder):
		return fmt.Errorf("%w: the value still holds %s of the example", model.Do("write your own secret"), Placeholder)
	case k.Default == "off" && k.value.IsZero():
		return nil
	case isRange && (k.value.Int() < k.bound(low) || k.value.Int() > k.bound(high)):
		return fmt.Errorf("%w: is %v", model.Do("choose a value in %s, the default is %s", k.rule, k.Default), k.value)
	case len(choices) > 1 && !slices.Contains(choices, text):
		return fmt.Errorf("%w: is %s", model.Do("choose one of %s, the default is %s", strings.Join(choices, ", "),
			k.Default), show(text))
	case format == nil:
		return nil
	}
	for _, text := range texts {
		if err := format(text); err != nil && k.Secret {
			return fmt.Errorf("the value %w", err)
		} else if err != nil {
			return fmt.Errorf("%s %w", show(text), err)
		}
	}
	return nil
}

// bound is an end of the range of a key's values.
func (k *Key) bound(text string) int64 {
	end := Key{value: reflect.New(k.value.Type()).Elem()}
	if err := end.set(text); err != nil {
		panic(fmt.Sprintf("the range of %s: %v", k.Path, err)) // tests check the defaults
	}
	return end.value.Int()
}

// checkTogether holds keys that belong together against each other. What is wrong names the keys, that which is to
// blame first: see blame.
func (l *Loaded) checkTogether() {
	when := func(isWrong bool, do model.Remedy, wrong string, args ...any) {
		if isWrong {
			text := fmt.Sprintf(wrong, args...)
			l.note(fmt.Errorf("%w: %s: %s", do, l.blame(text), text))
		}
	}
	s := l.Server
	when(s.DrainDelay >= s.ShutdownTimeout, "raise server.shutdown_timeout or lower server.drain_delay",
		"server.drain_delay %s leaves nothing of server.shutdown_timeout %s", s.DrainDelay, s.ShutdownTimeout)
	when(s.RequireToken && s.TokensFile == "", "name the file that has the tokens, see shardid token --help",
		"server.require_token is true but server.tokens_file is empty")
	when(s.ProtectMonitoring && s.TokensFile+s.AdminToken == "", "set server.tokens_file or server.admin_token",
		"server.protect_monitoring is true but there is no token")
	when(s.TLSClientCAFile != "" && s.TLSCertFile == "", "set server.tls_cert_file and server.tls_key_file, too",
		"server.tls_client_ca_file is set, and clients show certificates over TLS only")

	d, isMySQL := l.Database, l.Database.Driver == "mysql"
	const write = "write user:password@tcp(host:3306)/shardid or mysql://user:password@host:3306/shardid"
	dsn, err := mysql.ParseDSN(d.driverDSN())
	when(isMySQL && d.DSN == "", write+", best in SHARDID_DATABASE_DSN",
		"database.driver is mysql but database.dsn is empty")
	when(isMySQL && d.DSN != "" && err != nil, write, "database.dsn is no data source name of MySQL")
	if isMySQL && d.DSN != "" && err == nil {
		when(dsn.Net == "tcp" && !isServer(dsn.Addr), write, "database.dsn has no host with a port in 1…65535")
		when(dsn.DBName == "", write, "database.dsn names no database")
		when(d.TLS && dsn.TLSConfig != "", "remove the parameter tls",
			"database.dsn has a parameter tls, and database.tls is true too")
	}
	const toMySQL = "set database.driver to mysql"
	ofServer := regexp.MustCompile(`^\w+://|@(\w*\(.*\))?/|^[^/\\@:]{2,}:[^@]*@|\bdbname=`).MatchString(d.DSN)
	when(!isMySQL && ofServer, toMySQL+", as the only servers are MySQL and MariaDB, or correct database.dsn",
		"database.dsn is that of a server but database.driver is sqlite, which takes the path of a file")
	when(!isMySQL && (strings.HasPrefix(d.DSN, "file:") || strings.HasPrefix(d.DSN, ":memory:")),
		"name the path of a file in database.dsn, without file: or options", "database.dsn is %s", d.DSN)
	when(!isMySQL && len(d.Hosts) > 0, toMySQL, "database.hosts is set but database.driver is sqlite, a file")
	when(!isMySQL && d.TLS, toMySQL, "database.tls is true but database.driver is sqlite, a file")

	const encrypt = "%[1]s.tls_ca_file, %[1]s.tls_cert_file or %[1]s.tls_key_file is set, and the connections are " +
		"not encrypted"
	when(!d.TLS && d.TLSFiles != TLSFiles{}, "set database.tls to true", encrypt, "database")
	when(!strings.HasPrefix(l.Redis.URL, "rediss://") && l.Redis.TLSFiles != TLSFiles{},
		"begin redis.url with rediss://", encrypt, "redis")
	for section, files := range map[string][2]string{
		"server": {s.TLSCertFile, s.TLSKeyFile}, "database": {d.TLSCertFile, d.TLSKeyFile},
		"redis": {l.Redis.TLSCertFile, l.Redis.TLSKeyFile},
	} {
		when((files[0] == "") != (files[1] == ""), "set both or none",
			"%[1]s.tls_cert_file and %[1]s.tls_key_file belong together", section)
	}

	f, r := l.Snowflake, l.Region
	when(f.WorkerBits+f.SeqBits > 22, "make the sum 22 or less, as 41 bits are time",
		"snowflake.worker_bits and snowflake.seq_bits add up to %d", f.WorkerBits+f.SeqBits)
	w, bits := f.Worker, max(0, f.WorkerBits-r.Bits)
	holders := map[int]string{}
	for _, address := range slices.Sorted(maps.Keys(w.LocalMap)) {
		id := w.LocalMap[address]
		when(holders[id] != "", "give each address a worker ID of its own",
			"snowflake.worker.local_map gives the worker ID %d to %s and to %s", id, holders[id], address)
		holders[id] = address
		when(id < 0 || id >= 1<<bits, model.Do("give the address a worker ID in 0…%d", 1<<bits-1),
			"snowflake.worker.local_map gives %s the worker ID %d, for which snowflake.worker_bits %d less "+
				"region.bits %d has no room", address, id, f.WorkerBits, r.Bits)
	}
	when(w.Mode == "local" && len(w.LocalMap) == 0, "list ip:port with a worker ID for each instance",
		"snowflake.worker.mode is local but snowflake.worker.local_map is empty")
	when(strings.HasPrefix(w.Mode, "zk") && len(l.ZooKeeper.Addrs) == 0, "list host:port of the servers",
		"snowflake.worker.mode is %s but zookeeper.addrs is empty", w.Mode)
	for i, addr := range l.ZooKeeper.Addrs {
		when(strings.Contains(addr, "/") && i < len(l.ZooKeeper.Addrs)-1, "write a chroot after the last address",
			"zookeeper.addrs has one after %s", addr)
	}

	u := l.UID
	sum := u.TimeBits + u.WorkerBits + u.SeqBits
	when(u.Mode == "cached" && u.SeqBits+u.BoostPower > 30, "lower uid.boost_power, or set uid.mode to default",
		"the ring has 2^(uid.boost_power + uid.seq_bits) slots and %d + %d is more than 30", u.BoostPower, u.SeqBits)
	when(sum != 63, "make the sum 63", "uid.time_bits, uid.worker_bits and uid.seq_bits add up to %d", sum)
	// Each worker ID is a region's, so that at least one bit is left for them.
	when(r.ID >= 1<<r.Bits, model.Do("choose a region in 0…%d, or more bits", 1<<r.Bits-1),
		"region.id %d does not fit into region.bits %d", r.ID, r.Bits)
	when(f.Enabled && r.Bits >= f.WorkerBits, "lower region.bits, or switch snowflake off",
		"region.bits %d leaves no worker IDs of snowflake.worker_bits %d", r.Bits, f.WorkerBits)
	when(u.Enabled && r.Bits >= u.WorkerBits, "lower region.bits, or switch uid off",
		"region.bits %d leaves no worker IDs of uid.worker_bits %d", r.Bits, u.WorkerBits)
}
