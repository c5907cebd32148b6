package main

import (
	"crypto/tls"
	"fmt"
	"net"

	"shardid/repository/sqlstore"
	"shardid/service/access"
)

// secure puts TLS on the listener where it is configured. net/http shakes hands
// within server.read_header_timeout and speaks HTTP/2 with who offers it.
func (a *App) secure(l net.Listener) net.Listener {
	if a.certificates == nil {
		return l
	}
	return tls.NewListener(l, a.certificates.Server())
}

// scheme is that of the server's URLs.
func (s ServerConfig) scheme() string {
	if s.TLSCertFile == "" {
		return "http"
	}
	return "https"
}

// clientTLS is TLS to a server that is somebody else's. section is for messages.
type clientTLS struct {
	section                   string
	caFile, certFile, keyFile string
	serverName                string
	insecure                  bool
}

// trusting is without a certificate of the client; an empty caFile means the
// system's authorities.
func (c clientTLS) trusting(caFile string) (*tls.Config, error) {
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: c.serverName,
		InsecureSkipVerify: c.insecure, //nolint:gosec // the operator's choice, off by default
	}
	if caFile == "" {
		return cfg, nil
	}
	pool, err := access.ReadPool(caFile)
	cfg.RootCAs = pool
	return cfg, err
}

// config reads the files. The certificate is read again for each connection, so that
// one that is renewed needs no restart.
func (c clientTLS) config() (*tls.Config, error) {
	cfg, err := c.trusting(c.caFile)
	if err != nil {
		return nil, fmt.Errorf("%s.tls_ca_file: %w: name a PEM file of authorities that this user may read", c.section, err)
	}
	if c.certFile == "" {
		return cfg, nil
	}
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		cert, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
		return &cert, err
	}
	if _, err := cfg.GetClientCertificate(nil); err != nil {
		return nil, fmt.Errorf("%s.tls_cert_file and %s.tls_key_file: %w: name the PEM files of a certificate and its key that this user may read", c.section, c.section, err)
	}
	return cfg, nil
}

// redisTLS is nil without redis.tls.
func redisTLS(c RedisConfig) (*tls.Config, error) {
	if !c.TLS {
		return nil, nil //nolint:nilnil // no configuration is what go-redis takes for no TLS
	}
	return clientTLS{
		section: "redis", caFile: c.TLSCAFile, certFile: c.TLSCertFile, keyFile: c.TLSKeyFile,
		serverName: c.TLSServerName, insecure: c.TLSInsecureSkipVerify,
	}.config()
}

// databaseTLS is nil without database.tls.
func databaseTLS(c DatabaseConfig) (*tls.Config, error) {
	if !c.TLS || c.Driver != sqlstore.MySQL {
		return nil, nil //nolint:nilnil // no configuration is what the store takes for no TLS
	}
	return clientTLS{
		section: "database", caFile: c.TLSCAFile, certFile: c.TLSCertFile, keyFile: c.TLSKeyFile,
		serverName: c.TLSServerName, insecure: c.TLSInsecureSkipVerify,
	}.config()
}
