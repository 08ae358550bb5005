package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

const (
	verdictPeerOutdated = fsmpb.Verdict_VERDICT_PEER_OUTDATED
	verdictSelfOutdated = fsmpb.Verdict_VERDICT_SELF_OUTDATED
	verdictRefused      = fsmpb.Verdict_VERDICT_REFUSED
	verdictStale        = fsmpb.Verdict_VERDICT_STALE
	verdictPending      = fsmpb.Verdict_VERDICT_PENDING

	suspensionInterval = time.Second
	fencePeerRetry     = 100 * time.Millisecond
	// pendingRetry is longer: each question is an entry in the log, and is answered again when hosts reported.
	pendingRetry = 300 * time.Millisecond
)

// fencePeerRequest asks the log about one loss of the peer. The kernel's handler and the watcher
// share it, and it keeps one request id (S7).
type fencePeerRequest struct {
	cmd        *fsmpb.Command
	promoting  bool
	handlers   int // handlers of the kernel that wait for the verdict; guarded by table.mu
	done       chan struct{}
	verdict    fsmpb.Verdict
	generation uint64 // that the verdict "peer outdated" is of
}

// FencePeer answers the kernel's fence-peer handler: may the volume's primary, or the replica
// that is being promoted here, continue without its peer (S6)? It asks until ctx ends, through
// changes of controllers, and returns "peer outdated" only while that still holds. An error
// means that there is no verdict: then I/O must stay suspended.
func (a *Agent) FencePeer(ctx context.Context, id fsm.VolumeID) (fsmpb.Verdict, error) {
	a.mu.Lock()
	v, known := a.volumes[id]
	if known {
		_, known = v.replicaMinor()
	}
	a.mu.Unlock()
	if !known || a.Replicator == nil {
		return fsmpb.Verdict_VERDICT_UNKNOWN, fsm.Reject(fsm.NotFound, "volume %s has no replica on this host", id)
	}
	for {
		verdict, err := a.fencePeer.fencePeerOnce(ctx, v)
		wait, again := askAgainAfter(verdict)
		if err != nil || !again {
			a.enqueue(v)
			return verdict, err
		}
		if err := sleep(ctx, wait); err != nil {
			return fsmpb.Verdict_VERDICT_UNKNOWN, err
		}
	}
}

// askAgainAfter reports whether an answer is none yet, and how long to wait before the next request. That observes
// again, and has an id of its own: the log remembers what it answered to an id (S7, S52).
func askAgainAfter(verdict fsmpb.Verdict) (wait time.Duration, again bool) {
	if verdict == verdictPending {
		return pendingRetry, true
	}
	return fencePeerRetry, verdict == verdictStale
}

func (p *fencePeer) fencePeerOnce(ctx context.Context, v *volume) (fsmpb.Verdict, error) {
	req, err := p.requestVerdict(ctx, v, true)
	if err != nil {
		return fsmpb.Verdict_VERDICT_UNKNOWN, err
	}
	defer p.leaveFencePeerRequest(req)
	if req == nil {
		return verdictRefused, nil
	}
	if plantedbug.Is(plantedbug.VerdictBeforeCommit) {
		return verdictPeerOutdated, nil
	}
	select {
	case <-req.done:
	case <-ctx.Done():
		return fsmpb.Verdict_VERDICT_UNKNOWN, ctx.Err()
	}
	if req.verdict != verdictPeerOutdated {
		return req.verdict, nil
	}
	return p.verdictStillHolds(ctx, v, req)
}

func (p *fencePeer) leaveFencePeerRequest(req *fencePeerRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if req != nil {
		req.handlers--
	}
}

// verdictStillHolds checks that the verdict is about the current loss of the peer (S7).
func (p *fencePeer) verdictStillHolds(ctx context.Context, v *volume, req *fencePeerRequest) (fsmpb.Verdict, error) {
	if req.promoting {
		if p.generationOf(v) > req.generation {
			return verdictStale, nil
		}
		return verdictPeerOutdated, nil // the kernel waits for it, and checks the connection itself
	}
	obs, _, err := p.observer.observeReplica(ctx, v)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil:
		return fsmpb.Verdict_VERDICT_UNKNOWN, err
	case !v.needsVerdict(&obs):
		return verdictRefused, nil // the peer is back
	case v.replica.generation > req.generation || v.replica.connectedGeneration >= req.generation:
		return verdictStale, nil
	}
	return verdictPeerOutdated, nil
}

