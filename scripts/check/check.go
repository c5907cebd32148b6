// Package check holds what the tests of many packages share: checks of one line, the
// reporter of conditions and the log that services are given, certificates, and whether the race
// detector is on.
package check

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shardid/service/metric"

	"github.com/prometheus/client_golang/prometheus"
)

// Must ends the test if err is not nil.
func Must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// OK reports an error. What says what was done, in the manner of fmt.Sprintln.
func OK(t testing.TB, err error, what ...any) {
	if err != nil {
		t.Helper()
		t.Errorf("%s%v", label(what), err)
	}
}

// Is reports an error that is not want, as errors.Is has it.
func Is(t testing.TB, err, want error, what ...any) {
	if !errors.Is(err, want) {
		t.Helper()
		t.Errorf("%sgot %v, want %v", label(what), err, want)
	}
}

// Metrics are those of a registry, as metric.Sums has them.
func Metrics(t testing.TB, registry prometheus.Gatherer) map[string]float64 {
	families, err := registry.Gather()
	Must(t, err)
	return metric.Sums(families)
}

// Equal reports a value that is not want.
func Equal[T comparable](t testing.TB, got, want T, what ...any) {
	if got != want {
		t.Helper()
		t.Errorf("%sgot %+v, want %+v", label(what), got, want)
	}
}

// Has reports a text that lacks a part, and Lacks one that has it.
func Has(t testing.TB, text, part string, what ...any) {
	if !strings.Contains(text, part) {
		t.Helper()
		t.Errorf("%s%q is not in %.2000s", label(what), part, text)
	}
}

// Lacks is the opposite of Has.
func Lacks(t testing.TB, text, part string, what ...any) {
	if strings.Contains(text, part) {
		t.Helper()
		t.Errorf("%s%q is in %.2000s", label(what), part, text)
	}
}

// Err is the error of a call that returns more than that: check.Must(t, check.Err(f())).
// It panics if the last result is no error.
func Err(results ...any) error {
	last := results[len(results)-1]
	if last == nil {
		return nil
	}
	return last.(error)
}

// label begins a message with what was done.
func label(what []any) string {
	if len(what) == 0 {
		return ""
	}
	text := fmt.Sprintln(what...)
	return text[:len(text)-1] + ": "
}

// Dial opens a connection, which lasts as long as the test, 40 seconds at most, and sends text. The server may close it
// before it has read all.
func Dial(t testing.TB, addr, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(40 * time.Second))
	_, _ = io.WriteString(c, text)
	return c
}

// Eventually waits up to twenty seconds until f returns nil; else the test ends.
func Eventually(t testing.TB, what string, f func() error) {
	t.Helper()
	if err := Within(20*time.Second, f); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Within calls f until it returns nil, for limit at most, and returns its last error. It asks at first
// after a millisecond and, in the end, every twenty.
func Within(limit time.Duration, f func() error) error {
	end := time.Now().Add(limit)
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		err := f()
		if err == nil || time.Now().After(end) {
			return err
		}
		time.Sleep(pause)
	}
}

// Log keeps what is written to it. Its zero value is ready; it may be used by many
// goroutines.
type Log struct {
	mu  sync.Mutex
	out strings.Builder
}

// Write keeps a line.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

// Count returns how often text was written.
func (l *Log) Count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.out.String(), text)
}

// Reports is a reporter that keeps the last report of each condition. Its zero value
// is ready; it may be used by many goroutines.
type Reports struct {
	mu   sync.Mutex
	last map[string]error
	told map[string]int
}

// Report keeps err as what is wrong with the condition.
func (r *Reports) Report(condition string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last, r.told = map[string]error{}, map[string]int{}
	}
	r.last[condition], r.told[condition] = err, r.told[condition]+1
}

// Of returns the last report of a condition.
func (r *Reports) Of(condition string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[condition]
}

// Told returns how often a condition was reported.
func (r *Reports) Told(condition string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.told[condition]
}

// Deep skips a test that only `make test-all` runs: one that takes long, needs what few machines have, or
// looks once more, by other means, at what `make test` has decided. DEEP=1 in the environment runs them.
func Deep(t testing.TB) {
	if os.Getenv("DEEP") == "" {
		t.Helper()
		t.Skip("deep: make test-all runs it, or DEEP=1")
	}
}

var update = flag.Bool("update", false, "write what tests make from the source, as make references does")

// Made reports a file that is not want, which was made from the source. With -update it
// writes it.
func Made(t testing.TB, file, want string) {
	t.Helper()
	if *update {
		Must(t, os.WriteFile(file, []byte(want), 0o644))
	}
	got, err := os.ReadFile(file)
	Must(t, err)
	if string(got) != want {
		t.Errorf("%s is out of date: make references", file)
	}
}

// MadePart is Made for the lines of a file between the comments <!-- NAME: made by make
// references --> and <!-- end of NAME -->, with the indentation of the first.
func MadePart(t testing.TB, file, name, want string) {
	t.Helper()
	text, err := os.ReadFile(file)
	Must(t, err)
	around := regexp.MustCompile(`(?s)^(.*\n( *)<!-- ` + name + `: made by make references -->\n).*?` +
		`( *<!-- end of ` + name + ` -->\n.*)$`)
	m := around.FindStringSubmatch(string(text))
	if m == nil {
		t.Fatalf("%s has no comments around its part %s", file, name)
	}
	for line := range strings.Lines(want) {
		m[1] += m[2] + line
	}
	Made(t, file, m[1]+m[3])
}

// Race says whether the race detector is on, which makes everything about ten times slower.
func Race() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// Authority issues certificates into a folder, which lasts as long as its test. It belongs to
// the goroutine that runs the test.
type Authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority whose own certificate is in ca.pem.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.sign("authority", time.Now().Add(time.Hour))
	a.write("ca.pem", "CERTIFICATE", a.cert.Raw)
	return a
}

// Path is a file of the authority's folder.
func (a *Authority) Path(file string) string { return filepath.Join(a.dir, file) }

// Issue writes a certificate for an hour, and its key, to NAME.pem and NAME.key, and gives their
// paths. It is for 127.0.0.1 and for subject, a host name.
func (a *Authority) Issue(name, subject string) (cert, key string) {
	a.t.Helper()
	return a.IssueUntil(name, subject, time.Now().Add(time.Hour))
}

// IssueUntil is Issue for a certificate that expires at end.
func (a *Authority) IssueUntil(name, subject string, end time.Time) (cert, key string) {
	a.t.Helper()
	c, k := a.sign(subject, end)
	der, err := x509.MarshalPKCS8PrivateKey(k)
	Must(a.t, err)
	return a.write(name+".pem", "CERTIFICATE", c.Raw), a.write(name+".key", "PRIVATE KEY", der)
}

// Client is the configuration of a client that trusts the authority, and shows a certificate
// unless cert is "".
func (a *Authority) Client(cert, key string) *tls.Config {
	a.t.Helper()
	cfg := &tls.Config{RootCAs: x509.NewCertPool()}
	cfg.RootCAs.AddCert(a.cert)
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		Must(a.t, err)
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg
}

// sign makes a certificate, by itself when it is the authority's own.
func (a *Authority) sign(subject string, end time.Time) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Must(a.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: subject},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: end,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{subject},
		IsCA: a.cert == nil, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	Must(a.t, err)
	cert, err := x509.ParseCertificate(der)
	Must(a.t, err)
	return cert, key
}

func (a *Authority) write(file, kind string, der []byte) string {
	a.t.Helper()
	Must(a.t, os.WriteFile(a.Path(file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return a.Path(file)
}
