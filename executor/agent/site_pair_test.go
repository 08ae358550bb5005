package agent_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// newStoppedSites is a pair whose hosts are at two sites, A and B.
func newStoppedSites(t testing.TB) *pair {
	p := newStoppedPair(t)
	for i, m := range p.hosts {
		m.configure = func(c *agent.Config) { c.Site = siteOf(i) }
		p.must(m.endpoint(), &fsmpb.Command{Body: &fsmpb.Command_RegisterMember{RegisterMember: &fsmpb.RegisterMember{Name: "c" + siteOf(i), MemberId: "member-" + siteOf(i), Site: siteOf(i)}}})
	}
	return p
}

func newSites(t testing.TB) *pair {
	p := newStoppedSites(t)
	for _, m := range p.hosts {
		m.start(nil)
	}
	return p
}

func siteOf(i int) string { return []string{"A", "B"}[i] }

// endpoint is the controller at the member's site.
func (m *member) endpoint() string { return "controller/c" + siteOf(m.i) }

// at has a command applied that came in at a host's site.
func (m *member) at(cmd *fsmpb.Command) error {
	cmd.Site = siteOf(m.i)
	_, err := m.try(m.endpoint(), cmd)
	return err
}

func sourceOf(id fsm.VolumeID) *fsmpb.ReplicationSource {
	return &fsmpb.ReplicationSource{VolumeId: string(id)}
}

// createPlain makes a volume that is not replicated, at the first host, with a content.
func (p *pair) createPlain() fsm.VolumeID {
	p.t.Helper()
	id := backendtest.NewID()
	require.NoError(p.t, p.hosts[0].at(&fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: string(id), Name: "pvc-" + string(id), Fingerprint: []byte("parameters"), RequiredBytes: testSize,
		Capabilities: []*fsmpb.Capability{proto(mountCap), proto(blockCap)}, Encrypted: p.encrypted,
	}}}))
	p.eventually("the plain volume is ready", func() bool { return p.isReady(id) })
	pool := p.hosts[0].pool
	size := pool.Content(id).Size
	pool.Write(id, 0, []byte("begins"))
	pool.Write(id, size/2, []byte("goes on"))
	pool.Write(id, size-5, []byte("ends."))
	return id
}

// enable replicates the volume to the second host's site; the first one's is primary. Asked twice.
func (p *pair) enable(id fsm.VolumeID, change ...func(*fsmpb.EnableReplication)) {
	p.t.Helper()
	for range 2 {
		c := &fsmpb.EnableReplication{Source: sourceOf(id), PeerSite: siteOf(1)}
		for _, f := range change {
			f(c)
		}
		require.NoError(p.t, p.hosts[0].at(&fsmpb.Command{Body: &fsmpb.Command_EnableReplication{EnableReplication: c}}))
	}
}

// createBetweenSites is a volume that is replicated between the two sites, and up to date at both.
func (p *pair) createBetweenSites(change ...func(*fsmpb.EnableReplication)) fsm.VolumeID {
	p.t.Helper()
	id := p.createPlain()
	p.enable(id, change...)
	p.waitUpToDate(id)
	return id
}

// promoteByForce promotes the member's site, which may lack writes.
func (m *member) promoteByForce(id fsm.VolumeID) {
	m.t.Helper()
	m.eventually("site "+siteOf(m.i)+" is promoted by force", func() bool {
		m.lastErr = m.at(&fsmpb.Command{Body: &fsmpb.Command_PromoteReplication{PromoteReplication: &fsmpb.PromoteReplication{Source: sourceOf(id), Force: true}}})
		return m.lastErr == nil
	})
}

// resync lets the member's site take part again, and gives up what it has. Asked twice.
func (m *member) resync(id fsm.VolumeID, unkept bool) {
	m.t.Helper()
	for range 2 {
		require.NoError(m.t, m.at(&fsmpb.Command{Body: &fsmpb.Command_ResyncReplication{ResyncReplication: &fsmpb.ResyncReplication{Source: sourceOf(id), Force: true, DiscardUnkept: unkept}}}))
	}
}

// publishAt is publish through the member's site.
func (m *member) publishAt(id fsm.VolumeID) fsm.Epoch {
	m.t.Helper()
	var epoch fsm.Epoch
	m.eventually("the volume is published to "+string(m.node), func() bool {
		out, err := m.try(m.endpoint(), &fsmpb.Command{Site: siteOf(m.i), Body: &fsmpb.Command_PublishVolume{PublishVolume: &fsmpb.PublishVolume{
			VolumeId: string(id), NodeId: string(m.node), Capability: proto(mountCap),
		}}})
		m.lastErr = err
		epoch = fsm.Epoch{Incarnation: out.GetEpoch().GetIncarnation(), Index: out.GetEpoch().GetIndex()}
		return err == nil
	})
	return epoch
}

// primaryAt publishes to the member and stages there: it is primary.
func (m *member) primaryAt(id fsm.VolumeID) {
	m.t.Helper()
	m.stage(id, m.publishAt(id))
}

var errNoCut = errors.New("the pool cuts nothing")
