package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"

	"shardid/model"

	"github.com/spf13/cobra"
)

func (c *cli) decode() *cobra.Command {
	var kind, format string
	cmd := &cobra.Command{
		Use:   "decode [--kind queue|snowflake|uid] [--format FORMAT] [ID]...",
		Short: "Take IDs apart, those of the command line or of standard input",
		Long: `Take IDs apart, those of the command line or of standard input, by the epochs and widths
of this configuration. Of a scrambled app the image of the index is shown: only a server
knows its secret, and /decode has the index itself.`,
		Example: `  shardid decode 16385
  shardid decode --kind snowflake 1169786042799259000 1169786042799259001
  shardid decode --format base62 4GH
  shardid decode --json < ids.txt
  shardid decode --kind uid --set uid.epoch=2016-05-20T00:00:00+08:00 3200169789968523265`,
	}
	choose(cmd, &kind, "kind", model.KindQueue, "queue, snowflake or uid", model.KindQueue, model.KindSnowflake,
		model.KindUID)
	choose(cmd, &format, "format", "", "dec, hex, base36, base62 or crockford; empty: what only one of them writes, "+
		"digits are decimal", "dec", "hex", "base36", "base62", "crockford")
	return c.command(cmd, func(cmd *cobra.Command, words []string, cfg Config) error {
		words, err := givenOrRead(words, cmd.InOrStdin())
		if err != nil {
			return err
		}
		for i, word := range words {
			id, err := model.ParseID(word, format)
			if err == nil && id < 0 {
				err = fmt.Errorf("%w: %d is not an ID: IDs are positive", model.ErrInvalidArgument, id)
			}
			if err != nil {
				return err
			}
			parts, err := decoder(cfg).Decode(kind, id)
			if err != nil {
				return err
			}
			digits := strconv.FormatInt(id, 10)
			object := map[string]any{"id": id, "idStr": digits, "kind": kind}
			for _, p := range parts {
				object[p.Name] = p.Value
			}
			err = c.print(cmd, object, func(w io.Writer) {
				if len(words) > 1 || word != digits {
					fmt.Fprintf(w, "%sid\t%s\n", map[bool]string{true: "\n"}[i > 0], digits)
				}
				for _, p := range parts {
					fmt.Fprintf(w, "%s\t%v\n", p.Name, p.Value)
				}
				if !cmd.Flags().Changed("kind") {
					fmt.Fprintf(w, "kind\t%s\n", kind)
				}
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// givenOrRead are the words of the command line or, without any, of standard input.
func givenOrRead(args []string, stdin io.Reader) ([]string, error) {
	if len(args) == 0 && !isTerminal(os.Stdin) {
		words := bufio.NewScanner(stdin)
		for words.Split(bufio.ScanWords); words.Scan(); {
			args = append(args, words.Text())
		}
		if err := words.Err(); err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
	}
	if len(args) == 0 {
		return nil, fmt.Errorf("%w: give an ID, or IDs on standard input: see shardid decode --help",
			model.ErrInvalidArgument)
	}
	return args, nil
}
