package queue

import (
	"fmt"
	"log/slog"

	"shardid/model"
)

// deliver takes over what was popped and serves the waiters. It says whether an
// index was above the app's limit; then all later ones are too.
func (l *list) deliver(p model.Popped) (overLimit bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enter(p)
	l.compact()
	for _, index := range p.Indices {
		if index <= l.highest || index > model.MaxIndex {
			l.repeated(index)
			continue
		}
		l.highest = index
		id, err := l.cfg.Limit.Apply(l.key.Compose(index))
		switch {
		case err != nil:
			overLimit = true
			l.svc.stats.overLimit.Add(1)
		case id != 0: // 0 is what wrap makes of the limit itself: no ID
			l.ids = append(l.ids, id)
		}
	}
	l.known = max(l.known, l.highest)
	l.lastErr = nil
	l.serve()
	return overLimit
}

// compact makes room at the end of ids. Callers hold mu.
func (l *list) compact() {
	l.ids = append(l.ids[:0], l.ids[l.head:]...)
	l.head = 0
}

// enter notes the history of a pop. Callers hold mu.
func (l *list) enter(p model.Popped) {
	l.svc.purged(l.key, p.Purged)
	if p.History != l.history {
		l.history, l.highest, l.popped = p.History, 0, 0
	}
	l.popped += int64(len(p.Indices))
	l.depth = p.Len
}

// repeated is the tripwire. Callers hold mu.
func (l *list) repeated(index int64) {
	l.svc.stats.repeated.Add(1)
	l.svc.events.add(slog.LevelError, "index refused: the list gave it, or a later one, before; look for a second writer of the list",
		l.key, "index", index, "highest", l.highest, "history", l.history)
}

func (l *list) limitReached() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cfg.Limit.MaxID == 0 || l.cfg.Limit.Policy == model.LimitWrap {
		return fmt.Errorf("%w: list %s has used all %d indices: provision another app", model.ErrLimitReached, l.key, model.MaxIndex)
	}
	return fmt.Errorf("%w: list %s: the next ID would exceed max_limit_id %d: raise it or provision another app",
		model.ErrLimitReached, l.key, l.cfg.Limit.MaxID)
}
