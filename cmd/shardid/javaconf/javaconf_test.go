package javaconf

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shardid/cmd/shardid/config"
)

func options() Options {
	return Options{Zone: time.FixedZone("Asia/Shanghai", 8*3600), Getenv: func(name string) (string, bool) {
		return "fromenv", name == "UID_PASSWORD"
	}}
}

// Each file of testdata becomes that of its name in testdata/want, which shardid takes.
func TestImport(t *testing.T) {
	files, err := filepath.Glob("testdata/*.*")
	if err != nil || len(files) < 7 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		got, err := Import(file, options())
		want, readErr := os.ReadFile(filepath.Join("testdata/want", filepath.Base(file)+".yaml"))
		if err := errors.Join(err, readErr, config.Check("config.yaml", []byte(got))); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if got != string(want) {
			t.Errorf("%s: got\n%swant\n%s", file, got, want)
		}
	}
}

// The address and the parameters of a JDBC URL become those of a data source name.
func TestJDBC(t *testing.T) {
	const write = `dsn: "u:p@tcp(`
	for url, want := range map[string]string{
		"jdbc:mysql://h/db":                               write + `h:3306)/db"`,
		"jdbc:mysql:///db":                                write + `localhost:3306)/db"`,
		"jdbc:mysql:replication://[::1]:3307,h2/db":       write + `[::1]:3307)/db"`,
		"jdbc:mariadb://(host=h,port=1),(host=i)/db":      write + `h:1)/db"`,
		"jdbc:mysql://x:y@h:1/db?connectTimeout=0":        write + `h:1)/db"`,
		"jdbc:mysql://h/db?user=x&password=y":             write + `h:3306)/db"`,
		"jdbc:mysql://h/db?useSSL=true&sslMode=DISABLED":  "tls: true",
		"jdbc:mysql://h/db?sslMode=preferred":             "# JDBC parameter sslMode: no counterpart of this value: choose database.tls",
		"jdbc:mysql://h/db?verifyServerCertificate=false": "# JDBC parameter verifyServerCertificate: database.tls always checks",
		"jdbc:postgresql://h/db":                          "# the JDBC URL: no counterpart: ",
	} {
		text := "jdbc.url=" + url + "\njdbc.username=u\njdbc.password=p\n"
		if got, err := convert("x.properties", []byte(text), options()); err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %v, got\n%s", url, err, got)
		}
	}
	got, err := convert("x.properties", []byte("jdbc.url=jdbc:mysql://a:b%40@h/db\n"), options())
	if err != nil || !strings.Contains(got, `"a:b@@tcp(h:3306)/db"`) {
		t.Errorf("%v, got\n%s", err, got)
	}
}

// What Spring calls by other names, and what the fork writes in other ways.
func TestSpellings(t *testing.T) {
	for text, want := range map[string]string{
		"spring.redis.url=rediss://u:p@h:1/2": "  addrs: [\"h:1\"]\n  username: \"u\"\n  # A secret: it may be in the variable " +
			"SHARDID_REDIS_PASSWORD instead.\n  password: \"p\"\n  db: 2\n  tls: true\n",
		"spring.redis.cluster.nodes=a:1, b:2\nspring.redis.database=1": "redis:\n  mode: \"cluster\"\n  addrs: [\"a:1\", \"b:2\"]\n",
		"spring.redis.port=1": `addrs: ["localhost:1"]`,
		"spring.datasource.hikari.jdbc-url=jdbc:mysql://h/db\nspring.datasource.hikari.username=u": `"u@tcp(h:3306)/db"`,
		"leaf.snowflake.mode=zk_recycle\nleaf.snowflake.zk.address=h":                              "mode: \"zk_recycle\"\n",
		"leaf.snowflake.mode=mysql": "mode: \"mysql\"\n",
		"leaf.snowflake.mode=redis": "# leaf.snowflake.mode: no counterpart of this value",
		"leaf.name=${N:a}":          "name: \"a\"\n",
		"leaf.name=a\na\\nb=1":      "# \"a\\nb\": no counterpart\n",
	} {
		if got, err := convert("x.properties", []byte(text), options()); err != nil || !strings.Contains(got, want) {
			t.Errorf("%q: %v, got\n%s", text, err, got)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"x.properties", "", "it is no file that is known: those are leaf.properties (Leaf "},
		{"x.properties", "log4j.rootLogger=INFO", "it is no file that is known"},
		{"x.properties", `a=\u12`, "it cannot be read as properties: it is no file that is known"},
		{"x.xml", "<beans><bean", "it cannot be read as XML: it is no file that is known"},
		{"x.xml", "<beans><bean id='a' class='b'/></beans>", "it is no file that is known"},
		{"x.yml", "a: {b: c", "line:1: is not YAML"},
		{"x.yml", "spring: {}\n---\nspring: {}", "line:2: begins a second document"},
		{"x.yml", "a: 1", "it is no file that is known"},
		{"x.properties", "leaf.name=\xff", "it is not UTF-8 text"},
		{"x.properties", "leaf.name=" + strings.Repeat("x", 1<<20), "it is larger than 1 MiB"},
		{"x.properties", "leaf.name=${HIDDEN}", "leaf.name holds ${HIDDEN}: set that variable"},
		{"x.properties", "leaf.snowflake.mode=local", `leaf.snowflake.local.workIdMap is not like {"10.0.0.5:8080":1}`},
		{"x.properties", "jdbc.url=jdbc:mysql://h/db\njdbc.username=a:b\njdbc.password=hidden", "user, password or database of the JDBC URL"},
		{"x.properties", "jdbc.url=jdbc:mysql://h/\njdbc.username=u\njdbc.password=hidden", "database.dsn names no database"},
		{"x.properties", "spring.redis.url=hidden", "spring.redis.url is not like"},
		{"x.properties", "spring.redis.url=unix:///hidden", "spring.redis.url is not like"},
		{"x.xml", "<beans><bean class='XUidGenerator'><property name='timeBits' value='30'/></bean></beans>", "add up to 65: make the sum 63"},
		{"x.xml", "<beans><bean class='XUidGenerator'><property name='epochStr' value='now'/></bean></beans>", "epochStr is not like 2016-05-20"},
	} {
		_, err := convert(c.name, []byte(c.text), options())
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%.40q: %v, want %s", c.text, err, c.want)
		}
	}
	if _, err := Import(t.TempDir(), options()); err == nil || !strings.Contains(err.Error(), "it is a directory and no regular file") {
		t.Error(err)
	}
	if _, err := Import("missing", options()); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// FuzzImport: whatever a file holds, there is one line that says what is wrong, or a
// config.yaml that shardid takes.
func FuzzImport(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.*")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(filepath.Base(file), data)
	}
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		text, err := convert(name, data, options())
		if err == nil {
			err = config.Check("config.yaml", []byte(text))
		} else if !strings.ContainsAny(err.Error(), "\r\n") {
			err = nil
		}
		if err != nil {
			t.Errorf("%q: %v\n%s", name, err, text)
		}
	})
}
