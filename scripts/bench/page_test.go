//go:build unix

package bench

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"

	"shardid/scripts/check"
)

// TestPerformancePage: docs/performance.md says what the last full run has measured, and no
// other page says something else.
func TestPerformancePage(t *testing.T) {
	raw, err := os.ReadFile("results/full.json")
	check.Must(t, err)
	var r report
	check.Must(t, json.Unmarshal(raw, &r))
	rows := tableRows(t, "../../docs/performance.md")
	for label, want := range map[string]string{
		"`/get` on Redis and MariaDB, requests a second":     thousands(r.Contests[httpContest][queueMode].median("req/s")),
		"of a bare Gin server that answers the same bytes":   r.figures(t, "/get over 64 lists, of bare Gin"),
		"of the plain design":                                r.figures(t, "/get, of the plain design"),
		"segment, snowflake, UID, of bare Gin":               r.figures(t, segmentMode+", of bare Gin", snowflakeMode+", of bare Gin", uidMode+", of bare Gin"),
		"IDs for one call to Redis":                          number(math.Round(1 / r.value(t, "calls to Redis for an ID"))),
		"memory, 16 384 lists, 1024 of them in use":          number(math.Round(r.value(t, "memory with 16 384 lists, 1024 in use"))) + " MiB",
		"from the start to the first ID, embedded":           number(math.Round(r.value(t, "embedded, from the start to the first ID"))) + " ms",
		"segments last without their database":               number(math.Round(r.value(t, "segment: what is held lasts, at the present rate"))) + " s",
		"back at full speed after the database, after Redis": fmt.Sprintf("%.2f s, %.2f s", r.value(t, "segment that ran dry is at full speed after the database's return"), r.value(t, "queue is at full speed after Redis came back, empty")),
		"`count=100` over HTTP, embedded":                    number(math.Round(100 * r.value(t, "requests of: "+batchEmbedded+"; of: "+bareGin))),
		"RESP, one at a time; pipelined by 16":               r.figures(t, "RESP, one ID at a time, of bare Gin", "the same, pipelined by 16"),
		"RESP, `LPOP key 100`":                               number(math.Round(r.value(t, "IDs by LPOP key 100, of requests to bare Gin"))),
		"Go client, refills included":                        number(math.Round(r.value(t, "IDs by the Go client, of requests to bare Gin"))),
		"**shardid** Go client, an ID that it holds (a tag)": number(r.value(t, "an ID that the Go client holds, of a tag")),
	} {
		check.Equal(t, rows[label], want, label)
	}
	for _, g := range generators() {
		label, ours := strings.NewReplacer("segment, by key", "**shardid** segment, by key", "UID, cached", "**shardid** UID, cached").Replace(g.name), r.Contests[libraryContest][g.contender]
		if want := nanoseconds(ours, g.one); rows[label] != "" && rows[label] != want {
			t.Errorf("%s: the page says %q, the run %s", label, rows[label], want)
		}
	}
	// What other pages say of the same is a link, or the same figure.
	for _, page := range []string{"README.md", "docs/README.md", "docs/operations.md", "docs/clients.md", "docs/http.md", "docs/laboratory.md"} {
		text, err := os.ReadFile("../../" + page)
		check.Must(t, err)
		found := regexp.MustCompile(`\d[\d ,]*\d requests a second a core|memory of a replica \| \d+ MiB|one for \d+ IDs`).Find(text)
		check.Equal(t, string(found), "", page, "says what belongs on docs/performance.md")
	}
}

// tableRows are the second cells of a page's tables, by their first.
func tableRows(t *testing.T, page string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(page)
	check.Must(t, err)
	rows := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| (.+?) \| (.+?) \|`).FindAllStringSubmatch(string(text), -1) {
		rows[row[1]] = row[2]
	}
	return rows
}

func (r *report) value(t *testing.T, what string) float64 {
	t.Helper()
	for _, l := range r.Lines {
		if l.What == what {
			return l.Value
		}
	}
	t.Fatalf("the run has no %q", what)
	return 0
}

// figures are ratios, with two decimals below 10 and none from 10 on.
func (r *report) figures(t *testing.T, what ...string) string {
	t.Helper()
	var texts []string
	for _, w := range what {
		if v := r.value(t, w); v < 10 {
			texts = append(texts, fmt.Sprintf("%.2f", v))
		} else {
			texts = append(texts, fmt.Sprintf("%.0f", v))
		}
	}
	return strings.Join(texts, ", ")
}

// thousands is a number of five digits, as the pages write it.
func thousands(v float64) string {
	n := int(math.Round(v / 1000))
	return fmt.Sprintf("%d 000", n)
}
