package raftnode

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/holdfast-storage/holdfast/raftnode/access"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// raftRPCTimeout is for one message of Raft; InstallSnapshot has more, by its size.
const raftRPCTimeout = 10 * time.Second

// Open checks the data directory, sanitises the log and starts the member. It refuses to
// start on any doubt, with an error that names the file and the remedy. A member whose
// directory is empty joins or bootstraps in the background; Ready tells when it serves.
func Open(ctx context.Context, cfg Config) (*Member, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open the member: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m := newMember(cfg)
	if err := m.openFiles(); err != nil {
		m.cancel()
		return nil, errors.Join(fmt.Errorf("open the member in %s: %w", cfg.Dir, err), cfg.Listener.Close())
	}
	if err := m.openRaft(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the member in %s: %w", cfg.Dir, err), m.closePartial())
	}
	m.serve()
	return m, nil
}

// newMember makes every part of a member before one of them runs: raft calls the machine
// and the transport's hooks already while it starts.
func newMember(cfg Config) *Member {
	m := &Member{core: newCore(cfg), watches: newWatchHub()}
	m.joiner = &joiner{core: m.core, bootstrapper: &bootstrapper{core: m.core}}
	m.retrier = &retrier{core: m.core, checkAdmitted: m.joiner.checkAdmitted}
	m.reader = &reader{core: m.core, retrier: m.retrier, readGate: newTermGate()}
	m.membership = &membership{core: m.core, retrier: m.retrier, change: newWaitMutex()}
	m.checkpoints = &checkpoints{core: m.core, signal: make(chan struct{}, 1)}
	m.leader = &leader{core: m.core, reader: m.reader, membership: m.membership, checkpoints: m.checkpoints, sweepSignal: make(chan struct{}, 1)}
	m.proposer = &proposer{
		core: m.core, retrier: m.retrier, reader: m.reader, membershipChange: m.membership.change,
		hashDispute: &m.checkpoints.hashDispute, clock: &m.leader.clock,
	}
	m.checkpoints.proposer, m.leader.proposer = m.proposer, m.proposer
	m.onFatal = func() { m.terminate(false) }
	return m
}

func (m *Member) openRaft() error {
	m.peers = newPeers(m.core)
	m.mux = newMux(m.core, m.joiner)
	m.joiner.mux = m.mux
	m.transport = newTransport(m.mux.raftListener, m.cfg.raftRPCTimeout, &m.cfg)
	m.transport.mayCampaign = m.joiner.mayCampaign
	m.transport.mayVote = func() bool { return m.inConfiguration() && m.joiner.mayCampaign() }
	m.proposer.proposals = newProposalBatcher(&m.raftCalls)
	m.transport.commitPipelines.proposalsInFlight = func() bool { return m.proposer.proposals.inflight.Load() > 0 }
	logs := guardedLogs{LogStore: m.storage.logs, checkAppend: m.diskGuard.checkAppend}
	snapshots := indexedSnapshots{m.storage.snapshots, func() { m.metrics.countSnapshot("failed") }}
	notify := make(chan bool, 16)
	config := raftConfig(m.core, notify)
	if err := m.joiner.bootstrapper.bootstrapAtOpen(config, logs, snapshots); err != nil {
		return err
	}
	var err error
	if m.raft, err = raft.NewRaft(config, m.machine, logs, m.storage.stable, snapshots, m.transport); err != nil {
		return err
	}
	m.machine.markStarted()
	m.proposer.proposals.raft = m.raft
	m.proposer.forwards = newBatchQueue[*forwardedCommand](maxPendingProposals, maxForwardBatch)
	m.spawn(func(ctx context.Context) { m.proposer.proposals.run(ctx, m.proposer.proposals.send) })
	m.spawn(func(ctx context.Context) { m.proposer.forwards.run(ctx, m.proposer.sendForwards) })
	m.tracker = newLeaderTracker(m.raft, &m.raftCalls, m.id, m.log, m.metrics.countElection)
	m.spawn(func(ctx context.Context) { m.tracker.run(ctx, notify) })
	return nil
}

func raftConfig(c *core, notify chan<- bool) *raft.Config {
	config := raft.DefaultConfig()
	config.ProtocolVersion = raft.ProtocolVersionMax
	config.LocalID = raft.ServerID(c.id)
	config.HeartbeatTimeout, config.ElectionTimeout, config.LeaderLeaseTimeout = c.cfg.HeartbeatTimeout, c.cfg.ElectionTimeout, c.cfg.LeaseTimeout
	// Raft repeats the commit index that often where nothing is written, although commitPipelines sent it already. A cluster
	// whose members may be silent for longer is one of slow machines, which need not be kept as busy by it.
	config.CommitTimeout = max(config.CommitTimeout, c.cfg.HeartbeatTimeout/10)
	config.MaxAppendEntries, config.BatchApplyCh = maxBatchEntries, true
	config.SnapshotThreshold, config.TrailingLogs, config.SnapshotInterval = c.cfg.SnapshotThreshold, c.cfg.TrailingLogs, c.cfg.SnapshotInterval
	config.ShutdownOnRemove = true
	config.NotifyCh = notify
	config.Logger = newRaftLogger(c.log)
	config.NoLegacyTelemetry = true
	return config
}

// serve starts the listeners and the background loops.
func (m *Member) serve() {
	m.reader.leaderReads = &readBatcher{fetchIndex: m.reader.leaderReadIndex}
	m.reader.followerReads = &readBatcher{fetchIndex: m.reader.followerReadIndex}
	members := &service{member: m}
	unaryAccess, streamAccess := access.Interceptors()
	m.server = grpc.NewServer(append(serverLimits(),
		grpc.Creds(handshakenCreds{m.cfg.Credentials}),
		grpc.ChainUnaryInterceptor(unaryAccess, members.unaryTargetCheck), grpc.ChainStreamInterceptor(streamAccess, members.streamTargetCheck),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}))...,
	)
	raftpb.RegisterMemberServer(m.server, members)
	if m.cfg.Services != nil {
		m.cfg.Services(m.server)
	}
	m.metrics.register(m.cfg.Metrics, m)
	m.mux.serve()
	m.spawn(func(context.Context) { _ = m.server.Serve(m.mux.grpcListener) })
	m.spawn(m.cfg.Credentials.Watch)
	m.spawn(m.leader.leaderLoop)
	m.spawn(m.joiner.membershipLoop)
	m.spawn(m.reader.trackCatchUp)
	m.spawn(func(ctx context.Context) { runEvery(ctx, time.Second, m.diskGuard.check) })
	close(m.started) // last: a waiter may close the member at once
}

// closePartial closes what openRaft had begun.
func (m *Member) closePartial() error {
	m.cancel()
	err := errors.Join(m.transport.Close(), m.mux.Close(), m.peers.close())
	m.wg.Wait()
	return errors.Join(err, m.journal.Close(), m.storage.close())
}
