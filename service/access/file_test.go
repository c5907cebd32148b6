package access

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

// What a file says is what its tokens show of themselves.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"# none, on purpose\n[]\n":                                "",
		"\uFEFF" + one("a", "[]"):                                 "a-service []",
		one("a", "[]") + one("b", "['uid']"):                      "a-service [] b-service [uid]",
		one("a", "\n  - segment:pre*\n  - uid"):                   "a-service [segment:pre* uid]",
		one("a", "[uid]\n  rate: 0.5\n  ids_per_second: 5"):       "a-service [uid] rate 0.5 ids 5",
		one("a", "[uid]\n  expires: 2027-01-31"):                  "a-service [uid] until 2027-01-31T00:00:00Z",
		one("a", "[uid]\n  expires: '2027-01-31T08:00:00+08:00'"): "a-service [uid] until 2027-01-31T00:00:00Z",
		`- {name: x, sha256: "` + sumOf("x") +
			`", may: ["sequence:chat", "lease:carts*", admin], rate: 1}`: "x [sequence:chat lease:carts* admin] rate 1",
	} {
		tokens, err := Parse("t.yaml", []byte(text))
		var shown []string
		for _, token := range tokens {
			line := fmt.Sprintf("%s %v", token.Name(), token.May)
			if token.Rate != nil {
				line += fmt.Sprintf(" rate %v", *token.Rate)
			}
			if token.IDsPerSecond != nil {
				line += fmt.Sprintf(" ids %d", *token.IDsPerSecond)
			}
			if token.Expires != nil {
				line += " until " + token.Expires.UTC().Format(time.RFC3339)
			}
			shown = append(shown, line)
		}
		if got := strings.Join(shown, " "); err != nil || got != want {
			t.Errorf("%q:\ngot  %s, %v\nwant %s", text, got, err, want)
		}
	}
}

// Each mistake is named with the file, and the line or the token. No text of the file is shown: somebody may have
// written the token there.
func TestParseNamesTheMistake(t *testing.T) {
	good := one("a", "[]")
	for text, want := range map[string]string{
		"":                                          "restore the file, or paste the line of shardid token new, ",
		"name: x\n":                                 "write each token as shardid token new prints it",
		"- secret\n":                                "string was used where mapping is expected",
		"- name: 'secret\n":                         "could not find end character",
		"- name: x\n  name: secret\n":               "mapping key … already defined",
		"- name: x\n  role: secret\n":               "expires; docs/access.md#tokens-of-03 shows",
		"- may: [secret: 1]\n":                      "cannot unmarshal",
		good + "- name: x\n  may: []\n":             "token 2: sha256: is not a SHA-256",
		"- {name: x, sha256: secret}":               "token 1: sha256: is not a SHA-256",
		one("a", "[]") + "- name: x y\n":            "token 2: name: has something else",
		"- name: admin\n":                           "token 1: name: is that of server.admin_token",
		"- {name: x, sha256: '" + sumOf("a") + "'}": "token 1: may: is missing",
		one("a", "[secret]"):                        "token 1: may: has something else",
		one("a", "[queue]"):                         "may: has something else",
		one("a", "['queue:1*']"):                    "may: has something else",
		one("a", "['queue:256']"):                   "may: has something else",
		one("a", "['queue:01']"):                    "may: has something else",
		one("a", "['segment:']"):                    "may: has something else",
		one("a", "['lease:a/b']"):                   "may: has something else",
		one("a", "['uid:1']"):                       "may: has something else",
		one("a", "['admin:x']"):                     "may: has something else",
		one("a", "[]\n  rate: 0"):                   "rate: is not a number of requests a second",
		one("a", "[]\n  rate: .nan"):                "rate: is not a number of requests a second",
		one("a", "[]\n  rate: 1000001"):             "rate: is not a number of requests a second",
		one("a", "[]\n  ids_per_second: 0.5"):       "write a number in 1…1000000000000, or remove the key",
		one("a", "[]\n  expires: 2027-02-30"):       "expires: is not a date",
		one("a", "[]\n  expires:"):                  "expires: is empty",
		one("a", "[]\n  ids_per_second: ~"):         "ids_per_second: is empty",
		good + good:                                 "token 2: sha256: is there twice",
	} {
		tokens, err := Parse("t.yaml", []byte(text))
		says := model.Message(err)
		if err == nil || errors.Is(err, model.ErrInvalidArgument) || tokens != nil || // the program was called rightly
			!strings.Contains(says, ": t.yaml:") || !strings.Contains(says, want) ||
			strings.Contains(err.Error(), "\n") || strings.Contains(says, "secret") {
			t.Errorf("%q:\ngot  %s\nwant %s", text, says, want)
		}
	}
	_, err := ReadFile(filepath.Join(t.TempDir(), "none"))
	check.Has(t, fmt.Sprint(err), "none: cannot be read: no such file or directory")
}

