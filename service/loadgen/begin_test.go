package loadgen

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"shardid/model"
)

// TestCannotBegin: a run with a wrong address or app fails at once, with advice.
func TestCannotBegin(t *testing.T) {
	refuse := func(status int, body string) string {
		return serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, body, status) }))
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	secure := httptest.NewTLSServer(nil)
	defer secure.Close()
	page := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }))
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"away":          {func(o *Options) { o.URL = gone.URL }, "is the server running?"},
		"unknown app":   {func(o *Options) { o.URL = refuse(404, `{"code":-2,"message":"no app 1"}`) }, "no app 1: or choose another with --app"},
		"unknown tag":   {func(o *Options) { o.Mode, o.URL = ModeSegment, refuse(404, `{"code":-2,"message":"no tag"}`) }, "--tag"},
		"disabled":      {func(o *Options) { o.Mode, o.URL = ModeUID, refuse(404, `{"code":-9,"message":"is off"}`) }, "is off"},
		"no shardid":    {func(o *Options) { o.URL = refuse(404, "not here") }, "is this a shardid?"},
		"a page":        {func(o *Options) { o.URL = page }, "is this a shardid"},
		"raw":           {func(o *Options) { o.URL, o.Raw = refuse(404, "not here"), "/x" }, "--raw needs a path"},
		"untrusted":     {func(o *Options) { o.URL = secure.URL }, "SSL_CERT_FILE"},
		"http to https": {func(o *Options) { o.URL = strings.Replace(secure.URL, "https", "http", 1) }, "HTTPS server"},
		"https to http": {func(o *Options) { o.URL = strings.Replace(page, "http", "https", 1) }, "http:// and https://"},
	} {
		t.Run(name, func(t *testing.T) {
			o := brief("")
			c.change(&o)
			err := runError(t, t.Context(), o)
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || errors.Is(err, model.ErrInvalidArgument) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestOptionsRefused(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"no URL":      func(o *Options) { o.URL = "" },
		"no scheme":   func(o *Options) { o.URL = "127.0.0.1:8080" },
		"no host":     func(o *Options) { o.URL = "http://:8080" },
		"ftp":         func(o *Options) { o.URL = "ftp://127.0.0.1" },
		"a query":     func(o *Options) { o.URL += "/get?appId=1" },
		"a user":      func(o *Options) { o.URL = "http://me:secret@127.0.0.1" },
		"mode":        func(o *Options) { o.Mode = "uuid" },
		"app":         func(o *Options) { o.App = 256 },
		"apps":        func(o *Options) { o.App, o.Apps = 255, 2 },
		"passes":      func(o *Options) { o.Passes = 0 },
		"count":       func(o *Options) { o.Count = 10_001 },
		"rate":        func(o *Options) { o.Rate = -1 },
		"duration":    func(o *Options) { o.Duration = 0 },
		"warm-up":     func(o *Options) { o.Warmup = -time.Second },
		"timeout":     func(o *Options) { o.Timeout = 0 },
		"concurrency": func(o *Options) { o.Concurrency = 0 },
		"compare":     func(o *Options) { o.Compare = -1 },
		"token":       func(o *Options) { o.Token = "a\r\nX: y" },
		"raw":         func(o *Options) { o.Raw = "ping" },
		"raw lines":   func(o *Options) { o.Raw = "/ping HTTP/1.1\r\n" },
		"tag":         func(o *Options) { o.Mode, o.Tag = ModeSegment, "" },
	} {
		o := brief("http://127.0.0.1:1")
		change(&o)
		if l, err := New(o); !errors.Is(err, model.ErrInvalidArgument) || l != nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
