package agent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// restore goes back to the log's first n entries, as an operator restores a backup, and adopts the hosts.
func (p *pair) restore(n int) {
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
		m.connect()
		p.must("admin/ann", &fsmpb.Command{Body: &fsmpb.Command_AdoptNode{AdoptNode: &fsmpb.AdoptNode{
			NodeId: string(m.node), HostId: string(m.host()), Incarnation: 2,
		}}})
	}
}

// conversionOnSeed is how long the log is when the host with the content was just asked to convert it.
func (p *pair) conversionOnSeed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, cmd := range p.applied {
		if c := cmd.GetAttachReplica(); c != nil && c.GetNodeId() == string(p.hosts[0].node) {
			return i
		}
	}
	p.t.Fatal("there was no conversion")
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
	require.NotNil(t, p.volume(id).Replication.Conversion)
	p.cancelConversion(id)
	p.eventually("it is plain", func() bool { return p.volume(id).Replication == nil })
	require.GreaterOrEqual(t, int(a.pool.Content(id).Size), 2*testSize, "the image's size")
}
