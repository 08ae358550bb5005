package agent_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	contentText  = "the last that the volume holds"
	metadataText = "what DRBD keeps behind that"
)

// fill gives the backing devices of a replicated volume content up to the volume's end, and
// metadata behind that.
func (p *pair) fill(id fsm.VolumeID) {
	for _, m := range p.hosts {
		m.pool.Write(id, int64(testSize-len(contentText)), []byte(contentText))
		m.pool.Write(id, testSize, []byte(metadataText))
	}
}

// copyOf makes a volume with a source's content, and waits for it.
func (p *pair) copyOf(source fsm.Source, size int64, replicas uint32) fsm.VolumeID {
	p.t.Helper()
	id := backendtest.NewID()
	var last error
	defer func() {
		if p.t.Failed() {
			p.t.Logf("the copy was answered: %v", last)
		}
	}()
	p.eventually("a copy is begun", func() bool { // its source's host may just be restarting
		_, last = p.try("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
			VolumeId: string(id), Name: string(id), RequiredBytes: size, LimitBytes: size, Capabilities: []*fsmpb.Capability{proto(mountCap)},
			Source: &fsmpb.Source{SnapshotId: string(source.Snapshot), VolumeId: string(source.Volume)}, Replicas: replicas,
		}}})
		return last == nil
	})
	p.eventually("the copy is ready", func() bool { return p.isReady(id) })
	return id
}

// requireContentOnly: on each host that has it, the volume has its source's content, and zeros
// behind it.
func (p *pair) requireContentOnly(id fsm.VolumeID, size int64) {
	p.t.Helper()
	const length = int64(len(contentText))
	found := 0
	for _, m := range p.hosts {
		got := m.pool.Content(id)
		if !got.Contains(contentText) {
			continue // the fake kernel's copy to the other replica is not in its pool
		}
		found++
		require.GreaterOrEqual(p.t, got.Size, size)
		require.Equal(p.t, contentText, string(got.ReadAt(testSize-length, length)))
		require.True(p.t, got.ZeroFrom(testSize), "nothing is behind the content")
	}
	require.Positive(p.t, found)
}

// checkLocalCopies makes local volumes, as large as their source, from all sources that a
// replicated volume offers, and expands them.
func (p *pair) checkLocalCopies(id fsm.VolumeID, kept fsm.SnapshotID) {
	p.t.Helper()
	var taken fsm.SnapshotID
	p.eventually("a snapshot is begun", func() bool {
		taken = backendtest.NewSnapshotID()
		_, err := p.try("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_CreateSnapshot{CreateSnapshot: &fsmpb.CreateSnapshot{
			SnapshotId: string(taken), Name: string(taken), SourceVolumeId: string(id),
		}}})
		return err == nil
	})
	p.eventually("the snapshot is cut", func() bool { on := p.snapshotHost(taken); return on != "" && on != "being cut" })
	copies := []fsm.VolumeID{
		p.copyOf(fsm.Source{Snapshot: taken}, testSize, 1),
		p.copyOf(fsm.Source{Snapshot: kept}, testSize, 1),
		p.copyOf(fsm.Source{Volume: id}, testSize, 1),
	}
	for _, local := range copies {
		v := p.volume(local)
		require.EqualValues(p.t, testSize, v.Size)
		require.Len(p.t, v.Replicas, 1)
		p.requireContentOnly(local, testSize)
		p.eventually("it may grow", func() bool {
			_, err := p.try("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_ExpandVolume{ExpandVolume: &fsmpb.ExpandVolume{
				VolumeId: string(local), RequiredBytes: 2 * testSize,
			}}})
			return err == nil
		})
		p.eventually("it has grown", func() bool { v := p.volume(local); return v.Operation == nil && v.Size == 2*testSize })
		p.requireContentOnly(local, 2*testSize)
	}
	p.removeCopies(copies...)
	p.must("admin/ann", &fsmpb.Command{Body: &fsmpb.Command_DeleteSnapshot{DeleteSnapshot: &fsmpb.DeleteSnapshot{SnapshotId: string(taken)}}})
	p.eventually("the snapshot is gone", func() bool { return p.snapshotHost(taken) == "" })
}

// removeCopies deletes volumes, but not the one that they were made from.
func (p *pair) removeCopies(all ...fsm.VolumeID) {
	p.t.Helper()
	for _, id := range all {
		p.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_DeleteVolume{DeleteVolume: &fsmpb.DeleteVolume{VolumeId: string(id)}}})
		p.eventually("the copy is gone", func() bool { return p.volume(id) == nil })
	}
}

// withKeptCopy is a filled replicated volume of whose data the first host has a kept copy; that
// host is down.
func (p *pair) withKeptCopy() (id fsm.VolumeID) {
	id = p.create(protocolC)
	p.fill(id)
	p.failOver(id, p.hosts[0], p.hosts[1], "first")
	return id
}

func TestALocalVolumeIsAsLargeAsTheReplicatedOneThatItIsMadeOf(t *testing.T) {
	p := newPair(t)
	id := p.withKeptCopy()
	p.hosts[0].start(nil)
	p.waitUpToDate(id)
	p.stopUsing(id, p.hosts[1])
	kept := p.keptCopies()[0].ID
	p.checkLocalCopies(id, kept)
	for _, size := range []int64{testSize, 2 * testSize} {
		for _, source := range []fsm.Source{{Snapshot: kept}, {Volume: id}} {
			replicated := p.copyOf(source, size, 2)
			p.requireContentOnly(replicated, size)
			p.removeCopies(replicated)
		}
	}
	p.remove(id)
}

// Killed at every step, on either host; in the short form for the first time only.
func TestACrashAtEveryPointOfALocalCopyOfAReplicatedVolume(t *testing.T) {
	t.Parallel()
	for _, point := range agent.FaultPoints {
		if !isSnapshotPoint(point) && !strings.HasPrefix(point, "remove.") {
			continue
		}
		for i := range 2 {
			t.Run(fmt.Sprint("n", i+1, " ", point), func(t *testing.T) {
				t.Parallel()
				for skip := range inShort(1, 3) {
					p := newStoppedPair(t)
					p.hosts[0].start(nil)
					f := stopAt(point, skip)
					faults := []*stopAtPoint{nil, nil}
					faults[i] = f
					p.hosts[1].start(faults[1])
					id := p.withKeptCopy()
					p.hosts[0].start(faults[0])
					p.waitUpToDate(id)
					p.stopUsing(id, p.hosts[1])
					p.checkLocalCopies(id, p.keptCopies()[0].ID)
					p.remove(id)
					if !f.isStopped() {
						require.True(t, skip > 0 || i > 0 || !strings.HasPrefix(point, "create-from."), "the host that keeps a copy makes a volume of it")
						break // it is not passed that often
					}
				}
			})
		}
	}
}
