//go:build unix

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
	"shardid/scripts/testserver"
)

// fence is a block of a page: its mark, such as "sh first window", and its text.
type fence struct{ mark, text string }

func fences(t *testing.T, file string) (found []fence) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?ms)^```(\\w.*?)\n(.*?)^```$").FindAllStringSubmatch(string(raw), -1) {
		found = append(found, fence{m[1], m[2]})
	}
	return found
}

// errOther: a command succeeded, and printed something else than the page shows.
var errOther = errors.New("that is not on the page")

// pupil is somebody who follows docs/tutorial.md: a reader with a second window, whose MySQL and
// Redis are test servers.
type pupil struct {
	reader
	examples string            // the folder with the program
	here     *strings.Replacer // from the page's addresses to those of this test
	db       *testserver.MariaDBServer
	redis    *testserver.RedisServer
	window   *rig.Process // what runs in the first window
	shown    int          // how much of its output was there when the page last spoke of it
	replicas map[string]*rig.Process
	isLoaded bool // the program stores orders, so numbers are not always the same
	compared int
}

// TestE2ETutorial follows docs/tutorial.md in an empty folder: each command does what the page
// says, and each block of code and settings is what is used.
func TestE2ETutorial(t *testing.T) {
	check.Deep(t)
	story(t)
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("no curl here")
	}
	page := fences(t, "../../docs/tutorial.md")
	if chinese := fences(t, "../../docs/zh/tutorial.md"); !slices.Equal(page, chinese) {
		t.Errorf("the pages have other blocks: %q and %q", page, chinese)
	}
	p := newPupil(t)
	for _, block := range page {
		kind, name, _ := strings.Cut(block.mark, " ")
		switch kind {
		case "go":
			p.has("main.go", block.text)
		case "sql":
			p.has("stores.sql", block.text)
		case "yaml":
			p.writes(name, block.text)
		case "text":
			p.sees(block.text)
		case "sh":
			for _, s := range commands(block.text) {
				p.follow(s, name != "")
			}
		default:
			t.Errorf("the test does not know blocks %q", block.mark)
		}
	}
	if p.compared < 25 {
		t.Errorf("only %d outputs were compared", p.compared)
	}
}

// newPupil has free addresses in the place of the page's, which sort as these do.
func newPupil(t *testing.T) *pupil {
	t.Helper()
	examples, err := filepath.Abs("../../docs/examples/tutorial")
	if err != nil {
		t.Fatal(err)
	}
	p := &pupil{examples: examples, db: testserver.MariaDB(t), redis: testserver.Redis(t), replicas: map[string]*rig.Process{}}
	addrs := rig.FreeAddrs(t, 2)
	slices.Sort(addrs)
	p.here = strings.NewReplacer("127.0.0.1:3306", fmt.Sprint("127.0.0.1:", p.db.Port), "127.0.0.1:6379", p.redis.Addr,
		"127.0.0.1:8080", addrs[0], "127.0.0.1:8081", addrs[1])
	p.reader = reader{t: t, dir: t.TempDir()}
	p.env = append(settings{}.Environ(p.dir), p.here.Replace("SHOP_DSN=shop:secret@tcp(127.0.0.1:3306)/shop"), p.here.Replace("SHARDID_URLS=http://127.0.0.1:8080"))
	if err := os.Mkdir(filepath.Join(p.dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(rig.Binary(t), filepath.Join(p.dir, "bin/shardid")); err != nil {
		t.Fatal(err)
	}
	return p
}

// commands are those of a block, each with what it prints.
func commands(text string) (steps []step) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if output, isOutput := strings.CutPrefix(line, "# "); isOutput {
			steps[len(steps)-1].prints += output + "\n"
		} else {
			steps = append(steps, step{command: line})
		}
	}
	return steps
}

// has checks that a file of the example has a text.
func (p *pupil) has(file, text string) {
	p.t.Helper()
	raw, err := os.ReadFile(filepath.Join(p.examples, file))
	if err != nil || !strings.Contains(string(raw), text) {
		p.t.Errorf("%s does not have, %v:\n%s", file, err, text)
	}
}

func (p *pupil) writes(file, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, file), []byte(p.here.Replace(text)), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// follow runs a command, in the first window or in the other.
func (p *pupil) follow(s step, inFirst bool) {
	p.t.Helper()
	words := strings.Fields(s.command)
	variable, assigned, _ := strings.Cut(words[len(words)-1], "=")
	switch {
	case s.command == "make run":
		p.hasTarget("run")
		p.opens("bin/shardid serve --demo --set resp.addr=127.0.0.1:0 --set server.addr=127.0.0.1:8080")
	case inFirst:
		p.opens(s.command)
	case words[0] == "docker":
		p.stores(words)
	case words[0] == "go":
		p.builds(words)
	case words[0] == "export":
		p.env = append(p.env, p.here.Replace(words[1]))
	case assigned == "$!":
		p.replicas["$"+variable] = p.begins(strings.Join(words[:slices.Index(words, ">>")], " "), words[len(words)-4])
		p.env = append(p.env, fmt.Sprintf("%s=%d", variable, p.replicas["$"+variable].Cmd.Process.Pid))
	case regexp.MustCompile(`^(bin/shop buy|bin/shardid (migrate|provision|apps set)|kill|curl 'http)`).MatchString(s.command):
		p.asks(s, 0)
	default:
		p.asks(s, startLimit)
	}
	if words[0] == "kill" {
		p.stopped(words)
	}
}

