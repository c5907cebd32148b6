package resp

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// readAll gives the commands of a stream, as it is cut into readings by cut.
func readAll(stream []byte, cut func(io.Reader) io.Reader) (commands [][]string, err error) {
	r := reader{from: cut(bytes.NewReader(stream)), beforeRead: func() error { return nil }}
	for {
		args, err := r.next()
		if err != nil {
			return commands, err
		}
		var command []string
		for _, arg := range args {
			command = append(command, string(arg))
		}
		commands = append(commands, command)
	}
}

func whole(r io.Reader) io.Reader { return r }

// encode writes a command as clients do.
func encode(args ...string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&out, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return out.String()
}

func TestReader(t *testing.T) {
	long := strings.Repeat("x", 2000)
	for _, test := range []struct {
		stream string
		want   [][]string
		err    string
	}{
		{"", nil, "EOF"},
		{encode("PING"), [][]string{{"PING"}}, "EOF"},
		{encodeAll("INCR uid|LPOP segment:a 7"), [][]string{{"INCR", "uid"}, {"LPOP", "segment:a", "7"}}, "EOF"},
		{encode("ECHO", "a\r\nb") + encode(""), [][]string{{"ECHO", "a\r\nb"}, {""}}, "EOF"},
		{encode("ECHO", long) + encode("ECHO", long), [][]string{{"ECHO", long}, {"ECHO", long}}, "EOF"},
		{"*1\r\n$4\r\nPIN", nil, "EOF"},
		{encode("PING") + "GET / HTTP/1.1\r\n", [][]string{{"PING"}}, "HTTP is served"},
		{"INCR snowflake\r\n", nil, "must be an array"},
		{"*1\r\n:4\r\n", nil, "must be an array"},
		{"*0\r\n" + encode("PING") + "*00\r\n", [][]string{{"PING"}}, "EOF"},
		{"*65\r\n", nil, "a command may have"},
		{"*2000000000\r\n$1\r\n", nil, "a command may have"},
		{"*-1\r\n", nil, "not a number"},
		{"*\r\n", nil, "not a number"},
		{"*1\n", nil, "not a number"},
		{"*1\rx", nil, "not a number"},
		{"*1\r\n$-1\r\n", nil, "not a number"},
		{"*1\r\n$9223372036854775800\r\nab\r\n\r\n", nil, "a command may have"},
		{"*1\r\n$629145600\r\n", nil, "a command may have"},
		{"*1\r\n$4094\r\n", nil, "a command may have"},
		{"*1\r\n$2\r\nabc\r\n", nil, "does not end where"},
		{encode("ECHO", strings.Repeat("x", maxCommand)), nil, "a command may have"},
	} {
		for name, cut := range map[string]func(io.Reader) io.Reader{
			"whole": whole, "by bytes": iotest.OneByteReader, "by halves": iotest.HalfReader,
		} {
			got, err := readAll([]byte(test.stream), cut)
			if !slices.EqualFunc(got, test.want, slices.Equal) || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%.60q %s: %.100q, %v; want %.100q, %s", test.stream, name, got, err, test.want, test.err)
			}
		}
	}
}
