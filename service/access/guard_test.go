package access

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"shardid/model"
	"shardid/scripts/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// now is when these tests happen.
var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// sumOf is the SHA-256 of a token as a file has it.
func sumOf(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }

// one is the entry of a token with what it may have, and further keys on the lines behind that.
func one(token, may string) string {
	if may == "" {
		may = "[]"
	}
	return fmt.Sprintf("- name: %s-service\n  sha256: %s\n  may: %s\n", token, sumOf(token), may)
}

func write(t testing.TB, file, text string) {
	t.Helper()
	check.Must(t, os.WriteFile(file, []byte(text), 0o600))
}

// fileOf is a new file with a text.
func fileOf(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	write(t, file, text)
	return file
}

// newGuard is NewGuard.
func newGuard(t testing.TB, opts Options) *Guard {
	t.Helper()
	g, err := NewGuard(opts)
	check.Must(t, err)
	return g
}

// guardOf has the tokens of a text, and "root" as that of the configuration.
func guardOf(t testing.TB, text string) *Guard {
	t.Helper()
	return newGuard(t, Options{AdminToken: "root", File: fileOf(t, text), Now: func() time.Time { return now }})
}

func with(authorization ...string) http.Header { return http.Header{"Authorization": authorization} }

// people are the tokens of most tests.
func people() string {
	return one("orders", "[queue:1, queue:7, queue:255]") +
		one("tags", "[segment:invoices, segment:pre*]") +
		one("chats", "[sequence:chat]") +
		one("times", "[snowflake]") +
		one("old", "[queue:*]\n  expires: 2026-11-20T12:00:00Z") +
		one("young", "[queue:*]\n  expires: 2026-11-20T12:00:01Z") +
		one("boss", "[admin]")
}

func TestWhoIsWho(t *testing.T) {
	for _, c := range []struct {
		name             string
		header           http.Header
		client, operator string // names; "" is refused
	}{
		{"a token", with("Bearer orders"), "orders-service", "orders-service"},
		{"scheme in other letters", with("bEARER  orders"), "orders-service", "orders-service"},
		{"of administration", with("Bearer boss"), "boss-service", "boss-service"},
		{"of the configuration", with("Bearer root"), "", "admin"},
		{"nearly over", with("Bearer young"), "young-service", "young-service"},
		{"over", with("Bearer old"), "", ""},
		{"none", http.Header{}, "", ""},
		{"unknown", with("Bearer nobody"), "", ""},
		{"beginning of one", with("Bearer order"), "", ""},
		{"its hash", with("Bearer " + sumOf("orders")), "", ""},
		{"space behind", with("Bearer orders "), "", ""},
		{"no scheme", with("orders"), "", ""},
		{"other scheme", with("Basic orders"), "", ""},
		{"no token", with("Bearer "), "", ""},
		{"twice", with("Bearer orders", "Bearer orders"), "", ""},
		{"long", with("Bearer " + strings.Repeat("x", 100_000)), "", ""},
	} {
		g := guardOf(t, people()) // of which nothing has been tried
		for _, as := range []struct {
			find func(http.Header) (*Token, error)
			want string
		}{{g.Client, c.client}, {g.Operator, c.operator}} {
			got, err := as.find(c.header)
			if got.Name() != as.want || errors.Is(err, model.ErrNoToken) != (as.want == "") ||
				(got == nil) != (as.want == "") {
				t.Errorf("%s: %q, %v, want %q", c.name, got.Name(), err, as.want)
			}
		}
	}
}

func TestWhatATokenMay(t *testing.T) {
	g := guardOf(t, people())
	may := func(token string) *Token {
		got, err := g.Client(with("Bearer " + token))
		check.Must(t, err)
		return got
	}
	orders, tags, chats, times, boss := may("orders"), may("tags"), may("chats"), may("times"), may("boss")
	var everybody *Token
	for _, c := range []struct {
		name string
		err  error
		want string // "" is allowed
	}{
		{"app", orders.App(7), ""},
		{"another app", orders.App(8), "use a token that may have IDs of app 8: not allowed: token orders-service " +
			"may not"},
		{"mode", orders.Mode(model.ModeQueue), ""},
		{"another mode", orders.Mode(model.ModeSegment), "IDs of the mode segment"},
		{"administration", orders.Admin(), "use a token that may admin"},
		{"tag", tags.Of(model.ModeSegment, "invoices"), ""},
		{"tag by its beginning", tags.Of(model.ModeSegment, "prefix"), ""},
		{"only the beginning", tags.Of(model.ModeSegment, "pre"), ""},
		{"another tag", tags.Of(model.ModeSegment, "invoices2"), `tag "invoices2"`},
		{"a tag with a star", tags.Of(model.ModeSegment, "pr*"), `tag "pr*"`},
		{"another space", chats.Of(model.ModeSequence, "chat2"), `numbers of the space "chat2"`},
		{"snowflake", times.Mode(model.ModeSnowflake), ""},
		{"uid", times.Mode(model.ModeUID), "uid"},
		{"administration by its grant", boss.Admin(), ""},
		{"IDs for administration", boss.Mode(model.ModeQueue), "queue"},
		{"nobody needed: app", everybody.App(9), ""},
		{"nobody needed: administration", everybody.Admin(), ""},
	} {
		if (c.err == nil) != (c.want == "") || c.err != nil &&
			(!errors.Is(c.err, model.ErrForbidden) || !strings.Contains(c.err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, c.err, c.want)
		}
	}
}

