//go:build unix

package e2e_test

import (
	"os"

	"github.com/chromedp/chromedp"
)

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
