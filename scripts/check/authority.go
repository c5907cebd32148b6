package check

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

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
