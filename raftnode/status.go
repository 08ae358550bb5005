package raftnode

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/hashicorp/raft"

	"github.com/holdfast-storage/holdfast/raftnode/pki"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// The roles of a member in its status.
const (
	roleLeader    = "leader"
	roleFollower  = "follower"
	roleCandidate = "candidate"
	roleNonvoter  = "nonvoter"
)

// Status is what this member knows of itself; hashAt as in raftpb.StatusRequest:
// zero is the newest, and a hash that is not known when ctx ends is left out.
func (m *Member) Status(ctx context.Context, hashAt uint64) (*raftpb.StatusResponse, error) {
	hash, index := m.reader.stateHash(ctx, hashAt)
	v := m.tracker.current()
	s := &raftpb.StatusResponse{
		MemberId: m.id, Name: m.cfg.Name, Role: roleOf(m.core),
		Term: m.raft.CurrentTerm(), AppliedIndex: m.reader.appliedIndex(), CommitIndex: m.raft.CommitIndex(),
		StateHash: hash, HashIndex: index, LeaderId: v.id,
		FeatureLevel: m.cfg.maxFeatureLevel, LogStore: m.cfg.LogStore, Version: m.cfg.Version, ApiAddr: m.cfg.APIAddr, Site: m.cfg.Site, Zone: m.cfg.Zone, EnrollAddr: m.cfg.EnrollAddr,
		ClockUnixNano: m.cfg.now().UnixNano(), ClusterId: m.storage.clusterID(), ProcessId: m.processID, Founding: m.joiner.bootstrapper.bootstrapping.Load() && !m.inConfiguration(),
	}
	s.SaysLog, s.IncarnationId = true, m.machine.cluster().IncarnationID
	s.LastLogIndex, s.LastLogTerm = lastLogEntry(m.raft)
	s.DiskFreeBytes, s.SlowestSyncNano = m.diskGuard.free.Load(), int64(m.slowSyncs.slowest(m.cfg.now()))
	for _, server := range m.servers() {
		s.MemberIds = append(s.MemberIds, string(server.ID))
	}
	if err := m.Ready(); err != nil {
		s.Trouble = err.Error()
	}
	s.Certificates = append(s.Certificates, certificateSeen(m.cfg.Credentials.Certificate()))
	for _, c := range m.cfg.Credentials.Connected() {
		s.Certificates = append(s.Certificates, certificateSeen(c))
	}
	return s, nil
}

// lastLogEntry is the last entry in the log, committed or not, or the Raft snapshot when that is later.
func lastLogEntry(r *raft.Raft) (index, term uint64) {
	stats := r.Stats()
	for text, number := range map[string]*uint64{"last_log_index": &index, "last_log_term": &term} {
		*number, _ = strconv.ParseUint(stats[text], 10, 64) // raft formats it so
	}
	return index, term
}

func certificateSeen(c pki.Certificate) *raftpb.CertificateSeen {
	return &raftpb.CertificateSeen{
		Role: string(c.Role), Name: c.Name, Serial: c.Serial, Issued: c.Issued.UnixNano(), NotAfter: c.NotAfter.UnixNano(), Issuer: c.Issuer,
	}
}

func roleOf(c *core) string {
	if s, configured := c.serverOf(c.id); !configured || s.Suffrage != raft.Voter {
		return roleNonvoter
	}
	switch c.raft.State() {
	case raft.Leader:
		return roleLeader
	case raft.Candidate:
		return roleCandidate
	default:
		return roleFollower
	}
}

var errStopped = errors.New("this member has stopped")

// Ready is nil when this member serves: it is in the cluster, it knows a leader, it has applied what
// was committed when it started, the cluster's first command among it, its disk is not full, it is not quarantined.
func (m *Member) Ready() error {
	if reason := m.fatalReason.Load(); reason != nil {
		return fmt.Errorf("%w: %s", errStopped, *reason)
	}
	if m.lifetime.Err() != nil {
		return ErrShutdown
	}
	if err := m.proposer.checkWritable(); err != nil {
		return err
	}
	if err := m.joiner.checkAdmitted(); err != nil {
		return err
	}
	if m.tracker.current().addr == "" {
		return errors.New("no leader is known")
	}
	if !m.reader.caughtUp.Load() {
		return errors.New("this member is still catching up")
	}
	if m.machine.cluster().ID == "" {
		return errors.New("the cluster is being set up: its first command is not applied yet")
	}
	return nil
}
