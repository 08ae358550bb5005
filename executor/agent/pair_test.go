package agent_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// pairTimeout bounds each wait for a pair.
const pairTimeout = time.Minute

// maxRefused is how many proposals may be refused in a test before it counts as a loop.
const maxRefused = 1000

// pair is two hosts that replicate to each other, and the real state machine behind an
// in-memory log.
type pair struct {
	stageKeys []executor.Passphrase // that are tried before the right ones
	t         testing.TB
	link      *backendtest.FakeLink
	hosts     [2]*member

	mu      sync.Mutex
	state   *fsm.State
	index   uint64
	down    bool
	answers map[string]*fsmpb.Outcome
	applied []*fsmpb.Command
	refused int // proposals that were refused at once, without a log

	encrypted bool // volumes are created encrypted
}

// member is one of the two hosts.
type member struct {
	*pair
	i           int
	node        fsm.NodeID
	dir         string
	pool        *backendtest.FakeBackend
	mounter     *fakeMounter
	freezer     *fakeFreezer
	replicator  *backendtest.FakeReplicator
	boots       int
	e           *agent.Agent
	faults      *stopAtPoint
	connected   bool  // it reaches the controllers; guarded by mu
	loseAnswers bool  // proposals are applied, but the answers are lost; guarded by mu
	lastErr     error // of a call
	configure   func(*agent.Config)
	// answer may answer a command of the host in place of the log; nil: the log does.
	answer func(*fsmpb.Command) *fsmpb.Outcome
	// rebootOnStop: a process that stopped at a point went with its host's power.
	rebootOnStop bool
	// beforeAnswer is called when a command of the host is decided, before it has its answer.
	beforeAnswer func(*fsmpb.Command)
	// hold: updates are on their way until the next session. beforeKeep is called before a KeepReplica is applied. Guarded by mu.
	hold       bool
	beforeKeep func()
}

type poolOf struct {
	*backendtest.FakeBackend
	node       fsm.NodeID
	replicator *backendtest.FakeReplicator
}

// TakeSnapshot takes the metadata of DRBD, too.
func (p poolOf) TakeSnapshot(ctx context.Context, source fsm.VolumeID, id fsm.SnapshotID, progress executor.Progress) error {
	if have, err := p.ObserveSnapshot(ctx, id); err == nil && have.Exists {
		return p.FakeBackend.TakeSnapshot(ctx, source, id, progress)
	}
	err := p.FakeBackend.TakeSnapshot(ctx, source, id, progress)
	if err == nil {
		p.replicator.SaveDisk(source, id)
	}
	return err
}

// Revert reverts the metadata of DRBD, too.
func (p poolOf) Revert(ctx context.Context, id fsm.VolumeID, to fsm.SnapshotID) error {
	err := p.FakeBackend.Revert(ctx, id, to)
	if err == nil {
		p.replicator.RevertDisk(id, to)
	}
	return err
}

func (p poolOf) ID() fsm.PoolID { return fsm.PoolID("hp-" + string(p.node)) }

func newPair(t testing.TB) *pair {
	p := newStoppedPair(t)
	for _, m := range p.hosts {
		m.start(nil)
	}
	return p
}

func newStoppedPair(t testing.TB) *pair { return newStoppedPairAt(t, fsm.MaxFeatureLevel) }

func newStoppedPairAt(t testing.TB, level uint32) *pair {
	p := &pair{t: t, link: backendtest.NewFakeLink(), state: fsm.New(), answers: map[string]*fsmpb.Outcome{}}
	p.must("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{
		ClusterId: "test", IncarnationId: []byte("0123456789abcdef"), FeatureLevel: level,
	}}})
	for i := range p.hosts {
		pool := backendtest.NewFakeBackend()
		m := &member{pair: p, i: i, node: fsm.NodeID(fmt.Sprint("n", i+1)), dir: memoryDir(t) + "/data", pool: pool, mounter: newFakeMounter(pool), freezer: newFakeFreezer(), replicator: p.link.Side(i)}
		m.mounter.replicas = m.replicator
		p.hosts[i] = m
	}
	p.hosts[0].mounter.peer, p.hosts[1].mounter.peer = p.hosts[1].mounter, p.hosts[0].mounter
	return p
}

