package executor

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	verdictGoOn    = fsmpb.Verdict_VERDICT_PEER_OUTDATED
	verdictLost    = fsmpb.Verdict_VERDICT_SELF_OUTDATED
	verdictRefused = fsmpb.Verdict_VERDICT_REFUSED
	verdictStale   = fsmpb.Verdict_VERDICT_STALE

	watchEvery = time.Second
	askAgain   = 100 * time.Millisecond
)

// question is one loss of the peer that the log is asked about: whoever asks about it
// shares it, and it has one request id (S7).
type question struct {
	cmd        *fsmpb.Command
	promoting  bool
	handlers   int // of the kernel that wait for the answer; guarded by Executor.mu
	done       chan struct{}
	verdict    fsmpb.Verdict
	generation uint64 // of a yes
}

// Fence answers the kernel's handler: whether the volume's primary, or the replica that
// is just becoming primary here, may go on without its peer (S6). It asks for as long as
// ctx lasts, whatever becomes of the controllers, and gives a yes only while it is still
// of use. The error says that there is no verdict: then nobody may go on.
func (e *Executor) Fence(ctx context.Context, id fsm.VolumeID) (fsmpb.Verdict, error) {
	e.mu.Lock()
	v, known := e.volumes[id]
	if known {
		_, known = v.replicated()
	}
	e.mu.Unlock()
	if !known || e.Replicator == nil {
		return fsmpb.Verdict_VERDICT_UNKNOWN, fsm.Reject(fsm.NotFound, "volume %s has no replica on this host", id)
	}
	for {
		verdict, err := e.fenceOnce(ctx, v)
		if err != nil || verdict != verdictStale {
			e.wakeUp(v)
			return verdict, err
		}
		if err := pause(ctx, askAgain); err != nil {
			return fsmpb.Verdict_VERDICT_UNKNOWN, err
		}
	}
}

func (e *Executor) fenceOnce(ctx context.Context, v *volume) (fsmpb.Verdict, error) {
	q, err := e.ask(ctx, v, true)
	if err != nil {
		return fsmpb.Verdict_VERDICT_UNKNOWN, err
	}
	defer e.leaveQuestion(q)
	if q == nil {
		return verdictRefused, nil
	}
	select {
	case <-q.done:
	case <-ctx.Done():
		return fsmpb.Verdict_VERDICT_UNKNOWN, ctx.Err()
	}
	if q.verdict != verdictGoOn {
		return q.verdict, nil
	}
	return e.stillOfUse(ctx, v, q)
}

func (e *Executor) leaveQuestion(q *question) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if q != nil {
		q.handlers--
	}
}

// stillOfUse: the verdict is of the loss that there is now (S7).
func (e *Executor) stillOfUse(ctx context.Context, v *volume, q *question) (fsmpb.Verdict, error) {
	if q.promoting {
		if e.generationOf(v) > q.generation {
			return verdictStale, nil
		}
		return verdictGoOn, nil // the kernel waits for it, and looks at the connection itself
	}
	seen, _, err := e.seenNow(ctx, v)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case err != nil:
		return fsmpb.Verdict_VERDICT_UNKNOWN, err
	case !v.waitsForVerdict(&seen):
		return verdictRefused, nil // it is over: its peer came back
	case v.replica.generation > q.generation || v.replica.sawConnected >= q.generation:
		return verdictStale, nil
	}
	return verdictGoOn, nil
}

// waitsForVerdict tells whether the kernel may ask about the peer. With protocol A it does
// so without a freeze, and goes on whatever it hears (S11). The caller holds mu.
func (v *volume) waitsForVerdict(seen *fsm.ReplicaObservation) bool {
	if seen.Connected() {
		return false
	}
	asynchronous := v.wish != nil && v.wish.Replication != nil && v.wish.Replication.Protocol == fsmpb.Protocol_PROTOCOL_A
	return seen.Suspended || asynchronous && seen.Primary
}

// ask puts the question, or joins the one that is open. Nil: there is nothing to ask
// about, the device is neither frozen nor being promoted by this process (S13).
func (e *Executor) ask(ctx context.Context, v *volume, handler bool) (*question, error) {
	e.mu.Lock()
	promoting := v.replica.promoting
	if q := v.replica.question; q != nil {
		if handler {
			q.handlers++
		}
		e.mu.Unlock()
		return q, nil
	}
	e.mu.Unlock()
	var seen fsm.ReplicaObservation
	if promoting != nil {
		seen = *promoting
		seen.Generation = e.generationOf(v)
	} else {
		var err error
		if seen, _, err = e.seenNow(ctx, v); err != nil {
			return nil, err
		}
		e.mu.Lock()
		waits := v.waitsForVerdict(&seen)
		e.mu.Unlock()
		if !waits {
			return nil, nil
		}
	}
	return e.putQuestion(v, seen, promoting != nil, handler)
}

// putQuestion makes the question and has it asked.
func (e *Executor) putQuestion(v *volume, seen fsm.ReplicaObservation, promoting, handler bool) (*question, error) {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	q := &question{promoting: promoting, done: make(chan struct{}), cmd: &fsmpb.Command{
		RequestId: id,
		Body: &fsmpb.Command_Outdate{Outdate: &fsmpb.Outdate{
			VolumeId: string(v.id), NodeId: string(e.Node), HostId: string(e.Host.ID), BootId: e.Host.Boot,
			Generation: seen.Generation, Seen: seen.Proto(),
		}},
	}}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, &unavailable{errors.New("this node is stopping")}
	}
	if other := v.replica.question; other != nil {
		q = other
	} else {
		v.replica.question = q
		e.work.Go(func() { e.resolve(v, q) })
	}
	if handler {
		q.handlers++
	}
	return q, nil
}

// resolve asks until there is an answer: the same question, with the same id (S7).
func (e *Executor) resolve(v *volume, q *question) {
	for e.ctx.Err() == nil {
		e.hit("outdate.before")
		outcome, err := e.propose(e.ctx, nil, proto.CloneOf(q.cmd))
		e.hit("outdate.after")
		if err == nil {
			e.resolved(v, q, outcome.GetVerdict(), outcome.GetGeneration())
			return
		}
		if !isUnavailable(err) {
			e.logger(v).Warn("the question about its peer was rejected", "error", err)
			e.resolved(v, q, verdictRefused, 0)
			return
		}
		_ = pause(e.ctx, askAgain)
	}
}

func (e *Executor) resolved(v *volume, q *question, verdict fsmpb.Verdict, generation uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q.verdict, q.generation = verdict, generation
	v.replica.generation = max(v.replica.generation, generation)
	v.replica.question = nil
	close(q.done)
	e.logger(v).Info("the log was asked about the peer", "verdict", verdict, "generation", generation)
}

func (e *Executor) wakeUp(v *volume) { e.queue.add(v.id) }

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
