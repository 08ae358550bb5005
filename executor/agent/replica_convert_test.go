package agent_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// cancelConversion is the leader's. Asked twice. It returns false where the conversion was done before.
func (p *pair) cancelConversion(id fsm.VolumeID) bool {
	p.t.Helper()
	r := p.volume(id).Replication
	if r.Conversion == nil {
		return false
	}
	for range 2 {
		p.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_CancelConversion{CancelConversion: &fsmpb.CancelConversion{VolumeId: string(id), Began: r.Conversion.Began}}})
	}
	r = p.volume(id).Replication
	return r == nil || r.Conversion != nil
}

// requirePlain waits until the conversion was undone, and requires that the image is what it was.
func (p *pair) requirePlain(id fsm.VolumeID, before []byte) {
	p.t.Helper()
	a, b := p.hosts[0], p.hosts[1]
	p.eventually("the conversion is undone", func() bool {
		v := p.volume(id)
		return v.Replication == nil && v.Unconverted == nil && b.pool.Images() == 0
	})
	require.Equal(p.t, before, a.pool.Content(id).Bytes())
	for _, m := range p.hosts {
		known, err := m.replicator.ListResources(p.t.Context())
		require.NoError(p.t, err)
		require.Empty(p.t, known)
	}
	a.stage(id, a.publishAt(id))
	a.unstage(id)
}

