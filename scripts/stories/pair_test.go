//go:build unix

// Two replicas that die in turn, while clients go on to ask both addresses.

package stories_test

import (
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"shardid/scripts/rig"
)

// pair is two replicas at addresses that stay; their callers know the addresses.
type pair struct {
	t        *testing.T
	settings settings
	addrs    []string
	urls     []string
	now      [2]*daemon
	client   *http.Client
}

func newPair(t *testing.T, s settings) *pair {
	t.Helper()
	p := &pair{t: t, settings: s, addrs: rig.FreeAddrs(t, 2), client: &http.Client{Timeout: 10 * time.Second}}
	for i, addr := range p.addrs {
		p.urls = append(p.urls, "http://"+addr)
		p.start(i)
	}
	for _, d := range p.now {
		d.ready()
	}
	return p
}

func (p *pair) start(i int) {
	p.t.Helper()
	p.now[i] = serve(p.t, p.settings, "--set", "server.addr="+p.addrs[i])
}

// dieInTurn kills a replica whenever so many more IDs have come, and starts it again.
func (p *pair) dieInTurn(books *ledger, deaths, ids int) {
	p.t.Helper()
	for i := range deaths {
		enough := books.Count() + ids
		eventually(p.t, time.Minute, "more IDs", func() bool { return books.Count() >= enough })
		p.now[i%2].Kill()
		p.start(i % 2)
	}
}

// askAny asks one of the two by GET and gives its answer, "" when it is a refusal or broken off.
func (p *pair) askAny(target string) string {
	res, err := p.client.Get(p.urls[rand.IntN(len(p.urls))] + target)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return ""
	}
	return string(body)
}

var anyID = regexp.MustCompile(`[1-9]\d*`)

// idsIn are the IDs of an answer of any form.
func idsIn(answer string) (ids []int64) {
	for _, digits := range anyID.FindAllString(answer, -1) {
		id, _ := strconv.ParseInt(digits, 10, 64)
		ids = append(ids, id)
	}
	return ids
}
