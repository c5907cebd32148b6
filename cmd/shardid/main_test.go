package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"shardid/cmd/shardid/config"
	"shardid/model"
	"shardid/scripts/check"
	"shardid/service/access"
)

// The kind of an ID is found by what it would be: IDs of the last years, of all kinds.
func TestKindIsFound(t *testing.T) {
	d := decoder(config.Defaults().Config)
	for at := time.Date(2026, time.February, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2034; at = at.Add(1234 * time.Hour) {
		now := at.Add(10 * time.Minute)
		for _, c := range []struct {
			kind string
			id   int64
		}{
			{model.KindQueue, 1<<14 | 1}, {model.KindQueue, 1<<48 - 1<<8 | 7},
			{model.KindSnowflake, (at.UnixMilli()-d.Snowflake.EpochMs)<<22 | 39<<12 | 3448},
			{model.KindUID, (at.Unix()-d.UID.Epoch.Unix())<<(d.UID.WorkerBits+d.UID.SeqBits) | 21<<d.UID.SeqBits | 1},
		} {
			if found := fits(d, c.id, now); len(found) == 0 || found[0].kind != c.kind {
				t.Errorf("at %v, %s %d: %v", now, c.kind, c.id, found)
			}
		}
	}
}

// What completion offers is a plain word to a shell, or several.
func TestCompletable(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	for _, text := range []string{"$(touch run)", "`touch run`", "a b", "${x}", "a;b", "a|b", "a&b", "a>b", `a"b`, "a'b", `a\b`, "a!b", "a*b", "a?b", "a[b", "a{b", "~a", "a=b", "#a", "a\tb"} {
		if completable.MatchString(text) {
			out, err := exec.Command(bash, "-c", `IFS=$'\n'; compgen -W "`+text+`" -- ""`).Output()
			if err != nil || string(out) != text+"\n" {
				t.Errorf("%q: bash makes %q of it, %v", text, out, err)
			}
		}
	}
}

// A script that runs again meets no error when another process was faster.
func TestIfMissing(t *testing.T) {
	looks := 0
	found, made, err := ensure(true, func() (int, bool) { looks++; return looks, looks == 2 }, func() (int, error) { return 0, errNoData })
	if found != 2 || made || err != nil {
		t.Errorf("another process was faster: %v, %v, %v", found, made, err)
	}
}

// Everything that is appended at the same time is there afterwards.
func TestAppendedTokensAreNotLost(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	const count = 40
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() {
			check.OK(t, appendEntry(file, entryOf(fmt.Sprint("service-", i))))
		})
	}
	all.Wait()
	tokens, err := access.ReadFile(file)
	if err != nil || len(tokens) != count {
		t.Errorf("%d tokens of %d, %v", len(tokens), count, err)
	}
}

func entryOf(name string) string {
	_, sum := access.Generate()
	return tokenFlags{name: name, role: "get"}.entry(sum)
}
