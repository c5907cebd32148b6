package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shardid/model"
	"shardid/repository/workerfile"
	"shardid/scripts/check"
)

// What Java Leaf keeps on the disk becomes the worker file of an instance, whose IDs start above it.
func TestWorkersImport(t *testing.T) {
	t.Chdir(t.TempDir())
	in := func(more string, args ...string) (int, string, string) {
		t.Helper()
		check.Must(t, os.WriteFile("config.yaml", []byte("snowflake: {advertise: '10.0.0.5:8080', worker: {mode: local, local_map: {'10.0.0.5:8080': 7}}}\n"+more), 0o600))
		return try(t, args...)
	}
	at := time.Now().Add(time.Hour)
	check.Must(t, os.WriteFile("workerID.json", fmt.Appendf(nil, `{"ip":"10.0.0.5","port":"8080","workId":7,"timestamp":%d}`, at.UnixMilli()), 0o600))
	check.Must(t, os.WriteFile("other.json", []byte(`{"ip":"10.0.0.6","port":"8080","workId":7}`), 0o600))
	check.Must(t, os.WriteFile("workerID.properties", []byte("workerID=8"), 0o600))
	for _, c := range []struct {
		args, want string
		exit       int
	}{
		{"workers import workerID.json", "there is no database at data/shardid.db: nothing was made; begin with `shardid migrate`", exitFailed},
		{"migrate", "", exitDone},
		{"workers import other.json", "the file is that of 10.0.0.6:8080 and snowflake.advertise is 10.0.0.5:8080", exitUsage},
		{"workers import workerID.properties", "does not give 10.0.0.5:8080 the worker ID 8 of the file", exitUsage},
		{"workers import --snowflake.advertise= workerID.json", "snowflake.advertise is empty", exitUsage},
		{"workers import --snowflake.worker.mode=mysql workerID.json", "snowflake.worker.mode is mysql: this command is for mode local", exitUsage},
		{"workers import config.yaml", "config.yaml: it has no line workerID=N", exitUsage},
		{"workers import .", "it is a directory and no regular file", exitUsage},
		{"workers import workerID.json", "", exitDone},
	} {
		exit, stdout, stderr := in("", strings.Fields(c.args)...)
		if exit != c.exit || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: %d, %q, %q", c.args, exit, stdout, stderr)
		}
	}
	f, err := workerfile.Open(workerfile.Options{Dir: "data/shardid/8080", Registry: "local", Address: "10.0.0.5:8080",
		Layout: model.SnowflakeLayout{EpochMs: 1288834974657, WorkerBits: 10, SeqBits: 12}})
	check.Must(t, err)
	if lease, ok := f.Load(); !ok || lease.WorkerID != 7 || lease.After <= at.UnixMilli() {
		t.Errorf("%+v, %t", lease, ok)
	}
	if _, _, stderr := in("", "workers", "import", "workerID.json"); !strings.Contains(stderr, "another process uses the folder") {
		t.Error(stderr)
	}
	check.Must(t, f.Close())
}

// tinyidHeader are all columns of tiny_id_info.
const tinyidHeader = "id\tbiz_type\tbegin_id\tmax_id\tstep\tdelta\tremainder\tcreate_time\tupdate_time\tversion\n"

// tinyidDump is a file as mysql --batch prints it; a row is "biz_type max_id step delta remainder".
func tinyidDump(t *testing.T, rows ...string) string {
	t.Helper()
	var text strings.Builder
	text.WriteString(tinyidHeader)
	for i, row := range rows {
		f := strings.Fields(row)
		fmt.Fprintf(&text, "%d\t%s\t0\t%s\t2018-07-21 23:52:58\t2018-07-22 23:19:27\t1\n", i+1, f[0], strings.Join(f[1:], "\t"))
	}
	return writeDump(t, text.String())
}