// What was generated is one token and its hash, and another one each time.
func TestGenerate(t *testing.T) {
	a, sum := Generate()
	b, _ := Generate()
	if len(a) != len(prefix)+43 || !strings.HasPrefix(a, prefix) || a == b || sum != sumOf(a) {
		t.Errorf("%q and %q, sum %s", a, b, sum)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(one("a", "[queue:1, segment:x*, sequence:c*]\n  rate: 5\n  expires: 2027-01-31\n"))
	f.Add("- {name: x, sha256: &a 1, role: *a}")
	f.Fuzz(func(t *testing.T, text string) {
		tokens, err := Parse("t.yaml", []byte(text))
		if err != nil && (tokens != nil || strings.ContainsAny(err.Error(), "\r\n")) {
			t.Errorf("%v, %v", tokens, err)
		}
		for _, token := range tokens {
			if !tokenName.MatchString(token.Name()) || token.sum == (Credential{}) {
				t.Errorf("%+v", token)
			}
		}
	})
}

// A story of one file: tokens come, go, and outlive a file that is bad or gone.
func TestTokensFollowTheFile(t *testing.T) {
	file := fileOf(t, one("old", ""))
	synctest.Test(t, func(t *testing.T) {
		var r check.Reports
		var log bytes.Buffer // written by the reloader alone, read while it waits
		g, err := NewGuard(Options{File: file, Report: func(err error) { r.Report("", err) },
			Log: slog.New(slog.NewTextHandler(&log, nil))})
		check.Must(t, err)
		g.Start()
		defer func() { check.OK(t, g.Stop(t.Context())) }()
		after := func(what string, change func(), problem string, good ...string) {
			t.Helper()
			log.Reset()
			change()
			time.Sleep(Period + time.Millisecond)
			synctest.Wait()
			if n := strings.Count(log.String(),
				"level=INFO msg=\"tokens are read again\""); n != strings.Count(log.String(), "\n") || n > 0 &&
				problem != "" || n != 1 && problem == "" && what != "nothing" {
				t.Errorf("%s: %q", what, log.String())
			}
			if err := r.Of(""); (err == nil) != (problem == "") || err != nil &&
				!strings.Contains(err.Error(), problem) {
				t.Errorf("%s: reported %v, want %q", what, err, problem)
			}
			for _, token := range []string{"old", "new"} {
				_, err := g.Client(with("Bearer " + token))
				if want := strings.Contains(strings.Join(good, " "), token); want != (err == nil) || err != nil &&
					!errors.Is(err, model.ErrNoToken) {
					t.Errorf("%s: %s is %v", what, token, err)
				}
			}
		}
		after("nothing", func() {}, "", "old")
		check.Equal(t, r.Told(""), 2, "looks in one period, at each end")
		after("both", func() { write(t, file, one("old", "")+one("new", "")) }, "", "old", "new")
		after("only the new one", func() { write(t, file, one("new", "")) }, "", "new")
		after("a bad file", func() { write(t, file, "- name: x y\n") }, "tokens.yaml: token 1: write 1 to 64 of", "new")
		after("still bad", func() {}, "tokens.yaml: token 1: write 1 to 64 of letters", "new")
		two := one("new", "") + "---\n" + one("old", "")
		after("two documents", func() { write(t, file, two) }, "keep one, without ---", "new")
		after("gone", func() { _ = os.Remove(file) }, "no such file", "new")
		after("back, as it was", func() { write(t, file, one("new", "")) }, "", "new")
		after("replaced by rename", func() {
			write(t, file+".new", one("old", ""))
			_ = os.Rename(file+".new", file)
		}, "", "old")
		after("emptied by accident", func() { write(t, file, "") }, "tokens.yaml: has no token", "old")
		folder := func() { _ = errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) }
		after("a folder in its place", folder, "is a directory", "old")
		after("none on purpose", func() { _ = os.Remove(file); write(t, file, "[]") }, "")
	})
}

