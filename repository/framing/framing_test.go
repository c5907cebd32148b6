package framing

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"shardid/scripts/check"
)

// pieces shows a follower a stream in pieces of the sizes that cuts gives, in turn.
func pieces(f follower, stream, cuts []byte) refusal {
	for i := 0; len(stream) > 0; i++ {
		n := len(stream)
		if len(cuts) > 0 {
			n = min(n, int(cuts[i%len(cuts)])+1)
		}
		if why := f.follow(stream[:n]); why != "" {
			return why
		}
		stream = stream[n:]
	}
	return ""
}

func TestRESPRefuses(t *testing.T) {
	for name, c := range map[string]struct{ stream, why string }{
		"a list":               {"*2000000000\r\n", "announced 2000000000 elements; no answer to shardid has more than 131072"},
		"a map":                {"%131072\r\n", ""},
		"the largest map":      {"%131073\r\n", "announced 131073 elements"},
		"a set":                {"~2000000000\r\n", "elements"},
		"a push":               {">2000000000\r\n", "elements"},
		"attributes":           {"|9000000000000000000\r\n", "elements"},
		"lists in lists":       {strings.Repeat("*100000\r\n", 2), "elements"},
		"lists after lists":    {"*100000\r\n" + strings.Repeat(":1\r\n", 100000) + "*100000\r\n", "elements"},
		"depth without end":    {strings.Repeat("*1\r\n", respElements+1), "elements"},
		"a text":               {"$2147483647\r\n", "announced 2147483647 bytes; no answer to shardid has more than 4194304"},
		"a verbatim text":      {"=2147483647\r\n", "bytes"},
		"a long error":         {"!2147483647\r\n", "bytes"},
		"texts":                {"*2\r\n$3000000\r\n" + strings.Repeat("x", 3000000) + "\r\n$3000000\r\n", "bytes"},
		"a line":               {strings.Repeat("x", respLine+1), "sent a line of more than 65536 bytes"},
		"a number":             {"(" + strings.Repeat("1", respLine), "a line"},
		"lines":                {"*100\r\n" + strings.Repeat("+"+strings.Repeat("x", respLine-3)+"\r\n", 65), "bytes"},
		"no number of 64 bits": {"*99999999999999999999\r\n", `a length of "99999999999999999999", which is no number`},
		"nothing":              {"$\r\n", `a length of ""`},
		"a streamed text":      {"$?\r\n", `a length of "?"`},
		"what another speaks":  {"HTTP/1.1 400 Bad Request\r\n", ""},
		"a nil":                {"*-1\r\n$-1\r\n*2\r\n$0\r\n\r\n_\r\n", ""},
		"the most elements":    {"*131072\r\n", ""},
	} {
		if why := pieces(&resp{}, []byte(c.stream), nil); (why == "") != (c.why == "") || !strings.Contains(string(why), c.why) {
			t.Errorf("%s: %q", name, why)
		}
	}
	r := &resp{} // what was asked for before does not count
	for range 3 {
		r.asked()
		if why := pieces(r, []byte("*100000\r\n"+strings.Repeat(":1\r\n", 100000)), nil); why != "" || !r.between() {
			t.Error(why)
		}
	}
}

// reading is a straightforward reading of RESP: it has all bytes at hand.
type reading struct {
	rest            []byte
	bytes, elements int
	short, refused  bool
}

func (r *reading) answer() {
	line, rest, ok := bytes.Cut(r.rest, []byte("\n"))
	if !ok {
		r.short, r.refused = true, len(r.rest) > respLine
		return
	}
	if r.bytes += len(line) + 1; len(line) >= respLine || r.bytes > respBytes {
		r.refused = true
		return
	}
	r.rest = rest
	if len(line) == 0 || !strings.Contains("$!=*~>%|", string(line[0])) {
		return
	}
	n, err := strconv.Atoi(string(bytes.TrimRight(line[1:], "\r\n")))
	if err != nil {
		r.refused = true
		return
	}
	switch kind := line[0]; kind {
	case '$', '!', '=':
		if n < 0 {
			return
		}
		if n > respBytes-r.bytes {
			r.refused = true
			return
		}
		r.bytes += n + 2
		r.short = len(r.rest) < n+2
		r.rest = r.rest[min(n+2, len(r.rest)):]
	case '%', '|':
		r.list(n, 2)
		if kind == '|' && !r.short && !r.refused {
			r.answer()
		}
	default:
		r.list(n, 1)
	}
}

