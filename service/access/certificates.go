package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// CertificateFiles are PEM files.
type CertificateFiles struct {
	Cert, Key string // the server's certificate, with what leads to its authority, and its key
	ClientCA  string // authorities of the clients' certificates; "" for clients without
}

// Certificates are what the server shows to clients, and what it asks of them. Start
// keeps them up to date until Stop. Safe for concurrent use.
type Certificates struct {
	*Reloader
	names   CertificateFiles
	current atomic.Pointer[tls.Config]
}

// NewCertificates reads the files and starts nothing. report is told, every Period,
// whether they could be read and the certificate is still good; it may be nil.
func NewCertificates(names CertificateFiles, report func(error)) (*Certificates, error) {
	c := &Certificates{names: names}
	c.Reloader = NewReloader(c.load, func(err error) {
		if report == nil {
			return
		}
		if err == nil {
			err = c.expired(time.Now())
		}
		report(err)
	}, files(names.Cert, names.Key, names.ClientCA)...)
	return c, c.Load()
}

// Server is the configuration of a listener: each connection gets the certificates
// of its time.
func (c *Certificates) Server() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current.Load(), nil },
	}
}

// connKey is where a connection keeps what its client was last checked against.
type connKey struct{}

// Connection is for http.Server.ConnContext, as CheckClient needs it.
func (c *Certificates) Connection(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, new(atomic.Pointer[tls.Config]))
}

// CheckClient refuses a request over a connection that is older than the present
// authorities and whose client none of them knows.
func (c *Certificates) CheckClient(r *http.Request) error {
	current := c.current.Load()
	checked, _ := r.Context().Value(connKey{}).(*atomic.Pointer[tls.Config])
	if checked.Load() == current {
		return nil
	}
	chain := r.TLS.PeerCertificates
	between := x509.NewCertPool()
	for _, cert := range chain[1:] {
		between.AddCert(cert)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: current.ClientCAs, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return fmt.Errorf("the certificate of this connection's client is not trusted any more: connect with one of an authority in server.tls_client_ca_file: %w", err)
	}
	checked.Store(current)
	return nil
}

// load reads the files into a new configuration. The tickets with which clients skip
// the next handshake are of one configuration, so who came with the old certificates
// shows its own again.
func (c *Certificates) load() error {
	cert, err := tls.LoadX509KeyPair(c.names.Cert, c.names.Key)
	if err != nil {
		return fmt.Errorf("server.tls_cert_file %s and server.tls_key_file %s: %w", c.names.Cert, c.names.Key, err)
	}
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert},
		NextProtos: []string{"h2", "http/1.1"}, // net/http speaks both
	}
	if c.names.ClientCA != "" {
		if cfg.ClientCAs, err = ReadPool(c.names.ClientCA); err != nil {
			return fmt.Errorf("server.tls_client_ca_file: %w", err)
		}
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
	}
	c.current.Store(cfg)
	return nil
}

// expired is the error of a certificate whose time is up.
func (c *Certificates) expired(now time.Time) error {
	leaf := c.current.Load().Certificates[0].Leaf
	if leaf != nil && now.After(leaf.NotAfter) {
		return fmt.Errorf("server.tls_cert_file %s expired on %s: renew it, it is read again without a restart",
			c.names.Cert, leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// ReadPool reads authorities from a PEM file.
func ReadPool(name string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(name) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no PEM certificate", name)
	}
	return pool, nil
}
