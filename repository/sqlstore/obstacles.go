package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// obstacle is a kind of rows that the upgraded table could not hold.
type obstacle struct {
	fault, cure string
	column      string // looked for only when the table has it
	what        string // SQL: how to name what is wrong with the row
	rest        string // SQL: from WHERE on
}

// namedRows is how many rows of a kind are named.
const namedRows = 5

func obstacles() []obstacle {
	return []obstacle{
		{
			fault: "several rows for one list", column: "max_id",
			cure: "keep of each list only the row with the highest max_id",
			what: "CONCAT(COUNT(*), ' rows, highest max_id ', COALESCE(MAX(max_id), 'NULL'))",
			rest: "GROUP BY app_id, shard_id HAVING COUNT(*) > 1",
		},
		{
			fault: "app_id outside 0…255", column: "app_id",
			cure: "move those apps to a free app_id or delete their rows: an ID has 8 bits for it",
			what: "'out of range'", rest: "WHERE app_id IS NULL OR app_id NOT BETWEEN 0 AND 255",
		},
		{
			fault: "shard_id outside 0…63", column: "shard_id",
			cure: "delete those rows: an ID has 6 bits for the shard",
			what: "'out of range'", rest: "WHERE shard_id IS NULL OR shard_id NOT BETWEEN 0 AND 63",
		},
		{
			fault: "max_id NULL, negative or beyond a bigint", column: "max_id",
			cure: "set max_id to the highest index handed out",
			what: "COALESCE(max_id, 'NULL')", rest: "WHERE max_id IS NULL OR max_id NOT BETWEEN 0 AND 9223372036854775807",
		},
		{
			fault: "step outside 1…1000000", column: "step", cure: "set step to 1000",
			what: "step", rest: "WHERE step NOT BETWEEN 1 AND 1000000",
		},
		{
			fault: "negative max_limit_id", column: "max_limit_id", cure: "set max_limit_id to 0, which means no limit",
			what: "max_limit_id", rest: "WHERE max_limit_id < 0 OR max_limit_id > 9223372036854775807",
		},
		{
			fault: "unknown limit_policy", column: "limit_policy", cure: "set limit_policy to 'reject'",
			what: "limit_policy", rest: "WHERE limit_policy IS NULL OR limit_policy NOT IN ('reject', 'wrap')",
		},
	}
}

// find names up to namedRows rows, or gives "" when there are none.
func (o obstacle) find(ctx context.Context, db *sql.DB, has map[string]bool) (string, error) {
	if !has[o.column] {
		return "", nil
	}
	//nolint:gosec // every part is a constant of this file
	query := fmt.Sprintf(`SELECT COALESCE(app_id, 'NULL'), COALESCE(shard_id, 'NULL'), COALESCE(%s, 'NULL')
		FROM %s %s ORDER BY 1, 2 LIMIT %d`, o.what, table, o.rest, namedRows+1)
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return "", fmt.Errorf("look for %s: %w", o.fault, err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var app, shard, what string
		if err := rows.Scan(&app, &shard, &what); err != nil {
			return "", fmt.Errorf("look for %s: %w", o.fault, err)
		}
		names = append(names, fmt.Sprintf("(app_id %s, shard_id %s) %s", app, shard, what))
	}
	if len(names) > namedRows {
		names[namedRows] = "and more"
	}
	return strings.Join(names, ", "), rows.Err()
}
