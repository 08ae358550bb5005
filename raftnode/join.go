package raftnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// joiner makes this member one of the cluster's: it bootstraps a new cluster or joins one,
// corrects its address, and ends the process once the cluster removed this member.
type joiner struct {
	*core
	bootstrapper *bootstrapper
	mux          *mux

	admitted  atomic.Bool            // the newest configuration that was committed and received has this member (S68)
	joined    atomic.Bool            // the leader answered a Join of this process
	duplicate duplicateMember        // at the address that the configuration has for this member
	joinError atomic.Pointer[string] // why it is not in the cluster yet
}

// setAdmitted is called with each configuration that was committed and received.
func (j *joiner) setAdmitted(c raft.Configuration) {
	j.admitted.Store(slices.ContainsFunc(c.Servers, func(s raft.Server) bool { return string(s.ID) == j.id }))
}

// checkAdmitted is nil once a configuration that has this member was committed and received.
// Before that it serves nothing: it may be an unknown process at a member's old address (S68).
func (j *joiner) checkAdmitted() error {
	if addr := j.duplicate.addr.Load(); addr != nil {
		return fmt.Errorf("member %s runs at %s too, on a copy of the data folder: stop one of the two, for ever", j.id, *addr)
	}
	if j.admitted.Load() {
		return nil
	}
	if reason := j.joinError.Load(); reason != nil {
		return fmt.Errorf("this member (%s) is not in the cluster yet: %s", j.id, *reason)
	}
	return fmt.Errorf("this member (%s) has not yet received a committed configuration that includes it", j.id)
}

// setJoinError records why this member is not in the cluster yet, and logs it when it changed.
func (j *joiner) setJoinError(err error) {
	reason := err.Error()
	if old := j.joinError.Swap(&reason); old == nil || *old != reason {
		j.log.Warn("this member is not in the cluster yet", "member_id", j.id, "why", reason)
	}
}

// membershipLoop joins or bootstraps when the data directory is new, has the configuration
// corrected when this member's address changed, and exits when the cluster removed it.
func (j *joiner) membershipLoop(ctx context.Context) {
	j.reconcileMembership(ctx)
	runEvery(ctx, j.cfg.probeInterval(), func() { j.reconcileMembership(ctx) })
}

func (j *joiner) reconcileMembership(ctx context.Context) {
	self, configured := j.serverOf(j.id)
	if j.atConfiguredAddress() {
		j.duplicate.reset()
	}
	switch {
	case j.raft.State() == raft.Shutdown:
		j.exitRemoved()
	case len(j.servers()) == 0 && j.bootstrapper.bootstrapping.Load():
		j.bootstrapOrJoin(ctx)
	case len(j.servers()) == 0:
		j.joinThroughAny(ctx)
	case configured && string(self.Address) != j.cfg.Advertise:
		j.probeDuplicate(ctx, self)
		j.joinThroughAny(ctx)
	case j.tracker.current().leaderlessFor() > 2*j.cfg.leaderlessTimeout():
		j.detectRemoval(ctx)
	}
	if !j.dialsUntargeted() {
		j.mux.raftConns.closeUntargeted()
	}
	j.peers.closeStaleConnections()
}

// joinThroughAny asks each known member until one adds this member.
func (j *joiner) joinThroughAny(ctx context.Context) {
	addrs := slices.Clone(j.cfg.Join)
	for _, s := range j.servers() {
		addrs = append(addrs, string(s.Address))
	}
	var failed []string
	for _, addr := range addrs {
		if addr == j.cfg.Advertise {
			continue
		}
		err := j.joinThrough(ctx, addr)
		if err == nil || ctx.Err() != nil {
			return
		}
		failed = append(failed, fmt.Sprintf("join through %s: %s", addr, rpcMessage(err)))
	}
	j.setJoinError(errors.New(strings.Join(failed, "; ")))
}

// rpcMessage is an error's message without gRPC's prefix.
func rpcMessage(err error) string { return status.Convert(err).Message() }

func (j *joiner) joinThrough(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, membershipChangeTimeout+j.cfg.leaderlessTimeout())
	defer cancel()
	conn, err := j.peers.dial("", addr)
	if err != nil {
		return err
	}
	resp, err := raftpb.NewMemberClient(conn).Join(ctx, &raftpb.JoinRequest{
		MemberId: j.id, Name: j.cfg.Name, RaftAddr: j.cfg.Advertise,
		ClusterId: j.storage.clusterID(), FeatureLevel: j.cfg.maxFeatureLevel, ProcessId: j.processID,
		IncarnationId: j.machine.cluster().IncarnationID, LastLogIndex: j.raft.LastIndex(), SaysLog: true,
	})
	if err != nil {
		return err
	}
	if err := j.recordClusterID(resp.GetClusterId()); err != nil {
		return err
	}
	j.joined.Store(true)
	j.joinError.Store(nil)
	return nil
}

// detectRemoval believes the leader only: another member's configuration may be old.
func (j *joiner) detectRemoval(ctx context.Context) {
	for _, a := range j.peers.queryStatuses(ctx, j.cfg.probeInterval(), &raftpb.StatusRequest{}) {
		if a.GetRole() == roleLeader && !slices.Contains(a.GetMemberIds(), j.id) {
			j.exitRemoved()
		}
	}
}

func (j *joiner) exitRemoved() {
	if j.lifetime.Err() == nil {
		j.fatal(ExitRemoved, "the cluster removed this member: to bring it back, move "+j.cfg.Dir+" away and join again")
	}
}

// bootstrapOrJoin asks every known address. If one knows a cluster, this member joins it; it
// bootstraps only when all answered that they know none and are not to bootstrap either.
func (j *joiner) bootstrapOrJoin(ctx context.Context) {
	unanswered, otherFounder, clusterExists := j.bootstrapper.discoverCluster(ctx)
	switch {
	case ctx.Err() != nil:
	case clusterExists:
		j.joinThroughAny(ctx)
	case otherFounder != "":
		j.setJoinError(fmt.Errorf("%s is to make a new cluster too: start one controller only with --bootstrap, the others with --join", otherFounder))
	case len(unanswered) > 0:
		j.setJoinError(fmt.Errorf("a new cluster is made when all other controllers said that they know none; not yet asked: %s", strings.Join(unanswered, "; ")))
	default:
		if err := j.bootstrapper.bootstrapCluster(); err != nil {
			j.setJoinError(fmt.Errorf("make the new cluster: %w", err))
		}
	}
}
