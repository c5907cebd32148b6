//go:build unix

package stories_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"
)

// The Java client and its starter, by Maven and beside the real frameworks: what make test-java runs.

// bootLines are the lines of Spring Boot, and how Maven is asked for them.
var bootLines = map[string]struct{ verify, apps []string }{
	"Spring Boot 3": {nil, nil},
	"Spring Boot 4": {
		[]string{"-Pboot4"},
		[]string{"-Dboot.version=4.0.7", "-Dmybatis-plus.starter=mybatis-plus-spring-boot4-starter"},
	},
}

// javaStory skips where make test-java is not what runs, or there is no Maven.
func javaStory(t *testing.T) {
	t.Helper()
	if os.Getenv("SHARDID_TEST_JAVA") == "" {
		t.Skip("make test-java runs it")
	}
	if _, err := exec.LookPath("mvn"); err != nil {
		t.Skip("not installed: mvn")
	}
}

// maven runs it in a folder of this one, and gives what it said.
func maven(t *testing.T, dir string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "mvn", append([]string{"-B", "-f", dir}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("mvn %v: %v: %s", args, err, rig.LastLines(string(out), 60))
	}
	return string(out)
}

// forJava are replicas on one database with what the Java tests ask for.
func forJava(t *testing.T, replicas int) []*daemon {
	t.Helper()
	s := onMariaDB(migrated(t)).With(onRedis(testserver.Redis(t).Addr))
	must(t, s, "tags", "add", "--tag", "carts", "--step", "1000000", "--shard-bits", "10")
	must(t, s, "names", "add", "--name", "flakes", "--shard-bits", "6")
	must(t, s, "names", "add", "--name", "demo")
	must(t, s, "apps", "add", "--app", "1", "--name", "test")
	must(t, s, "tags", "add", "--tag", "leaf-segment-test", "--step", "1000000")
	return serveReady(t, replicas, s)
}

// TestJavaVerify: the tests of client/java beside both lines of the frameworks. All worker IDs are given back.
func TestJavaVerify(t *testing.T) {
	check.Deep(t)
	javaStory(t)
	d := forJava(t, 1)[0]
	for name, line := range bootLines {
		t.Run(name, func(t *testing.T) {
			begun := time.Now()
			out := maven(t, "../../client/java", append(line.verify, "verify", "-Dshardid.url="+d.url)...)
			t.Logf("%v: %q", time.Since(begun).Round(time.Second),
				regexp.MustCompile(`Tests run:[^-]*Skipped: \d+\n`).FindAllString(out, -1))
			if strings.Contains(out, "Skipped: 1,") {
				t.Error("it left tests out:", out)
			}
		})
	}
	granted, released := len(d.Lines(`"msg":"lease granted"`)), len(d.Lines(`"msg":"lease released"`))
	if granted == 0 || granted != released {
		t.Errorf("%d leases were granted and %d released", granted, released)
	}
}

// TestJavaApplications: Spring Boot applications as a user writes them. Each inserts a thousand rows, and goes on when
// a replica is killed meanwhile. Without any it says so.
func TestJavaApplications(t *testing.T) {
	check.Deep(t)
	javaStory(t)
	for name, line := range bootLines {
		t.Run(name, func(t *testing.T) {
			maven(t, "testdata/java", append(line.apps, "clean", "package", "-DskipTests", "-q")...)
			t.Run("mybatis", testJavaMyBatis)
			t.Run("jpa", testJavaJPA)
			t.Run("sharding", testJavaSharding)
		})
	}
}

// application is a jar that runs in a database with these statements done.
func application(t *testing.T, name, urls string, statements []string, args ...string) (*rig.Process, string) {
	t.Helper()
	dsn, jdbc := javaDatabase(t, statements...)
	always := []string{"--shardid.urls=" + urls, "--spring.datasource.url=" + jdbc, "--spring.datasource.username=root"}
	return java(t, name, append(always, args...)...), dsn
}

// javaDatabase is a new database with these statements done, as Go and as JDBC call it.
func javaDatabase(t *testing.T, statements ...string) (dsn, jdbc string) {
	t.Helper()
	server := testserver.SharedMariaDB(t)
	dsn = server.NewDatabase(t)
	query(t, dsn, statements...)
	database, _, _ := strings.Cut(dsn[strings.LastIndex(dsn, "/")+1:], "?")
	return dsn, "jdbc:mariadb://" + server.Addr() + "/" + database
}

// java starts the jar of an application.
func java(t *testing.T, name string, args ...string) *rig.Process {
	t.Helper()
	jar, err := filepath.Abs("testdata/java/" + name + "/target/" + name + "-1.jar")
	check.Must(t, err)
	cmd := exec.CommandContext(t.Context(), "java", append([]string{"-Xmx256m", "-jar", jar}, args...)...)
	cmd.Dir = t.TempDir()
	return rig.Start(t, cmd, filepath.Join(t.TempDir(), "log"))
}

// says waits until an application printed it.
func says(t *testing.T, p *rig.Process, text string) {
	t.Helper()
	eventually(t, 3*time.Minute, text, func() bool { return strings.Contains(p.Output(), text) })
}

