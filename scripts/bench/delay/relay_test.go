package main

import (
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What is sent while something is on its way comes as much later, and not later
// than that: the delay does not limit how much goes through.
func TestRelayDelaysAllAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay, every, n = 5 * time.Millisecond, time.Millisecond, 100
		sender, in := net.Pipe()
		out, receiver := net.Pipe()
		go relay(out, in, delay, time.Sleep)
		begun := time.Now()
		go func() {
			for i := range n {
				fmt.Fprintf(sender, "%02d", i)
				time.Sleep(every)
			}
			sender.Close()
		}()
		for i := range n {
			var got [2]byte
			_, err := io.ReadFull(receiver, got[:])
			at := time.Since(begun)
			if want := time.Duration(i)*every + delay; err != nil || string(got[:]) != fmt.Sprintf("%02d", i) || at != want {
				t.Fatalf("piece %d: %q after %v, want %v; %v", i, got, at, want, err)
			}
		}
		receiver.Close()
	})
}

// A relay ends when the one end or the other does, and leaves nobody behind.
func TestRelayEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sender, in := net.Pipe()
		out, receiver := net.Pipe()
		ended := make(chan struct{})
		go func() {
			relay(out, in, time.Second, time.Sleep)
			close(ended)
		}()
		receiver.Close()
		if _, err := sender.Write([]byte("lost")); err != nil {
			t.Error(err)
		}
		<-ended
		if _, err := sender.Write([]byte("more")); err == nil {
			t.Error("it still reads")
		}
	})
}
