//go:build unix

package stories_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"
)

// Pages are followed as their readers do it: each command of a block of sh is run in one folder, from the first to the
// last, and what the lines below it that begin with "# " show is what it prints. What follows two blanks and a "#" is
// for people. "…" stands for what differs from run to run. Only addresses are changed, to those of this test: the
// servers that a page names are started before it is followed.

const docs = "../../docs/"

// block is a fenced block of a page: "sh first window" is of kind sh and has that name.
type block struct{ kind, name, text string }

// step is a command of a page and what it prints, "" when it does not say.
type step struct{ command, prints string }

func readPage(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	check.Must(t, err)
	return string(raw)
}

func blocksOf(t *testing.T, file string) []block {
	t.Helper()
	return blocksIn(readPage(t, file))
}

func blocksIn(text string) (all []block) {
	fenced := regexp.MustCompile("(?ms)^ *```(\\w+) ?(.*?)\n(.*?)^ *```$")
	for _, m := range fenced.FindAllStringSubmatch(text, -1) {
		all = append(all, block{m[1], m[2], m[3]})
	}
	return all
}

func (b block) steps() (all []step) {
	for line := range strings.Lines(strings.ReplaceAll(b.text, "\\\n", "")) {
		line = strings.TrimSpace(line)
		if output, isOutput := strings.CutPrefix(line, "# "); isOutput && all != nil {
			all[len(all)-1].prints += output + "\n"
		} else if line != "" {
			all = append(all, step{command: regexp.MustCompile(`\s{2,}#.*`).ReplaceAllString(line, "")})
		}
	}
	return all
}

// page is one that is followed, and what is there before.
type page struct {
	file     string
	sections []string // the headings of what is followed; none: all of it
	isDemo   bool     // `make run` runs already
	database string   // of the page's data source name, with a user of that name
	theirs   []string // what an older service has left in it
	program  string   // the folder of a program of which the page shows parts
}

// text is what of the page is followed.
func (p page) text(t *testing.T) string {
	t.Helper()
	whole, followed := readPage(t, p.file), ""
	if p.sections == nil {
		return whole
	}
	for _, heading := range p.sections {
		_, section, isThere := strings.Cut(whole, "\n## "+heading+"\n")
		if !isThere {
			t.Fatalf("%s has no section %s", p.file, heading)
		}
		section, _, _ = strings.Cut(section, "\n## ")
		followed += section
	}
	return followed
}

func pages() []page {
	tags := "('test', 100001, 100000), ('orders', 5000000, 2000)"
	return []page{
		{file: "../../README.md", database: "shardid"},
		{file: docs + "api.md", isDemo: true},
		{file: docs + "sequences.md", isDemo: true},
		{file: docs + "tutorial.md", program: docs + "examples/tutorial/"},
		{file: docs + "migrating.md", sections: []string{"tinyid"}, database: "shardid", theirs: []string{
			"CREATE DATABASE tinyid",
			"CREATE TABLE tinyid.tiny_id_info (id bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY, " +
				"biz_type varchar(63) NOT NULL UNIQUE, max_id bigint NOT NULL, step int NOT NULL)",
			"INSERT INTO tinyid.tiny_id_info (biz_type, max_id, step) VALUES " + tags,
		}},
		{file: docs + "zh/leaf.md", database: "leaf", theirs: []string{
			leafTable, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('orders', 5001, 1000)",
		}},
		{file: docs + "zh/uid.md", database: "uid", theirs: baiduNodes()},
		{file: docs + "running.md", sections: []string{"MySQL and Redis", "Backup"}, database: "shardid"},
	}
}

// leafTable is the table as Leaf's users have made it.
const leafTable = "CREATE TABLE `leaf_alloc` (`biz_tag` varchar(128) NOT NULL DEFAULT '', " +
	"`max_id` bigint(20) NOT NULL DEFAULT '1', `step` int(11) NOT NULL, `description` varchar(256) DEFAULT NULL, " +
	"`update_time` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, " +
	"PRIMARY KEY (`biz_tag`)) ENGINE=InnoDB"