// routed checks a thousand orders: no two of one number, and each with the remainder of its buyer.
func routed(t *testing.T, dsn string, bits int) {
	t.Helper()
	want := fmt.Sprintf("1000 1000 %d", 1000)
	got := oneRow(t, dsn, fmt.Sprintf(
		"SELECT CONCAT_WS(' ', COUNT(*), COUNT(DISTINCT id >> %d), SUM(id %% %d = buyer_id %% %d)) FROM orders",
		bits, 1<<bits, 1<<bits))
	check.Equal(t, got, want, "orders, numbers and right remainders")
}

const ordersTable = "CREATE TABLE orders (id BIGINT PRIMARY KEY, buyer_id BIGINT)"

func testJavaMyBatis(t *testing.T) {
	replicas := forJava(t, 2)
	app, dsn := application(t, "mybatis", replicas[0].url+","+replicas[1].url, []string{ordersTable})
	says(t, app, "inserted 300\n")
	replicas[0].Kill()
	check.Equal(t, app.Exit(3*time.Minute), 0, "exit")
	routed(t, dsn, 10)

	app, _ = application(t, "mybatis", replicas[0].url, []string{ordersTable})
	check.Equal(t, app.Exit(time.Minute), 1, "exit without a replica")
	check.Has(t, app.Output(), replicas[0].url+" does not answer", "what a user reads")
}

func testJavaJPA(t *testing.T) {
	replicas := forJava(t, 2)
	urls := replicas[0].url + "," + replicas[1].url
	port := strings.TrimPrefix(testserver.FreeAddrs(t, 1)[0], "127.0.0.1:")
	args := []string{
		"--server.port=" + port, "--shardid.snowflake.name=flakes", "--management.endpoint.health.show-details=always",
		"--management.endpoints.web.exposure.include=health,metrics",
	}
	app, dsn := application(t, "jpa", urls, []string{ordersTable}, args...)
	says(t, app, "inserted 300\n")
	replicas[0].Kill()
	says(t, app, "inserted 1000\n")
	routed(t, dsn, 6)
	actuator := "http://127.0.0.1:" + port + "/actuator/"
	health := func() string { return fetched(t, actuator+"health/shardid") }
	check.Has(t, health(), `"status":"UP"`, "health with one replica left")
	check.Has(t, fetched(t, actuator+"metrics/shardid.lease.left"), `"value":`, "a meter")
	replicas[1].Kill()
	eventually(t, time.Minute, "DOWN", func() bool { return strings.Contains(health(), `"status":"DOWN"`) })

	app, _ = application(t, "jpa", urls, []string{ordersTable}, args[1:2]...)
	check.Equal(t, app.Exit(time.Minute), 1, "exit without a replica")
	check.Has(t, app.Output(), "no worker ID of the name flakes", "what a user reads")
	check.Has(t, app.Output(), "Start shardid, or correct shardid.urls.", "what a user reads")
}

// fetched is what a page of an application says.
func fetched(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	check.Must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	return string(body)
}

// oneRow is the one value of a query.
func oneRow(t *testing.T, dsn, statement string) (value string) {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	check.Must(t, err)
	defer db.Close()
	check.Must(t, db.QueryRowContext(t.Context(), statement).Scan(&value))
	return value
}

// shardingSphere is the configuration of two databases with so many tables each.
func shardingSphere(databases [2]string, tables int) string {
	sources := ""
	for i, database := range databases {
		sources += fmt.Sprintf(`
  ds_%d:
    dataSourceClassName: com.zaxxer.hikari.HikariDataSource
    driverClassName: org.mariadb.jdbc.Driver
    jdbcUrl: %s
    username: root
    password: ""`, i, database)
	}
	return fmt.Sprintf(`databaseName: shop
dataSources:%s
rules:
- !SHARDING
  tables:
    orders:
      actualDataNodes: ds_$->{0..1}.orders_$->{0..%d}
      databaseStrategy:
        complex: {shardingColumns: "id,buyer_id", shardingAlgorithmName: database}
      tableStrategy:
        complex: {shardingColumns: "id,buyer_id", shardingAlgorithmName: table}
    payments:
      actualDataNodes: ds_$->{0..1}.payments
      databaseStrategy:
        standard: {shardingColumn: id, shardingAlgorithmName: payments}
      keyGenerateStrategy: {column: id, keyGeneratorName: ids}
  keyGenerators:
    ids: {type: SHARDID, props: {source: "segment:leaf-segment-test"}}
  shardingAlgorithms:
    database: {type: CLASS_BASED, props: {strategy: COMPLEX, algorithmClassName: app.App$Remainder, divisor: 1}}
    table: {type: CLASS_BASED, props: {strategy: COMPLEX, algorithmClassName: app.App$Remainder, divisor: 2}}
    payments: {type: INLINE, props: {algorithm-expression: "ds_$->{id %% 2}"}}
props: {sql-show: true}
`, sources, tables-1)
}

