package main

import (
	"fmt"
	"strconv"
	"strings"
)

// origin is where a value came from, for messages.
type origin struct {
	where string // "config.yaml:12", "environment SHARDID_LOG_LEVEL", "flag --log.level"
	file  bool   // where does not name the key
}

// fail is the one shape of a configuration error: a single line with the
// source, the key unless the source names it, what is wrong and what to do.
func (o origin) fail(path string, err error) error {
	if o.file && path != "" {
		return fmt.Errorf("%s: %s: %w", o.where, path, err)
	}
	return fmt.Errorf("%s: %w", o.where, err)
}

// show quotes a value for a message: short, on one line, and not at all when
// it may carry credentials, as in user:password@host.
func show(text string) string {
	const most = 60
	if strings.Contains(text, "@") {
		return "the value"
	}
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strconv.Quote(text)
}

// showName is the part of an unknown name that reads like one; what follows,
// as in password:hunter2 without the space, may be a secret.
func showName(name string) string {
	const most = 60
	end := strings.IndexFunc(name, func(r rune) bool {
		return !strings.ContainsRune("_-.", r) && !isAlnum(r)
	})
	if end < 0 {
		end = len(name)
	}
	if end = min(end, most); end < len(name) {
		return name[:end] + "…"
	}
	return name
}

func isAlnum(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}

// didYouMean is the advice for an unknown name: the nearest of names when at
// most that many letters differ, else otherwise.
func didYouMean(name string, names []string, most int, otherwise string) string {
	best, limit := "", most+1
	for _, candidate := range names {
		if d := editDistance(name, candidate, limit); d < limit {
			best, limit = candidate, d
		}
	}
	if best == "" {
		return otherwise
	}
	return "did you mean " + best + "?"
}

// editDistance is Levenshtein's, or limit when the lengths alone differ by
// that much.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
