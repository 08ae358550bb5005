package drbd

import (
	"bytes"
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

// How long Watch waits before it starts the kernel's stream again.
const (
	watchBackoff    = 100 * time.Millisecond
	watchBackoffMax = 5 * time.Second

	forever = 100 * 365 * 24 * time.Hour
)

// Watch calls changed for each volume of which the kernel says something new. A
// stream that begins tells of every volume, so nothing is missed between two.
// Changed must not wait.
func (r *Replicator) Watch(ctx context.Context, changed func(fsm.VolumeID)) error {
	backoff := watchBackoff
	for ctx.Err() == nil {
		lines := &eventLines{changed: changed}
		_, err := r.config.run.Run(ctx, run.Command{Tool: "drbdsetup", Args: []string{"events2"}, Timeout: forever, Stdout: lines})
		if ctx.Err() != nil {
			break
		}
		if lines.seen {
			backoff = watchBackoff
		}
		r.config.Log.Warn("the kernel's stream about replicas ended, it is started again", "error", err, "after", backoff)
		select {
		case <-ctx.Done():
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, watchBackoffMax)
	}
	return ctx.Err()
}

// eventLines takes the stream line by line. A dump tells of one volume in several
// lines that arrive together: it is named once for all of them.
type eventLines struct {
	changed func(fsm.VolumeID)
	rest    []byte
	seen    bool
}

// longestLine bounds what is kept of a line that does not end.
const longestLine = 64 << 10

func (l *eventLines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	end := bytes.LastIndexByte(l.rest, '\n')
	if end < 0 {
		if len(l.rest) > longestLine {
			l.rest = nil
		}
		return len(p), nil
	}
	l.seen = true
	for _, id := range volumesIn(string(l.rest[:end+1])) {
		l.changed(id)
	}
	l.rest = append([]byte(nil), l.rest[end+1:]...)
	return len(p), nil
}
