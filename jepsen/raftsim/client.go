package raftsim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode"
)

// hotNames is how many hosts are registered again and again.
const hotNames = 12

// client calls members until stop is closed.
func (w *world) client(stop <-chan struct{}) {
	r := w.fork()
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(20+r.IntN(150)) * time.Millisecond):
		}
		up := w.up()
		if len(up) == 0 {
			continue
		}
		p := up[r.IntN(len(up))]
		if r.IntN(3) == 0 {
			w.read(p)
		} else {
			w.write(p, r)
		}
	}
}

// guarded runs a call in a goroutine of its own, since the exit of a process ends the goroutine that it is in.
func guarded(call func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		call()
	}()
	<-ended
}

func (w *world) read(p *process) {
	op := operation{begun: w.history.clock.Add(1), at: p.member.name, outcome: unknown}
	guarded(func() {
		ctx, cancel := within(5 * time.Second)
		defer cancel()
		_, err := p.Read(ctx, func(s *fsm.State) error {
			op.index, op.hash = s.Cluster().Index, s.Hash()
			return nil
		})
		if err == nil && !p.dead() {
			op.outcome = done
		}
	})
	op.end = w.history.clock.Add(1)
	w.history.add(op)
}

// write proposes a command; when its outcome is unknown, the same one again elsewhere, or never.
func (w *world) write(p *process, r *rand.Rand) {
	cmd := registration(r)
	_ = p.View(func(s *fsm.State) error { cmd.ProposedIndex = s.Cluster().Index; return nil })
	op := operation{write: true, begun: w.history.clock.Add(1), request: cmd.RequestId, outcome: unknown}
	for try := range 1 + r.IntN(3) {
		op.watched = try == 0
		if op.at = p.member.name; w.propose(p, cmd, &op) {
			break
		}
		if up := w.up(); len(up) > 0 {
			p = up[r.IntN(len(up))]
		}
	}
	op.end = w.history.clock.Add(1)
	w.history.add(op)
}

// propose proposes once, and tells whether the outcome is known.
func (w *world) propose(p *process, cmd *fsmpb.Command, op *operation) bool {
	watch := p.Watch(raftnode.Interest{Node: fsm.NodeID(cmd.GetRegisterNode().GetNodeId())})
	defer watch.Close()
	guarded(func() {
		ctx, cancel := within(5 * time.Second)
		defer cancel()
		result, err := p.Propose(ctx, proto.CloneOf(cmd))
		var rejection *fsm.Rejection
		if p.dead() || err != nil && !errors.As(err, &rejection) {
			return
		}
		if op.index, op.outcome = result.GetIndex(), done; err != nil {
			op.outcome = refused
		}
		if err != nil && op.index == 0 { // refused before it was in the log
			op.outcome = unknown
		}
	})
	if op.outcome == done {
		op.woken = w.woken(p, watch)
	}
	return op.outcome != unknown
}

// woken tells whether a watch woke for what its member has applied, or cannot any more.
func (w *world) woken(p *process, watch *raftnode.Watch) bool {
	select {
	case <-watch.C:
		return true
	case <-p.gone:
		return true
	case <-time.After(10 * time.Second):
		return p.Ready() != nil
	}
}

// registration is a command that is accepted, as a rule.
func registration(r *rand.Rand) *fsmpb.Command {
	name := fmt.Sprintf("n%d", r.IntN(hotNames))
	id := make([]byte, 16)
	for i := range id {
		id[i] = byte(r.Uint32())
	}
	return &fsmpb.Command{
		Actor: "node/" + name, RequestId: id,
		Body: &fsmpb.Command_RegisterNode{RegisterNode: &fsmpb.RegisterNode{
			NodeId: name, HostId: "host-" + name, BootId: fmt.Sprintf("boot-%d", r.IntN(1000)), FeatureLevel: fsm.MaxFeatureLevel,
			Pools: []*fsmpb.Pool{{PoolId: "pool-" + name, Backend: "loopfile", CapacityBytes: 1 << 40, OvercommitPercent: 2000}},
		}},
	}
}

// largeRegistration is a command of several pages.
func largeRegistration(r *rand.Rand) *fsmpb.Command {
	cmd := registration(r)
	node := cmd.GetRegisterNode()
	node.NodeId, node.HostId = "large", "host-large"
	cmd.Actor = "node/large"
	node.Pools = nil
	for i := range 200 {
		node.Pools = append(node.Pools, &fsmpb.Pool{PoolId: fmt.Sprintf("pool-large-%d", i), Backend: "loopfile", CapacityBytes: 1 << 40, OvercommitPercent: 2000})
	}
	return cmd
}

// observe follows terms, leaders and restores until stop is closed.
func (w *world) observe(stop <-chan struct{}) {
	watches := map[*process]*raftnode.Watch{}
	for {
		select {
		case <-stop:
			return
		case <-time.After(50 * time.Millisecond):
		}
		for _, p := range w.up() {
			leads, term, _ := p.Leadership()
			if !p.dead() && p.id != "" {
				w.fail(w.history.sawTerm(p.id, term, leads && leadsStill(p, term)))
			}
			if watches[p] == nil {
				watches[p] = p.Watch(raftnode.Interest{All: true})
			}
			if _, all := watches[p].TakeChanges(); all {
				w.history.mu.Lock()
				w.history.installs++
				w.history.mu.Unlock()
			}
		}
	}
}

// leadsStill tells whether raft itself leads in the term: what a member says of both is not of one instant.
func leadsStill(p *process, term uint64) bool {
	ctx, cancel := within(time.Second)
	defer cancel()
	status, err := p.Status(ctx, 0)
	_, now, _ := p.Leadership()
	return err == nil && status.GetRole() == "leader" && now == term
}
