package sim

import (
	"encoding/binary"
	"fmt"
	"hash"
	"hash/fnv"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// trace is what happened in a run: its hash always, the story only when it is told.
type trace struct {
	sum     hash.Hash64
	steps   int
	telling bool
	lines   []string
	// disturbed: the machine kept a step so long that Go's scheduler may have interrupted it,
	// which can change the order of what it did.
	disturbed bool
	realTime  int64 // of the last step, in nanoseconds, by the machine's clock
}

func newTrace(telling bool) *trace { return &trace{sum: fnv.New64a(), telling: telling} }

// note adds what happened, at a time.
func (t *trace) note(at int64, what string) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(at))
	_, _ = t.sum.Write(b[:])
	_, _ = t.sum.Write([]byte(what))
	if t.telling {
		t.lines = append(t.lines, fmt.Sprintf("%10.3fs  %s", float64(at)/1e9, what))
	}
}

func (t *trace) hash() uint64 { return t.sum.Sum64() }

// offered adds what may happen now, and is not part of the story: whoever looks for what differs
// between two runs of a seed sees it first here.
func (t *trace) offered(events, held []*event) {
	for _, e := range events {
		_, _ = t.sum.Write([]byte(e.key))
	}
	if t.telling && os.Getenv("HOLDFAST_SIM_OFFERS") != "" {
		var keys []string
		for _, e := range events {
			keys = append(keys, e.key)
		}
		for _, e := range held {
			if e.ready != nil && !e.ready() {
				keys = append(keys, "held "+e.key)
			}
		}
		t.lines = append(t.lines, "            of "+strings.Join(keys, "; "))
	}
}

// longStep is well below the time after which Go's scheduler interrupts a goroutine.
const longStep = 5 * time.Millisecond

// noteRealTime is called after each step. The bubble's own clock does not know.
func (t *trace) noteRealTime() {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return
	}
	if t.realTime != 0 && now.Nano()-t.realTime > int64(longStep) {
		t.disturbed = true
	}
	t.realTime = now.Nano()
}
