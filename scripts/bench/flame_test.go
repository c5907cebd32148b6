//go:build unix

package bench

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"io"
	"path"
	"slices"
	"strings"
	"testing"
)

// call is a node of the tree of calls.
type call struct {
	name    string
	samples int // of it and of all it calls
	below   []*call
}

// tree joins stacks that begin alike.
func tree(stacks []stack) *call {
	root := &call{name: "all"}
	for _, s := range stacks {
		at := root
		at.samples += s.samples
		for _, name := range slices.Backward(s.calls) {
			at = at.child(name)
			at.samples += s.samples
		}
	}
	return root
}

// child is the one of that name, made if there is none.
func (c *call) child(name string) *call {
	for _, b := range c.below {
		if b.name == name {
			return b
		}
	}
	b := &call{name: name}
	c.below = append(c.below, b)
	return b
}

// Lengths of the picture of a profile, in pixels.
const (
	flameLeft   = 16
	flameWidth  = 960 // of all samples
	flameHeight = 17
	flamePitch  = 18
	flameRows   = 20  // deeper calls are in the bar of the last row's caller
	flameLeast  = 3.0 // a narrower bar is left out
	letterWidth = 6.3 // of the font below, at most
	sharePitch  = 20
)

// flameStyle is style for a profile: each owner has a colour, for light and dark.
const flameStyle = `<style>
.ground{fill:#fff}.text{fill:#24292f}.faint{fill:#57606a}
.calls{fill:#ffd8a8}.gc{fill:#ffc9c9}.ours{fill:#a5d8ff}.gin{fill:#b2f2bb}.stores{fill:#eebefa}.http{fill:#fff3bf}.runtime{fill:#dee2e6}
@media (prefers-color-scheme:dark){.ground{fill:#0d1117}.text{fill:#e6edf3}.faint{fill:#9198a1}
.calls{fill:#8a4b08}.gc{fill:#8f2f2f}.ours{fill:#0b5cad}.gin{fill:#1f6b32}.stores{fill:#6f2c91}.http{fill:#5c5316}.runtime{fill:#343a42}}
text{font:13px -apple-system,"Segoe UI",Helvetica,Arial,sans-serif}.title{font-weight:600;font-size:15px}.note{font-size:11px}.call{font:11px ui-monospace,Menlo,Consolas,monospace}
</style>
`

// drawProfile is an SVG image: on whose account time goes, and below it the tree of
// calls, callers above whom they call. The full name and the share of a bar are its
// tooltip.
func drawProfile(stacks []stack, note string) []byte {
	var body bytes.Buffer
	fmt.Fprintf(&body, `<text class="text title" x="%d" y="28">Where the time of /get goes</text>`+"\n", flameLeft)
	fmt.Fprintf(&body, `<text class="faint note" x="%d" y="45">%s</text>`+"\n", flameLeft, html.EscapeString(note))
	y := drawShares(&body, shares(stacks), 58) + chartGap
	fmt.Fprintf(&body, `<text class="faint note" x="%d" y="%d">Who calls is above; what has no colour of its own is on the account of the nearest above that has one.</text>`+"\n", flameLeft, y-10)
	root := tree(stacks)
	f := flame{&body, y, flameWidth / float64(root.samples), 0}
	f.below(root, flameLeft, 0)
	width, height := flameWidth+2*flameLeft, y+f.rows*flamePitch+chartGap/2
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img" aria-label="CPU profile of /get">`+"\n", width, height)
	out.WriteString(flameStyle)
	fmt.Fprintf(&out, `<rect class="ground" width="%d" height="%d" rx="6"/>`+"\n", width, height)
	out.Write(body.Bytes())
	out.WriteString("</svg>\n")
	return out.Bytes()
}

// drawShares draws one bar of all, and below it what the colours mean; it returns
// where that ends.
func drawShares(w io.Writer, list []share, y int) int {
	x, column := float64(flameLeft), flameWidth/4
	for i, s := range list {
		width := s.value * flameWidth
		fmt.Fprintf(w, `<rect class="%s" x="%.1f" y="%d" width="%.1f" height="26"/>`+"\n", s.class, x, y, width)
		x += width
		left, top := flameLeft+i%4*column, y+38+i/4*sharePitch
		fmt.Fprintf(w, `<rect class="%s" x="%d" y="%d" width="12" height="12" rx="2"/>`+"\n", s.class, left, top)
		fmt.Fprintf(w, `<text class="text" x="%d" y="%d">%s %.1f %%</text>`+"\n", left+18, top+11, html.EscapeString(s.name), 100*s.value)
	}
	return y + 38 + (len(list)+3)/4*sharePitch
}

