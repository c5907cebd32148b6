package sqlstore

import (
	"context"
	"path/filepath"
	"strings"

	"shardid/model"
)

const (
	whyJournal  = "the file system of the database cannot share memory between processes, as WAL needs: put the file on a local disk"
	whySync     = "a commit may be lost in a power cut, and IDs then repeat"
	whyNetwork  = "locks and syncs of network file systems are not to be relied on: two processes could hand out one segment, and a commit could be lost: put the file on a local disk"
	whyMemory   = "the file is gone after a reboot, and IDs start again from 1: put it on a disk"
	whyLayer    = "the file is gone when the container is made anew, and IDs start again from 1: put it on a volume"
	whyFSHidden = "the kind of the file system is not told here: it must be on a local disk that outlives a reboot"
)

func sqliteChecks(file string) []settingCheck {
	return []settingCheck{checkJournal, checkSync, func(context.Context, *asker) model.Finding {
		return judgeFS(fileSystem(filepath.Dir(file)))
	}}
}

func checkJournal(ctx context.Context, a *asker) model.Finding {
	f := model.Finding{Setting: "journal_mode", Want: "wal"}
	f.Value, _ = a.ask(ctx, "PRAGMA journal_mode")
	return model.Judged(f, f.Value == "wal", model.LevelUnsafe, whyJournal)
}

func checkSync(ctx context.Context, a *asker) model.Finding {
	f := model.Finding{Setting: "synchronous", Want: "FULL or EXTRA"}
	value, _ := a.ask(ctx, "PRAGMA synchronous")
	names := map[string]string{"0": "OFF", "1": "NORMAL", "2": "FULL", "3": "EXTRA"} // https://sqlite.org/pragma.html#pragma_synchronous
	f.Value = names[value]
	return model.Judged(f, f.Value == "FULL" || f.Value == "EXTRA", model.LevelUnsafe, whySync)
}

// judgeFS judges the kind of file system that holds the database; "" is one
// that cannot be told.
func judgeFS(kind string) model.Finding {
	f := model.Finding{Setting: "file system", Value: kind, Want: "local disk"}
	switch {
	case kind == "":
		return model.Unread(f, whyFSHidden)
	case strings.HasPrefix(kind, "network"):
		return model.Judged(f, false, model.LevelUnsafe, whyNetwork)
	case kind == "tmpfs":
		return model.Judged(f, false, model.LevelWarn, whyMemory)
	case kind == "overlay":
		return model.Judged(f, false, model.LevelWarn, whyLayer)
	}
	return model.Judged(f, true, "", "")
}
