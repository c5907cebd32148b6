package framing

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
)

// ZooKeeperPacket bounds an answer of ZooKeeper, in bytes, as ZooKeeper's own clients do. The
// longest lists the nodes of a folder.
const ZooKeeperPacket = 1 << 20

// Other bounds of an answer, in bytes. The library's goroutines panic on what is shorter or made
// otherwise than they expect, and allocate what a length within it announces.
const (
	// zkSession bounds the answer that opens a session, of 37 bytes. The library sends the
	// password in it back from a buffer of 256.
	zkSession     = 128
	zkSessionHead = 20 // version, timeout, session, length of the password
	zkAnswerHead  = 16 // of each other answer: request, transaction, error
)

// Operations whose answers have lengths in them, by their numbers.
const (
	zkGetData     = 4
	zkGetChildren = 12
	zkMulti       = 14
)

// Operations within a multi, of which each has another answer.
const (
	zkError   = -1
	zkCreate  = 1
	zkDelete  = 2
	zkSetData = 5
	zkCheck   = 13
	zkStat    = 68 // bytes of what is known about a node
)

// ZooKeeper reads the answers of a ZooKeeper. Only whole and right ones are handed on.
func ZooKeeper(below net.Conn) net.Conn {
	return &zookeeper{Conn: &Conn{Conn: below, server: "ZooKeeper"}, asked: map[int32]int32{}}
}

type zookeeper struct {
	*Conn
	packet []byte // the present one, with its length
	rest   []byte // what is still to be handed on of it
	opened bool   // the answer that opens the session was read

	mu    sync.Mutex
	asked map[int32]int32 // requests without an answer, and their operations
}

// Write notes the request; the library sends each in one piece, the first without a number.
func (z *zookeeper) Write(p []byte) (int, error) {
	if len(p) >= 12 {
		z.mu.Lock()
		z.asked[zkInt(p[4:])] = zkInt(p[8:])
		z.mu.Unlock()
	}
	return z.Conn.Conn.Write(p)
}

func (z *zookeeper) Read(p []byte) (int, error) {
	if len(z.rest) == 0 {
		if err := z.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, z.rest)
	z.rest = z.rest[n:]
	return n, nil
}

// next reads a packet.
func (z *zookeeper) next() error {
	if err := z.Refused(); err != nil {
		return err
	}
	var length [4]byte
	if _, err := io.ReadFull(z.Conn.Conn, length[:]); err != nil {
		return err
	}
	n, least, most := int(binary.BigEndian.Uint32(length[:])), zkSessionHead, zkSession
	if z.opened {
		least, most = zkAnswerHead, ZooKeeperPacket
	}
	if n < least {
		return z.refuse(refuse("announced a packet of %d bytes; an answer has %d at least", n, least))
	}
	if n > most {
		return z.refuse(tooMuch(n, "bytes", most))
	}
	z.packet = append(append(z.packet[:0], length[:]...), make([]byte, n)...)
	body := z.packet[len(length):]
	if _, err := io.ReadFull(z.Conn.Conn, body); err != nil {
		return err
	}
	right := z.opened && z.answer(body) || !z.opened && session(body)
	if !right {
		return z.refuse(refuse("sent a packet of %d bytes that no answer of ZooKeeper is", n))
	}
	z.opened, z.rest = true, z.packet
	return nil
}

// session judges the answer that opens a session, or says by session 0 that it has expired. The
// library pings after a third of the timeout.
func session(b []byte) bool {
	timeout, id, password := zkInt(b[4:]), binary.BigEndian.Uint64(b[8:]), int(zkInt(b[16:]))
	return (timeout > 0 || id == 0) && password <= len(b)-zkSessionHead
}

// answer judges any other.
func (z *zookeeper) answer(b []byte) bool {
	request, failed := zkInt(b), zkInt(b[12:]) != 0
	if request < 0 { // a ping, or an event, which has no length that is allocated
		return true
	}
	z.mu.Lock()
	op := z.asked[request]
	delete(z.asked, request)
	z.mu.Unlock()
	b = b[zkAnswerHead:]
	switch {
	case failed:
		return true // the library reads no more of it
	case op == zkGetData:
		return len(b) >= 4 && int(zkInt(b)) <= len(b)-4
	case op == zkGetChildren: // each has a length
		return len(b) >= 4 && int(binary.BigEndian.Uint32(b)) <= (len(b)-4)/4
	case op == zkMulti:
		return multi(b)
	}
	return true
}

// multi judges the answer to a transaction: one part for each operation, with its number, whether
// it is the last, and an error, and what the operation answers; the last has no more.
func multi(b []byte) bool {
	const head = 9
	for len(b) >= head {
		op, last := zkInt(b), b[4] != 0
		if b = b[head:]; last {
			return true
		}
		more := 0
		switch op {
		case zkError:
			more = 4
		case zkSetData:
			more = zkStat
		case zkDelete, zkCheck:
		case zkCreate: // the path
			if len(b) < 4 {
				return false
			}
			more = 4 + int(binary.BigEndian.Uint32(b))
		default:
			return false
		}
		if len(b) < more {
			return false
		}
		b = b[more:]
	}
	return false
}

func zkInt(b []byte) int32 { return int32(binary.BigEndian.Uint32(b)) }
