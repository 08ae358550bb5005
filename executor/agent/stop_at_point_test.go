package agent_test

import (
	"bytes"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stopAtPoint stops a whole Agent at a fault point, as SIGKILL does: a goroutine that reaches any
// point after that blocks for ever. (Every effect lies behind a point.)
type stopAtPoint struct {
	point string
	skip  int // how often the point is passed before

	mu      sync.Mutex
	hits    map[string]bool
	effects map[string]int // by goroutine: the effects on the host that have begun and not ended
	stopped chan struct{}
}

func stopAt(point string, skip int) *stopAtPoint {
	return &stopAtPoint{point: point, skip: skip, hits: map[string]bool{}, effects: map[string]int{}, stopped: make(chan struct{})}
}

func (f *stopAtPoint) Hit(point string) {
	f.mu.Lock()
	f.hits[point] = true
	if point == f.point && !f.isStopped() {
		if f.skip == 0 {
			close(f.stopped)
		}
		f.skip--
	}
	dead := f.isStopped()
	f.count(point, dead)
	f.mu.Unlock()
	if dead {
		select {}
	}
}

// count notes that an effect begins or ends, or that a goroutine never has one again. The caller
// holds f.mu.
func (f *stopAtPoint) count(point string, dead bool) {
	me := goroutine()
	effect, begins := strings.CutSuffix(point, ".before")
	effect, ends := strings.CutSuffix(effect, ".after")
	switch {
	case dead:
		delete(f.effects, me)
	case isMessage(effect):
	case begins:
		f.effects[me]++
	case ends:
		if f.effects[me]--; f.effects[me] <= 0 {
			delete(f.effects, me)
		}
	}
}

// isMessage: what a dead host sent may still arrive after it is up again; what it did to its disks
// and mounts cannot still happen.
func isMessage(effect string) bool {
	return strings.HasPrefix(effect, "propose-") || strings.HasPrefix(effect, "report") || effect == "drain" || effect == "outdate"
}

// awaitEffects waits until the stopped Agent does nothing any more: an effect that had begun in
// another goroutine is over before its host starts again.
func (f *stopAtPoint) awaitEffects(t testing.TB) {
	t.Helper()
	require.Eventually(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.effects) == 0
	}, time.Minute, time.Millisecond, "a stopped host's effects end")
}

func (f *stopAtPoint) isStopped() bool {
	select {
	case <-f.stopped:
		return true
	default:
		return false
	}
}

// goroutine is the name of the goroutine that asks: "goroutine 7".
func goroutine() string {
	stack := make([]byte, 64)
	name, _, _ := bytes.Cut(stack[:runtime.Stack(stack, false)], []byte(" ["))
	return string(name)
}
