package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"shardid/scripts/check"
)

// try runs a command in the folder of the test, and gives what it prints.
func try(t *testing.T, args ...string) (exit int, stdout, stderr string) {
	t.Helper()
	outputs := [...]**os.File{&os.Stdout, &os.Stderr}
	var was, files [len(outputs)]*os.File
	for i, output := range outputs {
		file, err := os.Create(filepath.Join(t.TempDir(), "output"))
		check.Must(t, err)
		was[i], files[i], *output = *output, file, file
	}
	exit = run(t.Context(), args)
	var texts [len(outputs)]string
	for i, output := range outputs {
		*output = was[i]
		text, err := os.ReadFile(files[i].Name())
		check.Must(t, errors.Join(err, files[i].Close()))
		texts[i] = string(text)
	}
	return exit, texts[0], texts[1]
}

// Every command, and each below it, shows how it is used.
func TestEveryCommandHasAnExample(t *testing.T) {
	var look func(*cobra.Command)
	look = func(cmd *cobra.Command) {
		if !cmd.Hidden && !strings.Contains(cmd.Example, cmd.CommandPath()) {
			t.Errorf("%s has no example of itself", cmd.CommandPath())
		}
		for _, below := range cmd.Commands() {
			look(below)
		}
	}
	look(newCLI().root)
}

// What is wrong with the command line is said in words that help.
func TestCommandLineErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	check.Must(t, os.WriteFile("tab.yaml", []byte("server:\n\taddr: ':1'\n"), 0o600))
	check.Must(t, os.WriteFile("two.yaml", []byte("foo: 1\nlog:\n  level: loud\n"), 0o600))
	for _, c := range []struct {
		args string
		exit int
		want string
	}{
		{"config check --database.tls true", 2, "--database.tls true: a boolean takes its value after =: write --database.tls=true\n"},
		{"apps --json false", 2, "--json false: a boolean takes its value after =: write --json=false\n"},
		{"config check nonsense", 2, `unknown command "nonsense" for "shardid config check": see shardid --help` + "\n"},
		{"config check --config tab.yaml", 1, "tab.yaml:2: is indented by a tab: use spaces\n"},
		{"config check --config two.yaml --queue.timeout 1h", 1, "two.yaml:1: foo: unknown key: \n" +
			"flag --queue.timeout: 1h0m0s is not in \ntwo.yaml:3: log.level: \"loud\" is not one of \n"},
		{"config check --server.tokens_file none --redis.mode single --redis.addrs h:1 --redis.tls --redis.tls_ca_file none", 1,
			"flag --server.tokens_file: server.tokens_file: none: \nflag --redis.tls_ca_file: redis.tls_ca_file: \n"},
		{"config import none", 2, "invalid argument: none: cannot be read: \n"},
		{"config import two.yaml", 2, "invalid argument: two.yaml: it is no file that is known: \n"},
		{"config import --java-zone Nowhere two.yaml", 2, "invalid argument: --java-zone is no time zone: \n"},
		{"decode -5", 2, "invalid argument: -5 is not an ID: IDs are positive\n"},
		{"decode -5 --json", 2, "invalid argument: -5 is not an ID: IDs are positive\n"},
		{"decode --kind snowflake -5", 2, "invalid argument: -5 is not an ID: IDs are positive\n"},
		{"decode -- -5", 2, "invalid argument: -5 is not an ID: IDs are positive\n"},
		{"decode -x", 2, "unknown shorthand flag: 'x' in -x: see shardid --help\n"},
	} {
		exit, stdout, stderr := try(t, strings.Fields(c.args)...)
		lines := strings.SplitAfter(stderr, "\n")
		for i, want := range strings.SplitAfter(c.want, "\n") {
			if exit != c.exit || stdout != "" || len(lines) <= i || want != "" && !strings.HasPrefix(lines[i], "shardid: "+strings.TrimSuffix(want, "\n")) {
				t.Errorf("%s: exit %d, %q, %q; want %d, %q", c.args, exit, stdout, stderr, c.exit, c.want)
			}
		}
	}
	check.Must(t, os.WriteFile("config.yaml", nil, 0o600))
	if _, stdout, _ := try(t, "config", "check"); stdout != "the configuration is right: config.yaml\n" {
		t.Error(stdout)
	}
}

// Who asks without a token, or with another one, is told by the name of the flag.
func TestTokenFileIsNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	check.Must(t, os.WriteFile("token", []byte("secret-of-somebody"), 0o600))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"code":-7,"message":"no valid token: send it in the header Authorization: Bearer TOKEN"}`, http.StatusUnauthorized)
	}))
	defer server.Close()
	for flags, want := range map[string]string{
		"":                   " answers 401: it asks for a token: name a file that holds one with --token-file\n",
		"--token-file token": " answers 401: it does not know the token of --token-file token, or that has expired\n",
	} {
		for _, name := range []string{"get", "status"} {
			args := append([]string{name, "--url", server.URL}, strings.Fields(flags)...)
			if exit, _, stderr := try(t, args...); exit != exitFailed || !strings.HasSuffix(stderr, want) {
				t.Errorf("%v: %d, %q", args, exit, stderr)
			}
		}
	}
}
