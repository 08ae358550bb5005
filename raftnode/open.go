package raftnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/holdfast-storage/holdfast/raftnode/journal"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// rpcTimeout is for one message of Raft; InstallSnapshot has more, by its size.
const rpcTimeout = 10 * time.Second

// Open checks the data folder, sanitises the log and starts the member. It
// refuses to start on any doubt, with an error that names the file and the remedy.
// A member whose folder is empty joins, or founds, in the background; Ready tells when
// it serves.
func Open(ctx context.Context, cfg Config) (*Member, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open the member: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m := &Member{cfg: cfg, process: uuid.NewString(), hub: newHub(), gate: newTermGate(), due: make(chan struct{}, 1), swept: make(chan struct{}, 1), started: make(chan struct{})}
	m.log = cfg.Logger.With("member", cfg.Name)
	m.closing, m.stop = context.WithCancel(context.Background())
	if err := m.openFiles(); err != nil {
		m.stop()
		return nil, errors.Join(fmt.Errorf("open the member in %s: %w", cfg.Dir, err), cfg.Listener.Close())
	}
	if err := m.openRaft(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the member in %s: %w", cfg.Dir, err), m.abandon())
	}
	m.run()
	return m, nil
}

func (m *Member) openFiles() (err error) {
	m.metrics = newMetrics()
	var snapshot decoded
	m.storage, err = m.cfg.openStorage(store.Options{
		Dir: m.cfg.Dir, Kind: m.cfg.LogStore, Hang: m.cfg.DiskHang, SegmentSize: m.cfg.SegmentSize,
		Verify: snapshot.verify, Logger: m.cfg.Logger, OnSync: m.metrics.synced,
		OnFatal: func(what string, err error) { m.fatal(ExitRestart, fmt.Sprintf("the store failed: %s: %v", what, err)) },
		OnHang:  m.hung,
	})
	if err != nil {
		return err
	}
	m.id = m.storage.memberID
	m.journal, err = journal.Open(journal.Options{Dir: m.cfg.journalDir(), RetainBytes: m.cfg.JournalRetain, Logger: m.cfg.Logger})
	if err != nil {
		return errors.Join(err, m.storage.close())
	}
	m.disk = newDiskGuard(&m.cfg, m.log, func() { m.resign("the disk is full") })
	m.machine = newMachine(m.journal, m.events())
	m.machine.decoded, m.machine.apply = snapshot, m.cfg.apply
	m.machine.skips, err = skipsOf(m.storage)
	if err != nil {
		return errors.Join(err, m.journal.Close(), m.storage.close())
	}
	return nil
}

// events connects the machine to the rest of the member.
func (m *Member) events() machineEvents {
	return machineEvents{
		touched:    m.hub.publish,
		everything: m.hub.everything,
		committed:  m.committed,
		cluster:    m.belong,
		configuration: func(c raft.Configuration) {
			m.admitted.Store(slices.ContainsFunc(c.Servers, func(s raft.Server) bool { return string(s.ID) == m.id }))
		},
		diverged: func(index uint64, own, agreed []byte) { go m.quarantine(index, own, agreed) },
		fault:    func(what string) { m.fatal(ExitRestart, what) },
		poisoned: m.poisoned,
		batch:    m.metrics.applied,
		snapshot: m.metrics.snapshot,
	}
}

// belong records which cluster the folder belongs to (S21).
func (m *Member) belong(cluster string) error {
	if m.storage.clusterID() == cluster {
		return nil
	}
	return m.storage.setClusterID(cluster)
}

// committed is called after each batch of entries.
func (m *Member) committed(index, term uint64) {
	m.transport.lines.commit(index, term)
	if m.checkpointDue(index) {
		select {
		case m.due <- struct{}{}:
		default:
		}
	}
	m.sweepStarted()
}

