package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"shardid/model"

	"github.com/spf13/cobra"
)

// tinyidRow is a row of tinyid's table tiny_id_info, in one of its databases. Its server
// has issued no ID above MaxID, and from this database only those that leave Remainder when
// they are divided by Delta.
type tinyidRow struct {
	Tag              string
	MaxID            int64
	Step             int64
	Delta, Remainder int64
}

// tinyidTag is a tag that is taken over, from all databases of tinyid together.
type tinyidTag struct {
	Tag     string `json:"key"`
	FirstID int64  `json:"firstId"` // to hand out: one above what tinyid may have issued
	Step    int64  `json:"step"`
	Action  string `json:"action"` // made, would be made, or there already
}

// mark is the description of the tag. It tells a second import of the same rows from a tag
// that counts by itself.
func (t tinyidTag) mark() string { return fmt.Sprintf("imported from tinyid, first ID %d", t.FirstID) }

func (c *cli) tagsImport() *cobra.Command {
	var files []string
	var dryRun, partial bool
	var tags []tinyidTag
	cmd := &cobra.Command{
		Use:   "import --tinyid FILE [--tinyid FILE]",
		Short: "Add the tags of didi's tinyid, each above the highest ID that tinyid may have issued",
		Long: `Add the tags of didi's tinyid, each above the highest ID that tinyid may have issued.
Stop every server of tinyid first: one that goes on issues IDs that shardid issues too.

A file is what mysql --batch prints of the table tiny_id_info, with the names of the
columns. Name one for each database of tinyid. Either all tags are taken over or, when
one cannot be, none. A second import of the same files changes nothing.`,
		Example: `  mysql --batch -e 'SELECT * FROM tiny_id_info' tinyid > tinyid.tsv
  shardid tags import --tinyid tinyid.tsv --dry-run
  shardid tags import --tinyid tinyid.tsv`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringArrayVar(&files, "tinyid", nil, "`FILE` with the rows of tiny_id_info, one for each database of tinyid")
	f.BoolVar(&dryRun, "dry-run", false, "show what would be made, and make nothing")
	f.BoolVar(&partial, "partial", false, "take over tags of which some remainders are in no file, "+
		"because tinyid has no further database")
	required(cmd, "tinyid")
	read := func(ctx context.Context, cfg Config) (err error) {
		if tags, err = readTinyid(files, partial); err == nil && dryRun {
			err = needData(ctx, cfg)
		}
		return err
	}
	return c.withStores(cmd, read, func(ctx context.Context, o opened) error {
		present, err := o.db.Tags(ctx)
		if err != nil {
			return err
		}
		if err := planImport(tags, present); err != nil {
			return err
		}
		action, missing := "made", []model.Tag{}
		if dryRun {
			action = "would be made"
		}
		for i, t := range tags {
			if t.Action == "" {
				tags[i].Action = action
				missing = append(missing, model.Tag{Name: t.Tag, Step: t.Step, MaxID: t.FirstID, Description: t.mark()})
			}
		}
		if !dryRun && len(missing) > 0 {
			if err := o.admin.CreateTags(ctx, operator(), missing); err != nil {
				return fmt.Errorf("%w: all of the tags are made or none: correct this and import again", err)
			}
		}
		return c.print(cmd, tags, table(tags, "", "TAG\tFIRST ID\tSTEP\tACTION", func(t tinyidTag) []any {
			return []any{t.Tag, t.FirstID, t.Step, t.Action}
		}))
	})
}

// planImport notes which tags are there already from an earlier import of the same rows.
// One that is there for another reason is refused: replicas may hold IDs of it that tinyid
// has issued, whatever its max_id says. Errors: model.ErrRefused.
func planImport(tags []tinyidTag, present []model.Tag) error {
	var refused []error
	for i, t := range tags {
		at := slices.IndexFunc(present, func(p model.Tag) bool { return p.Name == t.Tag })
		switch {
		case at < 0:
		case present[at].Description == t.mark() && present[at].MaxID >= t.FirstID:
			tags[i].Action = "there already"
		default:
			is := present[at]
			refused = append(refused, fmt.Errorf("%w: tag %q is there already (next ID %d, %q) and tinyid may have "+
				"issued IDs up to %d: stop every replica, because they hold IDs of the tag, run shardid tags set "+
				"--tag '%s' --max-id %d --description '%s', and import again",
				model.ErrRefused, t.Tag, is.MaxID, is.Description, t.FirstID-1, t.Tag, max(t.FirstID, is.MaxID), t.mark()))
		}
	}
	return errors.Join(refused...)
}

// readTinyid reads the files, one for each database, and joins the rows of each tag. Errors:
// model.ErrInvalidArgument, with everything that is wrong.
func readTinyid(files []string, partial bool) ([]tinyidTag, error) {
	rows := map[string][]tinyidRow{}
	var names []string // in the order of the files
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // the operator names it
		if err != nil {
			return nil, fmt.Errorf("%w: --tinyid: %w", model.ErrInvalidArgument, err)
		}
		found, err := parseTinyid(string(text))
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", model.ErrInvalidArgument, file, err)
		}
		for _, row := range found {
			if rows[row.Tag] == nil {
				names = append(names, row.Tag)
			}
			rows[row.Tag] = append(rows[row.Tag], row)
		}
	}
	var tags []tinyidTag
	var wrong []error
	for _, name := range names {
		tag, err := joinTinyid(rows[name], partial)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%w: tag %q: %w", model.ErrInvalidArgument, name, err))
		}
		tags = append(tags, tag)
	}
	return tags, errors.Join(wrong...)
}

