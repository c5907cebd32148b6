package main

import (
	"os/exec"
	"strings"
	"testing"
)

// What is in the database, and what a flag may be, is offered; but nothing that a shell
// would run.
func TestCompletion(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, stdout, _ := try(t, "__complete", "apps", "set", "--app", ""); stdout != ":4\n" {
		t.Errorf("without a database: %q", stdout)
	}
	for _, args := range [][]string{
		{"apps", "add", "--app", "1", "--name", "test"}, {"apps", "add", "--app", "200", "--name", "a`b"},
		{"tags", "add", "--tag", "orders", "--description", "all shops"}, {"tags", "add", "--tag", "发票"}, {"tags", "add", "--tag", "$(touch run)"},
		{"tags", "add", "--tag", "-x"},
	} {
		if exit, _, stderr := try(t, args...); exit != exitDone {
			t.Fatal(stderr)
		}
	}
	const apps, tags = "1\ttest\n200\n:4\n", "orders\tall shops\n发票\n:4\n"
	for args, want := range map[string]string{
		"apps set --app": apps, "apps delete --app": apps, "confirm --app": apps, "tags set --tag": tags, "tags delete --tag": tags, "confirm --tag": tags,
		"tags add --reset": "day\nmonth\nyear\nnone\n:4\n", "tags preview --overflow": "widen\nrefuse\n:4\n",
		"decode --format": "dec\nhex\nbase36\nbase62\ncrockford\n:4\n", "serve --log.level": "debug\ninfo\nwarn\nerror\n:4\n",
		"apps --database.driver": "sqlite\nmysql\n:4\n", "apps set --config none --app": ":4\n",
	} {
		if _, stdout, _ := try(t, append(append([]string{"__complete"}, strings.Fields(args)...), "")...); stdout != want {
			t.Errorf("%s: %q, want %q", args, stdout, want)
		}
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	for _, text := range []string{"$(touch run)", "`touch run`", "a b", "${x}", "a;b", "a|b", "a&b", "a>b", `a"b`, "a'b", `a\b`, "a!b", "a*b", "a?b", "a[b", "a{b", "~a", "a=b", "#a", "a\tb"} {
		if completable.MatchString(text) {
			out, err := exec.Command(bash, "-c", `IFS=$'\n'; compgen -W "`+text+`" -- ""`).Output()
			if err != nil || string(out) != text+"\n" {
				t.Errorf("%q: bash makes %q of it, %v", text, out, err)
			}
		}
	}
}

// FuzzCompletable: what is offered is in a shell's eyes a plain word, or several.
func FuzzCompletable(f *testing.F) {
	f.Add("$(x)")
	f.Add("all shops, 2026-11")
	f.Fuzz(func(t *testing.T, text string) {
		if completable.MatchString(text) && strings.ContainsAny(text, "$`\\\"'!*?[]{}()<>|&;~#=%^\x00\x1b\t\r\n") {
			t.Errorf("%q", text)
		}
	})
}

// A script that runs again changes nothing, and meets no error when another was faster.
func TestIfMissing(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args string
		exit int
		want string
	}{
		{"apps add --if-missing --app 1 --name test", 0, "app 1 (test) has its 64 shards\n"},
		{"provision --if-missing --app 1 --name test", 0, "app 1 (test) is there, nothing was changed\n"},
		{"apps add --if-missing --app 1 --name test", 0, "app 1 (test) is there, nothing was changed\n"},
		{"apps add --if-missing --app 1 --name other", 1, "app 1 already has 64 of 64 shards"},
		{"apps add --app 1 --name test", 1, "app 1 already has 64 of 64 shards"},
		{"tags add --if-missing --tag t", 0, "tag t starts at 1: "},
		{"tags add --if-missing --tag t --step 7", 0, "tag t is there, nothing was changed\n"},
		{"tags add --if-missing --tag t --pattern {seq:8} --reset none", 1, "tag is already provisioned"},
		{"tags add --tag t", 1, "tag is already provisioned"},
		{"tags add --if-missing --tag n --pattern {seq:8} --reset none", 0, "tag n starts at "},
		{"tags add --if-missing --tag n --pattern {seq:8} --reset none --zone UTC", 0, "tag n is there, nothing was changed\n"},
		{"tags add --if-missing --tag n", 1, "tag is already provisioned"},
		{"apps list", 0, "APP  NAME"}, {"tags list", 0, "TAG"}, {"apps list --json", 0, `[{"appId":1,`}, {"tags list --json", 0, `[{"tag":"n",`},
	} {
		exit, stdout, stderr := try(t, strings.Fields(c.args)...)
		said := strings.HasPrefix(stdout, c.want) || exit != 0 && strings.Contains(stderr, c.want)
		if exit != c.exit || !said {
			t.Errorf("%s: exit %d, %q, %q; want %d, %q", c.args, exit, stdout, stderr, c.exit, c.want)
		}
	}
	looks := 0
	found, made, err := ensure(true, func() (int, bool) { looks++; return looks, looks == 2 }, func() (int, error) { return 0, errNoData })
	if found != 2 || made || err != nil {
		t.Errorf("another process was faster: %v, %v, %v", found, made, err)
	}
}
