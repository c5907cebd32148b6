// Package access says what a caller may do: it knows the bearer tokens of the service
// and reads them, and the certificates it is reached with, again when their files
// change.
//
// A Guard holds the tokens of a file, and one for administration from the
// configuration. The file has the SHA-256 of each token and not the token, so its
// readers can use none. A plain hash is enough: Generate's tokens are 32 random bytes,
// which cannot be found by trying, however fast the hash is. Slow hashes and salts are
// for passwords, which people choose.
//
// Any token may read the pages of monitoring; what else it may do is in its list of grants.
package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"shardid/model"
)

const (
	// MinToken is the shortest token of the configuration, in bytes: with 16 random
	// characters it cannot be found by trying, at any rate that a server answers.
	MinToken = 16
	// MaxToken is the longest token that is looked at, in bytes; one of Generate has
	// 51.
	MaxToken = 512
	// AdminName is the name of the token of the configuration.
	AdminName = "admin"
)

// Options of a Guard.
type Options struct {
	// AdminToken is the token for administration that the configuration has, and that
	// CheckToken accepts; "" for none.
	AdminToken string
	// File has the other tokens; "" for none.
	File string
	// Report is told, every Period, whether File could be read; it may be nil.
	Report func(error)
	// Log gets a line for each time that File was read again; it may be nil.
	Log *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Guard knows the tokens. Start keeps those of the file up to date until Stop. Safe
// for concurrent use.
type Guard struct {
	*reloader
	opts  Options
	admin *Token                                // of the configuration; nil for none
	file  atomic.Pointer[map[Credential]*Token] // which does not change; nil only before the first load
}

// CheckToken refuses a token of the configuration that an Authorization header cannot
// carry, such as one with the line end of a file, and one that can be guessed. The error
// follows the token's name in a message and says what to choose.
func CheckToken(text string) error {
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%w: holds a space, a line end or a character beyond ASCII", model.Do("use visible ASCII "+
			"only"))
	}
	if n := len(text); n < MinToken || n > MaxToken {
		return fmt.Errorf("%w: has %d bytes", model.Do("choose %d to %d bytes, best from shardid token new or openssl "+
			"rand -hex 32", MinToken, MaxToken), n)
	}
	return nil
}

// NewGuard reads the file and starts nothing. The error names file, line and key.
func NewGuard(opts Options) (*Guard, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	g := &Guard{opts: opts}
	if opts.AdminToken != "" {
		g.admin = &Token{entry: entry{Name: AdminName}, admin: true, sum: NewCredential([]byte(opts.AdminToken))}
	}
	g.reloader = newReloader(g.load, opts.Report, opts.File)
	if err := g.reload(); err != nil {
		return nil, err
	}
	return g, nil
}

// load reads the file. Each token may use the whole of its rate and quota from then on.
func (g *Guard) load() error {
	all := map[Credential]*Token{}
	if g.opts.File == "" {
		g.file.Store(&all)
		return nil
	}
	tokens, err := ReadFile(g.opts.File)
	if err != nil {
		return fmt.Errorf("server.tokens_file: %w", err)
	}
	for _, t := range tokens {
		all[t.sum] = t
		for _, l := range []*limit{t.requests, t.ids} {
			if l != nil {
				l.now = g.opts.Now
			}
		}
	}
	if g.file.Swap(&all) != nil {
		g.opts.Log.Info("tokens are read again", "file", g.opts.File, "tokens", len(tokens))
	}
	return nil
}

// HasAdmin says whether there is a token for administration at all.
func (g *Guard) HasAdmin() bool {
	for _, t := range *g.file.Load() {
		if t.admin {
			return true
		}
	}
	return g.admin != nil
}

// Client finds the token of a request for IDs: one of the file. A request of its
// rate is used up. Errors: model.ErrNoToken, *TooManyError.
func (g *Guard) Client(h http.Header) (*Token, error) {
	c, err := bearer(h)
	if err != nil {
		return nil, err
	}
	return g.Use(c)
}

// Operator is Client for administration and monitoring, where the token of the
// configuration is good too.
func (g *Guard) Operator(h http.Header) (*Token, error) {
	c, err := bearer(h)
	if err == nil && g.admin != nil && subtle.ConstantTimeCompare(g.admin.sum[:], c[:]) == 1 {
		return g.admin, nil
	}
	return g.Client(h)
}

// Credential is what is kept of a token: its SHA-256.
type Credential [sha256.Size]byte

// NewCredential is of a token that came by another protocol than HTTP.
func NewCredential(token []byte) Credential { return sha256.Sum256(token) }

// Use is Client for a credential: one request of the token's rate is used up.
func (g *Guard) Use(c Credential) (*Token, error) {
	t, err := g.find(c)
	if err == nil {
		err = t.request()
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Check says whether a credential is of a token of the file. Errors: model.ErrNoToken.
func (g *Guard) Check(c Credential) error {
	_, err := g.find(c)
	return err
}

// find returns a token of the file. The time of the lookup depends on digests at most,
// which a caller cannot choose.
func (g *Guard) find(c Credential) (*Token, error) {
	t := (*g.file.Load())[c]
	if t == nil || t.Expired(g.opts.Now()) {
		return nil, errUnknown
	}
	return t, nil
}

var errUnknown = fmt.Errorf("send another token: %w: this one is not known, or it has expired", model.ErrNoToken)

var errNoBearer = fmt.Errorf("send the header Authorization: Bearer TOKEN: %w", model.ErrNoToken)

// bearer is the credential of a request. It does not allocate for one that
// has a token. Errors: model.ErrNoToken.
func bearer(h http.Header) (Credential, error) {
	const scheme = "Bearer "
	values := h["Authorization"]
	switch {
	case len(values) == 0:
		return Credential{}, errNoBearer
	case len(values) > 1:
		return Credential{}, fmt.Errorf("send one header Authorization: %w: there are %d",
			model.ErrNoToken, len(values))
	}
	value := values[0]
	if len(value) <= len(scheme) || !strings.EqualFold(value[:len(scheme)], scheme) {
		return Credential{}, errNoBearer
	}
	token := strings.TrimLeft(value[len(scheme):], " ")
	if len(token) > MaxToken {
		return Credential{}, errUnknown
	}
	var text [MaxToken]byte
	return NewCredential(text[:copy(text[:], token)]), nil
}
