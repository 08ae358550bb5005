package agent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// restore goes back to the log's first n entries, as an operator restores a backup, and adopts the hosts that run.
func (p *pair) restore(n int) {
	p.t.Helper()
	p.restoreLog(n)
	for _, m := range p.hosts {
		if m.e != nil {
			m.adopt()
		}
	}
}

// restoreLog is restore without an operator: the hosts that run are in adoption mode.
func (p *pair) restoreLog(n int) {
	p.t.Helper()
	for _, m := range p.hosts {
		m.disconnect()
	}
	p.mu.Lock()
	state := fsm.New()
	for i, cmd := range p.applied[:n] {
		state.Apply(uint64(i+1), cmd)
	}
	p.state, p.index, p.applied, p.answers = state, uint64(n), p.applied[:n:n], map[string]*fsmpb.Outcome{}
	p.mu.Unlock()
	p.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_ReplaceIncarnation{ReplaceIncarnation: &fsmpb.ReplaceIncarnation{
		Counter: 2, IncarnationId: []byte("fedcba9876543210"),
	}}})
	for _, m := range p.hosts {
		if m.e != nil {
			m.connect()
		}
	}
}

// adopt lets the host act for the restored log.
func (m *member) adopt() {
	m.must("admin/ann", &fsmpb.Command{Body: &fsmpb.Command_AdoptNode{AdoptNode: &fsmpb.AdoptNode{
		NodeId: string(m.node), HostId: string(m.host()), Incarnation: 2,
	}}})
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.connected && !m.hold {
		m.sendAll() // also where nothing that is desired has changed
	}
}

// holdUpdates keeps from the host, until its next session, what the log wants of it.
func (m *member) holdUpdates() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hold = true
}

// startAdopted starts a host after a restore, and adopts it.
func (m *member) startAdopted() {
	m.t.Helper()
	m.start(nil)
	m.adopt()
}

// conversionOnSeed is how long the log is when the host with the content was just asked to convert it.
func (p *pair) conversionOnSeed() int { return p.beforeAttachment(1) }

// beforeAttachment is how long the log is before the first host attached its disk for the nth time.
func (p *pair) beforeAttachment(n uint64) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, cmd := range p.applied {
		if c := cmd.GetAttachReplica(); c.GetAttach() == n && c.GetNodeId() == string(p.hosts[0].node) {
			return i
		}
	}
	p.t.Fatalf("attachment %d was never committed", n)
	return 0
}

// S1, S55: the log was restored to the middle of a conversion that was over, and after which the volume was expanded. That
// conversion is not undone by cutting off what was written since.
func TestS55_ARestoredConversionCutsNothingOff(t *testing.T) {
	p := newSites(t)
	a := p.hosts[0]
	id := p.createBetweenSites()
	n := p.conversionOnSeed()
	p.must("controller/cA", &fsmpb.Command{Site: "A", Body: &fsmpb.Command_ExpandVolume{ExpandVolume: &fsmpb.ExpandVolume{VolumeId: string(id), RequiredBytes: 2 * testSize}}})
	p.eventually("it is expanded", func() bool {
		return a.pool.Content(id).Size > 2*testSize && p.volume(id).OperationOf(fsm.OpExpand) == nil
	})
	a.primaryAt(id)
	a.pool.Write(id, 3*testSize/2, []byte("acknowledged")) // the filesystem was expanded, too
	a.unstage(id)
	p.restore(n)
	p.cancelConversion(id)
	p.waitUpToDate(id)
	require.Nil(t, p.volume(id).Replication.Conversion)
	require.GreaterOrEqual(t, int(a.pool.Content(id).Size), 2*testSize, "the image's size")
}

