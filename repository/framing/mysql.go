package framing

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"net"
	"syscall"
)

// Bounds of what MySQL and MariaDB may send for one statement. The longest answers of ours are
// all 16 384 rows of id_alloc, of at most 1.8 KB, and 5000 of leaf_alloc, of at most 1.6 KB.
const (
	mysqlBytes   = 32 << 20
	mysqlPackets = 64 << 10 // one for each row or column, which costs more than its bytes
	// mysqlPacket bounds a row: a server allows 64 KiB in all columns but TEXT and BLOB, which
	// only a description in a table of Leaf's might be.
	mysqlPacket = 1 << 20
	// mysqlColumns is the most that a table may have.
	mysqlColumns = 4096
	// mysqlOpening bounds a packet before the first statement; the longest is a public key.
	mysqlOpening = 16 << 10
	mysqlHead    = 4 // length and sequence number of a packet
	// mysqlShown is how much of a packet is looked at: its kind, two numbers and a status.
	mysqlShown = 1 + 9 + 9 + 2
)

// First bytes of packets.
const (
	mysqlOK   = 0x00
	mysqlFile = 0xfb // asks for a file, which the driver refuses
	mysqlErr  = 0xff
)

// MySQLConn reads the answers of MySQL and MariaDB, which must not be compressed. As the driver
// itself begins TLS, it lies below that; AboveTLS then goes on above it. Use as Conn.
type MySQLConn struct {
	*Conn
	packets *mysql
	tls     bool // the driver has begun it
	above   *Conn
}

// MySQL wraps a new connection.
func MySQL(below net.Conn) *MySQLConn {
	packets := &mysql{opening: true}
	return &MySQLConn{Conn: &Conn{Conn: below, server: "MySQL or MariaDB", follower: packets}, packets: packets}
}

// Write notes what follows. The driver sends each packet in one piece.
func (c *MySQLConn) Write(p []byte) (int, error) {
	const askTLS = 32 // bytes; what opens a session without TLS is longer
	switch {
	case c.tls || len(p) < mysqlHead:
	case p[3] == 0: // the number of a statement's first packet
		c.packets.opening = false
	case p[0] == askTLS && len(p) == mysqlHead+askTLS:
		c.tls, c.follower = true, &encrypted{}
	}
	return c.Conn.Write(p)
}

// AboveTLS gives what a session that was opened is read through from now on: the connection of
// TLS, where the driver has begun that, or itself.
func (c *MySQLConn) AboveTLS(driver net.Conn) net.Conn {
	if !c.tls {
		return driver
	}
	c.follower = &encrypted{open: true}
	c.above = &Conn{Conn: driver, server: c.server, follower: &mysql{}}
	return c.above
}

// Refused is why no more is read; nil when nothing was refused.
func (c *MySQLConn) Refused() error {
	if c.above != nil {
		return cmp.Or(c.above.Refused(), c.Conn.Refused())
	}
	return c.Conn.Refused()
}

