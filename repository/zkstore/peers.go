package zkstore

import (
	"context"
	"path"
	"strconv"

	"shardid/model"
)

// reports reads the reports in the nodes of a folder whose names are worker IDs.
func (t tree) reports(ctx context.Context, dir string, names []string) ([]model.WorkerPeer, error) {
	var ids []int
	var paths []string
	for id, is := range numbers(names) {
		if is {
			ids, paths = append(ids, id), append(paths, path.Join(dir, strconv.Itoa(id)))
		}
	}
	nodes, err := t.getAll(ctx, paths)
	if err != nil {
		return nil, err
	}
	var found []model.WorkerPeer
	for i, n := range nodes {
		// Nobody compares clocks with what is gone, or is no report.
		if rep, err := decode[report](n); n.found && err == nil && rep.Timestamp > 0 {
			found = append(found, rep.peer(ids[i], n.stat.Mtime))
		}
	}
	return found, nil
}
