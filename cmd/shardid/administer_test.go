package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"shardid/scripts/check"
)

// A script that runs again meets no error when another process was faster; but what is there must be the same in all
// that cannot be changed.
func TestIfMissing(t *testing.T) {
	const there = `{"code":0,"tag":"a","step":9,"pattern":"{seq:4}","reset":"none","zone":"UTC","overflow":"widen"}`
	for name, c := range map[string]struct {
		body  map[string]any
		found bool
	}{
		"the same":        {map[string]any{"tag": "a", "pattern": "{seq:4}", "step": 7}, true},
		"another pattern": {map[string]any{"tag": "a", "pattern": "{seq:5}"}, false},
		"another zone":    {map[string]any{"tag": "a", "pattern": "{seq:4}", "zone": "+08:00"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			o := &order{ask: asking{timeout: time.Minute}}
			o.Kind = tagNoun().Kind
			o.ask.beside = inProcess{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch asked++; {
				case r.Method == http.MethodPost:
					w.WriteHeader(http.StatusConflict)
					_, _ = w.Write([]byte(`{"code":-13,"message":"it is there"}`))
				case asked == 1:
					w.WriteHeader(http.StatusNotFound)
					_, _ = w.Write([]byte(`{"code":-2,"message":"there is none"}`))
				default:
					check.Equal(t, r.URL.Path, "/admin/tags/a")
					_, _ = w.Write([]byte(there))
				}
			})}
			got, what, err := o.add(t.Context(), Config{}, c.body, true)
			if c.found {
				check.Must(t, err)
				check.Equal(t, what, "is there, nothing was changed")
				check.Equal(t, got.fields["step"], any(json.Number("9")))
			} else {
				check.Equal(t, fmt.Sprint(err), "it is there")
			}
			check.Equal(t, asked, 3, "requests")
		})
	}
}