func (r *reading) list(n, each int) {
	if n > respElements-r.elements {
		r.refused = true
		return
	}
	n = max(n, 0) * each
	r.elements += n
	for i := 0; i < n && !r.short && !r.refused; i++ {
		r.answer()
	}
}

func FuzzRESP(f *testing.F) {
	for _, s := range []string{
		"+OK\r\n", "$5\r\nhello\r\n:1\r\n", "*2\r\n$1\r\na\r\n*-1\r\n", "%1\r\n+a\r\n_\r\n", "|1\r\n+a\r\n+b\r\n*1\r\n:1\r\n",
		"*2000000000\r\n", "$2000000000\r\n", "=7\r\ntxt:abc\r\n", "-ERR\r\n\r\n$-1\r\n*0\r\n", "$2\r\n\n\n\r\n:1\r\n", "$00000000000000000000000001\r\n", "!-0\n",
	} {
		f.Add([]byte(s), []byte{0})
		f.Add([]byte(s), []byte{3, 1, 40})
	}
	f.Fuzz(func(t *testing.T, stream, cuts []byte) {
		want := &reading{rest: stream}
		for len(want.rest) > 0 && !want.short && !want.refused {
			want.answer()
		}
		got := &resp{}
		why := pieces(got, stream, cuts)
		if longHead(stream) { // digits beyond what is kept: refused earlier
			return
		}
		if (why != "") != want.refused {
			t.Fatalf("%q: refused %q, want %v", stream, why, want.refused)
		}
		if why == "" && got.between() == want.short {
			t.Fatalf("%q: ended %v, want %v", stream, got.between(), !want.short)
		}
	})
}

// longHead says whether any number might be longer than is kept of a line.
func longHead(stream []byte) bool {
	for line := range bytes.Lines(stream) {
		if len(line) >= respHead {
			return true
		}
	}
	return false
}

// packet is one of MySQL's.
func packet(number byte, content string) string {
	n := len(content)
	return string([]byte{byte(n), byte(n >> 8), byte(n >> 16), number}) + content
}

const (
	goodGreeting = "\x0a8.0.0\x00" + "\x01\x00\x00\x00" + "saltsalt" + "\x00" + "\xff\xf7" + "\x08\x02\x00" + "\xff\x81" + "\x15" + "0123456789" + "saltsaltsalt\x00" + "mysql_native_password\x00"
	goodOK       = "\x00\x00\x00\x02\x00\x00\x00"
)