// parseTinyid reads what mysql --batch prints: a line with the names of the columns, and one
// for each row, between tabs.
func parseTinyid(text string) ([]tinyidRow, error) {
	const how = "mysql --batch -e 'SELECT * FROM tiny_id_info' prints the file"
	columns := []string{"biz_type", "max_id", "step", "delta", "remainder"}
	unescape := strings.NewReplacer(`\\`, `\`, `\t`, "\t", `\n`, "\n", `\0`, "\x00")
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n")
	header := strings.Split(lines[0], "\t")
	for _, name := range columns {
		if !slices.Contains(header, name) {
			return nil, fmt.Errorf("the first line does not name the column %s: %s", name, how)
		}
	}
	seen, rows := map[string]bool{}, []tinyidRow{}
	for i, line := range lines[1:] {
		fields := strings.Split(line, "\t")
		if len(fields) != len(header) {
			return nil, fmt.Errorf("line %d has %d columns and the first line %d: %s", i+2, len(fields), len(header), how)
		}
		row := tinyidRow{Tag: unescape.Replace(fields[slices.Index(header, columns[0])])}
		for j, number := range []*int64{&row.MaxID, &row.Step, &row.Delta, &row.Remainder} {
			value := fields[slices.Index(header, columns[j+1])]
			var err error
			if *number, err = strconv.ParseInt(value, 10, 64); err != nil {
				return nil, fmt.Errorf("line %d: %s is %q, not a whole number: correct the row",
					i+2, columns[j+1], value)
			}
		}
		if seen[row.Tag] {
			return nil, fmt.Errorf("line %d: biz_type %q is there twice: name one file for each database", i+2, row.Tag)
		}
		seen[row.Tag] = true
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("there is no row: %s", how)
	}
	return rows, nil
}

// joinTinyid makes a tag of its rows, one from each database. Where tinyid runs on several,
// each counts in steps of delta with a remainder of its own, and the highest max_id of all
// is what may have been issued.
func joinTinyid(rows []tinyidRow, partial bool) (tinyidTag, error) {
	tag := tinyidTag{Tag: rows[0].Tag, FirstID: 1}
	if err := model.CheckTag(tag.Tag); err != nil {
		return tag, err
	}
	delta, remainders := rows[0].Delta, map[int64]bool{}
	for _, row := range rows {
		switch {
		case row.Step < 1 || row.Step > model.MaxTagStep:
			return tag, fmt.Errorf("step %d is not in 1…%d: correct the row", row.Step, int64(model.MaxTagStep))
		case row.MaxID > model.MaxTagID-1-row.Step:
			return tag, fmt.Errorf("max_id %d leaves no segment below 2^63", row.MaxID)
		case row.Delta < 1 || row.Remainder < 0 || row.Remainder >= row.Delta:
			return tag, fmt.Errorf("delta %d and remainder %d: delta must be at least 1, and remainder "+
				"in 0…delta-1: correct the row", row.Delta, row.Remainder)
		case row.Delta != delta || remainders[row.Remainder]:
			return tag, fmt.Errorf("two files have it with delta %d and %d and remainder %d: they are not databases "+
				"of one tinyid: import one of them, or rename the tag in the other file", delta, row.Delta, row.Remainder)
		}
		remainders[row.Remainder] = true
		tag.FirstID, tag.Step = max(tag.FirstID, row.MaxID+1), max(tag.Step, row.Step)
	}
	if missing := delta - int64(len(remainders)); missing > 0 && !partial {
		return tag, fmt.Errorf("delta is %d and %d of its remainders are in no file: name the files of tinyid's "+
			"other databases with --tinyid too, or pass --partial when there are none", delta, missing)
	}
	return tag, nil
}
