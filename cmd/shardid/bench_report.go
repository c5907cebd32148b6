package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"shardid/service/loadgen"
)

// benchObject is a report in JSON. Fields may be added; those that are here keep
// their names and meanings.
type benchObject struct {
	URL      string  `json:"url"`
	Mode     string  `json:"mode"`     // queue, segment, snowflake, uid or raw
	Duration float64 `json:"duration"` // s that were measured
	Requests int64   `json:"requests"` // answered as they should be
	IDs      int64   `json:"ids"`      // that came with them

	RequestsPerSecond float64 `json:"requestsPerSecond"`
	IDsPerSecond      float64 `json:"idsPerSecond"`
	// IntendedRate is --rate, 0 for a closed loop; AchievedRate counts requests
	// whatever came of them. Both are requests a second.
	IntendedRate float64 `json:"intendedRate"`
	AchievedRate float64 `json:"achievedRate"`
	// Unsent requests were due and not sent when the time was up.
	Unsent int64 `json:"unsent"`

	Latency latencyObject `json:"latency"`

	Errors     map[string]int64 `json:"errors"`     // by kind: "503 code -4", "timeout", …
	BadAnswers map[string]int64 `json:"badAnswers"` // what must never be, by what it was
	FirstError string           `json:"firstError,omitempty"`

	// Duplicates are IDs that had come before, warm-up included, among the first
	// ComparedIDs; NotComparedIDs came after those.
	Duplicates     int64 `json:"duplicates"`
	ComparedIDs    int64 `json:"comparedIds"`
	NotComparedIDs int64 `json:"notComparedIds"`
	Interrupted    bool  `json:"interrupted"`
}

// latencyObject is in milliseconds.
type latencyObject struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99.9"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
}

func newBenchObject(r *loadgen.Report) benchObject {
	out := benchObject{
		URL: r.URL, Mode: r.Mode, Duration: r.Duration.Seconds(), Requests: r.Requests, IDs: r.IDs,
		RequestsPerSecond: r.RequestsPerSecond(), IDsPerSecond: r.IDsPerSecond(),
		IntendedRate: r.Rate, AchievedRate: r.AchievedRate(), Unsent: r.Unsent,
		Latency: latencyObject{
			P50: millis(r.Latency.P50), P90: millis(r.Latency.P90), P99: millis(r.Latency.P99),
			P999: millis(r.Latency.P999), Max: millis(r.Latency.Max), Mean: millis(r.Latency.Mean),
		},
		Errors: r.Errors, BadAnswers: r.Breaches,
		Duplicates: r.Duplicates.Count, ComparedIDs: r.Compared, NotComparedIDs: r.NotCompared,
		Interrupted: r.Interrupted,
	}
	if r.FirstError != nil {
		out.FirstError = r.FirstError.Error()
	}
	return out
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// printReport is the report for people.
func printReport(w io.Writer, r *loadgen.Report) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "%s\t%s, %s measured%s\n", r.Mode, r.URL, r.Duration.Round(time.Millisecond), interrupted(r))
	fmt.Fprintf(tw, "requests\t%s\t%s/s\n", grouped(r.Requests), grouped(int64(r.RequestsPerSecond())))
	if r.Mode != rawMode {
		fmt.Fprintf(tw, "IDs\t%s\t%s/s\n", grouped(r.IDs), grouped(int64(r.IDsPerSecond())))
	}
	if r.Rate > 0 {
		fmt.Fprintf(tw, "rate\t%.6g/s intended, %.6g/s achieved%s\n", r.Rate, r.AchievedRate(), unsent(r))
	}
	l := r.Latency
	fmt.Fprintf(tw, "latency\tp50 %s  p90 %s  p99 %s  p99.9 %s  max %s  mean %s\n",
		short(l.P50), short(l.P90), short(l.P99), short(l.P999), short(l.Max), short(l.Mean))
	fmt.Fprintf(tw, "errors\t%s\n", failures(r.Errors))
	if r.FirstError != nil {
		fmt.Fprintf(tw, "first error\t%v\n", r.FirstError)
	}
	if r.Mode != rawMode {
		fmt.Fprintf(tw, "bad answers\t%s\n", failures(r.Breaches))
		fmt.Fprintf(tw, "duplicates\t%s\n", duplicates(r))
	}
	return tw.Flush()
}

// rawMode is the mode of a report without IDs.
const rawMode = "raw"

func interrupted(r *loadgen.Report) string {
	if r.Interrupted {
		return ", interrupted"
	}
	return ""
}

func unsent(r *loadgen.Report) string {
	if r.Unsent == 0 {
		return ""
	}
	return fmt.Sprintf(", %s due and not sent in time: the latencies count how long they had waited", grouped(r.Unsent))
}

// failures lists kinds, the most frequent first.
func failures(counts map[string]int64) string {
	if len(counts) == 0 {
		return "none"
	}
	kinds := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if counts[a] != counts[b] {
			return int(counts[b] - counts[a])
		}
		return strings.Compare(a, b)
	})
	for i, k := range kinds {
		kinds[i] = fmt.Sprintf("%s × %s", grouped(counts[k]), k)
	}
	return strings.Join(kinds, ", ")
}

// duplicates says how many there are, and among how many IDs: none among few would
// say little.
func duplicates(r *loadgen.Report) string {
	if r.Compared == 0 {
		return "not looked for"
	}
	s := fmt.Sprintf("%s among %s IDs", grouped(r.Duplicates.Count), grouped(r.Compared))
	if r.Duplicates.Count == 0 {
		s = fmt.Sprintf("none among %s IDs, warm-up included", grouped(r.Compared))
	}
	if len(r.Duplicates.First) > 0 {
		s += ", such as " + listed(r.Duplicates.First)
	}
	if r.NotCompared > 0 {
		s += fmt.Sprintf("; %s more were not compared: --compare sets how many are", grouped(r.NotCompared))
	}
	return s
}

func listed(ids []int64) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.FormatInt(id, 10)
	}
	return strings.Join(texts, ", ")
}

// grouped writes 1234567 as 1,234,567.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// short writes a latency in milliseconds, with three digits at least.
func short(d time.Duration) string {
	ms := millis(d)
	digits := 0
	for bound := 100.0; ms < bound && digits < 3; bound /= 10 {
		digits++
	}
	return strconv.FormatFloat(ms, 'f', digits, 64) + "ms"
}

// clearLine goes to the start of a terminal's line and empties it.
const clearLine = "\r\x1b[K"

// printProgress replaces the line of a terminal.
func printProgress(w io.Writer, p loadgen.Progress) {
	warm := ""
	if p.WarmingUp {
		warm = ", warming up"
	}
	fmt.Fprintf(w, clearLine+"%s: %s requests, %s IDs, %s failed%s", p.Elapsed.Round(time.Second),
		grouped(p.Requests), grouped(p.IDs), grouped(p.Failed), warm)
}

func clearProgress(w io.Writer) { fmt.Fprint(w, clearLine) }