func (m *Member) openRaft() error {
	m.peers = newDialer(m)
	m.mux = newMux(m)
	m.transport = newTransport(m.mux.raft, rpcTimeout, &m.cfg)
	m.transport.stands = m.stands
	m.transport.votes = func() bool { return m.configured() && m.stands() }
	m.groups = newGroups()
	m.transport.lines.busy = func() bool { return m.groups.inflight.Load() > 0 }
	logs := guardedLogs{LogStore: m.storage.logs, refuse: m.disk.refuseWrites}
	snapshots := countedSnapshots{m.storage.snapshots}
	notify := make(chan bool, 16)
	config := m.raftConfig(notify)
	if err := m.bootstrap(config, logs, snapshots); err != nil {
		return err
	}
	var err error
	if m.raft, err = raft.NewRaft(config, m.machine, logs, m.storage.stable, snapshots, m.transport); err != nil {
		return err
	}
	m.machine.start()
	m.groups.raft = m.raft
	m.forwards = newQueue[*forwarded](proposalsAtOnce, largestForward)
	m.start(func(ctx context.Context) { m.groups.run(ctx, m.groups.send) })
	m.start(func(ctx context.Context) { m.forwards.run(ctx, m.sendForwards) })
	m.lead = newLeadership(m.raft, m.id, m.metrics.election)
	m.start(func(ctx context.Context) { m.lead.follow(ctx, notify) })
	return nil
}

func (m *Member) raftConfig(notify chan<- bool) *raft.Config {
	c := raft.DefaultConfig()
	c.ProtocolVersion = raft.ProtocolVersionMax
	c.LocalID = raft.ServerID(m.id)
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = m.cfg.HeartbeatTimeout, m.cfg.ElectionTimeout, m.cfg.LeaseTimeout
	c.MaxAppendEntries, c.BatchApplyCh = largestGroup, true
	c.SnapshotThreshold, c.TrailingLogs, c.SnapshotInterval = m.cfg.SnapshotThreshold, m.cfg.TrailingLogs, m.cfg.SnapshotInterval
	c.ShutdownOnRemove = true
	c.NotifyCh = notify
	c.Logger = newRaftLogger(m.log)
	c.NoLegacyTelemetry = true
	return c
}

// bootstrap makes this member the only one of a new cluster, once in the life of
// a data folder (S142). An empty folder that is to join nobody is refused.
func (m *Member) bootstrap(config *raft.Config, logs raft.LogStore, snapshots raft.SnapshotStore) error {
	known, err := m.storage.hasState()
	switch {
	case err != nil:
		return err
	case known && m.cfg.Bootstrap:
		return m.markFounded()
	case known:
		return nil
	case m.cfg.Bootstrap:
		return m.prepareFounding(func() error {
			return raft.BootstrapCluster(config, logs, m.storage.stable, snapshots, m.transport, m.alone())
		})
	case len(m.cfg.Join) == 0:
		return errors.New("the data folder is empty: name members to join through, or make a new cluster")
	}
	return nil
}

// run starts what serves and what watches.
func (m *Member) run() {
	m.leaderReads = &rounds{ask: m.leaderIndex}
	m.followerReads = &rounds{ask: m.followerIndex}
	m.server = grpc.NewServer(append(serverLimits(),
		grpc.Creds(greeted{}),
		grpc.UnaryInterceptor(m.unaryMeant), grpc.StreamInterceptor(m.streamMeant),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}))...,
	)
	raftpb.RegisterMemberServer(m.server, &service{member: m})
	if m.cfg.Services != nil {
		m.cfg.Services(m.server)
	}
	m.metrics.register(m.cfg.Metrics, m)
	m.mux.serve()
	m.start(func(context.Context) { _ = m.server.Serve(m.mux.grpc) })
	m.start(m.reign)
	m.start(m.belongLoop)
	m.start(m.firstRead)
	m.start(func(ctx context.Context) { every(ctx, time.Second, m.disk.look) })
	close(m.started) // last: who waited may end the member at once
}

// firstRead tells when this member has applied what was committed when it started.
func (m *Member) firstRead(ctx context.Context) {
	for ctx.Err() == nil {
		if err := m.catchUp(ctx); err == nil {
			m.caughtUp.Store(true)
			return
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// abandon closes what openRaft had begun.
func (m *Member) abandon() error {
	m.stop()
	err := errors.Join(m.transport.Close(), m.mux.Close(), m.peers.close())
	m.wg.Wait()
	return errors.Join(err, m.journal.Close(), m.storage.close())
}