// baiduNodes is the table as Baidu's script makes it, with what its library leaves there: a row for each start.
func baiduNodes() []string {
	return []string{`CREATE TABLE WORKER_NODE (
			ID BIGINT NOT NULL AUTO_INCREMENT COMMENT 'auto increment id',
			HOST_NAME VARCHAR(64) NOT NULL COMMENT 'host name',
			PORT VARCHAR(64) NOT NULL COMMENT 'port',
			TYPE INT NOT NULL COMMENT 'node type: ACTUAL or CONTAINER',
			LAUNCH_DATE DATE NOT NULL COMMENT 'launch date',
			MODIFIED TIMESTAMP NOT NULL COMMENT 'modified time',
			CREATED TIMESTAMP NOT NULL COMMENT 'created time',
			PRIMARY KEY(ID)
		) COMMENT='DB WorkerID Assigner for UID Generator', ENGINE = INNODB`,
		`INSERT INTO WORKER_NODE (HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED) VALUES
			('10.1.1.1', '1567733700834-5', 2, '2019-09-06', NOW(), NOW()),
			('10.1.1.2', '8080', 1, '2019-09-06', NOW(), NOW()),
			('10.1.1.1', '1567733999000-99999', 2, '2019-09-06', NOW(), NOW())`}
}

// TestPages: each command of a page does what the page says, and each block of code is what is used.
func TestPages(t *testing.T) {
	story(t)
	for _, p := range pages() {
		t.Run(filepath.Base(p.file), func(t *testing.T) {
			if p.file != "../../README.md" {
				check.Deep(t)
			}
			t.Parallel()
			if _, err := exec.LookPath("curl"); err != nil {
				t.Skip("no curl here")
			}
			r := newReader(t, p)
			for _, b := range blocksIn(p.text(t)) {
				r.reads(b)
			}
		})
	}
}

// TestChinesePages: what a Chinese page has its reader type, and its programs, are on an English page, too, unless the
// page is followed itself.
func TestChinesePages(t *testing.T) {
	english := map[any]bool{}
	files, _ := filepath.Glob(docs + "*.md")
	files = append(files, "../../README.md", "../../deploy/helm/shardid/README.md")
	for _, file := range files {
		for _, shown := range shownOn(t, file) {
			english[shown] = true
		}
	}
	files, _ = filepath.Glob(docs + "zh/*.md")
	for _, file := range append(files, "../../README.zh-CN.md") {
		isFollowed := slices.ContainsFunc(pages(), func(p page) bool { return p.file == file })
		for _, shown := range shownOn(t, file) {
			if !english[shown] && !isFollowed {
				t.Errorf("%s: no English page has %q", file, shown)
			}
		}
	}
}

// shownOn are the steps and the programs of a page.
func shownOn(t *testing.T, file string) (all []any) {
	t.Helper()
	for _, b := range blocksOf(t, file) {
		if b.name != "" {
			all = append(all, b)
		}
		for _, s := range b.steps() {
			if b.kind == "sh" {
				all = append(all, s)
			}
		}
	}
	return all
}

// reader is somebody who follows a page: what continues runs in a first window, all else in another one.
type reader struct {
	t        *testing.T
	page     page
	dir      string // the folder they are in
	env      []string
	here     *strings.Replacer // from the page's addresses to those of this test
	redis    *testserver.RedisServer
	window   *rig.Process // what runs in the first window
	shown    int          // how much of its output was there when the page last spoke of it
	isLoaded bool         // a program stores orders, so numbers are not always the same
}

// newReader starts the servers that the page names.
func newReader(t *testing.T, p page) *reader {
	t.Helper()
	text := p.text(t)
	r := &reader{t: t, page: p, dir: t.TempDir()}
	addrs := testserver.FreeAddrs(t, 3)
	slices.Sort(addrs) // as the page's are
	_, port, _ := net.SplitHostPort(addrs[2])
	known := []string{
		"127.0.0.1:8080", addrs[0], "127.0.0.1:8081", addrs[1], "127.0.0.1:6380", addrs[2], "-p 6380", "-p " + port,
	}
	if strings.Contains(text, ":3306") {
		known = append(known, r.database()...)
	}
	if strings.Contains(text, ":6379") {
		r.redis = testserver.Redis(t)
		known = append(known, "127.0.0.1:6379", r.redis.Addr, "10.0.0.4:6379", r.redis.Addr)
	}
	if strings.Contains(text, ":2181") {
		known = append(known, "10.0.0.7:2181", testserver.SharedZooKeeper(t).Addr())
	}
	r.here = strings.NewReplacer(known...)
	r.env = append(settings{"SERVER_ADDR": addrs[0], "URLS": "http://" + addrs[0]}.Environ(r.dir),
		"PATH="+r.dir+":"+os.Getenv("PATH"), r.here.Replace("SHOP_DSN=shop:secret@tcp(127.0.0.1:3306)/shop"))
	r.writes(".curlrc", "fail\nsilent\nshow-error\n")
	bin := filepath.Join(r.dir, "bin")
	check.Must(t, errors.Join(os.Mkdir(bin, 0o700), os.Symlink(rig.Binary(t), filepath.Join(bin, "shardid"))))
	if p.isDemo {
		r.opens("make run")
	}
	return r
}