func writeDump(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tinyid.tsv")
	check.Must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// A tag goes on above all that any database of tinyid may have issued.
func TestReadTinyid(t *testing.T) {
	for name, c := range map[string]struct {
		files   [][]string
		partial bool
		want    []tinyidTag
	}{
		"one database":        {files: [][]string{{"test 100001 100000 1 0", "订单 0 50 1 0"}}, want: []tinyidTag{{"test", 100002, 100000, ""}, {"订单", 1, 50, ""}}},
		"a negative max_id":   {files: [][]string{{"test -50 10 1 0"}}, want: []tinyidTag{{"test", 1, 10, ""}}},
		"two databases":       {files: [][]string{{"a 300001 1000 2 0"}, {"a 900001 2000 2 1"}}, want: []tinyidTag{{"a", 900002, 2000, ""}}},
		"the first is higher": {files: [][]string{{"a 900001 2000 2 1"}, {"a 300001 1000 2 0"}}, want: []tinyidTag{{"a", 900002, 2000, ""}}},
		"odd numbers only":    {files: [][]string{{"odd 101 100 2 1"}}, partial: true, want: []tinyidTag{{"odd", 102, 100, ""}}},
		"the last that fits":  {files: [][]string{{"a 9223372036854775796 10 1 0"}}, want: []tinyidTag{{"a", 9223372036854775797, 10, ""}}},
		"tags of one file":    {files: [][]string{{"a 1 10 2 0", "b 5 10 1 0"}, {"a 2 10 2 1"}}, want: []tinyidTag{{"a", 3, 10, ""}, {"b", 6, 10, ""}}},
		"an escaped name":     {files: [][]string{{`a\\b\tc 1 10 1 0`}}, want: []tinyidTag{{"a\\b\tc", 2, 10, ""}}},
	} {
		var files []string
		for _, rows := range c.files {
			files = append(files, tinyidDump(t, rows...))
		}
		if got, err := readTinyid(files, c.partial); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
	windows := writeDump(t, strings.ReplaceAll("max_id\tbiz_type\tremainder\tdelta\tstep\n7\ta\t0\t1\t10\n\n", "\n", "\r\n"))
	if got, err := readTinyid([]string{windows}, false); err != nil || !slices.Equal(got, []tinyidTag{{"a", 8, 10, ""}}) {
		t.Errorf("another order of columns: %+v, %v", got, err)
	}
}

func TestReadTinyidRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		files []string
		says  []string
	}{
		"no file":              {[]string{"/nowhere/tinyid.tsv"}, []string{"/nowhere/tinyid.tsv"}},
		"an empty file":        {[]string{writeDump(t, "")}, []string{"does not name the column biz_type", "mysql --batch"}},
		"no header":            {[]string{writeDump(t, "1\ttest\t1\t1\t100\t1\t0\n")}, []string{"the first line does not name the column biz_type"}},
		"an SQL dump":          {[]string{writeDump(t, "INSERT INTO `tiny_id_info` VALUES (1,'test');\n")}, []string{"mysql --batch"}},
		"no row":               {[]string{writeDump(t, tinyidHeader)}, []string{"there is no row"}},
		"a short line":         {[]string{writeDump(t, tinyidHeader+"1\ttest\n")}, []string{"line 2 has 2 columns and the first line 10"}},
		"no step":              {[]string{tinyidDump(t, "a 1 NULL 1 0")}, []string{`line 2: step is "NULL"`}},
		"a fraction":           {[]string{tinyidDump(t, "a 1.5 10 1 0")}, []string{`max_id is "1.5"`}},
		"twice in a file":      {[]string{tinyidDump(t, "a 1 10 1 0", "a 2 10 1 0")}, []string{`line 3: biz_type "a" is there twice`}},
		"step 0":               {[]string{tinyidDump(t, "a 1 0 1 0", "b 1 -5 1 0")}, []string{`tag "a": step 0 is not in 1…1000000000`, `tag "b": step -5`}},
		"a long step":          {[]string{tinyidDump(t, "a 1 1000000001 1 0")}, []string{"step 1000000001"}},
		"no ID left":           {[]string{tinyidDump(t, "a 9223372036854775797 10 1 0")}, []string{"leaves no segment below 2^63"}},
		"delta 0":              {[]string{tinyidDump(t, "a 1 10 0 0")}, []string{"delta 0 and remainder 0"}},
		"a negative delta":     {[]string{tinyidDump(t, "a 1 10 -1 0")}, []string{"delta -1"}},
		"remainder is delta":   {[]string{tinyidDump(t, "a 1 10 2 2")}, []string{"delta 2 and remainder 2"}},
		"a name too long":      {[]string{tinyidDump(t, strings.Repeat("a", 129)+" 1 10 1 0")}, []string{"the tag has 129 bytes"}},
		"a database missing":   {[]string{tinyidDump(t, "a 1 10 3 0"), tinyidDump(t, "a 1 10 3 2")}, []string{"delta is 3 and 1 of its remainders are in no file", "--partial"}},
		"one file twice":       {[]string{tinyidDump(t, "a 1 10 2 1"), tinyidDump(t, "a 1 10 2 1")}, []string{"not databases of one tinyid"}},
		"two deployments":      {[]string{tinyidDump(t, "a 1 10 1 0"), tinyidDump(t, "a 9 10 1 0")}, []string{"not databases of one tinyid"}},
		"deltas that disagree": {[]string{tinyidDump(t, "a 1 10 2 1"), tinyidDump(t, "a 1 10 3 0")}, []string{"with delta 2 and 3"}},
	} {
		_, err := readTinyid(c.files, false)
		if !errors.Is(err, model.ErrInvalidArgument) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, part := range c.says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q", name, err, part)
			}
		}
	}
}

// A tag that is there is left alone after an import of the same rows, and refused otherwise:
// by its max_id alone it cannot be seen whether IDs of it are tinyid's too.
func TestPlanImport(t *testing.T) {
	same := model.Tag{Name: "a", MaxID: 102, Description: "imported from tinyid, first ID 102"}
	for name, c := range map[string]struct {
		present model.Tag
		change  func(*model.Tag)
		want    string // "" for refused
	}{
		"the same":                   {same, nil, "there already"},
		"the same, used":             {same, func(p *model.Tag) { p.MaxID = 5000 }, "there already"},
		"tinyid has gone on":         {same, func(p *model.Tag) { p.Description, p.MaxID = "imported from tinyid, first ID 90", 5000 }, ""},
		"of another, lower":          {same, func(p *model.Tag) { p.Description, p.MaxID = "of Leaf", 7 }, ""},
		"of another, higher":         {same, func(p *model.Tag) { p.Description = "of Leaf" }, ""},
		"the same, and it went back": {same, func(p *model.Tag) { p.MaxID = 101 }, ""},
	} {
		if c.change != nil {
			c.change(&c.present)
		}
		tags := []tinyidTag{{Tag: "new", FirstID: 5, Step: 1}, {Tag: "a", FirstID: 102, Step: 10}}
		err := planImport(tags, []model.Tag{{Name: "other"}, c.present})
		if c.want == "" && (!errors.Is(err, model.ErrRefused) || !strings.Contains(err.Error(), "stop every replica") || !strings.Contains(err.Error(), fmt.Sprint("--max-id ", max(102, c.present.MaxID)))) ||
			c.want != "" && (err != nil || tags[1].Action != c.want) || tags[0].Action != "" {
			t.Errorf("%s: %+v, %v", name, tags, err)
		}
	}
}
