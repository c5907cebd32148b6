package main

import (
	"io"
	"time"
)

// inFlight is how many pieces can be on their way; more wait with their sender, as
// before a full window. Redis gets some hundred a second.
const inFlight = 1024

// piece is what one read gave.
type piece struct {
	bytes []byte
	due   time.Time // at the other end
}

// relay passes on what from gives, each piece delay after it was read, until either
// end fails; then it reads no more and returns. pause waits for a time.
func relay(to io.Writer, from io.ReadCloser, delay time.Duration, pause func(time.Duration)) {
	way, read := make(chan piece, inFlight), make(chan struct{})
	go func() {
		defer close(read)
		defer close(way)
		for readPiece(from, delay, way) {
		}
	}()
	for p := range way {
		if d := time.Until(p.due); d > 0 {
			pause(d)
		}
		if _, err := to.Write(p.bytes); err != nil {
			_ = from.Close() // ends the reading
			break
		}
	}
	for range way { // so that the reader is not stuck
	}
	<-read
}

// readPiece puts one piece on its way; false ends the reading.
func readPiece(from io.Reader, delay time.Duration, way chan<- piece) bool {
	buffer := make([]byte, 16<<10)
	n, err := from.Read(buffer)
	if n > 0 {
		way <- piece{buffer[:n], time.Now().Add(delay)}
	}
	return err == nil
}