func TestHasAdmin(t *testing.T) {
	for _, c := range []struct {
		token, file string
		want        bool
	}{{"", "", false}, {"", "[]", false}, {"x", "", true}, {"", one("a", ""), false}, {"", people(), true}} {
		opts := Options{AdminToken: c.token}
		if c.file != "" {
			opts.File = fileOf(t, c.file)
		}
		g, err := NewGuard(opts)
		if err != nil || g.HasAdmin() != c.want {
			t.Errorf("%q and %q: %v", c.token, c.file, err)
		}
		if _, err := g.Operator(with("Bearer ")); !errors.Is(err, model.ErrNoToken) {
			t.Errorf("an empty token is %v", err)
		}
	}
	if g, err := NewGuard(Options{File: fileOf(t, "- x")}); g != nil || err == nil ||
		!strings.HasPrefix(err.Error(), "server.tokens_file: ") {
		t.Errorf("a bad file: %v", err)
	}
}

// A token gets its rate and its quota and no more, however many connections ask at once, and by
// whatever protocol; what is refused costs it nothing.
func TestLimitsHoldUnderConcurrency(t *testing.T) {
	g := newGuard(t, Options{File: fileOf(t, one("x", "[uid]\n  rate: 500\n  ids_per_second: 25000\n")),
		Now: func() time.Time { return now }})
	var requests, ids atomic.Int64
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for range 60 { // twice as many as there are
				ask := func() (*Token, error) { return g.Client(with("Bearer x")) }
				if i%2 == 0 {
					ask = func() (*Token, error) { return g.Use(NewCredential([]byte("x"))) }
				}
				token, err := ask()
				if err != nil {
					continue
				}
				requests.Add(1)
				if n := 1 + i*9; token.Take(n) == nil {
					ids.Add(int64(n))
				}
			}
		})
	}
	all.Wait()
	for token := (*g.file.Load())[NewCredential([]byte("x"))]; token.Take(1) == nil; { // what is left
		ids.Add(1)
	}
	check.Equal(t, requests.Load(), 500, "requests")
	check.Equal(t, ids.Load(), 25_000, "IDs")
}

// A quota is used up whole or not at all, and fills with the time.
func TestQuota(t *testing.T) {
	clock, file := now, fileOf(t, one("x", "[uid]\n  ids_per_second: 100\n"))
	g := newGuard(t, Options{File: file, Now: func() time.Time { return clock }})
	token := func() *Token {
		found, err := g.Client(with("Bearer x"))
		check.Must(t, err)
		return found
	}
	refused := func(n int, after time.Duration, says string) {
		t.Helper()
		var many *TooManyError
		err := token().Take(n)
		if !errors.As(err, &many) || !errors.Is(err, model.ErrTooMany) || many.After.Round(time.Millisecond) != after ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%d IDs: %v, %+v; want %v and %q", n, err, many, after, says)
		}
	}
	check.OK(t, token().Take(60))
	refused(41, 10*time.Millisecond, "ask for fewer, or again after 1s: too many requests: nothing was issued: the "+
		"quota ids_per_second: 100 of token x-service has 40 left, and 41 were asked for")
	check.OK(t, token().Take(40))
	refused(1000, time.Second, "ask for fewer, or again after 1s")
	clock = now.Add(500 * time.Millisecond)
	refused(100, 500*time.Millisecond, "has 50 left")
	check.OK(t, token().Take(50))
	refused(1, 10*time.Millisecond, "has 0 left")
	token().Charge(250) // a run, whose length is known afterwards
	refused(1, 2510*time.Millisecond, "has 0 left")
	clock = clock.Add(3500 * time.Millisecond)
	check.OK(t, token().Take(1000), "as all of a second are left")
	refused(1, 9010*time.Millisecond, "has 0 left")
	token().Refund(1000) // as it failed
	refused(1, 10*time.Millisecond, "has 0 left")
	var none *Token
	check.OK(t, none.Take(10_000))
	none.Charge(1)
}
