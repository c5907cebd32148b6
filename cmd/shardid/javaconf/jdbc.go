package javaconf

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

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