// SyscallConn shows the socket: the driver looks there whether the connection is still alive.
func (c *MySQLConn) SyscallConn() (syscall.RawConn, error) {
	if socket, ok := c.Conn.Conn.(syscall.Conn); ok {
		return socket.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// encrypted follows a session of TLS, of which it sees no packet: until it is open it bounds what
// arrives at once.
type encrypted struct {
	open  bool
	bytes int
}

func (e *encrypted) asked() { e.bytes = 0 }

func (e *encrypted) follow(p []byte) refusal {
	if e.bytes += len(p); e.bytes > mysqlPacket && !e.open {
		return tooMuch(e.bytes, "bytes", mysqlPacket)
	}
	return ""
}

// mysql follows packets.
type mysql struct {
	opening        bool   // no statement was sent yet
	head           []byte // of the present packet, and of its content as much as is looked at
	left           int    // of the content
	bytes, packets int    // since something was sent
}

func (m *mysql) asked() { m.bytes, m.packets = 0, 0 }

func (m *mysql) follow(p []byte) refusal {
	for len(p) > 0 {
		var why refusal
		if n := min(mysqlHead-len(m.head), len(p)); n > 0 {
			m.head = append(m.head, p[:n]...)
			p = p[n:]
			if len(m.head) < mysqlHead {
				break
			}
			why = m.announced()
		} else {
			n = min(m.left, len(p))
			shown := mysqlHead + mysqlShown
			if m.opening {
				shown = mysqlHead + mysqlOpening
			}
			m.head = append(m.head, p[:min(n, max(shown-len(m.head), 0))]...)
			m.left -= n
			p = p[n:]
		}
		if why == "" && m.left == 0 {
			why = m.content()
			m.head = m.head[:0]
		}
		if why != "" {
			return why
		}
	}
	return ""
}

// announced takes the head of a packet. The driver joins packets of 16 MiB less one byte to
// longer ones; none of ours is so long.
func (m *mysql) announced() refusal {
	m.left = int(m.head[0]) | int(m.head[1])<<8 | int(m.head[2])<<16
	most := mysqlPacket
	if m.opening {
		most = mysqlOpening
	}
	m.bytes += mysqlHead + m.left
	m.packets++
	switch {
	case m.left > most:
		return refuse("announced a packet of %d bytes; no answer to shardid has one of more than %d", m.left, most)
	case m.bytes > mysqlBytes:
		return tooMuch(m.bytes, "bytes", mysqlBytes)
	case m.packets > mysqlPackets:
		return tooMuch(m.packets, "rows and columns", mysqlPackets)
	}
	return ""
}

// content judges the packets that the driver takes apart unchecked, up to the first one of an
// answer; it panics on what is too short.
func (m *mysql) content() refusal {
	number, b := m.head[3], m.head[mysqlHead:]
	first := number == 1 && !m.opening
	right := true
	switch {
	case len(b) == 0: // the driver refuses it
	case b[0] == mysqlErr: // number, and a state that begins with #
		right = len(b) >= 4 && (b[3] != '#' || len(b) >= 9)
	case m.opening && number == 0:
		right = greets(b)
	case b[0] == mysqlOK && (m.opening || first): // rows, last ID, status
		rows := 1 + mysqlNumber(b[1:])
		right = len(b) > rows && len(b) >= rows+mysqlNumber(b[rows:])+2
	case first && b[0] != mysqlFile: // how many columns follow
		n := mysqlNumber(b)
		if right = len(b) >= n; right {
			if columns := mysqlValue(b[:n]); columns > mysqlColumns {
				return refuse("announced %d columns; no table has more than %d", columns, mysqlColumns)
			}
		}
	}
	if !right {
		return refuse("sent a packet of %d bytes that is none of MySQL's", len(b))
	}
	return ""
}

// greets judges the first packet: protocol, version, and what has a fixed length up to the name
// of the way to authenticate; before version 4.1 up to the capabilities.
func greets(b []byte) bool {
	const old, all = 4 + 8 + 1 + 2, 4 + 8 + 1 + 2 + 1 + 2 + 2 + 1 + 10 + 13
	_, rest, ok := bytes.Cut(b[1:], []byte{0})
	return ok && (len(rest) == old || len(rest) >= all)
}

// mysqlNumber is how many bytes a number has that begins there, which tells its length.
func mysqlNumber(b []byte) int {
	if len(b) > 0 {
		switch b[0] {
		case 0xfc:
			return 3
		case 0xfd:
			return 4
		case 0xfe:
			return 9
		}
	}
	return 1
}

// mysqlValue is the value of a whole number.
func mysqlValue(b []byte) uint64 {
	if len(b) == 1 {
		return uint64(b[0])
	}
	var value [8]byte
	copy(value[:], b[1:])
	return binary.LittleEndian.Uint64(value[:])
}