// needsVerdict reports whether the kernel may ask about the peer. With protocol A it does so
// without suspending I/O, and continues whatever the answer is (S11). The caller holds table.mu.
func (v *volume) needsVerdict(obs *fsm.ReplicaObservation) bool {
	if obs.Connected() {
		return false
	}
	asynchronous := v.desired != nil && v.desired.Replication != nil && v.desired.Replication.Protocol == fsmpb.Protocol_PROTOCOL_A
	return obs.Suspended || asynchronous && obs.Primary
}

// requestVerdict starts a request, or joins the open one. Nil: there is nothing to ask about,
// I/O is not suspended and this process is not promoting the replica (S13).
func (p *fencePeer) requestVerdict(ctx context.Context, v *volume, handler bool) (*fencePeerRequest, error) {
	p.mu.Lock()
	promoting := v.replica.promotion
	if req := v.replica.fencePeerRequest; req != nil {
		if handler {
			req.handlers++
		}
		p.mu.Unlock()
		return req, nil
	}
	p.mu.Unlock()
	var obs fsm.ReplicaObservation
	if promoting != nil {
		obs = *promoting
		obs.Generation = p.generationOf(v)
	} else {
		var err error
		if obs, _, err = p.observer.observeReplica(ctx, v); err != nil {
			return nil, err
		}
		p.mu.Lock()
		waits := v.needsVerdict(&obs)
		p.mu.Unlock()
		if !waits {
			return nil, nil
		}
	}
	return p.newFencePeerRequest(v, obs, promoting != nil, handler)
}

// newFencePeerRequest makes a request and has it proposed.
func (p *fencePeer) newFencePeerRequest(v *volume, obs fsm.ReplicaObservation, promoting, handler bool) (*fencePeerRequest, error) {
	id := make([]byte, fsm.RequestIDLen)
	_, _ = rand.Read(id) // never fails
	req := &fencePeerRequest{promoting: promoting, done: make(chan struct{}), cmd: &fsmpb.Command{
		RequestId: id,
		Body: &fsmpb.Command_Outdate{Outdate: &fsmpb.Outdate{
			VolumeId: string(v.id), NodeId: string(p.Node), HostId: string(p.Host.ID), BootId: p.Host.BootID,
			Generation: obs.Generation, Seen: obs.Proto(),
		}},
	}}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, &unavailable{errors.New("this node is stopping")}
	}
	if other := v.replica.fencePeerRequest; other != nil {
		req = other
	} else {
		v.replica.fencePeerRequest = req
		p.wg.Go(func() { p.proposeOutdate(v, req) })
	}
	if handler {
		req.handlers++
	}
	return req, nil
}

// proposeOutdate proposes until there is an answer: the same request, with the same id (S7).
func (p *fencePeer) proposeOutdate(v *volume, req *fencePeerRequest) {
	for p.ctx.Err() == nil {
		p.hitFaultPoint("outdate.before")
		p.mu.Lock()
		incarnation := p.incarnation()
		p.mu.Unlock()
		outcome, err := p.proposer.propose(p.ctx, nil, proto.CloneOf(req.cmd))
		p.hitFaultPoint("outdate.after")
		if err == nil {
			p.setVerdict(v, req, outcome, incarnation)
			return
		}
		if !isUnavailable(err) {
			p.logger(v).Warn("the log rejected the fence-peer request of the volume", "error", err)
			p.setVerdict(v, req, &fsmpb.Outcome{Verdict: verdictRefused}, incarnation)
			return
		}
		_ = sleep(p.ctx, fencePeerRetry)
	}
}

// setVerdict takes in what a log of the incarnation answered.
func (p *fencePeer) setVerdict(v *volume, req *fencePeerRequest, outcome *fsmpb.Outcome, incarnation uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	req.verdict, req.generation = outcome.GetVerdict(), outcome.GetGeneration()
	v.replica.generation = max(v.replica.generation, req.generation)
	if req.verdict == verdictSelfOutdated && p.incarnation() == incarnation { // else its index means nothing (S1)
		v.replica.outdatedAt = fsm.Epoch{Incarnation: incarnation, Index: outcome.GetIndex()}
	}
	v.replica.fencePeerRequest = nil
	close(req.done)
	p.logger(v).Info("the log decided the fence-peer request of the volume", "verdict", req.verdict, "generation", req.generation)
}

func (t *table) enqueue(v *volume) { t.volumeQueue.add(v.id) }
