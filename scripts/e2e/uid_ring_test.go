//go:build unix

package e2e_test

import (
	"net/http"
	"testing"
	"time"
)

// TestE2EUIDSmallRing: 32 callers and a ring of 16 IDs, two seconds of 8, which is empty most of
// the time: they are refused, or they wait, and no two get one ID. A batch that the ring cannot
// hold is served too, also where others are refused.
func TestE2EUIDSmallRing(t *testing.T) {
	story(t)
	for name, more := range map[string]settings{
		"refuse":          {"UID_REJECT_TAKE": "refuse"},
		"wait":            {"UID_REJECT_TAKE": "wait", "UID_TIMEOUT": "30s"},
		"wait, put block": {"UID_REJECT_TAKE": "wait", "UID_TIMEOUT": "30s", "UID_REJECT_PUT": "block"},
	} {
		t.Run(name, func(t *testing.T) {
			books := &uidBooks{bits: uidBits{worker: 20, seq: 3, epoch: uidDefaults().epoch}}
			d := serveUID(t, t.TempDir(), more.With(settings{"UID_TIME_BITS": "40", "UID_WORKER_BITS": "20", "UID_SEQ_BITS": "3", "UID_BOOST_POWER": "1"}), books)
			if v := uidStatus(t, d); v.RingSize != 16 {
				t.Errorf("%+v", v)
			}
			if a := takeUIDs(d, books, 2000); a.status != http.StatusOK {
				t.Errorf("larger than the ring: %d %s", a.status, a.body)
			}
			l := uidLoad(books, func(caller int) int { return 1 + caller%8 }, d)
			if name != "refuse" {
				l.trouble = nil
			}
			l.start(t, 32)
			l.reach(t, 20_000)
			eventually(t, time.Minute, "a refusal, where there are any", func() bool { return name != "refuse" || l.refused.Load() > 0 })
			l.stop()
			for second, count := range books.by(books.bits.secondOf) {
				if count > 8 {
					t.Errorf("%d UIDs of second %d", count, second)
				}
			}
			books.Settle(t)
		})
	}
}
