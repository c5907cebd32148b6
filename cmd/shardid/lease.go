package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"shardid/model"

	"github.com/spf13/cobra"
)

// Exit statuses of shardid lease, as shells have them.
const (
	exitNotRunnable = 126
	exitNotFound    = 127
	exitSignal      = 128 // and the number of the signal
)

// exitError is an exit status of its own; err is nil where nothing is to be said.
type exitError struct {
	status int
	err    error
}

func (e *exitError) Error() string { return fmt.Sprintf("exit status %d: %v", e.status, e.err) }
func (e *exitError) Unwrap() error { return e.err }

func (c *cli) lease() *cobra.Command {
	var ask asking
	var name, instance string
	var wait time.Duration
	host, _ := os.Hostname() // without one the instance has no name
	cmd := &cobra.Command{
		Use:   "lease --name NAME [--url URL] -- COMMAND [ARG…]",
		Short: "Run a command with a worker ID that nobody else has",
		Long: `Run a command with a worker ID that nobody else has.

Leases a worker ID of a name, waits until the clock is a second above the times that
earlier holders may have used, and runs the command with SHARDID_WORKER_ID,
SHARDID_EPOCH (Unix ms), SHARDID_WORKER_BITS and SHARDID_SEQ_BITS in its environment.
The lease is renewed while the command runs, and released when it has ended. Signals go
to the command. The exit status is the command's, 128 and the number of the signal that
ended it, 127 for a command that is not there, 126 for one that cannot be run.

A command whose lease cannot be renewed in time gets SIGTERM, and SIGKILL a second
before the lease ends; what it started itself it must end. On Linux the kernel ends it
also when shardid was killed, or stands still: frozen, swapped out, stopped. On other
systems a command goes on when shardid is killed or stands still.`,
		Example: `  shardid lease --name orders -- java -jar app.jar
  shardid lease --name orders --url http://ids-0:8080,http://ids-1:8080 --token-file token -- ./server --port 9000
  shardid lease --name orders --instance shop-7 -- sh -c 'exec ./server --worker-id "$SHARDID_WORKER_ID"'`,
		Args: cobra.MinimumNArgs(1),
	}
	ask.register(cmd, 3*time.Second, "`URL` of the server, or of several replicas, separated by commas (default that of the configured server.addr)")
	f := cmd.Flags()
	f.StringVar(&ask.tokenFile, "token-file", "", "`FILE` with a bearer token to send")
	f.StringVar(&name, "name", "", "`name` of the worker IDs")
	f.StringVar(&instance, "instance", host, "what people see as the holder; an instance that returns gets its worker ID back where that is free")
	f.DurationVar(&wait, "wait", time.Minute, "`time` to try for while no server answers or no worker ID is free")
	required(cmd, "name")
	f.SetInterspersed(false) // what follows the command is its own
	return c.command(cmd, func(cmd *cobra.Command, args []string, cfg Config) error {
		if err := errors.Join(model.CheckName(name), model.CheckInstance(instance)); err != nil {
			return err
		}
		l, err := newLessor(ask, cfg, name, instance)
		if err != nil {
			return err
		}
		command, err := findCommand(args)
		if err != nil {
			return err
		}
		signals := make(chan os.Signal, 16)
		for _, s := range forwardedSignals() {
			if !signal.Ignored(s) { // by nohup, for example
				signal.Notify(signals, s)
			}
		}
		defer signal.Stop(signals)
		if isInit() {
			return belowInit(signals)
		}
		return (&holder{lessor: l, command: command, signals: signals}).run(cmd.Context(), wait)
	})
}

// findCommand looks a command up as shells do. It has this process' files.
func findCommand(args []string) (*exec.Cmd, error) {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return nil, notRunnable(args[0], err)
	}
	return &exec.Cmd{Path: path, Args: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, SysProcAttr: endWithParent()}, nil
}

func notRunnable(command string, err error) error {
	err = fmt.Errorf("%s: %w", command, cmp.Or(errors.Unwrap(err), err))
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return &exitError{exitNotFound, err}
	}
	return &exitError{exitNotRunnable, err}
}

// start starts a command; ended is closed when it has ended. The system thread that starts it
// lives as long: with that the kernel would end the command.
func start(command *exec.Cmd) (ended <-chan struct{}, err error) {
	started, done := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(done)
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait() // ProcessState says all
		}
	}()
	return done, <-started
}

// ending is the error of a command that has ended: its exit status, nil for 0.
func ending(state *os.ProcessState) error {
	status := state.ExitCode()
	if s, ok := state.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		status = exitSignal + int(s.Signal())
	}
	if status == exitDone {
		return nil
	}
	return &exitError{status: status}
}

// bySignal is the error of what a signal ended.
func bySignal(s os.Signal) error {
	status := exitFailed
	if n, ok := s.(syscall.Signal); ok {
		status = exitSignal + int(n)
	}
	return &exitError{status: status}
}

// isEnd says whether a signal is to end a process that does not handle it for something else.
func isEnd(s os.Signal) bool {
	return s == syscall.SIGTERM || s == syscall.SIGINT || s == syscall.SIGHUP || s == syscall.SIGQUIT
}

// pass gives a signal to the command, which may have ended. Those of a terminal's keys it gets
// from the terminal itself.
func pass(command *exec.Cmd, s os.Signal) {
	if !fromTerminal(s) {
		_ = command.Process.Signal(s)
	}
}

// belowInit runs this program once more, and ends as that does: the kernel does not let the
// first process of a container be killed from inside of it.
func belowInit(signals <-chan os.Signal) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	command := &exec.Cmd{Path: self, Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, SysProcAttr: endWithParent()}
	ended, err := start(command)
	if err != nil {
		return err
	}
	for {
		select {
		case s := <-signals:
			pass(command, s)
		case <-ended:
			return ending(command.ProcessState)
		}
	}
}

// say tells people what goes on; a command's own output is on the same files.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "shardid: "+format+"\n", args...) }
