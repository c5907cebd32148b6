package load

import (
	"crypto/tls"
	"errors"
	"fmt"
)

// codeUnknown is the contract's: the app or tag is not provisioned.
const codeUnknown = -2

// advise says what to do about an error of the first request.
func (l *Load) advise(err error) error {
	if advice := l.advice(err); advice != "" {
		return fmt.Errorf("the first request to %s failed: %w: %s", l.opts.URL, err, advice)
	}
	return fmt.Errorf("the first request to %s failed: %w", l.opts.URL, err)
}

func (l *Load) advice(err error) string {
	if refused, ok := errors.AsType[*refusal](err); ok {
		return l.adviceRefused(refused)
	}
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case untrusted:
		return "SSL_CERT_FILE can name a file with the certificates to trust"
	case plain, errors.Is(err, errMalformed), isClosed(err):
		return "should the URL begin with the other one of http:// and https://?"
	case errors.Is(err, errConnect):
		return "is the server running? `shardid serve --demo` starts one, --url says where it is"
	case errors.Is(err, errUnreadable):
		return "is this a shardid, and the right mode? --raw PATH measures any path of any server"
	}
	return ""
}

func (l *Load) adviceRefused(r *refusal) string {
	switch {
	case l.opts.Raw != "":
		return "--raw needs a path that answers 200"
	case !r.coded:
		return "is this a shardid? --raw PATH measures any path of any server"
	case r.code == codeUnknown && l.opts.Mode == ModeQueue:
		return "or choose another with --app"
	case r.code == codeUnknown && l.opts.Mode == ModeSegment:
		return "or choose another with --tag"
	}
	return ""
}
