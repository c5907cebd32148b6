package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shardid/model"

	"golang.org/x/time/rate"
)

const (
	// MaxToken is the longest token that is looked at, in bytes; one of Generate has
	// 51.
	MaxToken = 512
	// guesses is how many wrong tokens a second are compared with the one of the
	// configuration, which people may have chosen: ten a second try 3·10^8 in a year.
	guesses = 10
	// AdminName is the name of the token of the configuration.
	AdminName = "admin"
)

// Options of a Guard.
type Options struct {
	// AdminToken is the token for administration that the configuration has; "" for
	// none.
	AdminToken string
	// File has the other tokens; "" for none.
	File string
	// Report is told, every Period, whether File could be read; nil for nobody.
	Report func(error)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Guard knows the tokens. Start keeps those of the file up to date until Stop. Safe
// for concurrent use.
type Guard struct {
	*Reloader
	opts    Options
	admin   *Token // of the configuration; nil for none
	file    atomic.Pointer[tokenSet]
	guesses guessLimit
}

// tokenSet are the tokens of a file. It does not change.
type tokenSet struct {
	byDigest map[digest]*Token
	admins   bool // one of them is of RoleAdmin
}

// NewGuard reads the file and starts nothing. The error names file, line and key.
func NewGuard(opts Options) (*Guard, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	g := &Guard{opts: opts, guesses: guessLimit{limiter: rate.NewLimiter(guesses, guesses)}}
	if opts.AdminToken != "" {
		g.admin = &Token{name: AdminName, role: RoleAdmin, sum: digest(sha256.Sum256([]byte(opts.AdminToken)))}
	}
	g.file.Store(&tokenSet{})
	g.Reloader = NewReloader(g.load, opts.Report, files(opts.File)...)
	return g, g.Load()
}

// load reads the file. Tokens that stay keep what they have used of their rate.
func (g *Guard) load() error {
	if g.opts.File == "" {
		return nil
	}
	tokens, err := ReadFile(g.opts.File)
	if err != nil {
		return err
	}
	old, set := g.file.Load(), &tokenSet{byDigest: make(map[digest]*Token, len(tokens))}
	for _, t := range tokens {
		t.inherit(old.byDigest[t.sum])
		set.byDigest[t.sum] = t
		set.admins = set.admins || t.role == RoleAdmin
	}
	g.file.Store(set)
	return nil
}

// inherit goes on with the limiter of the same token as it was before, so that
// nobody gets a new burst from a file that was written again.
func (t *Token) inherit(old *Token) {
	if t.limiter == nil || old == nil || old.limiter == nil {
		return
	}
	if t.limiter.Limit() == old.limiter.Limit() && t.limiter.Burst() == old.limiter.Burst() {
		t.limiter = old.limiter
	}
}

// HasAdmin says whether there is a token for administration at all.
func (g *Guard) HasAdmin() bool { return g.admin != nil || g.file.Load().admins }

// Client finds the token of a request for IDs: one of the file. A request of its
// rate is used up. Errors: model.ErrNoToken, *TooManyError.
func (g *Guard) Client(h http.Header) (*Token, error) {
	sum, err := bearer(h)
	if err != nil {
		return nil, err
	}
	now := g.opts.Now()
	if t := g.find(sum, now); t != nil {
		return granted(t, t.take(now))
	}
	return nil, errUnknown()
}

// Operator is Client for administration and monitoring, where the token of the
// configuration is good too. Wrong ones are compared with that only so often.
func (g *Guard) Operator(h http.Header) (*Token, error) {
	sum, err := bearer(h)
	if err != nil {
		return nil, err
	}
	now := g.opts.Now()
	if t := g.find(sum, now); t != nil {
		return granted(t, t.take(now))
	}
	if g.admin == nil {
		return nil, errUnknown()
	}
	return granted(g.admin, g.guesses.compare(g.admin.sum, sum, now))
}

// granted keeps a token from travelling with an error.
func granted(t *Token, err error) (*Token, error) {
	if err != nil {
		return nil, err
	}
	return t, nil
}

// find looks a token of the file up; nil for none that is good. How long it takes
// tells something of digests at most, and nobody can choose those.
func (g *Guard) find(sum digest, now time.Time) *Token {
	t := g.file.Load().byDigest[sum]
	if t == nil || subtle.ConstantTimeCompare(t.sum[:], sum[:]) == 0 || t.Expired(now) {
		return nil
	}
	return t
}

// guessLimit bounds how often a wrong token is compared. Over the bound none is, the
// right one included: otherwise the answer would tell which is right.
type guessLimit struct {
	mu      sync.Mutex
	limiter *rate.Limiter // of wrong ones
}

// compare is nil for the right token. Errors: model.ErrNoToken, *TooManyError.
func (l *guessLimit) compare(right, sum digest, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limiter.TokensAt(now) < 1 {
		return &TooManyError{After: wait(l.limiter, now)}
	}
	if subtle.ConstantTimeCompare(right[:], sum[:]) == 1 {
		return nil
	}
	l.limiter.AllowN(now, 1)
	return errUnknown()
}

func errUnknown() error {
	return fmt.Errorf("%w: nobody has this token, or it has expired", model.ErrNoToken)
}

// bearer is the digest of the token of a request. It does not allocate for one that
// has a token. Errors: model.ErrNoToken.
func bearer(h http.Header) (digest, error) {
	const scheme = "Bearer "
	values := h["Authorization"]
	switch {
	case len(values) == 0:
		return digest{}, fmt.Errorf("%w: send it in the header Authorization: Bearer TOKEN", model.ErrNoToken)
	case len(values) > 1:
		return digest{}, fmt.Errorf("%w: the header Authorization is there %d times: send one", model.ErrNoToken, len(values))
	}
	value := values[0]
	if len(value) <= len(scheme) || !strings.EqualFold(value[:len(scheme)], scheme) {
		return digest{}, fmt.Errorf("%w: the header Authorization must be Bearer TOKEN", model.ErrNoToken)
	}
	token := strings.TrimLeft(value[len(scheme):], " ")
	if len(token) > MaxToken {
		return digest{}, errUnknown()
	}
	var text [MaxToken]byte
	return digest(sha256.Sum256(text[:copy(text[:], token)])), nil
}

// files leaves out what is not set.
func files(names ...string) (set []string) {
	for _, name := range names {
		if name != "" {
			set = append(set, name)
		}
	}
	return set
}
