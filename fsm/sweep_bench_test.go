package fsm

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// stagedOn has every volume of the node published and about to be staged there.
func (w *world) stagedOn(b *testing.B, n *Node) {
	var all []*Volume
	for v := range w.s.VolumesOn(n.ID) {
		all = append(all, v)
	}
	for i, v := range all {
		w.s.Apply(w.next(), envelope(controller, fmt.Sprint("publish ", i), w.index, &fsmpb.PublishVolume{VolumeId: string(v.ID), NodeId: string(n.ID), Capability: mount(writer)}))
		updated, _ := w.s.Volume(v.ID)
		out := w.s.Apply(w.next(), envelope("node/"+string(n.ID), fmt.Sprint("stage ", i), w.index, &fsmpb.StageVolume{
			VolumeId: string(v.ID), NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Epoch: updated.Publication(n.ID).Epoch.Proto(),
			StagingPath: "/staging/" + string(v.ID), Capability: mount(writer), FsUuid: uuidOf(i), Sequence: 1,
		})).Outcome
		if err := Err(out); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHostChanges: the longest that Apply takes for the loss, the new boot or
// the silence of a host that holds a third of all volumes, and for a new incarnation: split into batches,
// and in one entry.
func BenchmarkHostChanges(b *testing.B) {
	for _, volumes := range []int{200_000, 1_000_000} {
		b.Run(fmt.Sprint(volumes), func(b *testing.B) { hostChanges(b, volumes) })
	}
}

func hostChanges(b *testing.B, volumes int) {
	w := largeState(b, volumes)
	n, _ := w.s.Node("node-1")
	w.stagedOn(b, n)
	boot := register("node-1")
	boot.HostId, boot.BootId, boot.Pools[0].PoolId = string(n.Host), "boot-2", string(n.Pools[0].ID)
	for name, c := range map[string]struct {
		actor string
		body  proto.Message
	}{
		"boot":        {"node/node-1", boot},
		"lost":        {admin, &fsmpb.LoseNode{NodeId: "node-1", HostId: string(n.Host)}},
		"unreachable": {controller, &fsmpb.SetNodeReachable{NodeId: "node-1", HostId: string(n.Host)}},
		"incarnation": {controller, &fsmpb.ReplaceIncarnation{Counter: 2, IncarnationId: bytesOf("2", 16)}},
	} {
		for how, size := range map[string]sweepBudget{"batches": {}, "one entry": {reads: 1 << 30, writes: 1 << 30}} {
			b.Run(name+"/"+how, func(b *testing.B) {
				for b.Loop() {
					x := &world{t: b, s: w.s.Fork(), index: w.index}
					x.s.sweepBudget = size
					longest, cpu, entries := x.longestOf(c.actor, c.body)
					b.ReportMetric(float64(longest.Microseconds())/1000, "longest-apply-ms")
					b.ReportMetric(float64(cpu.Microseconds())/1000, "longest-apply-cpu-ms")
					b.ReportMetric(float64(entries), "entries")
				}
			})
		}
	}
}

// longestOf is the longest that one entry takes until the change is in all records, by the
// clock and of this thread's time.
func (w *world) longestOf(actor string, body proto.Message) (longest, cpu time.Duration, entries int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	w.s.Apply(w.next(), envelope(controller, "warm", w.index, &fsmpb.ContinueSweep{})) // a fork's first entry costs more
	runtime.GC()
	for {
		entries++
		cmd := envelope(actor, fmt.Sprint("entry ", entries), w.index, body)
		begin, used := time.Now(), threadCPU()
		out := w.s.Apply(w.next(), cmd).Outcome
		longest, cpu = max(longest, time.Since(begin)), max(cpu, threadCPU()-used)
		require.NoError(w.t, Err(out))
		left := w.s.Cluster().Sweeps
		if len(left) == 0 {
			return longest, cpu, entries
		}
		actor, body = controller, &fsmpb.ContinueSweep{Index: left[0].Epoch.Index}
	}
}