// flame draws a tree of calls.
type flame struct {
	w         io.Writer
	y         int
	perSample float64 // pixels
	rows      int     // that are used
}

// below draws whom c calls, the most expensive first.
func (f *flame) below(c *call, x float64, row int) {
	if row == flameRows {
		return
	}
	sorted := slices.SortedStableFunc(slices.Values(c.below), func(a, b *call) int { return cmp.Compare(b.samples, a.samples) })
	for _, b := range sorted {
		width := float64(b.samples) * f.perSample
		if width < flameLeast {
			return
		}
		f.bar(b, x, width, row)
		f.below(b, x, row+1)
		x += width
	}
}

func (f *flame) bar(c *call, x, width float64, row int) {
	f.rows = max(f.rows, row+1)
	o, _ := ownerOf(c.name)
	y := f.y + row*flamePitch
	percent := 100 * float64(c.samples) * f.perSample / flameWidth
	fmt.Fprintf(f.w, `<g><title>%s: %.1f %%</title><rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d" rx="1"/>`,
		html.EscapeString(c.name), percent, o.class, x, y, width-1, flameHeight)
	if label := fit(c.name, width-6); label != "" {
		fmt.Fprintf(f.w, `<text class="text call" x="%.1f" y="%d">%s</text>`, x+3, y+12, html.EscapeString(label))
	}
	fmt.Fprintln(f.w, "</g>")
}

// fit is the name of a function without its package's path, as far as there is room.
func fit(name string, width float64) string {
	name, _, _ = strings.Cut(name, "[go.shape") // of what a generic one is made for
	dir, base := path.Split(name)
	if version, rest, _ := strings.Cut(base, "."); isVersion(version) {
		base = path.Base(dir) + "." + rest
	}
	short := []rune(base)
	room := int(width / letterWidth)
	switch {
	case room < 3:
		return ""
	case len(short) > room:
		return string(short[:room-1]) + "…"
	}
	return string(short)
}

// isVersion says whether the last element of a path is that of a module, such as v9.
func isVersion(element string) bool {
	digits, found := strings.CutPrefix(element, "v")
	return found && digits != "" && strings.Trim(digits, "0123456789") == ""
}

func TestProfilePicture(t *testing.T) {
	stacks, err := parseTraces(traces)
	if err != nil {
		t.Fatal(err)
	}
	image := drawProfile(stacks, "a < b")
	wellFormed(t, image)
	for want, times := range map[string]int{
		"a &lt; b": 1, "prefers-color-scheme:dark": 1, "system calls 26.7 %": 1, "<title>": 11,
		"<title>net/http.(*conn).serve: 53.3 %</title>": 1, `width="511.0" height="17"`: 1, // of 960, less the gap
		">http.(*conn).serve</text>": 1, ">httpapi.(*API).get</text>": 1, ">slices.SortFunc</text>": 1,
	} {
		if got := strings.Count(string(image), want); got != times {
			t.Errorf("%d times %q, want %d, in\n%s", got, want, times, image)
		}
	}
	deep := drawProfile([]stack{{1000, slices.Repeat([]string{"main.again"}, 100)}, {1, []string{"main.rare"}}}, "")
	if bars := strings.Count(string(deep), "main.again:"); bars != flameRows || bytes.Contains(deep, []byte("main.rare:")) {
		t.Errorf("%d bars, want %d, and none that is too narrow", bars, flameRows)
	}
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		name  string
		width float64
		want  string
	}{
		{"github.com/gin-gonic/gin.(*Context).Next", 200, "gin.(*Context).Next"},
		{"github.com/gin-gonic/gin.(*Context).Next", 60, "gin.(*Co…"},
		{"github.com/redis/go-redis/v9.(*Client).Process", 200, "go-redis.(*Client).Process"},
		{"runtime.mcall", 12, ""},
	} {
		if got := fit(c.name, c.width); got != c.want {
			t.Errorf("%s in %v pixels is %q, want %q", c.name, c.width, got, c.want)
		}
	}
}
