package main

import "shardid/service/access"

// Names of the conditions of what is read again when its files change.
const (
	conditionTokens = "tokens"
	conditionTLS    = "tls"
)

// wireAccess reads the tokens and the certificates.
func (a *App) wireAccess() (err error) {
	s := a.cfg.Server
	a.access, err = access.NewGuard(access.Options{
		AdminToken: s.AdminToken, File: s.TokensFile,
		Report: func(err error) { a.monitor.Report(conditionTokens, err) }, Log: a.log,
	})
	if err != nil {
		return err
	}
	a.onStop(conditionTokens, a.access.Stop)
	if s.TLSCertFile == "" {
		return nil
	}
	a.certificates, err = access.NewCertificates(
		access.CertificateFiles{Cert: s.TLSCertFile, Key: s.TLSKeyFile, ClientCA: s.TLSClientCAFile},
		func(err error) { a.monitor.Report(conditionTLS, err) })
	if err != nil {
		return err
	}
	a.onStop(conditionTLS, a.certificates.Stop)
	return nil
}

// startAccess keeps them up to date.
func (a *App) startAccess() {
	a.access.Start()
	if a.certificates != nil {
		a.certificates.Start()
	}
}
