//go:build unix

package stories_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What clients of Leaf ask for.
const (
	demoTag      = "leaf-segment-test" // --demo makes it
	segmentGet   = "/api/segment/get/"
	snowflakeGet = "/api/snowflake/get/test"
)

// onlyLeaf leaves out the mode that the leaf stories do not tell of, and stops at
// once.
func onlyLeaf() settings {
	return settings{"UID_ENABLED": "false", "SERVER_DRAIN_DELAY": "0s"}
}

// take gets a batch of exactly count IDs as text, or one ID when count is 0. The
// IDs are nil when the answer is a refusal. Safe for concurrent use.
func (d *daemon) take(target string, count int) (ids []int64, a answer, err error) {
	if count > 0 {
		sign := "?"
		if strings.Contains(target, sign) {
			sign = "&"
		}
		target += sign + "count=" + strconv.Itoa(count)
	}
	a, err = d.do(http.MethodGet, target, "Accept", "text/plain")
	if err != nil || a.status != http.StatusOK {
		return nil, a, err
	}
	if kind := a.header.Get("Content-Type"); !strings.HasPrefix(kind, "text/plain") {
		return nil, a, fmt.Errorf("GET %s: Content-Type %q", target, kind)
	}
	ids, err = digits(a.body, count)
	return ids, a, err
}

// digits reads a text answer: one decimal without anything around it, or with a
// count as many lines.
func digits(body string, count int) (ids []int64, err error) {
	texts := []string{body}
	if count > 0 {
		texts = strings.Split(strings.TrimSuffix(body, "\n"), "\n")
	}
	if len(texts) != max(1, count) {
		return nil, fmt.Errorf("%d lines, want %d", len(texts), count)
	}
	for _, text := range texts {
		id, err := strconv.ParseUint(text, 10, 63)
		if err != nil || text[0] == '0' {
			return nil, fmt.Errorf("%.80q is no ID", text)
		}
		ids = append(ids, int64(id))
	}
	return ids, nil
}

// workerOf is the contract's: 41 bits of time, 10 bits of worker ID, 12 of
// sequence.
func workerOf(flake int64) int64 { return flake >> 12 & 1023 }

// timeOf is that of a snowflake with Leaf's epoch.
func timeOf(flake int64) time.Time { return time.UnixMilli(flake>>22 + 1288834974657) }

// fromJSON reads an answer of JSON.
func fromJSON[T any](t *testing.T, a answer) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	return v
}

func number64(t *testing.T, digits string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
