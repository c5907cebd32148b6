//go:build unix

package bench

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// bar is one of a chart.
type bar struct {
	name  string
	value float64
	text  string // at its end
	ours  bool
}

// chart is a row of bars with a title.
type chart struct {
	title, note string
	bars        []bar
	// full is the value of the longest bar; what is beyond ends with a gap in it.
	// 0: the largest there is.
	full float64
}

// Lengths in pixels.
const (
	imageWidth = 760
	nameWidth  = 230
	barWidth   = 380 // of the longest
	barHeight  = 18
	barPitch   = 26
	titlePitch = 50
	chartGap   = 28
)

// style has colours for light and dark pages. What cannot read it gets the light
// ones on a white ground.
const style = `<style>
.ground{fill:#fff}.text{fill:#24292f}.faint{fill:#57606a}.ours{fill:#0969da}.other{fill:#afb8c1}.gap{stroke:#fff}
@media (prefers-color-scheme:dark){.ground{fill:#0d1117}.text{fill:#e6edf3}.faint{fill:#9198a1}.ours{fill:#4493f8}.other{fill:#565d67}.gap{stroke:#0d1117}}
text{font:13px -apple-system,"Segoe UI",Helvetica,Arial,sans-serif}.title{font-weight:600;font-size:15px}.note{font-size:11px}
</style>
`

// drawCharts is an SVG image with the charts below each other.
func drawCharts(charts ...chart) []byte {
	var body bytes.Buffer
	y := chartGap
	for _, c := range charts {
		y = c.draw(&body, y) + chartGap
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img" aria-label="shardid compared">`+"\n", imageWidth, y)
	out.WriteString(style)
	fmt.Fprintf(&out, `<rect class="ground" width="%d" height="%d" rx="6"/>`+"\n", imageWidth, y)
	out.Write(body.Bytes())
	out.WriteString("</svg>\n")
	return out.Bytes()
}

// draw writes the chart from y on and returns where it ends.
func (c chart) draw(w io.Writer, y int) int {
	fmt.Fprintf(w, `<text class="text title" x="16" y="%d">%s</text>`+"\n", y, html.EscapeString(c.title))
	fmt.Fprintf(w, `<text class="faint note" x="16" y="%d">%s</text>`+"\n", y+17, html.EscapeString(c.note))
	full := c.full
	for _, b := range c.bars {
		if c.full == 0 {
			full = max(full, b.value)
		}
	}
	y += titlePitch - barHeight
	for _, b := range c.bars {
		b.draw(w, y, full)
		y += barPitch
	}
	return y
}

func (b bar) draw(w io.Writer, y int, full float64) {
	class := "other"
	if b.ours {
		class = "ours"
	}
	width := max(1, math.Round(barWidth*min(1, b.value/full)))
	fmt.Fprintf(w, `<text class="text" x="%d" y="%d" text-anchor="end">%s</text>`+"\n", nameWidth-8, y+14, html.EscapeString(b.name))
	fmt.Fprintf(w, `<rect class="%s" x="%d" y="%d" width="%.0f" height="%d" rx="2"/>`+"\n", class, nameWidth, y, width, barHeight)
	if b.value > full {
		fmt.Fprintf(w, `<path class="gap" d="M%d %d l8 -22" stroke-width="4"/>`+"\n", nameWidth+barWidth-24, y+20)
	}
	fmt.Fprintf(w, `<text class="faint" x="%.0f" y="%d">%s</text>`+"\n", nameWidth+width+8, y+14, html.EscapeString(b.text))
}

// writePicture draws what the contests of a report found, as far as they were held.
func (r *report) writePicture(path string) error {
	return writeImage(path, drawCharts(r.serverChart(), r.libraryChart()))
}

// writeImage stores an image; the folder is made.
func writeImage(path string, image []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, image, 0o644)
}

func (r *report) serverChart() chart {
	c := chart{title: "Requests a second, one server core", note: r.Machine + ", " + r.When + "; medians of alternated rounds, 64 connections"}
	servers := r.Contests[httpContest]
	ceiling := servers[bareGin].median("req/s")
	for _, name := range []string{bareGin, queueMode, queueBatch, segmentMode, snowflakeMode, uidMode, plainDesign} {
		v := servers[name].median("req/s")
		if !math.IsNaN(v) {
			c.bars = append(c.bars, bar{name, v, fmt.Sprintf("%.1f k, %.2f ×", v/1000, v/ceiling), name != bareGin && name != plainDesign})
		}
	}
	return c
}

func (r *report) libraryChart() chart {
	c := chart{title: "Nanoseconds for an ID, in the process, one goroutine", note: "less is better; 4096 IDs a millisecond, the bound of the snowflake format, are 244 ns", full: 260}
	for _, g := range generators() {
		v := r.Contests[libraryContest][g.contender].median(g.one)
		if !math.IsNaN(v) {
			c.bars = append(c.bars, bar{g.name, v, number(math.Round(v*10) / 10), g.ours()})
		}
	}
	return c
}

func TestPictureIsWellFormed(t *testing.T) {
	image := drawCharts(chart{title: "a < b & c", note: "x", full: 100, bars: []bar{
		{"half", 50, "50", true}, {"beyond", 5000, "5 000", false}, {"nothing", 0, "0", false}}},
		chart{title: "by itself", bars: []bar{{"longest", 7, "", false}}})
	wellFormed(t, image)
	for want, times := range map[string]int{
		`a &lt; b &amp; c`: 1, `class="ours"`: 1, `class="other"`: 3, `class="gap"`: 1,
		`width="190" height="18"`: 1, `width="380" height="18"`: 2, `prefers-color-scheme:dark`: 1,
	} {
		if got := strings.Count(string(image), want); got != times {
			t.Errorf("%d times %q, want %d, in\n%s", got, want, times, image)
		}
	}
}

func wellFormed(t *testing.T, image []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(image))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, image)
		}
	}
}

// What a contest found is in the picture and in the table of generators; what was
// not held is left out.
func TestPictureOfAReport(t *testing.T) {
	of := func(f figures) series { return series{Rounds: []figures{f}} }
	r := &report{Machine: "a machine", Contests: map[string]map[string]series{
		httpContest: {bareGin: of(figures{"req/s": 80_000}), queueMode: of(figures{"req/s": 76_000})},
	}}
	if got := r.generatorTable(); got != "" {
		t.Errorf("a table of what was not measured: %s", got)
	}
	r.Contests[libraryContest] = map[string]series{
		peers:      of(figures{"Peer/rs/xid ns/op": 60, "Peer/rs/xid-2 ns/op": 50.04}),
		uidLibrary: of(figures{"Cached/one,_1_goroutine-2 ns/ID": 12.5}),
	}
	path := filepath.Join(t.TempDir(), "images", "x.svg")
	if err := r.writePicture(path); err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	table := strings.Join(strings.Fields(r.generatorTable()), " ")
	for text, want := range map[string]int{`class="ours"`: 2, `class="other"`: 2, "76.0 k, 0.95 ×": 1, ">12.5<": 1} {
		if got := strings.Count(string(image), text); got != want {
			t.Errorf("%d times %q, want %d, in\n%s", got, text, want, image)
		}
	}
	if !strings.Contains(table, "rs/xid 60 50") || !strings.Contains(table, "UID, cached 12.5 snowflake") {
		t.Error(table)
	}
}
