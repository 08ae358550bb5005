package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
)

// ackFile is the content of a writer's file.
type ackFile struct {
	Number      uint64        `json:"number"`
	At          int64         `json:"at"`
	Longest     time.Duration `json:"longest"`
	LongestFrom uint64        `json:"longest_from"`
	Error       string        `json:"error"`
}

// A workload writes without a pause at first, so that whatever a scenario breaks finds writes in flight. While the
// scenario waits for guests to boot and to synchronise it goes on more slowly, and leaves them the processors.
const (
	eagerBlocks = 1000
	writePause  = 20 * time.Millisecond
)

// writer is a workload that writes numbered blocks.
type writer struct {
	w    *env
	v    *volume
	node string
	name string
	job  *lab.Job
	// ended: it was killed.
	ended bool
}

// write starts a workload from a number on, and waits for its first block.
func (w *env) write(t *testing.T, v *volume, node string, from uint64) *writer {
	t.Helper()
	return w.writeEagerly(t, v, node, from, eagerBlocks)
}

// writeEagerly is write with another number of blocks before the first pause.
func (w *env) writeEagerly(t *testing.T, v *volume, node string, from, eager uint64) *writer {
	t.Helper()
	x := w.newWriter(t, v, node, fmt.Sprintf("%d %s", w.count+1, node), from, eager)
	x.awaitBeyond(t, from)
	return x
}

// newWriter starts a workload with a stamp. It writes each block to the volume and then to the further ones, in order.
func (w *env) newWriter(t *testing.T, v *volume, node, stamp string, from, eager uint64, further ...*volume) *writer {
	t.Helper()
	w.count++
	x := &writer{w: w, v: v, node: node, name: fmt.Sprintf("writer-%d", w.count)}
	argv := []string{"/run/lab/writer", "write", "--path", v.path(), "--acks", "/lab/" + x.name, "--stamp", stamp, "--from", fmt.Sprint(from),
		"--eager", fmt.Sprint(eager), "--pause", writePause.String()}
	if v.block {
		argv = append(argv, "--direct")
	}
	if v.durable != "" {
		argv = append(argv, "--durable", v.durable)
	}
	for _, next := range further {
		argv = append(argv, "--then", next.path())
	}
	job, err := w.guest(node).Start(t.Context(), x.name, nil, argv...)
	require.NoError(t, err)
	x.job = job
	return x
}

// readAcks is what was acknowledged until now, also of a guest that lost its power.
func (x *writer) readAcks() ackFile {
	var a ackFile
	text, err := os.ReadFile(filepath.Join(x.w.guest(x.node).Shared(), x.name))
	if err == nil {
		_ = json.Unmarshal(text, &a) // the first write may not be there yet
	}
	return a
}

// awaitBeyond waits until the writer got beyond a number.
func (x *writer) awaitBeyond(t *testing.T, number uint64) {
	t.Helper()
	eventually(t, timeout, fmt.Sprintf("%s writes beyond block %d on %s", x.name, number, x.node), func(context.Context) error {
		a := x.readAcks()
		if a.Error != "" || a.Number <= number {
			return fmt.Errorf("it is at %+v", a)
		}
		return nil
	})
}

// awaitBlocks waits until it wrote so many blocks more.
func (x *writer) awaitBlocks(t *testing.T, blocks uint64) {
	t.Helper()
	x.awaitBeyond(t, x.readAcks().Number+blocks)
}

// stop kills it and answers what it wrote.
func (x *writer) stop(t *testing.T) ackFile {
	t.Helper()
	require.NoError(t, x.job.Kill(t.Context()))
	_, err := x.job.Wait(t.Context())
	require.NoError(t, err)
	return x.readAcks()
}

// wasKilled tells whether it ended, although nobody but the host may have ended it.
func (x *writer) wasKilled(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := x.job.Wait(ctx)
	return err == nil && x.readAcks().Error == ""
}

// isFrozen is true when nothing was acknowledged for a second.
func (x *writer) isFrozen() error {
	before := x.readAcks()
	time.Sleep(time.Second) // the property is about time
	if after := x.readAcks(); after.Number != before.Number || after.Error != "" {
		return fmt.Errorf("it went on from %d to %+v", before.Number, after)
	}
	return nil
}

// lastAcknowledged is what each of these writers acknowledged before they were cut off. The one write of each that had ended
// by then may be in its file only later: the writer's process needs a processor for that.
func lastAcknowledged(t *testing.T, cut []*writer) (last []uint64) {
	t.Helper()
	var before []uint64
	for _, x := range cut {
		before = append(before, x.readAcks().Number)
	}
	for i, x := range cut {
		last = append(last, x.awaitStill(t))
		require.LessOrEqual(t, last[i], before[i]+1, "%s went on although it was cut off", x.name)
	}
	return last
}

// awaitStill waits until nothing is acknowledged for a second, by an error or without, and answers what was.
func (x *writer) awaitStill(t *testing.T) (last uint64) {
	t.Helper()
	eventually(t, timeout, x.name+" stands still on "+x.node, func(context.Context) error {
		last = x.readAcks().Number
		time.Sleep(time.Second) // the property is about time
		if after := x.readAcks().Number; after != last {
			return fmt.Errorf("it went on from %d to %d", last, after)
		}
		return nil
	})
	return last
}

func (x *writer) awaitFrozen(t *testing.T) {
	t.Helper()
	eventually(t, timeout, x.name+" is frozen on "+x.node, func(context.Context) error { return x.isFrozen() })
}

// requireAcknowledged checks that every acknowledged block is in the volume on a node.
func (w *env) requireAcknowledged(t *testing.T, v *volume, node string, acked uint64) {
	t.Helper()
	direct := ""
	if v.block {
		direct = "--direct"
	}
	out := w.mustExec(t, node, fmt.Sprintf("/run/lab/writer check --path %s --acked %d %s", v.path(), acked, direct))
	var found struct {
		Highest uint64   `json:"highest"`
		Missing []uint64 `json:"missing"`
		Stamps  []string `json:"stamps"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &found), out)
	if len(found.Missing) > 0 {
		w.fatalf(t, "acknowledged blocks are lost on %s: %v; stamps %v", node, found.Missing, found.Stamps)
	}
	require.GreaterOrEqual(t, found.Highest, acked)
	seen := map[string]bool{}
	for _, stamp := range found.Stamps {
		require.False(t, seen[stamp], "two writers alternate: %v", found.Stamps)
		seen[stamp] = true
	}
}
