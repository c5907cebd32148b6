//go:build unix

package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"shardid/scripts/rig"
	"shardid/scripts/testserver"

	"github.com/chromedp/chromedp"
)

// screenshots is where TestConsoleScreenshots writes; without it the test is skipped.
var screenshots = flag.String("screenshots", "", "write the console's screenshots into this `folder`, which takes three minutes")

// TestConsoleScreenshots makes the pictures of docs/console.md and README.zh-CN.md from a real
// service under load:
//
//	go test ./scripts/e2e -run TestConsoleScreenshots -screenshots ../../docs/images
func TestConsoleScreenshots(t *testing.T) {
	story(t)
	if *screenshots == "" {
		t.Skip("-screenshots is not set")
	}
	if fonts, err := exec.Command("fc-list", ":lang=zh").Output(); err != nil || len(fonts) == 0 {
		t.Fatalf("no Chinese font: install the Debian package fonts-noto-cjk (%v)", err)
	}
	d := lively(t)
	b := browse(t, d.url, 1440)
	b.do(chromedp.Sleep(6 * time.Second)) // polls of everything
	for _, shot := range []struct {
		name, theme   string
		width, height int
	}{
		{"console-light.png", "light", 1440, 1400},
		{"console-dark.png", "dark", 1440, 1400},
		{"console-phone.png", "light", 390, 1640},
	} {
		b.resize(shot.width, shot.height, shot.theme)
		b.do(chromedp.Sleep(time.Second)) // the charts follow the width
		b.published(filepath.Join(*screenshots, shot.name))
	}
	b.resize(1440, 1340, "light") // Chinese characters take more bytes
	b.click("#language")
	b.until("the page is Chinese", `document.documentElement?.lang === 'zh-CN' && document.body?.dataset.link === 'live'`)
	b.do(chromedp.Sleep(6 * time.Second))
	b.published(filepath.Join(*screenshots, "console-zh.png"))
	b.clean()
}

// picture writes what the window shows.
func (b *tab) picture(path string) {
	b.t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(path, png, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// published is a picture for the repository, which keeps each for ever.
func (b *tab) published(path string) {
	b.t.Helper()
	b.picture(path)
	info, err := os.Stat(path)
	if limit := int64(300 << 10); err != nil || info.Size() > limit {
		b.t.Errorf("%s is too large, at most %d bytes are wanted: %v, %v", path, limit, info, err)
	}
}

// filmed is how long the load runs before the first picture: the charts need it.
const filmed = 150 * time.Second

// lively is a service with apps and tags of every condition, under a load that rises
// and falls.
func lively(t *testing.T) *daemon {
	t.Helper()
	redis := testserver.Redis(t)
	d := prepared(t, onRedis(redis.Addr).With(noSweeps()),
		[]string{"provision", "--app", "1", "--name", "orders"},
		[]string{"provision", "--app", "2", "--name", "payments", "--step", "5000"},
		[]string{"provision", "--app", "7", "--name", "customers"},
		[]string{"provision", "--app", "12", "--name", "stock & shipping", "--step", "2000"},
		[]string{"provision", "--app", "40", "--name", "coupons (short codes)", "--max-limit-id", "99999999999", "--limit-policy", "wrap"},
		[]string{"provision", "--app", "41", "--name", "warehouse-labels-of-the-northern-region", "--max-limit-id", "900000000000"},
		[]string{"provision", "--app", "200", "--name", "load tests", "--step", "100"},
		[]string{"tags", "add", "--tag", "leaf-segment-test", "--step", "2000"},
		[]string{"tags", "add", "--tag", "invoices", "--step", "20000", "--max-id", "9007199254740993"},
		[]string{"tags", "add", "--tag", "returns", "--step", "500"})
	d.ready()
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	t.Cleanup(func() { cancel(); asking.Wait() })
	ask := func(rate float64, target func(i int) string) {
		asking.Go(func() { d.waves(ctx, rate, target) })
	}
	for app, rate := range map[int]float64{1: 300, 2: 250, 7: 60, 12: 90, 40: 15, 41: 8} {
		callers := callersOf(app == 1)
		ask(rate, func(i int) string {
			return fmt.Sprintf("/get?appId=%d&gatePass=%s", app, callers[i*i%len(callers)])
		})
	}
	for tag, rate := range map[string]float64{demoTag: 120, "invoices": 45, "returns": 9} {
		ask(rate, func(int) string { return segmentGet + tag })
	}
	ask(180, func(int) string { return snowflakeGet })
	ask(90, func(int) string { return "/api/uid/get" })
	time.Sleep(filmed)
	client := redis.Client()
	for shard := range 64 {
		key := fmt.Sprintf("id.gen.idList_1_%d", shard)
		left := int64(1000 - (shard*shard*7)%800)
		if slices.Contains(unasked(), shard) {
			left = int64(shard-unasked()[0]) * 3
		}
		if n := client.LLen(t.Context(), key).Val(); n > left {
			client.LTrim(t.Context(), key, n-left, -1)
		}
	}
	return d
}

// callersOf are gatePasses of all shards, or of all but the unasked ones.
func callersOf(some bool) (passes []string) {
	for i := range 1009 { // a prime, so that i*i does not favour a few of them much
		pass := fmt.Sprintf("user%d", i)
		if !some || !slices.Contains(unasked(), int(rig.ShardOf(pass))) {
			passes = append(passes, pass)
		}
	}
	return passes
}

// unasked are shards that nobody asks for, so that their lists stay empty or low.
func unasked() []int { return []int{12, 19, 37, 50} }

// waves asks at a rate, in requests a second, that swings by a third every minute.
func (d *daemon) waves(ctx context.Context, rate float64, target func(i int) string) {
	begun := time.Now()
	for i := 0; ctx.Err() == nil; i++ {
		_, _ = d.do("GET", target(i)) // refusals are in the pictures
		swing := 1 + math.Sin(time.Since(begun).Seconds()*2*math.Pi/60)/3
		time.Sleep(time.Duration(float64(time.Second) / (rate * swing)))
	}
}