// S55: a plain volume is converted where it is: its content is copied to the other site, and is never written.
func TestS55_APlainVolumeIsConverted(t *testing.T) {
	p := newSites(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.createPlain()
	before := a.pool.Content(id).Bytes()
	p.enable(id)
	p.waitUpToDate(id)
	require.Nil(t, p.volume(id).Replication.Conversion)
	require.Zero(t, a.replicator.Steps("invalidate"), "the content is not a target")
	require.NotZero(t, b.replicator.Steps("invalidate")) // again where the first copy ended before the log knew that it began
	after := a.pool.Content(id)
	require.Equal(t, before, after.ReadAt(0, int64(len(before))))
	require.Equal(t, a.replicator.BackingSize(testSize), after.Size)
	a.primaryAt(id)
	a.write(id, "replicated")
	require.True(t, has(b.replicator.DiskContent(id), "replicated"))
	require.Zero(t, p.link.SplitBrains())
}

// S55: a conversion that is undone leaves the volume byte for byte and in size what it was, and usable; and may be begun again.
func TestS55_AnUndoneConversionLeavesThePlainVolume(t *testing.T) {
	p := newSites(t)
	a := p.hosts[0]
	id := p.createPlain()
	before := a.pool.Content(id).Bytes()
	for range 2 {
		attached := a.replicator.Steps("attach")
		p.link.SetDisconnected(true)
		p.enable(id)
		p.eventually("its disk is attached", func() bool { return a.replicator.Steps("attach") > attached })
		p.cancelConversion(id)
		p.requirePlain(id, before)
		before = a.pool.Content(id).Bytes() // it was staged
		p.eventually("it is not published", func() bool {
			_ = a.at(&fsmpb.Command{Body: &fsmpb.Command_UnpublishVolume{UnpublishVolume: &fsmpb.UnpublishVolume{VolumeId: string(id), NodeId: string(a.node)}}})
			return p.volume(id).Publication(a.node) == nil
		})
	}
	p.link.SetDisconnected(false)
	p.enable(id)
	p.waitUpToDate(id)
	require.Zero(t, a.replicator.Steps("invalidate"))
}

// S55: an encrypted volume has its LUKS header before the content: both stay as they are.
func TestS55_AnEncryptedVolumeIsConverted(t *testing.T) {
	for name, undo := range map[string]bool{"and stays so": false, "and that is undone": true} {
		t.Run(name, func(t *testing.T) {
			p := newStoppedSites(t)
			encryptors := encrypt(p)
			a := p.hosts[0]
			id := p.createPlain()
			before := a.pool.Content(id).Bytes()
			require.Len(t, before, testSize+executor.LUKSHeaderBytes)
			p.link.SetDisconnected(undo)
			p.enable(id)
			if undo {
				p.eventually("its disk is attached", func() bool { return a.replicator.Steps("attach") > 0 })
				p.cancelConversion(id)
				p.eventually("it is plain again", func() bool { return p.volume(id).Replication == nil })
				require.Equal(t, before, a.pool.Content(id).Bytes())
				return
			}
			p.waitUpToDate(id)
			require.Equal(t, before, a.pool.Content(id).ReadAt(0, int64(len(before))))
			require.GreaterOrEqual(t, a.replicator.BackingCapacity(a.pool.Content(id).Size), int64(testSize+executor.LUKSHeaderBytes))
			require.Zero(t, encryptors[1].count("format"))
		})
	}
}

// conversionPoints are the points that a conversion and its undo pass on the host with the content.
func conversionPoints() (all []string) {
	for _, point := range slices.Concat(agent.ReplicaFaultPoints, agent.SiteFaultPoints) {
		for _, step := range []string{
			"begin-conversion.", "extend-below.", "open-below.", "close-below.", "configure.", "create-metadata.", "propose-attach.", "attach-disk.",
			"connect.", "new-uuid.", "disconnect.", "down.", "forget-resource.", "shrink-below.", "forget-replica.",
		} {
			if strings.HasPrefix(point, step) {
				all = append(all, point)
			}
		}
	}
	return append(all, "save-record.before", "save-record.after", "report.before", "report.after")
}

// S55: killed, or with its host's power lost, between any two steps of a conversion and of its undo, the content is what it
// was, and the volume ends as it was asked for.
func TestS55_ACrashAtEveryPointOfAConversion(t *testing.T) {
	t.Parallel()
	for _, point := range conversionPoints() {
		for name, reboots := range map[string]bool{"process": false, "power": true} {
			for done, undo := range map[string]bool{"converted": false, "undone": true} {
				t.Run(point+" "+name+" "+done, func(t *testing.T) {
					t.Parallel()
					crashConversion(t, point, reboots, undo)
				})
			}
		}
	}
}

func crashConversion(t *testing.T, point string, reboots, undo bool) {
	p := newSites(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.createPlain()
	before := a.pool.Content(id).Bytes()
	a.mu.Lock()
	a.connected = false
	a.mu.Unlock()
	require.NoError(t, a.e.Shutdown(t.Context()))
	a.rebootOnStop = reboots
	a.start(stopAt(point, 0))
	p.link.SetDisconnected(undo && !strings.HasPrefix(point, "new-uuid.") && !strings.HasPrefix(point, "disconnect."))
	p.enable(id)
	if !undo {
		p.waitUpToDate(id)
		require.Equal(t, before, a.pool.Content(id).ReadAt(0, int64(len(before))))
		require.Zero(t, a.replicator.Steps("invalidate"))
		require.NotZero(t, b.replicator.Steps("invalidate"))
		return
	}
	p.eventually("the conversion came to the content", func() bool {
		c := p.volume(id).Replication.Conversion
		return c == nil || c.OnSeed
	})
	if p.cancelConversion(id) {
		p.requirePlain(id, before)
	}
}

// S55: what keeps a conversion from going on is in its operation, where the leader sees it.
func TestS55_AConversionWithoutRoomSaysSo(t *testing.T) {
	p := newSites(t)
	a := p.hosts[0]
	id := p.createPlain()
	before := a.pool.Content(id).Bytes()
	a.pool.SetFail(func(effect string, _ fsm.VolumeID) error {
		if effect == "grow" {
			return syscall.ENOSPC
		}
		return nil
	})
	p.enable(id)
	p.eventually("its operation failed", func() bool {
		op := p.volume(id).OperationOf(fsm.OpReplicaChange)
		return op != nil && op.State == fsm.OpFailed && strings.Contains(op.LastError, "no space left")
	})
	p.cancelConversion(id)
	p.requirePlain(id, before)
}
