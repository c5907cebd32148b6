package access

import (
	"bytes"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardid/model"
	"shardid/scripts/check"
)

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