// database starts a server with what the page expects to be there, and makes clients that ask it as its administrator.
func (r *reader) database() (known []string) {
	r.t.Helper()
	db, client := testserver.MariaDB(r.t), testserver.MariaDBClient(r.t)
	host, port, _ := net.SplitHostPort(db.Addr())
	const script = "#!/bin/sh\nexec %s --no-defaults --protocol=tcp -h %s -P %s -u root \"$@\"\n"
	r.writes("mysql", fmt.Sprintf(script, client, host, port))
	r.writes("mysqldump", fmt.Sprintf(script, filepath.Join(filepath.Dir(client), "mysqldump"), host, port))
	if name := r.page.database; name != "" {
		query(r.t, db.DSN(""), "CREATE DATABASE "+name, "CREATE USER "+name+" IDENTIFIED BY 'secret'",
			"GRANT ALL ON *.* TO "+name)
		query(r.t, db.DSN(name), r.page.theirs...)
	}
	return []string{"127.0.0.1:3306", db.Addr(), "10.0.0.3:3306", db.Addr()}
}

func (r *reader) reads(b block) {
	r.t.Helper()
	switch {
	case b.kind == "sh":
		for _, s := range b.steps() {
			r.follows(s, b.name == "first window")
		}
	case b.name == "first window":
		r.sees(b.text)
	case b.kind == "yaml" && b.name != "":
		r.writes(b.name, r.here.Replace(b.text))
	case b.kind == "yaml":
		for _, m := range regexp.MustCompile(`sha256: "(\w{64})" +# of (\w+)`).FindAllStringSubmatch(b.text, -1) {
			if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(m[2]))); sum != m[1] {
				r.t.Errorf("the sum of %s is %s, not %s", m[2], sum, m[1])
			}
		}
	case r.page.program != "":
		file := r.page.program + map[string]string{"go": "main.go", "sql": "stores.sql"}[b.kind]
		check.Has(r.t, readPage(r.t, file), b.text, file, "and the page")
	}
}

func (r *reader) writes(file, text string) {
	r.t.Helper()
	check.Must(r.t, os.WriteFile(filepath.Join(r.dir, file), []byte(text), 0o700))
}

// follows a command, in the first window or in the other.
func (r *reader) follows(s step, inFirst bool) {
	r.t.Helper()
	words := strings.Fields(s.command)
	variable, assigned, _ := strings.Cut(words[len(words)-1], "=")
	switch {
	case words[0] == "make" && words[1] != "run":
		r.hasTarget(words[1])
	case inFirst || s.command == "make run" || s.command == "bin/shardid serve":
		r.opens(s.command)
	case words[0] == "export":
		r.env = append(r.env, r.here.Replace(strings.ReplaceAll(words[1], "'", "")))
	case words[0] == "docker":
		r.container(s)
	case words[0] == "go":
		r.builds(words)
	case assigned == "$!":
		replica := r.begins(strings.Join(words[:slices.Index(words, ">>")], " "), words[len(words)-4])
		r.env = append(r.env, fmt.Sprintf("%s=%d", variable, replica.Cmd.Process.Pid))
	case words[0] == "redis-cli" && exec.Command("redis-cli", "--version").Run() != nil:
		r.t.Logf("not installed: redis-cli, so nobody follows %s", s.command)
	case words[0] == "mysqldump" && exec.Command(filepath.Join(r.dir, "mysqldump"), "--version").Run() != nil:
		r.t.Skip("not installed: mysqldump, and what follows needs its file")
	case strings.Contains(s.command, "shardid bench"):
		r.asks(step{s.command + " --duration 300ms", s.prints})
	default:
		r.asks(s)
	}
}

// hasTarget: make knows it; what it does is for its own tests.
func (r *reader) hasTarget(name string) {
	r.t.Helper()
	check.Has(r.t, readPage(r.t, "../../Makefile"), "\n"+name+": ", "targets of make")
}

// begins starts a command that continues, with its output in a file.
func (r *reader) begins(command, log string) *rig.Process {
	cmd := exec.Command("/bin/sh", "-c", "exec env "+r.here.Replace(command))
	cmd.Dir, cmd.Env = r.dir, r.env
	return rig.Start(r.t, cmd, filepath.Join(r.dir, log))
}