func TestMySQLRefuses(t *testing.T) {
	big := strings.Repeat("x", mysqlPacket)
	for name, c := range map[string]struct {
		stream, why string
		opening     bool
	}{
		"a greeting":             {stream: packet(0, goodGreeting) + packet(2, goodOK), opening: true},
		"the host is blocked":    {stream: packet(0, "\xff\x69\x04Host is blocked"), opening: true},
		"a large greeting":       {stream: "\xff\xff\xff\x00", why: "a packet of 16777215 bytes; no answer to shardid has one of more than 16384", opening: true},
		"SSH":                    {stream: "SSH-2.0-OpenSSH_9.2\r\n", why: "a packet of", opening: true},
		"a short greeting":       {stream: packet(0, goodGreeting[:40]), why: "none of MySQL's", opening: true},
		"no version":             {stream: packet(0, "\x0a8888"), why: "none of MySQL's", opening: true},
		"a short OK":             {stream: packet(0, goodGreeting) + packet(2, "\x00\x00"), why: "none of MySQL's", opening: true},
		"a short error":          {stream: packet(0, "\xff\x01\x00#"), why: "none of MySQL's", opening: true},
		"an OK":                  {stream: packet(1, goodOK)},
		"an OK of many rows":     {stream: packet(1, "\x00\xfe\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00")},
		"an OK without a status": {stream: packet(1, "\x00\xfe\x00\x00\x00\x00\x00\x00\x00\x00\x00"), why: "none of MySQL's"},
		"rows":                   {stream: packet(1, "\x01") + packet(2, "\x03def") + packet(3, "\x01a") + packet(4, "\xfe\x00\x00\x02\x00\x00\x00")},
		"too many columns":       {stream: packet(1, "\xfe\x00\x00\x00\x00\x01\x00\x00\x00"), why: "announced 4294967296 columns; no table has more than 4096"},
		"half a number":          {stream: packet(1, "\xfe\x00"), why: "none of MySQL's"},
		"a large packet":         {stream: "\xff\xff\xff\x01", why: "a packet of 16777215 bytes; no answer to shardid has one of more than 1048576"},
		"rows without end":       {stream: packet(1, "\x01") + strings.Repeat(packet(2, "\x01a"), mysqlPackets), why: "announced 65537 rows and columns"},
		"large rows without end": {stream: packet(1, "\x01") + strings.Repeat(packet(2, big), 32), why: "bytes; no answer to shardid has more than 33554432"},
		"no content":             {stream: packet(1, "") + packet(1, "")},
	} {
		for _, cuts := range [][]byte{nil, {0}, {255, 6, 0}} {
			if why := pieces(&mysql{opening: c.opening}, []byte(c.stream), cuts); (why == "") != (c.why == "") || !strings.Contains(string(why), c.why) {
				t.Errorf("%s: %q", name, why)
			}
		}
	}
}

func FuzzMySQL(f *testing.F) {
	for _, s := range []string{packet(0, goodGreeting), packet(1, goodOK), packet(1, "\x01") + packet(2, "\x03def"), "\xff\xff\xff\x01", packet(1, "\xfd\x00\x10\x01"), packet(1, "")} {
		f.Add([]byte(s), []byte{0}, true)
		f.Add([]byte(s), []byte{5, 2}, false)
	}
	f.Fuzz(func(t *testing.T, stream, cuts []byte, opening bool) {
		refused, rest, count := false, stream, 0
		for len(rest) >= mysqlHead && !refused {
			n, number := int(binary.LittleEndian.Uint32(append(bytes.Clone(rest[:3]), 0))), rest[3]
			count++
			refused = n > mysqlPacket || opening && n > mysqlOpening || count > mysqlPackets
			if len(rest) < mysqlHead+n {
				break
			}
			content := rest[mysqlHead : mysqlHead+n : mysqlHead+n]
			rest = rest[mysqlHead+n:]
			if n > 0 && !refused {
				refused = !takes(content, number, opening)
			}
		}
		if why := pieces(&mysql{opening: opening}, stream, cuts); (why != "") != refused {
			t.Fatalf("%q, opening %v: refused %q, want %v", stream, opening, why, refused)
		}
	})
}

// takes does with a packet what the driver does, which panics where ours must refuse.
func takes(b []byte, number byte, opening bool) (ok bool) {
	defer func() { ok = recover() == nil && ok }()
	number64 := func(b []byte) (uint64, int) { // as the driver's readLengthEncodedInteger
		if len(b) == 0 {
			return 0, 1
		}
		switch b[0] {
		case 0xfb:
			return 0, 1
		case 0xfc:
			return uint64(binary.LittleEndian.Uint16(b[1:])), 3
		case 0xfd:
			return uint64(b[1]) | uint64(b[2])<<8 | uint64(b[3])<<16, 4
		case 0xfe:
			return binary.LittleEndian.Uint64(b[1:]), 9
		}
		return uint64(b[0]), 1
	}
	switch {
	case b[0] == 0xff:
		if _ = b[1:3]; b[3] == '#' {
			_ = b[4:9]
		}
	case opening && number == 0:
		at := bytes.IndexByte(b[1:], 0)
		if at < 0 {
			return false
		}
		rest := b[1+at+1:]
		_ = rest[14]
		if len(rest) > 15 {
			_ = rest[43]
		}
	case b[0] == 0 && (opening || number == 1):
		_, n := number64(b[1:])
		_, m := number64(b[1+n:])
		_ = b[1+n+m+1]
	case !opening && number == 1 && b[0] != 0xfb:
		n, _ := number64(b)
		return n <= mysqlColumns
	}
	return true
}

