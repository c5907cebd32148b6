// Command shardid is a distributed ID service: one binary that issues 64-bit IDs
// over HTTP and never one twice.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"shardid/model"
)

// Exit statuses, public surface.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() { os.Exit(run(context.Background(), os.Args[1:])) }

// run executes one command and returns the exit status. Errors go to stderr, one
// line.
func run(ctx context.Context, args []string) int {
	c := newCLI()
	c.root.SetArgs(args)
	err := c.root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitDone
	case !c.ran:
		text := strings.NewReplacer("\n\nDid you mean this?\n\t", ": did you mean ", "\n\t", " or ", "\n", "").Replace(err.Error())
		fmt.Fprintf(os.Stderr, "shardid: %s: see shardid --help\n", text)
		return exitUsage
	}
	fmt.Fprintf(os.Stderr, "shardid: %s\n", strings.ReplaceAll(err.Error(), "\n", "; ")) // joined errors are one line each
	if errors.Is(err, model.ErrInvalidArgument) {
		return exitUsage
	}
	return exitFailed
}
