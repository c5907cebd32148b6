package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shardid/cmd/shardid/config"
	"shardid/repository/redisstore"
	"shardid/scripts/check"
	"shardid/scripts/testserver"
)

// authority signs certificates for a test and writes them to a folder.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert, a.key = a.issue(t, "ca", template)
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// issue writes name.pem and name.key, signed by the authority or by itself.
func (a *authority) issue(t *testing.T, name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.Must(t, err)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	check.Must(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	check.Must(t, err)
	writePEM(t, a.file(name+".pem"), "CERTIFICATE", der)
	writePEM(t, a.file(name+".key"), "PRIVATE KEY", keyDER)
	cert, err := x509.ParseCertificate(der)
	check.Must(t, err)
	return cert, key
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	check.Must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

func TestMain(m *testing.M) { testserver.Main(m) }

// tlsRedis is a server that speaks TLS only to clients with a certificate.
func tlsRedis(t *testing.T, a *authority) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	addr := listener.Addr().String()
	check.Must(t, listener.Close())
	_, port, _ := strings.Cut(addr, ":")
	testserver.Redis(t, "--tls-port", port, "--tls-ca-cert-file", a.file("ca.pem"),
		"--tls-cert-file", a.file("server.pem"), "--tls-key-file", a.file("server.key"))
	return addr
}

func TestRedisOverTLS(t *testing.T) {
	a := newAuthority(t)
	a.issue(t, "server", &x509.Certificate{DNSNames: []string{"redis.test"}})
	a.issue(t, "client", &x509.Certificate{Subject: pkix.Name{CommonName: "shardid"}})
	addr := tlsRedis(t, a)
	good := config.Redis{
		Mode: "single", Addrs: []string{addr}, ClientTLS: config.ClientTLS{TLS: true, TLSCAFile: a.file("ca.pem"),
			TLSCertFile: a.file("client.pem"), TLSKeyFile: a.file("client.key"), TLSServerName: "redis.test"},
	}
	for name, c := range map[string]struct {
		change func(*config.Redis)
		want   string // in the error; "" means it works
	}{
		"as it should be":     {func(*config.Redis) {}, ""},
		"any certificate":     {func(c *config.Redis) { c.TLSCAFile, c.TLSServerName, c.TLSInsecureSkipVerify = "", "", true }, ""},
		"unknown authority":   {func(c *config.Redis) { c.TLSCAFile = "" }, "unknown authority"},
		"another server name": {func(c *config.Redis) { c.TLSServerName = "other.test" }, "other.test"},
		"no client key":       {func(c *config.Redis) { c.TLSCertFile, c.TLSKeyFile = "", "" }, "redis: check"},
		"plain":               {func(c *config.Redis) { c.TLS = false }, "redis.tls"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := good
			c.change(&cfg)
			opts, err := redisOptions(cfg)
			check.Must(t, err)
			store, err := redisstore.New(opts)
			check.Must(t, err)
			defer func() { check.Must(t, store.Close()) }()
			err = store.Check(t.Context())
			if got := fmt.Sprint(err); (err == nil) != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("Check = %v, want %q", err, c.want)
			}
		})
	}
}

func TestRedisTLSFilesThatAreNone(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	check.Must(t, os.WriteFile(empty, nil, 0o600))
	for _, cfg := range []config.ClientTLS{
		{TLS: true, TLSCAFile: "/does/not/exist.pem"},
		{TLS: true, TLSCAFile: empty},
		{TLS: true, TLSCertFile: empty, TLSKeyFile: empty},
	} {
		if _, err := redisOptions(config.Redis{ClientTLS: cfg}); err == nil || !strings.Contains(err.Error(), "redis.tls_") {
			t.Errorf("redisOptions(%+v) = %v", cfg, err)
		}
	}
}
