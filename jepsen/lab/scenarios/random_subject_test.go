package scenarios

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/catalog"
	"github.com/holdfast-storage/holdfast/jepsen/lab"
	"github.com/holdfast-storage/holdfast/jepsen/lab/stamps"
	"github.com/holdfast-storage/holdfast/jepsen/report"
)

// subject is one volume of a random run, with the turns of its writers. What was acknowledged is outside of the
// guests, in each writer's file.
type subject struct {
	r       *randomRun
	v       *volume
	holder  string // has it published; empty: nobody
	turns   []stamps.Turn
	writers []*writer // of the turn in its place
}

// subject makes a volume.
func (r *randomRun) subject(name string, block bool, hosts ...string) {
	r.count++
	v := &volume{name: fmt.Sprintf("random-%s-%d", name, r.count), size: 32 * mi, block: block}
	parameters := map[string]string{}
	if len(hosts) > 1 {
		parameters["replicas"] = fmt.Sprint(len(hosts))
	}
	require.NoError(r.t, r.co.create(r.t.Context(), v, hosts, parameters))
	require.Equal(r.t, hosts, v.hosts)
	r.t.Cleanup(func() {
		if !r.t.Failed() {
			require.NoError(r.t, r.co.delete(context.WithoutCancel(r.t.Context()), v))
		}
	})
	r.subjects = append(r.subjects, &subject{r: r, v: v})
}

func (s *subject) replicated() bool { return len(s.v.hosts) > 1 }

// peer is the other host.
func (s *subject) peer(node string) string {
	if s.v.hosts[0] == node {
		return s.v.hosts[1]
	}
	return s.v.hosts[0]
}

// user is its holder, or the one that may become it.
func (s *subject) user() string {
	if s.holder == "" {
		return s.v.hosts[0]
	}
	return s.holder
}

// writer is the one of the present turn.
func (s *subject) writer() *writer { return s.writers[len(s.writers)-1] }

// begin publishes and stages the volume on a host, and begins a turn there.
func (s *subject) begin(node string) {
	s.did(catalog.Publish, "publish to "+node, func() {
		eventually(s.r.t, timeout, "publish "+s.v.name+" to "+node, func(ctx context.Context) error { return s.r.co.publish(ctx, s.v, node) })
	})
	s.holder = node
	s.did(catalog.Stage, "stage on "+node, func() {
		eventually(s.r.t, timeout, "stage "+s.v.name+" on "+node, func(ctx context.Context) error { return s.r.co.stage(ctx, s.v, node) })
	})
	s.beginTurn()
}

// did records an operation.
func (s *subject) did(work catalog.Workload, what string, do func()) {
	from := time.Since(s.r.began)
	do()
	s.r.record.Operation(report.Operation{Workload: work, What: s.v.name + ": " + what, From: from, To: time.Since(s.r.began), Outcome: report.OK})
}

// beginTurn starts a writer where the volume is staged. What all earlier ones were acknowledged is read first.
func (s *subject) beginTurn() {
	s.readAcks()
	epoch := s.v.publishContext["holdfast.storage/epoch"]
	stamp := stamps.Stamp{Site: fmt.Sprintf("lab%d", s.r.lab.Number), Node: s.holder, Epoch: epoch, Turn: len(s.turns) + 1}
	from := stamps.Next(s.turns)
	s.turns = append(s.turns, stamps.Turn{Stamp: stamp, From: from, Acked: from - 1})
	s.did(catalog.Writers, "write as "+stamp.String(), func() {
		x := s.r.newWriter(s.r.t, s.v, s.holder, stamp.String(), from, s.r.eager())
		s.writers = append(s.writers, x)
		x.awaitBeyond(s.r.t, from)
	})
}

// eager is whether the writer never pauses, or leaves the processors to others soon.
func (r *randomRun) eager() uint64 {
	if r.rng.IntN(2) == 0 {
		return math.MaxUint64
	}
	return eagerBlocks
}

// readAcks brings the turns up to date.
func (s *subject) readAcks() {
	for i, x := range s.writers {
		s.turns[i].Acked = max(s.turns[i].Acked, x.readAcks().Number)
	}
}

