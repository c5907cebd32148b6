package access

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"shardid/service/background"
)

// Period is the pause between two looks at a file.
const Period = 2 * time.Second

// reloader loads something again when one of the files it is made of changes.
type reloader struct {
	files  []string
	load   func() error
	report func(error)
	group  *background.Group

	seen []fs.FileInfo // of the files when they were last loaded, nil for one that cannot be looked at
	err  error         // of that; what was loaded before stays in use
}

// Regular refuses what is no file that can be read again and again: reading a pipe would
// wait for somebody to write. What is not there it leaves to who reads it.
func Regular(name string) error {
	info, err := os.Stat(name)
	if err != nil || info.Mode().IsRegular() {
		return nil //nolint:nilerr // see above
	}
	kind := "a device"
	switch mode := info.Mode(); {
	case mode.IsDir():
		kind = "a directory"
	case mode&fs.ModeNamedPipe != 0:
		kind = "a named pipe"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	}
	return fmt.Errorf("%s: cannot be read: it is %s and no regular file", name, kind)
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
	r.seen = r.stat() // before, so that a change meanwhile is seen later
	r.err = r.load()
	return r.err
}

// look loads what has changed, and what could not be loaded: its files may be well
// again in a way that their times do not show, such as their permissions.
func (r *reloader) look() {
	same := func(a, b fs.FileInfo) bool {
		if a == nil || b == nil {
			return a == b
		}
		return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && os.SameFile(a, b)
	}
	if r.err != nil || !slices.EqualFunc(r.stat(), r.seen, same) {
		_ = r.reload() // is in err
	}
	if r.report != nil {
		r.report(r.err)
	}
}

func (r *reloader) stat() []fs.FileInfo {
	all := make([]fs.FileInfo, len(r.files))
	for i, name := range r.files {
		if info, err := os.Stat(name); err == nil {
			all[i] = info
		}
	}
	return all
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
			err = fmt.Errorf("server.tls_cert_file %s expired on %s: renew it, it is read again without a restart",
				names.Cert, leaf.NotAfter.UTC().Format(time.RFC3339))
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

// connKey is where a connection keeps what says whether its client is still trusted.
type connKey struct{}

// Connection is for http.Server.ConnContext, as CheckClient needs it.
func (c *Certificates) Connection(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c.ClientCheck(conn))
}

// CheckClient is ClientCheck of the connection of a request.
func (*Certificates) CheckClient(r *http.Request) error {
	check, _ := r.Context().Value(connKey{}).(func() error)
	return check()
}

// ClientCheck gives what refuses a connection, of a listener with the configuration of Server,
// that is older than the present authorities and whose client none of them knows. It is for
// when something came over the connection, and safe for concurrent use.
func (c *Certificates) ClientCheck(conn net.Conn) func() error {
	var checked atomic.Pointer[tls.Config]
	return func() error {
		current := c.current.Load()
		if checked.Load() == current {
			return nil
		}
		if err := trusts(current, conn.(*tls.Conn).ConnectionState().PeerCertificates); err != nil {
			return err
		}
		checked.Store(current)
		return nil
	}
}

// trusts is nil for a client whose certificates are of the present authorities.
func trusts(current *tls.Config, chain []*x509.Certificate) error {
	between := x509.NewCertPool()
	for _, cert := range chain[1:] {
		between.AddCert(cert)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: current.ClientCAs, Intermediates: between,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return fmt.Errorf("the certificate of this connection's client is not trusted any more: connect with one of an authority in server.tls_client_ca_file: %w", err)
	}
	return nil
}

// load reads the files into a new configuration. The tickets with which clients skip
// the next handshake are of one configuration, so a client that came with the old
// certificates shows its own again.
func (c *Certificates) load() error {
	err := cmp.Or(Regular(c.names.Cert), Regular(c.names.Key))
	var cert tls.Certificate
	if err == nil {
		cert, err = tls.LoadX509KeyPair(c.names.Cert, c.names.Key)
	}
	if err != nil {
		return fmt.Errorf("server.tls_cert_file %s and server.tls_key_file %s: %w: name the PEM files of a certificate and its key that this user may read", c.names.Cert, c.names.Key, err)
	}
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert},
		NextProtos: []string{"h2", "http/1.1"}, // net/http speaks both
	}
	if c.names.ClientCA != "" {
		if cfg.ClientCAs, err = ReadPool(c.names.ClientCA); err != nil {
			return fmt.Errorf("server.tls_client_ca_file: %w: name a PEM file of authorities that this user may read", err)
		}
		cfg.ClientAuth = tls.RequireAndVerifyClientCert
	}
	c.current.Store(cfg)
	return nil
}

// ReadPool reads authorities from a PEM file.
func ReadPool(name string) (*x509.CertPool, error) {
	if err := Regular(name); err != nil {
		return nil, err
	}
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
