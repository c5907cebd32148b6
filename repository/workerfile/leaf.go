package workerfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"shardid/model"

	"github.com/magiconair/properties"
)

// leafTrust is how long after its last report an instance of Java Leaf may have issued IDs. The
// fork writes its file every 3 s, as Leaf reports to ZooKeeper.
const leafTrust = 10 * time.Second

// LeafFile is what Java Leaf keeps of its worker ID on the disk.
type LeafFile struct {
	WorkerID int
	Address  string    // ip:port; "" where the file does not say it
	At       time.Time // in the file; zero where it has none
}

// ParseLeaf reads workerID.properties of Leaf, whose comment may have a date, or workerID.json of
// NotFound9's fork. The error says what is wrong.
func ParseLeaf(text []byte) (LeafFile, error) {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return parseLeafJSON(text)
	}
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := loader.LoadBytes(text)
	if err != nil {
		return LeafFile{}, errors.New("it is neither workerID.properties nor workerID.json")
	}
	id, err := strconv.ParseUint(strings.TrimSpace(p.GetString("workerID", "")), 10, 31)
	if err != nil {
		return LeafFile{}, errors.New("it has no line workerID=N and is no JSON: name workerID.properties of Leaf, or workerID.json of its fork")
	}
	at, err := javaDate(string(text))
	return LeafFile{WorkerID: int(id), At: at}, err
}

// javaDate is the latest date in a comment that Java's Properties.store has written; zero without.
func javaDate(text string) (latest time.Time, err error) {
	for line := range strings.Lines(text) {
		comment, found := strings.CutPrefix(strings.TrimSpace(line), "#")
		at, err := time.ParseInLocation("Mon Jan 02 15:04:05 MST 2006", comment, time.Local) //nolint:gosmopolitan // that of the JVM
		if !found || err != nil {
			continue
		}
		if zone, offset := at.Zone(); at.Location() != time.Local && offset == 0 && zone != "UTC" && zone != "GMT" { //nolint:gosmopolitan // as above
			return latest, fmt.Errorf("its date is of the zone %s, which this machine does not know: set TZ to the zone of the JVM, such as TZ=Asia/Shanghai", zone)
		}
		if at.After(latest) {
			latest = at
		}
	}
	return latest, nil
}

func parseLeafJSON(text []byte) (LeafFile, error) {
	var e struct {
		IP        string
		Port      json.RawMessage // a text, or a number
		WorkID    *int            `json:"workId"`
		Timestamp int64           // the clock at the last report, Unix ms; null before
	}
	if err := json.Unmarshal(text, &e); err != nil || e.WorkID == nil || e.Timestamp < 0 || e.Timestamp > math.MaxInt64/2 {
		return LeafFile{}, errors.New("it is not like {\"ip\":\"10.0.0.5\",\"port\":\"8080\",\"workId\":1,\"timestamp\":1600000000000}")
	}
	f := LeafFile{WorkerID: *e.WorkID, Address: net.JoinHostPort(e.IP, strings.Trim(string(e.Port), `"`))}
	if e.Timestamp > 0 {
		f.At = time.UnixMilli(e.Timestamp)
	}
	return f, nil
}

// Adopt stores a lease of the registry local that starts above all that an instance of Java Leaf
// may have issued that has ended by now and has last written at written, and returns from when
// on it is. Leaf writes its file when it starts, the fork every 3 s: so now counts, unless
// the clock went back since. Errors: those of Store.
func (f *File) Adopt(leaf LeafFile, written time.Time) (from time.Time, err error) {
	from = time.Now()
	for _, at := range []time.Time{written, leaf.At} {
		if at.After(from) {
			from = at
		}
	}
	from = from.Add(leafTrust)
	if old, ok := f.Load(); ok && old.WorkerID == leaf.WorkerID {
		from = time.UnixMilli(max(old.Reserved, from.UnixMilli()))
	}
	return from, f.Store(model.Lease{
		WorkerID: leaf.WorkerID, Registry: ModeLocal, Owner: model.Owner{Address: f.o.Address},
		Reserved: from.UnixMilli(), Expires: from.UnixMilli(),
	})
}
