package rig

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"shardid/scripts/check"
)

// TestSequenceHTTP: answers are read as they are meant, and what is none is a problem.
func TestSequenceHTTP(t *testing.T) {
	var asked, answer string
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.String()
		w.WriteHeader(status)
		_, _ = w.Write([]byte(answer))
	}))
	defer server.Close()
	s := SequenceHTTP{Client: server.Client(), URL: server.URL, Space: "chat"}
	o := &Order{}
	for _, c := range []struct {
		count    int
		answer   string
		served   bool
		problems int // so far
	}{
		{2, `{"code":0,"ids":["1","2"]}`, true, 0},
		{0, `{"code":0,"current":"2"}`, true, 0},
		{1, `{"code":0,"ids":["7"]}`, true, 0},
		{2, `{"code":0,"ids":["8"]}`, false, 1},
		{2, `{"code":0,"ids":["8","10"]}`, false, 2},
		{1, `{"code":0,"ids":["x"]}`, false, 3},
		{1, `{"code":0}`, false, 4},
		{0, `{"code":0}`, false, 5},
		{0, `nothing`, false, 6},
		{1, `{"code":0,"ids":["6"]}`, true, 7},
	} {
		answer = c.answer
		if err := o.Draw(t.Context(), "me", s, "a b", c.count); (err == nil) != c.served {
			t.Errorf("%s: %v", c.answer, err)
		}
		check.Equal(t, len(o.Problems()), c.problems, c.answer, o.Problems())
		want := "POST /v1/sequence/chat/ids?key=a+b&count=" + fmt.Sprint(c.count)
		if c.count == 0 {
			want = "GET /v1/sequence/chat/current?key=a+b"
		}
		check.Equal(t, asked, want)
	}
	for _, code := range []int{http.StatusServiceUnavailable, http.StatusOK} {
		status, answer = code, `{"code":-4,"message":"away"}`
		var refusal *RefusalError
		if err := o.Draw(t.Context(), "me", s, "a b", 1); !errors.As(err, &refusal) || *refusal != (RefusalError{code, -4, "away"}) {
			t.Errorf("%d: %v", code, err)
		}
	}
	if got := o.Tally(); got != (Tally{Calls: 12, Lost: 8, Back: 1}) || len(o.Problems()) != 7 {
		t.Errorf("%+v, %v", got, o.Problems())
	}
	check.Equal(t, o.Count(), 4, "numbers")
}
