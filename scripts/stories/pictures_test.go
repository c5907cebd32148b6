//go:build unix

package stories_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"shardid/scripts/rig"
	"shardid/scripts/testserver"

	"github.com/chromedp/chromedp"
)

// pictures is where TestConsolePictures writes.
var pictures = flag.String("pictures", "", "write the console's pictures into this `folder`, in three minutes")

// TestConsolePictures makes the pictures of docs/monitoring.md and README.zh-CN.md from a service under load:
//
//	go test ./scripts/stories -run TestConsolePictures -pictures ../../docs/images
func TestConsolePictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("no folder is given (-pictures)")
	}
	if fonts, err := exec.Command("fc-list", ":lang=zh").Output(); err != nil || len(fonts) == 0 {
		t.Fatalf("install the Debian package fonts-noto-cjk: no font has Chinese characters (%v)", err)
	}
	d := prepared(t, onRedis(testserver.Redis(t).Addr),
		[]string{"provision", "--app", "1", "--name", "orders"},
		[]string{"provision", "--app", "2", "--name", "payments", "--step", "5000"},
		[]string{"provision", "--app", "7", "--name", "customers"},
		[]string{"provision", "--app", "40", "--name", "coupons (short codes)",
			"--max-limit-id", "99999999999", "--limit-policy", "wrap"},
		[]string{"tags", "add", "--tag", "invoices", "--step", "20000", "--max-id", exactLimit},
		[]string{"tags", "add", "--tag", "returns", "--step", "500"})
	d.ready()
	for _, load := range [][]string{
		{"--app", "1", "--rate", "300"}, {"--app", "2", "--rate", "250"}, {"--app", "40", "--rate", "15"},
		{"--mode", "segment", "--tag", "invoices", "--rate", "60"}, {"--mode", "snowflake", "--rate", "180"},
		{"--mode", "uid", "--rate", "90"},
	} {
		bench := exec.CommandContext(t.Context(), rig.Binary(t),
			append([]string{"bench", "--url", d.url, "--duration", "10m"}, load...)...)
		if err := bench.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = bench.Wait() }) // the end of the test's context stops it
	}
	eventually(t, 5*time.Minute, "30 samples for the charts", func() bool {
		var chart struct {
			Times []int64 `json:"times"`
		}
		return json.Unmarshal([]byte(d.get("/api/history").body), &chart) == nil && len(chart.Times) >= 30
	})
	b := browse(t, d.url, 1440)
	take := func(name, theme string, width, height int) {
		b.resize(width, height, theme)
		b.do(chromedp.Sleep(6 * time.Second)) // everything is polled once, and the charts follow the width
		png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		if err == nil {
			err = os.WriteFile(filepath.Join(*pictures, fmt.Sprintf("console-%s.png", name)), png, 0o644)
		}
		if limit := 300 << 10; err != nil || len(png) > limit { // the repository keeps each for ever
			t.Errorf("picture %s of %d bytes, at most %d are wanted: %v", name, len(png), limit, err)
		}
	}
	take("light", "light", 1440, 1400)
	take("dark", "dark", 1440, 1400)
	take("phone", "light", 390, 1640)
	b.click("#language")
	b.until("the page is Chinese", `document.documentElement?.lang === 'zh-CN'`)
	take("zh", "light", 1440, 1340)
	b.clean()
}