// Propose is the host's Proposer.
func (m *member) Propose(_ context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pair.down || !m.connected {
		if m.refused++; m.refused > maxRefused { // a loop: without a pause the clock of a bubble stands still
			m.mu.Unlock()
			time.Sleep(time.Second)
			m.mu.Lock()
		}
		return nil, noQuorum{}
	}
	if m.answer != nil {
		if out := m.answer(cmd); out != nil {
			return out, nil
		}
	}
	if cmd.GetKeepReplica() != nil && m.beforeKeep != nil {
		m.beforeKeep()
	}
	out := m.apply("node/"+string(m.node), cmd)
	if m.beforeAnswer != nil {
		m.mu.Unlock()
		m.beforeAnswer(cmd)
		m.mu.Lock()
	}
	if m.loseAnswers {
		return nil, noQuorum{}
	}
	return out, fsm.Err(out)
}

// apply applies a command once for each request id, and updates the hosts. The caller holds mu.
func (p *pair) apply(actor string, cmd *fsmpb.Command) *fsmpb.Outcome {
	if len(cmd.GetRequestId()) == 0 {
		cmd.RequestId = make([]byte, 16)
		_, _ = rand.Read(cmd.RequestId)
	}
	if out, again := p.answers[string(cmd.RequestId)]; again {
		return out
	}
	cmd.Actor, cmd.SchemaVersion, cmd.ProposedIndex, cmd.ProposedAt = actor, fsm.LeastLevel(cmd), p.index, time.Now().UnixNano()
	p.index++
	p.applied = append(p.applied, cmd)
	result := p.state.Apply(p.index, cmd)
	if err := p.state.Check(); err != nil {
		p.t.Errorf("after %v: %v", cmd, err)
	}
	p.answers[string(cmd.RequestId)] = result.Outcome
	for _, m := range p.hosts {
		if m != nil && m.e != nil && m.connected {
			m.sendTouched(result.Changes)
		}
	}
	return result.Outcome
}

func (m *member) update() executor.Update {
	n, _ := m.state.Node(m.node)
	c := m.state.Cluster()
	return executor.Update{At: fsm.Epoch{Incarnation: c.Incarnation, Index: m.index}, FeatureLevel: c.FeatureLevel, Adopted: n.Incarnation == c.Incarnation, IncarnationID: c.IncarnationID}
}

func (m *member) sendTouched(touched []fsm.Change) {
	u := m.update()
	for _, touch := range touched {
		switch {
		case touch.Node != m.node:
			continue
		case touch.Snapshot != "":
			if d, ok := m.state.DesiredSnapshot(m.node, touch.Snapshot); ok {
				u.Snapshots = append(u.Snapshots, d)
			} else {
				u.SnapshotsGone = append(u.SnapshotsGone, touch.Snapshot)
			}
		}
		if touch.Volume == "" {
			continue
		}
		if d, ok := m.state.DesiredVolume(m.node, touch.Volume); ok {
			u.Volumes = append(u.Volumes, d)
		} else {
			u.VolumesGone = append(u.VolumesGone, touch.Volume)
		}
	}
	if !m.hold && len(u.Volumes)+len(u.VolumesGone)+len(u.Snapshots)+len(u.SnapshotsGone) > 0 {
		m.e.Update(u)
	}
}

// start starts the node process, on the same kernel and data directory.
func (m *member) start(faults *stopAtPoint) {
	m.t.Helper()
	m.startProcess(faults)
	m.connect()
}

// startIsolated starts the node process without a session.
func (m *member) startIsolated() {
	m.t.Helper()
	m.startProcess(nil)
}

