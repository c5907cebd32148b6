//go:build ignore

// Draws how.svg and how-zh.svg, the picture of how shardid works, beside itself: go run docs/images/how.go. A browser
// shows it in its light or its dark colours.
package main

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
)

const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 340"
font-family="system-ui, sans-serif" font-size="14">
<!-- made by go run docs/images/how.go -->
<style>
text { fill: #1f2328; text-anchor: middle }
.small { font-size: 12px; fill: #59636e }
.box { fill: #ffffff; stroke: #818b98 }
.own { fill: #ddf4ff; stroke: #0969da }
.line { stroke: #59636e; fill: none; marker-end: url(#tip) }
.both { marker-start: url(#tip) }
.dashed { stroke-dasharray: 4 4 }
#tip path { fill: #59636e }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc }
.small { fill: #9198a1 }
.box { fill: #151b23; stroke: #656c76 }
.own { fill: #0c2d6b; stroke: #4493f8 }
.line { stroke: #9198a1 }
#tip path { fill: #9198a1 }
}
</style>
<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
<path d="M0 0L8 4L0 8z"/></marker>
`

// labels are the words of the picture in one language.
type labels struct {
	callers                    [3]string
	ids, replica, holds        string
	redis, next, mysql, taken  string
	fills, commits             string
	check                      [2]string
	index, shard, app, anatomy string
}

var languages = map[string]labels{
	"how.svg": {
		callers: [3]string{"your services", "any Redis client", "Go and Java clients"},
		ids:     "IDs", replica: "shardid", holds: "holds IDs ahead",
		redis: "Redis", next: "the numbers to use next", mysql: "MySQL", taken: "the numbers that are taken",
		fills: "fills lists, takes from them", commits: "commits each segment first",
		check: [2]string{"each knows what", "the other may lose"},
		index: "index, 49 bits", shard: "shard, 6", app: "app, 8", anatomy: "a queue ID",
	},
	"how-zh.svg": {
		callers: [3]string{"业务服务", "任意 Redis 客户端", "Go 与 Java 客户端"},
		ids:     "ID", replica: "shardid", holds: "提前备好 ID",
		redis: "Redis", next: "接下来要用的号", mysql: "MySQL", taken: "已经领走的号",
		fills: "填充列表，从中取号", commits: "先提交号段，再使用", check: [2]string{"一方丢了数据，", "由另一方作证"},
		index: "序号，49 位", shard: "分片，6 位", app: "应用，8 位", anatomy: "队列 ID",
	},
}

// canvas collects the elements of a picture.
type canvas struct{ bytes.Buffer }

func (c *canvas) text(class string, x, y int, words string) {
	fmt.Fprintf(c, "<text class=%q x=\"%d\" y=\"%d\">%s</text>\n", class, x, y, words)
}

// box is a rectangle with a title, and a line below it unless that is empty.
func (c *canvas) box(class string, x, y, width, height int, title, line string) {
	fmt.Fprintf(c, "<rect class=%q x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n",
		class, x, y, width, height)
	middle := y + height/2 + 5
	if line != "" {
		middle -= 9
		c.text("small", x+width/2, middle+18, line)
	}
	c.text("", x+width/2, middle, title)
}

func (c *canvas) line(class string, x1, y1, x2, y2 int) {
	fmt.Fprintf(c, "<path class=\"line %s\" d=\"M%d %dL%d %d\"/>\n", class, x1, y1, x2, y2)
}

func drawn(l labels) []byte {
	c := &canvas{}
	c.WriteString(head)
	for i, caller := range l.callers {
		y := 30 + 75*i
		c.box("box", 10, y, 150, 46, caller, "")
		c.line("both", 164, y+23, 246, 110+18*i)
	}
	c.text("small", 205, 60, l.ids)
	for _, behind := range []int{16, 8, 0} {
		c.box("own", 252+behind, 92-behind, 140, 72, "", "")
	}
	c.text("", 322, 124, l.replica+" × N")
	c.text("small", 322, 144, l.holds)
	c.box("box", 540, 26, 210, 58, l.redis, l.next)
	c.box("box", 540, 172, 210, 58, l.mysql, l.taken)
	c.line("both", 412, 104, 536, 56)
	c.line("", 412, 150, 536, 200)
	c.text("small", 440, 56, l.fills)
	c.text("small", 440, 212, l.commits)
	c.line("both dashed", 580, 88, 580, 168)
	c.text("small", 660, 124, l.check[0])
	c.text("small", 660, 142, l.check[1])
	c.text("small", 60, 303, l.anatomy)
	c.box("box", 110, 278, 440, 40, l.index, "")
	c.box("own", 550, 278, 90, 40, l.shard, "")
	c.box("box", 640, 278, 110, 40, l.app, "")
	c.WriteString("</svg>\n")
	return c.Bytes()
}

func main() {
	_, here, _, _ := runtime.Caller(0)
	for file, l := range languages {
		if err := os.WriteFile(filepath.Join(filepath.Dir(here), file), drawn(l), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