// zkPacketOf has a length.
func zkPacketOf(content string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(content)))) + content
}

func ints(values ...int32) string {
	var b []byte
	for _, v := range values {
		b = binary.BigEndian.AppendUint32(b, uint32(v))
	}
	return string(b)
}

var zkOpened = ints(0, 10000, 0, 7, 16) + strings.Repeat("p", 16) + "\x00"

// answered is the answer to a request.
func answered(request, failed int32, body string) string {
	return zkPacketOf(ints(request, 0, 5, failed) + body)
}

// replay reads all of a stream through a ZooKeeper, after requests of these operations, which are
// numbered from 1 on.
func replay(stream string, size int, ops ...int32) (string, error) {
	client, server := net.Pipe()
	defer client.Close()
	z := ZooKeeper(client)
	go func() {
		defer server.Close()
		_, _ = io.CopyN(io.Discard, server, int64(12*len(ops)))
		for rest := []byte(stream); len(rest) > 0; {
			n := min(size, len(rest))
			if _, err := server.Write(rest[:n]); err != nil {
				return
			}
			rest = rest[n:]
		}
	}()
	for i, op := range ops {
		if _, err := z.Write([]byte(ints(8, int32(i+1), op))); err != nil {
			return "", err
		}
	}
	got, err := io.ReadAll(z)
	return string(got), err
}

