// Command delay stands before a server and lets all that goes through it arrive
// later, as a longer network would: what is sent while something is on its way is
// delayed as much and no more.
//
//	delay TARGET DURATION
//
// TARGET is host:port, DURATION the delay of each direction.
package main

import (
	"fmt"
	"log"
	"net"
	"os"
	"runtime"
	"time"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: delay TARGET DURATION")
	}
	delay, err := time.ParseDuration(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	// A pause of a direction holds a processor of the runtime, see pause: there are
	// enough for the connections of a service.
	runtime.GOMAXPROCS(64)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf(`{"msg":"listening","addr":%q}`+"\n", l.Addr())
	for { // until the process is killed
		near, err := l.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go pass(near, os.Args[1], delay)
	}
}

// pass connects near with the target until both directions have ended.
func pass(near net.Conn, target string, delay time.Duration) {
	defer near.Close()
	far, err := net.Dial("tcp", target)
	if err != nil {
		return // near sees the end of its connection
	}
	defer far.Close()
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		go func() {
			relay(way[1], way[0], delay, pause)
			for _, c := range way { // the other direction has no reader left
				_ = c.Close()
			}
			ended <- struct{}{}
		}()
	}
	<-ended
	<-ended
}