// writtenAtB is a volume that was converted, and written at site B only, when the log is restored to the middle of its
// conversion, of which an undo is asked for then.
func writtenAtB(t *testing.T) (*pair, fsm.VolumeID) {
	p := newSites(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.createPlain()
	a.primaryAt(id)
	a.endUse(id)
	p.enable(id)
	p.waitUpToDate(id)
	n := p.conversionOnSeed()
	a.primaryAt(id)
	a.write(id, "everywhere")
	a.crash()
	b.promoteByForce(id)
	b.primaryAt(id)
	b.write(id, "at B only")
	b.crash()
	p.restore(n)
	p.cancelConversion(id)
	c := p.volume(id).Replication.Conversion
	require.True(t, c.Restored)
	require.False(t, c.Undoing)
	return p, id
}

// S1, S55, S71: the log was restored to the middle of a conversion that was over, and after which the other site was
// primary: its writes are not overwritten, nor is its replica removed. Both have them once they are connected.
func TestS1_S55_S71_ARestoredConversionOverwritesNothing(t *testing.T) {
	p, id := writtenAtB(t)
	for range 2 {
		err := p.hosts[0].at(&fsmpb.Command{Body: &fsmpb.Command_DisableReplication{DisableReplication: &fsmpb.DisableReplication{Source: sourceOf(id)}}})
		require.Equal(t, fsm.Precondition, reasonOf(err))
	}
	for _, m := range p.hosts {
		m.startAdopted()
	}
	p.waitUpToDate(id)
	for _, m := range p.hosts {
		require.True(t, has(m.replicator.DiskContent(id), "at B only"), "%v", m.replicator.DiskContent(id))
	}
	require.Nil(t, p.volume(id).Replication.Conversion)
}

// S1, S71: the host with the content that was converted is lost then. What the other one has is promoted by a decision.
func TestS1_S71_ARestoredConversionWhoseSeedIsLost(t *testing.T) {
	p, id := writtenAtB(t)
	a, b := p.hosts[0], p.hosts[1]
	p.lose(a)
	b.startAdopted()
	v := p.volume(id)
	require.Nil(t, v.Replication.Conversion)
	require.False(t, v.Condition.Message == "" && !v.Condition.Abnormal && v.ActiveReplica(b.host()).UpToDate, "it is not known to be up to date")
	require.NoError(t, b.at(&fsmpb.Command{Body: &fsmpb.Command_DemoteReplication{DemoteReplication: &fsmpb.DemoteReplication{Source: sourceOf(id)}}}))
	b.promoteByForce(id)
	b.primaryAt(id)
	require.True(t, has(b.replicator.DiskContent(id), "at B only"))
}

// S1, S55: the other host is lost: the conversion is undone, as everywhere.
func TestS1_S55_ARestoredConversionWhoseSecondHostIsLost(t *testing.T) {
	p, id := writtenAtB(t)
	a, b := p.hosts[0], p.hosts[1]
	p.lose(b)
	a.startAdopted()
	p.cancelConversion(id)
	p.eventually("it is plain", func() bool { return p.volume(id).Replication == nil })
	require.True(t, has(a.replicator.DiskContent(id), "everywhere"))
}

// S1, S55: the log was restored to the middle of a conversion that was undone later. The host that has the content says so,
// and it is converted after all.
func TestS1_S55_ARestoredConversionThatWasUndone(t *testing.T) {
	p := newSites(t)
	id := p.createPlain()
	before := p.hosts[0].pool.Content(id).Bytes()
	p.hosts[1].holdUpdates()
	p.enable(id)
	n := p.logLength()
	require.True(t, p.cancelConversion(id))
	require.Nil(t, p.volume(id).Replication)
	p.restore(n)
	p.waitUpToDate(id)
	require.Nil(t, p.volume(id).Replication.Conversion)
	require.Equal(t, before, p.hosts[0].pool.Content(id).Bytes()[:len(before)])
}

// S1, S71: what is left of a conversion that was undone is not removed after a restore: the volume may have been converted
// once more since, and the other host may have the newest content. It is an orphan.
func TestS1_S71_TheRestOfAConversionIsNotRemovedAfterARestore(t *testing.T) {
	p := newSites(t)
	a, b := p.hosts[0], p.hosts[1]
	id := p.createPlain()
	a.holdUpdates()
	p.enable(id)
	p.eventually("the second replica is made", func() bool { return p.volume(id).PeerReplica(a.host()).State == fsm.ReplicaPresent })
	b.crash()
	require.True(t, p.cancelConversion(id))
	a.disconnect()
	a.connect()
	p.eventually("what was made is to be removed", func() bool { return p.volume(id).Unconverted != nil })
	n := p.logLength()
	b.start(nil)
	p.eventually("it is removed", func() bool { return b.pool.Images() == 0 && p.volume(id).Unconverted == nil })
	p.enable(id)
	p.waitUpToDate(id)
	b.crash()
	p.restore(n)
	require.Nil(t, p.volume(id).Unconverted)
	b.startAdopted()
	p.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_DeleteVolume{DeleteVolume: &fsmpb.DeleteVolume{VolumeId: string(id)}}})
	p.eventually("it is removed from the host that the log knows", func() bool { return a.pool.Images() == 0 })
	require.Equal(t, 1, b.pool.Images(), "the other host's is an orphan")
}