func (m *member) startProcess(faults *stopAtPoint) {
	m.t.Helper()
	if m.faults != nil && m.faults.isStopped() {
		m.faults.awaitEffects(m.t)
	}
	host, err := records.OpenHost(m.dir)
	require.NoError(m.t, err)
	host.BootID = fmt.Sprint(m.node, "-boot-", m.boots)
	cfg := agent.Config{HandlerGrace: time.Millisecond,
		Node: m.node, Host: host, Pools: []executor.Backend{poolOf{m.pool, m.node, m.replicator}}, Mounter: m.mounter, FilesystemTools: m.mounter, Freezer: m.freezer, Proposer: m,
		CatchUpTimeout: 300 * time.Millisecond, FeatureLevel: fsm.MaxFeatureLevel, OvercommitPercent: 2000, Logger: testLogger(m.t).With("node", m.node),
		Replicator: m.replicator, ReplicationAddress: fmt.Sprint("10.0.0.", m.i+1), PublicKey: bytes.Repeat([]byte{byte(m.i + 1)}, 32),
		DeriveSecret: func(peer []byte, id fsm.VolumeID) (string, error) { return "secret of " + string(id), nil },
	}
	if faults != nil {
		cfg.Faults = faults
	}
	if m.configure != nil {
		m.configure(&cfg)
	}
	e, err := agent.New(cfg)
	require.NoError(m.t, err)
	m.mu.Lock()
	m.faults = faults // a handler of the former process may look
	m.mu.Unlock()
	m.t.Cleanup(func() {
		if faults != nil && faults.isStopped() {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = e.Shutdown(ctx)
	})
	e.Start()
	m.mu.Lock()
	m.e = e
	m.mu.Unlock()
	m.replicator.SetHandler(m.fencePeer)
}

// fencePeer is the kernel's handler, which dies with a process that was killed.
func (m *member) fencePeer(ctx context.Context, id fsm.VolumeID) (fsmpb.Verdict, error) {
	m.mu.Lock()
	e, f := m.e, m.faults
	m.mu.Unlock()
	if e == nil || f != nil && f.isStopped() {
		return 0, errors.New("nobody answers")
	}
	return e.FencePeer(ctx, id)
}

// connect begins a session.
func (m *member) connect() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.connected, m.hold, m.beforeKeep = true, false, nil
	out := m.apply("node/"+string(m.node), &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: m.registration()}})
	require.NoError(m.t, fsm.Err(out))
	m.setReachable(true)
	m.sendAll()
}

// sendAll sends all that is desired, as a session begins, and once more when its host was adopted. The caller holds mu.
func (m *member) sendAll() {
	u := m.update()
	u.Full = true
	for d := range m.state.DesiredVolumes(m.node) {
		u.Volumes = append(u.Volumes, d)
	}
	for d := range m.state.DesiredSnapshots(m.node) {
		u.Snapshots = append(u.Snapshots, d)
	}
	m.e.Update(u)
}

func (m *member) setReachable(yes bool) {
	n, _ := m.state.Node(m.node)
	m.apply("controller/c1", &fsmpb.Command{Body: &fsmpb.Command_SetNodeReachable{SetNodeReachable: &fsmpb.SetNodeReachable{
		NodeId: string(m.node), HostId: string(n.Host), Reachable: yes,
	}}})
}

// disconnect ends the session, and the controllers notice.
func (m *member) disconnect() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.connected = false
	m.setReachable(false)
}

// crash is the loss of the host's power; the controllers notice.
func (m *member) crash() {
	m.mu.Lock()
	e := m.e
	m.e, m.connected = nil, false
	m.mu.Unlock()
	m.replicator.PowerLoss()
	ctx, cancel := context.WithTimeout(context.Background(), pairTimeout) // the next process must not meet this one
	defer cancel()
	_ = e.Shutdown(ctx)
	m.pool.Reboot()
	m.mounter.reboot()
	m.boots++
	m.mu.Lock()
	m.setReachable(false)
	m.mu.Unlock()
}

// losePower is what happens to a host on which a process stopped at a point, where the test says so.
func (m *member) losePower() {
	if !m.rebootOnStop {
		return
	}
	m.faults.awaitEffects(m.t)
	m.replicator.PowerLoss()
	m.pool.Reboot()
	m.mounter.reboot()
	m.boots++
}

func (p *pair) must(actor string, cmd *fsmpb.Command) *fsmpb.Outcome {
	p.t.Helper()
	out, err := p.try(actor, cmd)
	require.NoError(p.t, err)
	return out
}

func (p *pair) try(actor string, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.apply(actor, cmd)
	return out, fsm.Err(out)
}

func (p *pair) volume(id fsm.VolumeID) *fsm.Volume {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, _ := p.state.Volume(id)
	return v
}

func (p *pair) eventually(what string, ok func() bool) {
	p.t.Helper()
	deadline := time.Now().Add(pairTimeout)
	for !ok() {
		for _, m := range p.hosts {
			if m.faults != nil && m.faults.isStopped() { // systemd starts it again
				m.losePower()
				m.start(nil)
			}
		}
		if time.Now().After(deadline) {
			for _, m := range p.hosts {
				p.t.Logf("%s was answered: %v", m.node, m.lastErr)
				p.mu.Lock()
				for d := range p.state.DesiredVolumes(m.node) {
					p.t.Logf("%s: %+v\n  publication %+v teardown %+v replication %+v", m.node, d, d.Publication, d.Teardown, d.Replication)
					if v, ok := p.state.Volume(d.Volume); ok {
						p.t.Logf("its operations: %+v", v.Operations())
					}
				}
				p.mu.Unlock()
			}
			require.Fail(p.t, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
