package main

import (
	"crypto/tls"
	"fmt"
	"net"

	"shardid/cmd/shardid/config"
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

// clientTLS is TLS to another server.
type clientTLS struct {
	serverName string
	insecure   bool
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

// storeTLS reads the files of a section. It gives nil without TLS, which is what the
// stores take for none. The certificate is read again for each connection, so that one
// that is renewed needs no restart.
func storeTLS(section string, c config.ClientTLS) (*tls.Config, error) {
	if !c.TLS {
		return nil, nil //nolint:nilnil // see above
	}
	cfg, err := clientTLS{c.TLSServerName, c.TLSInsecureSkipVerify}.trusting(c.TLSCAFile)
	if err != nil {
		return nil, fmt.Errorf("%s.tls_ca_file: %w: name a PEM file of authorities that this user may read", section, err)
	}
	if c.TLSCertFile == "" {
		return cfg, nil
	}
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		cert, err := tls.LoadX509KeyPair(c.TLSCertFile, c.TLSKeyFile)
		return &cert, err
	}
	if _, err := cfg.GetClientCertificate(nil); err != nil {
		return nil, fmt.Errorf("%[1]s.tls_cert_file and %[1]s.tls_key_file: %[2]w: "+
			"name the PEM files of a certificate and its key that this user may read", section, err)
	}
	return cfg, nil
}