// opens starts a command in the first window, in the place of what runs there.
func (r *reader) opens(command string) {
	r.t.Helper()
	if command == "make run" {
		r.hasTarget("run")
		command = "bin/shardid serve --demo"
	}
	isServer := strings.HasPrefix(command, "bin/shardid serve")
	if r.window != nil {
		r.ends()
	}
	if isServer {
		command += " --set resp.addr=127.0.0.1:6380 --set log.format=text" // as on a terminal
	}
	r.isLoaded = !isServer
	r.window, r.shown = r.begins(command, fmt.Sprintf("window%d.log", time.Now().UnixNano())), 0
	if isServer {
		rig.Until(r.t, startLimit, "healthy", func() error {
			res, err := http.Get(r.here.Replace("http://127.0.0.1:8080/healthz"))
			if err == nil {
				err = res.Body.Close()
			}
			if err == nil && res.StatusCode != http.StatusOK {
				err = errors.New(res.Status)
			}
			return err
		})
	}
}

// ends what runs in the first window, as Ctrl-C does.
func (r *reader) ends() {
	r.t.Helper()
	if !r.window.Gone() {
		r.window.Signal(syscall.SIGINT)
	}
	if code := r.window.Exit(startLimit); code != 0 {
		r.t.Errorf("%s: exit %d, want 0", r.window.Cmd, code)
	}
}

// sees waits until the first window shows what the page says; "^C" ends what runs there.
func (r *reader) sees(text string) {
	r.t.Helper()
	for line := range strings.Lines(text) {
		if line == "^C\n" {
			r.ends()
			continue
		}
		want := regexp.MustCompile(r.pattern(line, true))
		eventually(r.t, startLimit, "the first window shows "+line, func() bool {
			at := want.FindStringIndex(r.window.Output()[r.shown:])
			if at != nil {
				r.shown += at[1]
			}
			return at != nil
		})
	}
	r.shown = len(r.window.Output()) // what came meanwhile is past
}

// container does with the servers of this test what a command of Docker does with containers.
func (r *reader) container(s step) {
	r.t.Helper()
	const administers = "docker exec -i shop-mysql mysql -h127.0.0.1 -uroot -psecret < docs/"
	switch file, isSQL := strings.CutPrefix(s.command, administers); {
	case isSQL:
		path, err := filepath.Abs(docs + file)
		check.Must(r.t, err)
		r.asks(step{command: "mysql < " + path})
	case strings.HasPrefix(s.command, "docker run -d --name shop-redis -p 127.0.0.1:6379:6379 "):
		r.redis.Restart() // it keeps nothing
	case strings.HasPrefix(s.command, "docker rm -f "):
		r.redis.Kill()
	case !strings.HasPrefix(s.command, "docker run -d --name shop-mysql "):
		r.t.Errorf("the test does not know how to follow %q", s.command)
	}
}

// builds runs go build in the repository, with the cache of this user.
func (r *reader) builds(words []string) {
	r.t.Helper()
	words[3] = filepath.Join(r.dir, words[3]) // go build -o FILE PACKAGE
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("%q: %v: %s", words, err, out)
	}
}

// asks runs a command once, or, if it only looks, until it prints what the page shows.
func (r *reader) asks(s step) {
	r.t.Helper()
	limit := time.Duration(0)
	if regexp.MustCompile(`^(bin/shardid (health|status|apps( -.*)?$)|curl -s |grep )`).MatchString(s.command) {
		limit = startLimit
	}
	want := regexp.MustCompile(`^` + r.pattern(s.prints, r.isLoaded) + `$`)
	err := check.Within(limit, func() error {
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", r.here.Replace(s.command))
		cmd.WaitDelay = time.Second
		cmd.Dir, cmd.Env = r.dir, r.env
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err == nil && s.prints != "" && !want.MatchString(strings.TrimSpace(string(out))+"\n") {
			err = errors.New("that is not on the page")
		}
		if err != nil {
			return fmt.Errorf("got %s%s (error: %w)", out, said.String(), err)
		}
		return nil
	})
	if err != nil {
		r.t.Fatalf("%s: %v\nwant %s", s.command, err, s.prints)
	}
}

// pattern is that of an output. "…" alone in a line is any lines, elsewhere anything; blanks may
// differ, and loosely all numbers but 0.
func (r *reader) pattern(prints string, isLoose bool) (pattern string) {
	for line := range strings.Lines(r.here.Replace(prints)) {
		if line == "…\n" {
			pattern += `(.*\n)*?`
			continue
		}
		line = regexp.QuoteMeta(strings.Join(strings.Fields(line), " "))
		if isLoose {
			line = regexp.MustCompile(`\b(\d\d+|[1-9])\b`).ReplaceAllString(line, `\d+`)
		}
		pattern += strings.NewReplacer(" ", ` +`, "…", `.*`).Replace(line) + ` *\n`
	}
	return pattern
}