// begins starts a command that goes on, with its output in a file.
func (p *pupil) begins(command, log string) *rig.Process {
	cmd := exec.Command("/bin/sh", "-c", "exec env "+p.here.Replace(command))
	cmd.Dir, cmd.Env = p.dir, p.env
	return rig.Start(p.t, cmd, filepath.Join(p.dir, log))
}

// opens starts a command in the first window.
func (p *pupil) opens(command string) {
	p.t.Helper()
	if p.window != nil && !p.window.Gone() {
		p.t.Fatalf("%q has no window: %s still runs", command, p.window.Cmd)
	}
	p.isLoaded = strings.HasSuffix(command, "bin/shop keep")
	p.window, p.shown = p.begins(command, fmt.Sprintf("window%d.log", p.compared)), 0
}

// sees waits until the first window shows what the page says; "^C" ends what runs there.
func (p *pupil) sees(text string) {
	p.t.Helper()
	for line := range strings.Lines(text) {
		if line == "^C\n" {
			if p.isLoaded {
				p.goesOn()
			}
			p.window.Signal(syscall.SIGINT)
			if code := p.window.Exit(startLimit); code != 0 {
				p.t.Errorf("%s: exit %d", p.window.Cmd, code)
			}
			continue
		}
		p.compared++
		want := regexp.MustCompile(p.pattern(line, true))
		eventually(p.t, startLimit, "the first window shows "+line, func() bool {
			at := want.FindStringIndex(p.window.Output()[p.shown:])
			if at != nil {
				p.shown += at[1]
			}
			return at != nil
		})
	}
	p.shown = len(p.window.Output()) // what came meanwhile is past
}

// stores does with the test servers what a command of Docker does with containers.
func (p *pupil) stores(words []string) {
	p.t.Helper()
	switch command := strings.Join(words[1:], " "); {
	case strings.HasPrefix(command, "run -d --name shop-mysql ") && strings.Contains(command, "-p 127.0.0.1:3306:3306 "):
	case strings.HasPrefix(command, "run -d --name shop-redis -p 127.0.0.1:6379:6379 "):
		p.redis.Restart() // it keeps nothing
	case strings.HasPrefix(command, "exec -i shop-mysql mysql ") && words[len(words)-1] == "docs/examples/tutorial/stores.sql":
		client := testserver.MariaDBClient()
		if client == "" {
			p.t.Fatal("no mariadb client: install the Debian package mariadb-client")
		}
		p.asks(step{command: fmt.Sprintf("%s --no-defaults --protocol=tcp -h 127.0.0.1 -P %d -u root < %s/stores.sql", client, p.db.Port, p.examples)}, 0)
	case command == "rm -f shop-redis":
		p.redis.Kill()
	case command == "rm -f shop-mysql shop-redis":
		p.redis.Kill()
		p.db.Kill()
	default:
		p.t.Errorf("the test does not know how to follow %q", words)
	}
}

// builds runs go build, with the cache of this user.
func (p *pupil) builds(words []string) {
	p.t.Helper()
	if want := "go build -o bin/shop ./docs/examples/tutorial"; strings.Join(words, " ") != want {
		p.t.Fatalf("the test does not know how to follow %q", words)
	}
	out, err := exec.Command("go", "build", "-o", filepath.Join(p.dir, words[3]), p.examples).CombinedOutput()
	if err != nil {
		p.t.Fatalf("%v: %s", err, out)
	}
}

// asks runs a command until it prints what the page shows; once if there is no time limit, as for
// one that changes something.
func (p *pupil) asks(s step, limit time.Duration) {
	p.t.Helper()
	want := regexp.MustCompile(`^` + p.pattern(s.prints, p.isLoaded) + `$`)
	err := rig.Within(limit, func() error {
		ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", p.here.Replace(s.command))
		cmd.WaitDelay = time.Second
		cmd.Dir, cmd.Env = p.dir, p.env
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err == nil && s.prints != "" && !want.MatchString(strings.TrimSpace(string(out))+"\n") {
			err = errOther
		}
		if err != nil {
			return fmt.Errorf("got %s%s (error: %w)", out, said.String(), err)
		}
		return nil
	})
	if err != nil {
		p.t.Fatalf("%s: %v\nwant %s", s.command, err, s.prints)
	}
	if s.prints != "" {
		p.compared++
	}
}

// pattern is that of an output. "…" alone in a line is any lines, elsewhere anything; blanks may
// differ, and loosely all numbers but 0.
func (p *pupil) pattern(prints string, isLoose bool) (pattern string) {
	for line := range strings.Lines(p.here.Replace(prints)) {
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

// goesOn waits until the program has stored more orders than before it missed IDs.
func (p *pupil) goesOn() {
	p.t.Helper()
	counts := regexp.MustCompile(`(\d+) orders`)
	last := func(text string) (n int) {
		if all := counts.FindAllStringSubmatch(text, -1); all != nil {
			n, _ = strconv.Atoi(all[len(all)-1][1]) // digits
		}
		return n
	}
	eventually(p.t, startLimit, "the orders go on", func() bool {
		before, after, missed := strings.Cut(p.window.Output(), "no IDs within")
		return missed && last(before) > 0 && last(after) > last(before)+100
	})
}

// stopped waits for those that a kill was for; an orderly one ends well.
func (p *pupil) stopped(words []string) {
	p.t.Helper()
	for _, word := range words[1:] {
		if replica := p.replicas[word]; replica != nil {
			if code := replica.Exit(startLimit); code != 0 && words[1] != "-9" {
				p.t.Errorf("%s: exit %d", replica.Cmd, code)
			}
		}
	}
}
