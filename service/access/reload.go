package access

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"shardid/model"
	"shardid/service/background"
)

// Period is the pause between two looks at a file.
const Period = 2 * time.Second

// reloader loads something again when one of the files it is made of changes. What was loaded before stays in
// use when that fails.
type reloader struct {
	files  []string
	load   func() error
	report func(error)
	group  *background.Group

	seen [sha256.Size]byte // of the files when they were last loaded
	err  error             // of that
}

// newReloader loads nothing yet. load must keep what it has when it fails. report, which
// may be nil, gets the outcome of the latest load every Period. Files without a name do
// not count.
func newReloader(load func() error, report func(error), files ...string) *reloader {
	files = slices.DeleteFunc(files, func(name string) bool { return name == "" })
	return &reloader{files: files, load: load, report: report, group: background.NewGroup("looking at files")}
}

// Start looks at the files every Period until Stop. Without files, a second time and
// after Stop it does nothing.
func (r *reloader) Start() {
	if len(r.files) > 0 {
		r.group.Start(func() { r.group.Every(Period, r.look) })
	}
}

// Stop ends that and waits. It may be called twice, and without Start.
func (r *reloader) Stop(ctx context.Context) error { return r.group.Stop(ctx, nil) }

// reload loads now. Before Start it is for the goroutine that calls Start.
func (r *reloader) reload() error {
	r.seen = r.read() // before, so that a change meanwhile is seen later
	r.err = r.load()
	return r.err
}

// look loads what has changed, and what could not be loaded.
func (r *reloader) look() {
	if r.err != nil || r.read() != r.seen {
		_ = r.reload() // is in err
	}
	if r.report != nil {
		r.report(r.err)
	}
}

// read is a digest of what the files hold.
func (r *reloader) read() (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, name := range r.files {
		data, err := os.ReadFile(name) //nolint:gosec // the operator names the file
		fmt.Fprintf(h, "%d %v %s", len(data), err, data)
	}
	h.Sum(sum[:0])
	return sum
}

// CertificateFiles are PEM files.
type CertificateFiles struct {
	Cert, Key string // the server's certificate, with what leads to its authority, and its key
	ClientCA  string // authorities of the clients' certificates; "" for clients without
}

// Certificates are what the server shows to clients, and what it asks of them. Start
// keeps them up to date until Stop. Safe for concurrent use.
type Certificates struct {
	*reloader
	names   CertificateFiles
	current atomic.Pointer[tls.Config]
}

// NewCertificates reads the files and starts nothing. report is told, every Period,
// whether they could be read and the certificate is still good; it may be nil.
func NewCertificates(names CertificateFiles, report func(error)) (*Certificates, error) {
	c := &Certificates{names: names}
	c.reloader = newReloader(c.load, func(err error) {
		leaf := c.current.Load().Certificates[0].Leaf
		if err == nil && leaf != nil && time.Now().After(leaf.NotAfter) {
			err = fmt.Errorf("%w: server.tls_cert_file %s expired on %s",
				model.Do("renew the certificate, which is read again without a restart"), names.Cert,
				leaf.NotAfter.UTC().Format(time.RFC3339))
		}
		if report != nil {
			report(err)
		}
	}, names.Cert, names.Key, names.ClientCA)
	return c, c.reload()
}

// Server is the configuration of a listener: each connection gets the certificates
// of its time.
func (c *Certificates) Server() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current.Load(), nil },
	}
}

// load reads the files into a new configuration. The tickets with which clients skip
// the next handshake are of one configuration, so a client that came with the old
// certificates shows its own again.
func (c *Certificates) load() error {
	cert, err := tls.LoadX509KeyPair(c.names.Cert, c.names.Key)
	if err != nil {
		return fmt.Errorf("%w: server.tls_cert_file %s and server.tls_key_file %s: %w",
			model.Do("name the PEM files of a certificate and its key that this user may read"), c.names.Cert,
			c.names.Key, err)
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

// ReadPool reads authorities from a PEM file.
func ReadPool(name string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(name) //nolint:gosec // the operator names the file
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(pem) {
		err = fmt.Errorf("%s holds no PEM certificate", name)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", model.Do("name a PEM file of authorities that this user may read"), err)
	}
	return pool, nil
}