// testJavaSharding has ShardingSphere route orders by their buyers and by their IDs, and doubles the tables.
func testJavaSharding(t *testing.T) {
	const tables = 16
	d := forJava(t, 1)[0]
	var dsns, urls [2]string
	for i := range dsns {
		dsns[i], urls[i] = javaDatabase(t, "CREATE TABLE payments (id BIGINT PRIMARY KEY, amount BIGINT)")
		for n := range tables {
			query(t, dsns[i], strings.Replace(ordersTable, "orders", fmt.Sprint("orders_", n), 1))
		}
	}
	dir := t.TempDir()
	ids := filepath.Join(dir, "ids")
	run := func(what string, tables int) string {
		config := filepath.Join(dir, fmt.Sprint(tables, ".yaml"))
		writeFile(t, config, shardingSphere(urls, tables))
		app := java(t, "sharding", what, ids, "--shardid.urls="+d.url,
			"--spring.datasource.driver-class-name=org.apache.shardingsphere.driver.ShardingSphereDriver",
			"--spring.datasource.url=jdbc:shardingsphere:absolutepath:"+config)
		if code := app.Exit(5 * time.Minute); code != 0 {
			t.Fatalf("%s: exit %d", what, code)
		}
		return app.Output()
	}
	run("fill", tables)
	paid := oneRow(t, dsns[0], "SELECT COUNT(*) FROM payments WHERE id % 2 = 0") + " " +
		oneRow(t, dsns[1], "SELECT COUNT(*) FROM payments WHERE id % 2 = 1")
	check.Equal(t, paid, "500 500", "payments in their databases")
	asked(t, run("read", tables), tables)
	for i, dsn := range dsns {
		for n := range tables {
			query(t, dsn, strings.Replace(ordersTable, "orders", fmt.Sprint("orders_", n+tables), 1),
				fmt.Sprintf("INSERT INTO orders_%d SELECT * FROM orders_%d WHERE id DIV 2 & %d", n+tables, n, tables),
				fmt.Sprintf("DELETE FROM orders_%d WHERE id DIV 2 & %d", n, tables))
		}
		check.Equal(t, oneRow(t, dsn, "SELECT COUNT(*) > 250 FROM orders_31"), "1", "orders moved in database", i)
	}
	asked(t, run("read", 2*tables), 2*tables)
}

// asked checks by ShardingSphere's log that each order and each buyer was looked for in one table, and that each table
// was asked.
func asked(t *testing.T, log string, tables int) {
	t.Helper()
	statement := regexp.MustCompile(`Actual SQL: (ds_\d) ::: SELECT .* FROM (orders_\d+)`)
	logical := regexp.MustCompile(`(?m)^(ORDER|BUYER) `)
	used, parts := map[string]bool{}, logical.Split(log, -1)[1:]
	check.Equal(t, len(parts), 22_000, "reads")
	for _, part := range parts {
		found := statement.FindAllStringSubmatch(part, -1)
		if len(found) != 1 {
			t.Fatalf("it asked %d tables: %s", len(found), part)
		}
		used[found[0][1]+found[0][2]] = true
	}
	check.Equal(t, len(used), 2*tables, "tables used")
}

// TestJavaHundred: a hundred processes at once have as many worker IDs, and no ID twice.
func TestJavaHundred(t *testing.T) {
	check.Deep(t)
	javaStory(t)
	maven(t, "testdata/java", "package", "-DskipTests", "-q", "-pl", "bench", "-am")
	replicas := forJava(t, 2)
	jar, err := filepath.Abs("testdata/java/bench/target/bench-1.jar")
	check.Must(t, err)
	seen, workers := map[string]bool{}, map[int64]bool{}
	var ports []string
	for _, addr := range testserver.FreeAddrs(t, 100) {
		ports = append(ports, strings.TrimPrefix(addr, "127.0.0.1:"))
		cmd := exec.CommandContext(t.Context(), "java", "-Xmx24m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
			"-jar", jar, ports[len(ports)-1], "1", "lease-java")
		cmd.Env = append(os.Environ(), "SHARDID_URLS="+replicas[0].url+","+replicas[1].url)
		rig.Start(t, cmd, filepath.Join(t.TempDir(), "log"))
		if len(ports)%10 > 0 {
			continue // as many as the machine can start at once
		}
		for _, port := range ports[len(ports)-10:] {
			for _, text := range issued(t, port) {
				id, err := strconv.ParseInt(text, 10, 64)
				check.OK(t, err)
				check.Equal(t, seen[text], false, text, "was there already")
				seen[text], workers[id>>12&1023] = true, true
			}
		}
	}
	check.Equal(t, len(seen), 10_000, "IDs")
	check.Equal(t, len(workers), 100, "worker IDs")
}

// issued are a hundred IDs of a process, as soon as it has a worker ID.
func issued(t *testing.T, port string) []string {
	t.Helper()
	var got struct{ IDs []string }
	eventually(t, 3*time.Minute, "a worker ID", func() bool {
		resp, err := http.Get("http://127.0.0.1:" + port + "/lease-java?count=100")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return json.NewDecoder(resp.Body).Decode(&got) == nil && len(got.IDs) == 100
	})
	return got.IDs
}