func TestZooKeeperRefuses(t *testing.T) {
	stat := strings.Repeat("\x01", zkStat)
	open := zkPacketOf(zkOpened)
	for name, c := range map[string]struct{ stream, why string }{
		"all ones":            {"\xff\xff\xff\xff", "announced 4294967295 bytes; no answer to shardid has more than 128"},
		"half a session":      {zkPacketOf(zkOpened[:19]), "a packet of 19 bytes; an answer has 20 at least"},
		"a timeout of 0":      {zkPacketOf(ints(0, 0, 0, 7, 0)), "no answer of ZooKeeper"},
		"an expired session":  {zkPacketOf(ints(0, 0, 0, 0, 16) + strings.Repeat("\x00", 16)), ""},
		"a long password":     {zkPacketOf(ints(0, 1, 0, 7, 1<<30)), "no answer of ZooKeeper"},
		"no password":         {zkPacketOf(ints(0, 1, 0, 7, -1)), ""},
		"a large packet":      {open + ints(1<<20+1), "announced 1048577 bytes; no answer to shardid has more than 1048576"},
		"no header":           {open + zkPacketOf("1234"), "a packet of 4 bytes; an answer has 16 at least"},
		"data":                {open + answered(1, 0, ints(3)+"abc"+stat), ""},
		"no data":             {open + answered(1, 0, ints(-1)+stat), ""},
		"long data":           {open + answered(1, 0, ints(1<<31-1)+"abc"+stat), "no answer of ZooKeeper"},
		"nothing for data":    {open + answered(1, 0, ""), "no answer of ZooKeeper"},
		"an error":            {open + answered(1, -101, ""), ""},
		"children":            {open + answered(2, 0, ints(1, 1)+"a"+stat), ""},
		"many children":       {open + answered(2, 0, ints(-1)+stat), "no answer of ZooKeeper"},
		"a transaction":       {open + answered(3, 0, ints(1)+"\x00"+ints(0, 2)+"/a"+ints(5)+"\x00"+ints(0)+stat+ints(13)+"\x00"+ints(0)+ints(-1)+"\x00"+ints(-1, 7)+ints(-1)+"\x01"+ints(-1)), ""},
		"half of one":         {open + answered(3, 0, ints(13)+"\x00"+ints(0)+ints(2)), "no answer of ZooKeeper"},
		"an unknown part":     {open + answered(3, 0, ints(99)+"\x00"+ints(0)), "no answer of ZooKeeper"},
		"a long path":         {open + answered(3, 0, ints(1)+"\x00"+ints(0, -1)), "no answer of ZooKeeper"},
		"a ping and an event": {open + answered(-2, 0, "") + answered(-1, 0, ints(1, 3, 1)+"/"), ""},
	} {
		for _, size := range []int{1, 7, 1 << 20} {
			got, err := replay(c.stream, size, zkGetData, zkGetChildren, zkMulti)
			var refused *RefusedError
			switch {
			case c.why == "" && (err != nil || got != c.stream):
				t.Errorf("%s: %q, %v", name, got, err)
			case c.why != "" && (!errors.As(err, &refused) || !strings.Contains(refused.Error(), c.why) || !strings.HasPrefix(c.stream, got)):
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
	}
}

// What is handed on is what arrived, whole packets of it, and nothing that the library would not
// survive: it indexes the second part of a transaction's parts, and allocates what lengths say.
func FuzzZooKeeper(f *testing.F) {
	for _, body := range []string{ints(3) + "abc", ints(1, 1) + "a", ints(13) + "\x00" + ints(0) + ints(-1) + "\x01" + ints(-1), ints(-1), ""} {
		f.Add([]byte(body), int32(zkMulti), uint8(3))
		f.Add([]byte(body), int32(zkGetData), uint8(0))
		f.Add([]byte(body), int32(zkGetChildren), uint8(9))
	}
	f.Fuzz(func(t *testing.T, body []byte, op int32, size uint8) {
		if len(body) > ZooKeeperPacket-zkAnswerHead {
			return
		}
		open := zkPacketOf(zkOpened)
		stream := open + answered(1, 0, string(body))
		got, err := replay(stream, int(size)+1, op)
		if want := survives(body, op); want != (err == nil) || want && got != stream || !want && got != open {
			t.Fatalf("operation %d, %q: %d of %d bytes, %v, want %v", op, body, len(got), len(stream), err, want)
		}
	})
}

// survives takes a body apart as the library does.
func survives(b []byte, op int32) (ok bool) {
	defer func() { ok = recover() == nil && ok }()
	b = b[:len(b):len(b)]
	take := func(n int) []byte { part := b[:n]; b = b[n:]; return part }
	number := func() int32 { return int32(binary.BigEndian.Uint32(take(4))) }
	switch op {
	case zkGetData:
		n := number()
		return int(n) <= len(b)
	case zkGetChildren:
		return int(uint32(number())) <= len(b)/4
	case zkMulti:
		for {
			kind, last := number(), take(1)[0] != 0
			number()
			if last {
				return true
			}
			switch kind {
			case zkError:
				number()
			case zkCreate:
				take(int(uint32(number())))
			case zkSetData:
				take(zkStat)
			case zkDelete, zkCheck:
			default:
				return false
			}
		}
	}
	return true
}

// A connection that was refused stays so, and is closed, which may be done again.
func TestConnStaysRefused(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	check.Must(t, err)
	server, err := listener.Accept()
	check.Must(t, err)
	defer server.Close()
	check.Must(t, check.Err(server.Write([]byte("*2000000000\r\n+OK\r\n"))))
	c := RESP(client)
	for range 2 {
		n, err := c.Read(make([]byte, 100))
		var refused *RefusedError
		if n != 0 || !errors.As(err, &refused) || refused.Server != "Redis" || refused.Addr == "" {
			t.Errorf("%d %v", n, err)
		}
	}
	if _, err := server.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open")
	}
	check.OK(t, c.Close(), "closed again")
}
