package workerfile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"shardid/scripts/check"
)

func TestParseLeaf(t *testing.T) {
	at := time.Date(2024, time.July, 1, 12, 30, 5, 0, time.UTC)
	was := time.Local
	t.Cleanup(func() { time.Local = was })
	time.Local = time.FixedZone("CST", 8*3600)
	for text, want := range map[string]LeafFile{
		"workerID=7": {WorkerID: 7},
		"#written by a program\n#Mon Jul 01 12:30:05 UTC 2024\nworkerID=0\n":                     {At: at},
		"#Mon Jul 01 20:30:05 CST 2024\r\n#Sun Jun 30 20:30:05 CST 2024\r\nworkerID = 7":         {WorkerID: 7, At: at},
		fmt.Sprintf(`{"ip":"10.0.0.5","port":"8080","workId":7,"timestamp":%d}`, at.UnixMilli()): {WorkerID: 7, Address: address, At: at},
		` {"ip":"10.0.0.5","port":8080,"workId":7,"timestamp":null}`:                             {WorkerID: 7, Address: address},
	} {
		if got, err := ParseLeaf([]byte(text)); err != nil || got.WorkerID != want.WorkerID || got.Address != want.Address || !got.At.Equal(want.At) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":                                "it has no line workerID=N",
		"workerID=-1":                     "it has no line workerID=N",
		`{"ip":"10.0.0.5","port":"8080"}`: "it is not like {",
		`{"workId":1,"timestamp":-5}`:     "it is not like {",
		`{"workId":"one"}`:                "it is not like {",
		`a=\u1`:                           "it is neither",
		"#Mon Jul 01 12:30:05 EST 2024\nworkerID=7": "its date is of the zone EST",
	} {
		if got, err := ParseLeaf([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %s", text, got, err, want)
		}
	}
}

// A lease that follows Java's starts above the latest of now, the time in the file and the
// time of the file, and above what the file had reserved before.
func TestAdopt(t *testing.T) {
	o := options(t.TempDir())
	o.Registry = ModeLocal
	f := open(t, o)
	now := time.Now()
	hour := now.Add(time.Hour).Truncate(time.Millisecond)
	for _, c := range []struct{ in, of, want time.Time }{
		{time.Time{}, now.Add(-time.Hour), now},
		{hour, now, hour},
		{time.Time{}, hour.Add(time.Hour), hour.Add(time.Hour)},
		{hour, now, hour.Add(time.Hour)}, // an earlier import reserved more
	} {
		from, err := f.Adopt(LeafFile{WorkerID: 7, At: c.in}, c.of)
		check.Must(t, err)
		got, ok := f.Load()
		if !ok || got.WorkerID != 7 || got.Reserved != from.UnixMilli() || got.Expires != got.Reserved || from.Before(c.want.Add(leafTrust).Truncate(time.Millisecond)) {
			t.Errorf("from %s: %+v, want above %s", from, got, c.want)
		}
	}
}