// filesOf are the server's certificate and its key in the folder of an authority, which may come later.
func filesOf(a *check.Authority) CertificateFiles {
	return CertificateFiles{Cert: a.Path("server.pem"), Key: a.Path("server.key")}
}

// own is an authority's certificate.
func own(t *testing.T, a *check.Authority) string {
	t.Helper()
	text, err := os.ReadFile(a.Path("ca.pem"))
	check.Must(t, err)
	return string(text)
}

// serveTLS is a server with these certificates.
func serveTLS(t *testing.T, c *Certificates) (url string) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Listener = tls.NewListener(s.Listener, c.Server())
	s.Start()
	t.Cleanup(s.Close)
	return "https://" + s.Listener.Addr().String()
}

// fetch asks over a new connection of HTTP/2, and gives the name in the server's certificate.
func fetch(t *testing.T, url string, cfg *tls.Config) (name string, err error) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Get(url)
	if err != nil {
		return "", err
	}
	check.Equal(t, res.ProtoMajor, 2, "protocol")
	return res.TLS.PeerCertificates[0].Subject.CommonName, res.Body.Close()
}

// A certificate that is renewed is served without a restart; one that cannot be
// read, or of which the key has not come yet, changes nothing and is reported.
func TestCertificatesFollowTheFiles(t *testing.T) {
	ca := check.NewAuthority(t)
	names := filesOf(ca)
	if _, err := NewCertificates(names, nil); err == nil ||
		!strings.Contains(err.Error(), "server.tls_cert_file "+names.Cert) {
		t.Errorf("no files: %v", err)
	}
	ca.Issue("server", "first")
	var r check.Reports
	c, err := NewCertificates(names, func(err error) { r.Report("", err) })
	check.Must(t, err)
	url, trusting := serveTLS(t, c), ca.Client("", "")
	good, err := os.ReadFile(names.Cert)
	check.Must(t, err)
	for _, step := range []struct {
		what   string
		change func()
		name   string
		report string
	}{
		{"nothing", func() {}, "first", ""},
		{"renewed", func() { ca.Issue("server", "second") }, "second", ""},
		{"another one's certificate", func() { write(t, names.Cert, string(good)) }, "second",
			"private key does not match public key"},
		{"no certificate", func() { write(t, names.Cert, "x") }, "second", "failed to find any PEM data"},
		{"gone", func() { _ = os.Remove(names.Key) }, "second", "no such file"},
		{"renewed again", func() { ca.Issue("server", "third") }, "third", ""},
		{"expired", func() { ca.IssueUntil("server", "fourth", time.Now().Add(-time.Minute)) }, "", "expired on"},
	} {
		step.change()
		c.look()
		if err := r.Of(""); (err == nil) != (step.report == "") || err != nil &&
			!strings.Contains(err.Error(), step.report) {
			t.Errorf("%s: reported %v, want %q", step.what, err, step.report)
		}
		name, err := fetch(t, url, trusting)
		if name != step.name || (err == nil) != (step.name != "") {
			t.Errorf("%s: served %q, %v", step.what, name, err)
		}
	}
}

// With authorities of clients, only those get in that one of them knows, and another
// authority counts as soon as its file is there.
func TestClientCertificates(t *testing.T) {
	ours, theirs := check.NewAuthority(t), check.NewAuthority(t)
	names := filesOf(ours)
	names.ClientCA = ours.Path("clients.pem")
	ours.Issue("server", "server")
	write(t, names.ClientCA, "x")
	if _, err := NewCertificates(names, nil); err == nil ||
		!strings.Contains(model.Message(err), "server.tls_client_ca_file: "+names.ClientCA+" holds no PEM") {
		t.Errorf("no authority: %v", err)
	}
	write(t, names.ClientCA, own(t, ours))
	c, err := NewCertificates(names, nil)
	check.Must(t, err)
	url := serveTLS(t, c)
	wantIn := func(who *check.Authority, want bool) {
		t.Helper()
		var cert, key string // nobody's
		if who != nil {
			cert, key = who.Issue("client", "client")
		}
		if _, err := fetch(t, url, ours.Client(cert, key)); (err == nil) != want {
			t.Errorf("%v", err)
		}
	}
	wantIn(ours, true)
	wantIn(theirs, false)
	wantIn(nil, false)
	write(t, names.ClientCA, own(t, theirs))
	c.look()
	wantIn(theirs, true)
	wantIn(ours, false)
	write(t, names.ClientCA, "x")
	c.look()
	wantIn(theirs, true)
	wantIn(nil, false)
}
