package main

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// What is asked for reaches the server, and its answer is printed.
func TestGetSequence(t *testing.T) {
	t.Chdir(t.TempDir())
	var asked, answer string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		_, _ = w.Write([]byte(answer))
	}))
	defer server.Close()
	const ids, current = `{"code":0,"ids":["7","8"]}`, `{"code":0,"current":"9007199254740991"}`
	for _, c := range []struct{ flags, answer, asked, stdout string }{
		{"--space chat --key room42", `{"code":0,"ids":["7"]}`, "/v1/sequence/chat/ids?key=room42", "7\n"},
		{"--mode sequence --space chat --key a:b/c&d", `{"code":0,"ids":["7"]}`, "/v1/sequence/chat/ids?key=a%3Ab%2Fc%26d", "7\n"},
		{"--space chat --key k --count 2", ids, "/v1/sequence/chat/ids?count=2&key=k", "7\n8\n"},
		{"--space chat --key k --count 2 --json", ids, "/v1/sequence/chat/ids?count=2&key=k", `{"code":0,"ids":[7,8],"idsStr":["7","8"]}` + "\n"},
		{"--space chat --key k --current", current, "/v1/sequence/chat/current?key=k", "9007199254740991\n"},
		{"--space chat --key k --current --json", `{"code":0,"current":"0"}`, "/v1/sequence/chat/current?key=k", `{"code":0,"current":"0"}` + "\n"},
	} {
		answer = c.answer
		exit, stdout, stderr := try(t, append([]string{"get", "--url", server.URL}, strings.Fields(c.flags)...)...)
		if exit != 0 || stdout != c.stdout || asked != c.asked {
			t.Errorf("%s: %d, %q, %q, asked %s", c.flags, exit, stdout, stderr, asked)
		}
	}
	asked = ""
	for flags, want := range map[string]string{
		"--mode sequence --key k": "a sequence needs --space and --key", "--space chat": "a sequence needs --space and --key",
		"--space chat --key k --current --count 2": "--current is for --space and --key, without --count",
		"--mode uid --current":                     "--current is for --space and --key", "--mode leaf": "is none of queue, segment, snowflake, uid, sequence",
	} {
		exit, stdout, stderr := try(t, append([]string{"get", "--url", server.URL}, strings.Fields(flags)...)...)
		if exit != exitUsage || stdout != "" || !strings.Contains(stderr, want) || asked != "" {
			t.Errorf("%s: %d, %q, %q, asked %q", flags, exit, stdout, stderr, asked)
		}
	}
}

func TestReadAnswer(t *testing.T) {
	for body, want := range map[string][]int64{
		"7\n": {7}, `"7"`: {7}, "[7,8]": {7, 8}, `["7","8"]`: {7, 8}, `{"code":0,"id":7,"idStr":"7"}`: {7}, `{"code":0,"ids":["7"]}`: {7},
		`{"code":0,"current":"0"}`: {0}, `{"code":0}`: nil, "<html>": nil, `["x"]`: nil, "[[7]]": nil, "1.5": nil, "null": nil, "[null]": nil, "9223372036854775808": nil, "": nil,
	} {
		if got := readAnswer([]byte(body)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", body, got, want)
		}
	}
}
