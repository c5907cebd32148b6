//go:build unix

package bench

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"shardid/scripts/check"
	"shardid/scripts/rig"
)

// measureIdle is goal 2: a list that is hardly used is not drained by batches.
func measureIdle(t *testing.T, s *suite) {
	d := s.deploy(t, map[uint8]int64{singleApp: 1000})
	own := s.serveShardid(t, d.settings(), singleApp)
	length := func() int64 { return d.length(t, singleApp, pass) }
	rig.Until(t, startLimit, "the list is filled", func() error {
		if length() == 0 {
			return errors.New("it is empty")
		}
		return nil
	})
	url := own.url + queuePath(singleApp, pass)
	before := length()
	for range s.plan.idle {
		time.Sleep(time.Second)
		check.Must(t, answers(url))
	}
	two := s.report.goal(2)
	two.atMost("indices a request takes at one a second", float64(before-length())/float64(s.plan.idle), 1, "",
		fmt.Sprintf("%d requests", s.plan.idle))
	time.Sleep(time.Second)
	two.tell("pops for 64 callers at once on an idle list", popsOfCrowd(t, own, url), "", "")
}

// popsOfCrowd is how often Redis is asked when 64 callers come at the same time.
func popsOfCrowd(t *testing.T, own *daemon, url string) float64 {
	t.Helper()
	before := own.metric("shardid_queue_pops_total")
	var crowd sync.WaitGroup
	for range concurrency {
		crowd.Go(func() {
			check.OK(t, answers(url))
		})
	}
	crowd.Wait()
	return own.metric("shardid_queue_pops_total") - before
}
