//go:build unix

package faults

import (
	"syscall"
	"time"
)

func processSleeps(w *world) {
	w.sleep(w.someProc())
	w.linger(1500 * time.Millisecond)
}

func processKilled(w *world) {
	p := w.someProc()
	w.kill(p)
	w.later(p.start)
	w.linger(time.Second)
}

// allRestart: all processes are away at once, after an orderly stop or a power cut.
func allRestart(w *world) {
	end := syscall.SIGKILL
	if w.coin() {
		end = syscall.SIGTERM
	}
	for _, p := range w.procs {
		p.broken = true
		p.Signal(end)
	}
	for _, p := range w.procs {
		if status := p.Exit(patience); status != 0 && end == syscall.SIGTERM {
			w.t.Errorf("%s ended with status %d", p.name, status)
		}
		w.later(p.start)
	}
}

func clientKilled(w *world) {
	g := w.someGopher()
	if g == nil {
		return
	}
	g.kill()
	w.later(g.start)
	w.linger(time.Second)
}

// clientSleeps: what it holds is as old as the pause when it goes on, and so are the answers
// that wait for it.
func clientSleeps(w *world) {
	g := w.someGopher()
	if g == nil {
		return
	}
	g.process.Signal(syscall.SIGSTOP)
	w.later(func() { g.process.Signal(syscall.SIGCONT) })
	w.linger(4 * time.Second) // longer than a fetch may take
}

// clientsCutOff: what was asked for does not arrive, or its answer does not, always or now
// and then; or it comes late.
func clientsCutOff(w *world) {
	weathers := []Weather{{DropRequest: 1}, {DropReply: 1}, {DropReply: 0.3}, {LateReply: 1, Longest: 4 * time.Second}}
	weather := weathers[w.rnd.IntN(len(weathers))]
	w.note("clients: %v", weather)
	for _, p := range w.procs {
		p.front.SetWeather(weather)
		w.later(func() { p.front.SetWeather(Weather{}) })
	}
	w.linger(4 * time.Second)
}