// takeOverSome moves some of the volumes whose host answers nothing to their other host, as an orchestrator does.
// That the product refuses while the faults last is no failure: it decides again when they have ended.
func (r *randomRun) takeOverSome() {
	for _, s := range r.subjects {
		if s.holder == "" {
			continue
		}
		gone := r.away[s.holder] || r.lab.IsIsolated(lab.API, r.guest(s.holder).Index)
		if chosen := r.rng.IntN(3) > 0; gone && chosen && s.replicated() && !r.away[s.peer(s.holder)] {
			s.takeOver()
		}
	}
}

// takeOver is bounded: during a fault it may have to wait for the fault's end.
func (s *subject) takeOver() {
	ctx, cancel := context.WithTimeout(s.r.t.Context(), time.Minute)
	defer cancel()
	from, to := s.holder, s.peer(s.holder)
	var err error
	for err = errors.New("not asked"); err != nil && ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
		err = s.r.co.unpublish(ctx, s.v, from)
	}
	if err == nil {
		s.holder = ""
		err = s.r.co.publish(ctx, s.v, to)
	}
	if err == nil {
		s.holder = to
		err = s.r.co.stage(ctx, s.v, to)
	}
	s.r.t.Logf("%s take %s over from %s to %s: %v", s.r.since(), s.v.name, from, to, err)
	if err == nil {
		s.did(catalog.TakeOver, "from "+from+" to "+to, s.beginTurn)
	}
}

// settle waits, after the end of all faults, until the volume is written to by itself again; or its writer ended, or
// has nothing to write to any more: then it ends the use of the volume everywhere and begins anew.
func (s *subject) settle() {
	if s.holder != "" && s.goesOn() {
		s.readAcks()
		return
	}
	s.release()
	s.begin(s.v.hosts[s.r.rng.IntN(len(s.v.hosts))])
}

// goesOn waits until the present turn's writer was acknowledged something new, or cannot be.
func (s *subject) goesOn() (writes bool) {
	x := s.writer()
	if x.node != s.holder {
		return false // nothing writes where it is published
	}
	before := x.readAcks().Number
	eventually(s.r.t, resyncTimeout, x.name+" goes on or ends on "+x.node, func(ctx context.Context) error {
		a := x.readAcks()
		writes = a.Error == "" && a.Number > before
		if writes || a.Error != "" || !x.job.Running(ctx) || s.r.restartStuck(ctx, x) {
			return nil
		}
		return fmt.Errorf("it is at %+v", a)
	})
	return writes
}

// restartStuck restarts the host of a writer that waits for a flush that never ends.
func (r *randomRun) restartStuck(ctx context.Context, x *writer) bool {
	if !r.hasStuckFlush(ctx, x) {
		return false
	}
	r.restartHost(x.node, "a flush never ends")
	return true
}

// restartHost does what an operator must do where the kernel is stuck. It is counted, and shown with the run.
func (r *randomRun) restartHost(node, why string) {
	r.restarted++
	r.t.Logf("%s restart %s: %s", r.since(), node, why)
	r.must(r.guest(node).Crash())
	r.must(r.bootGuest(r.t.Context(), r.guest(node)))
}

// release ends the use of the volume on all its hosts, as their kubelets do once they are back.
func (s *subject) release() {
	for i := range s.writers {
		s.end(s.writers[i])
	}
	for _, node := range s.v.hosts {
		s.did(catalog.Stage, "unstage on "+node, func() {
			eventually(s.r.t, resyncTimeout, "unstage "+s.v.name+" on "+node, func(ctx context.Context) error {
				err := s.r.co.unstage(ctx, s.v, node)
				if err != nil {
					s.restartIfStuck(ctx, node)
				}
				return err
			})
		})
	}
	for _, node := range s.v.hosts {
		s.did(catalog.Publish, "unpublish from "+node, func() { s.r.unpublishUnreachable(s.r.t, s.v, node) })
	}
	s.holder = ""
}

// end kills a writer, if it runs.
func (s *subject) end(x *writer) {
	if x.ended {
		return
	}
	x.ended = true
	if err := x.job.Kill(s.r.t.Context()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.r.t.Logf("%s end %s on %s: %v", s.r.since(), x.name, x.node, err)
	}
}

func (s *subject) restartIfStuck(ctx context.Context, node string) {
	for _, x := range s.writers {
		if x.node == node && s.r.restartStuck(ctx, x) {
			return
		}
	}
}
