package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"shardid/model"
	"shardid/service/httpapi"

	"github.com/spf13/cobra"
)

// wanted says which IDs shardid get asks for.
type wanted struct {
	mode, gatePass, tag, space, key string
	app, count                      int
	current                         bool
}

func (c *cli) get() *cobra.Command {
	var ask asking
	var want wanted
	cmd := &cobra.Command{
		Use:   "get [--mode queue|segment|snowflake|uid|sequence]",
		Short: "Get IDs from a running server",
		Example: `  shardid get --app 1 --gate-pass alice
  shardid get --mode segment --tag orders --count 100
  shardid get --space chat --key room42          # the next number of a sequence
  shardid get --space chat --key room42 --current
  shardid get --mode uid --count 10 --json       # "idsStr" has the IDs as strings, for JavaScript
  shardid get --mode snowflake --url https://ids.example.com --token-file token --json`,
		Args: cobra.NoArgs,
	}
	ask.asClient(cmd, 10*time.Second, ownServer)
	choose(cmd, &want.mode, "mode", "", "queue, segment, snowflake, uid or sequence (default queue, or sequence with --space)", modes()...)
	f := cmd.Flags()
	f.IntVar(&want.app, "app", 1, "app `ID` of the queue mode, 0…255")
	f.StringVar(&want.gatePass, "gate-pass", "shardid", "gatePass of the queue mode: its `text` chooses the shard")
	f.StringVar(&want.tag, "tag", "", "`tag` of the segment mode")
	f.StringVar(&want.space, "space", "", "`space` of sequences")
	f.StringVar(&want.key, "key", "", "`key` of a sequence, any 1 to 256 bytes")
	f.BoolVar(&want.current, "current", false, "show how far the key of a sequence has come, and issue nothing")
	f.IntVar(&want.count, "count", 0, "a batch of so many `IDs`, 1…10000 (default a single one)")
	return c.command(cmd, func(cmd *cobra.Command, _ []string, cfg Config) error {
		query := url.Values{}
		if f.Changed("count") {
			query.Set("count", strconv.Itoa(want.count))
		}
		path, err := want.path(query)
		if err != nil {
			return err
		}
		body, err := ask.fetch(cmd.Context(), cfg, path+"?"+query.Encode())
		if err != nil {
			return err
		}
		ids := readAnswer(body)
		if len(ids) != max(1, want.count) {
			return fmt.Errorf("the server answers with something else than %d IDs: check the URL", max(1, want.count))
		}
		return c.print(cmd, want.object(ids), func(w io.Writer) {
			for _, id := range ids {
				fmt.Fprintln(w, id)
			}
		})
	})
}

// path is where the IDs are, whose parameters it adds to query.
func (w wanted) path(query url.Values) (string, error) {
	none := httpapi.ModeQueue
	if w.space != "" {
		none = httpapi.ModeSequence
	}
	switch mode := cmp.Or(w.mode, none); {
	case w.current && (mode != httpapi.ModeSequence || query.Has("count")):
		return "", fmt.Errorf("%w: --current is for --space and --key, without --count", model.ErrInvalidArgument)
	case mode == httpapi.ModeQueue:
		query.Set("appId", strconv.Itoa(w.app))
		query.Set("gatePass", w.gatePass)
		return "/get", nil
	case mode == httpapi.ModeSegment && w.tag == "":
		return "", fmt.Errorf("%w: the segment mode needs --tag", model.ErrInvalidArgument)
	case mode == httpapi.ModeSegment:
		return "/api/segment/get/" + url.PathEscape(w.tag), nil
	case mode == httpapi.ModeSnowflake:
		return "/api/snowflake/get/shardid", nil
	case mode == httpapi.ModeUID:
		return "/api/uid/get", nil
	case mode == httpapi.ModeSequence && (w.space == "" || w.key == ""):
		return "", fmt.Errorf("%w: a sequence needs --space and --key", model.ErrInvalidArgument)
	case mode == httpapi.ModeSequence:
		query.Set("key", w.key)
		what := "ids"
		if w.current {
			what = "current"
		}
		return "/v1/sequence/" + url.PathEscape(w.space) + "/" + what, nil
	default:
		return "", fmt.Errorf("%w: --mode %q is none of %s", model.ErrInvalidArgument, mode, strings.Join(modes(), ", "))
	}
}

// object is the answer in JSON.
func (w wanted) object(ids []int64) map[string]any {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.FormatInt(id, 10)
	}
	switch {
	case w.current:
		return map[string]any{"code": 0, "current": texts[0]}
	case w.count == 0:
		return map[string]any{"code": 0, "id": ids[0], "idStr": texts[0]}
	}
	return map[string]any{"code": 0, "ids": ids, "idsStr": texts}
}

// readAnswer gives the IDs of an answer: one number, a list, or an object. Another text
// has none.
func readAnswer(body []byte) []int64 {
	var list []json.Number // or strings of digits
	if one := json.Number(""); json.Unmarshal(body, &one) == nil {
		list = []json.Number{one}
	}
	if list != nil || json.Unmarshal(body, &list) == nil {
		ids := make([]int64, len(list))
		for i, number := range list {
			var err error
			if ids[i], err = number.Int64(); err != nil {
				return nil
			}
		}
		return ids
	}
	var object struct{ ID, IDs, Current json.RawMessage }
	if json.Unmarshal(body, &object) != nil || object.ID == nil && object.IDs == nil && object.Current == nil {
		return nil
	}
	return readAnswer([]byte(cmp.Or(string(object.ID), string(object.IDs), string(object.Current))))
}
