package sim

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// orderedLog is what a quorum has committed, in its order. Its own state is the reference: what
// every member must come to.
type orderedLog struct {
	s       *Sim
	entries []logEntry // the entry of index i is at i-1
	state   *fsm.State
	leader  *member // nil during an election
	term    uint64
	number  int // of proposals
	forced  map[fsm.VolumeID]bool
}

type logEntry struct {
	cmd  *fsmpb.Command
	hash [32]byte
}

// proposal is a command that waits to be appended.
type proposal struct {
	member *member
	cmd    *fsmpb.Command
	name   string
	done   chan proposalReply
	gone   bool // nobody waits for the answer any more
}

type proposalReply struct {
	index   uint64
	outcome *fsmpb.Outcome
	err     error
}

func (p *proposal) reply(r proposalReply) {
	select {
	case p.done <- r:
	default:
	}
}

// commandName is a command's kind and what it is about.
func commandName(cmd *fsmpb.Command) string {
	body := strings.TrimPrefix(fmt.Sprintf("%T", cmd.GetBody()), "*fsmpb.Command_")
	if r := cmd.GetReport(); r != nil {
		for _, o := range r.GetObservations() {
			if f := o.GetStepFailed(); f != nil {
				body += " (" + f.GetError() + ")"
			}
			body += " " + strings.TrimPrefix(fmt.Sprintf("%T", o.GetFact()), "*fsmpb.Observation_") + " " + shortID(o.GetVolumeId()+o.GetSnapshotId())
		}
		return body
	}
	if v, ok := bodyOf(cmd).(interface{ GetVolumeId() string }); ok {
		body += " " + shortID(v.GetVolumeId())
	}
	return body
}

// shortID is what tells the ids of one run apart.
func shortID(id string) string {
	if len(id) < 12 {
		return id
	}
	return id[:2] + ".." + id[len(id)-6:]
}

// bodyOf is the message of a command.
func bodyOf(cmd *fsmpb.Command) any {
	m := cmd.ProtoReflect()
	if f := m.WhichOneof(m.Descriptor().Oneofs().ByName("body")); f != nil {
		return m.Get(f).Message().Interface()
	}
	return nil
}

// offer puts a proposal on its way to the log.
func (l *orderedLog) offer(p *proposal) {
	p.name = commandName(p.cmd)
	l.s.pending.add(&event{
		key: fmt.Sprintf("propose %s by %s via %s", p.name, p.cmd.GetActor(), p.member.name), kind: kindPropose, proposal: p,
		do: func() { l.propose(p) },
		ready: func() bool {
			return l.leader != nil && l.leader.life.Err() == nil && (p.member == l.leader || l.s.net.up(p.member.name, l.leader.name))
		},
	})
}

// propose appends a proposal and answers it.
func (l *orderedLog) propose(p *proposal) {
	if p.gone && !l.s.tape.oneIn(3) {
		return // most of what nobody waits for was never received
	}
	if p.gone {
		l.s.counts["late proposal"]++
		if p.cmd.GetRegisterNode() != nil {
			l.s.counts["late registration"]++
		}
	}
	index, outcome := l.append(p.cmd)
	p.reply(proposalReply{index: index, outcome: outcome})
}

// append commits a command and has the leader apply it.
func (l *orderedLog) append(cmd *fsmpb.Command) (uint64, *fsmpb.Outcome) {
	cmd = proto.CloneOf(cmd)
	if l.leader != nil {
		l.leader.monitor.Facts().Attach(cmd)
	}
	cmd.ProposedAt = time.Now().UnixNano()
	cmd.SchemaVersion = max(cmd.GetSchemaVersion(), fsm.LeastLevel(cmd))
	index := uint64(len(l.entries)) + 1
	judge, judgeSites := l.s.checks.hosts.judge(cmd), l.s.checks.sites.judge(cmd)
	outcome := l.state.Apply(index, proto.CloneOf(cmd)).Outcome
	judge(outcome)
	judgeSites(outcome)
	l.entries = append(l.entries, logEntry{cmd, l.state.Hash()})
	l.s.note("log %d: %s by %s -> %s", index, commandName(cmd), cmd.GetActor(), outcomeText(outcome))
	l.s.checks.committed(cmd, outcome)
	if l.leader != nil {
		l.leader.applyUpTo(index)
	}
	return index, outcome
}

func outcomeText(o *fsmpb.Outcome) string {
	if r := o.GetRejection(); r != nil {
		return fmt.Sprintf("rejected (%d): %s", r.GetReason(), r.GetMessage())
	}
	if v := o.GetVerdict(); v != 0 {
		return v.String()
	}
	return "accepted"
}

// committedIndex is the last index.
func (l *orderedLog) committedIndex() uint64 { return uint64(len(l.entries)) }

// restored is the state as it is after a dump and a restore.
func (l *orderedLog) restored(from *fsm.State) *fsm.State {
	var dump bytes.Buffer
	if err := from.WriteDump(&dump, l.term); err != nil {
		l.s.fail("dump: a state could not be written: %v", err)
		return from.Fork()
	}
	state, _, err := fsm.ReadDump(&dump)
	if err != nil {
		l.s.fail("dump: a state that was written could not be read: %v", err)
		return from.Fork()
	}
	if state.Hash() != from.Hash() {
		l.s.fail("dump: the state differs after a dump and a restore")
	}
	return state
}

// elect makes a member the leader: it applies all that is committed.
func (l *orderedLog) elect(m *member) {
	l.term++
	l.leader = m
	l.s.counts["elections"]++
	m.applyUpTo(l.committedIndex())
	for _, other := range l.s.members {
		other.signalChanged()
	}
	l.s.note("%s leads in term %d", m.name, l.term)
}

// continueSweep is the leader's next batch of a sweep.
func (l *orderedLog) continueSweep() {
	sweeps := l.leader.state.Cluster().Sweeps
	if len(sweeps) == 0 {
		return
	}
	l.append(&fsmpb.Command{
		RequestId: l.s.requestID(), Actor: "controller/" + l.leader.name, ProposedIndex: l.committedIndex(),
		Body: &fsmpb.Command_ContinueSweep{ContinueSweep: &fsmpb.ContinueSweep{Index: sweeps[0].Epoch.Index}},
	})
}
