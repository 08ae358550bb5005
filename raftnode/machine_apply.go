package raftnode

import (
	"fmt"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/journal"
)

// Apply implements raft.FSM.
func (m *machine) Apply(l *raft.Log) any { return m.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch applies committed entries (raft.BatchingFSM). An entry that cannot be applied
// is a fault: the process exits before states diverge.
func (m *machine) ApplyBatch(logs []*raft.Log) []any {
	defer m.exitOnPanic("apply committed entries")
	m.exitIfHalted()
	start := time.Now()
	commands := m.decode(logs)
	answers := make([]any, len(logs))
	outcomes := make([]*fsmpb.Outcome, len(logs))
	links := make([][]byte, len(logs))
	changes := m.applyCommands(logs, commands, outcomes, links)
	for i, o := range outcomes {
		if o != nil {
			answers[i] = o
			m.appendJournal(logs[i], o, links[i])
		}
	}
	for _, l := range logs {
		if l.Type == raft.LogConfiguration {
			m.events.configuration(raft.DecodeConfiguration(l.Data))
		}
	}
	last := logs[len(logs)-1]
	m.term = last.Term
	m.applied.advance(last.Index)
	m.events.committed(last.Index, last.Term)
	m.events.changed(changes)
	m.events.batchApplied(len(logs), time.Since(start))
	m.exitIfHalted()
	return answers
}

// decode is done before the lock is taken. Entries that are not commands, and
// those below a restored Raft snapshot, have none.
func (m *machine) decode(logs []*raft.Log) []*fsmpb.Command {
	commands := make([]*fsmpb.Command, len(logs))
	for i, l := range logs {
		if l.Type != raft.LogCommand || l.Index <= m.applied.reached.Load() {
			continue
		}
		m.applying = l
		commands[i] = m.skips.decodeCommand(l)
	}
	m.applying = nil
	return commands
}

func (m *machine) applyCommands(logs []*raft.Log, commands []*fsmpb.Command, outcomes []*fsmpb.Outcome, links [][]byte) (changes []fsm.Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, cmd := range commands {
		if cmd == nil {
			continue
		}
		m.applying = logs[i]
		r := m.skips.applyOrSkip(m.state, logs[i], cmd, m.apply)
		m.applying = nil
		outcomes[i] = r.Outcome
		changes = append(changes, r.Changes...)
		m.hashes.put(logs[i].Index, m.state.Hash())
		m.index.Store(logs[i].Index)
		m.stateTerm = logs[i].Term
		m.handleMemberCommands(cmd, r.Outcome)
		cluster := m.state.Cluster()
		links[i] = cluster.Chain
		m.sweeping.Store(len(cluster.Sweeps) > 0)
		if m.halted.Load() {
			break
		}
	}
	return changes
}

// handleMemberCommands handles the commands that concern the member itself.
func (m *machine) handleMemberCommands(cmd *fsmpb.Command, o *fsmpb.Outcome) {
	if o.GetRejection() != nil {
		return
	}
	switch c := cmd.GetBody().(type) {
	case *fsmpb.Command_Checkpoint:
		m.compareHash(c.Checkpoint)
	case *fsmpb.Command_RevokeIdentity, *fsmpb.Command_UnrevokeIdentity:
		m.events.revoked(m.state)
	case *fsmpb.Command_Bootstrap:
		if err := m.events.clusterNamed(m.state.Cluster().ID); err != nil {
			panic(fmt.Sprintf("record the cluster's id: %v", err))
		}
	}
}

// appendJournal writes the journal. What cannot be written becomes a gap there; only a
// different history in the same directory is an error (S26).
func (m *machine) appendJournal(l *raft.Log, o *fsmpb.Outcome, link []byte) {
	outcome, err := proto.Marshal(o)
	if err != nil {
		panic(fmt.Sprintf("log index %d: marshal the outcome: %v", l.Index, err))
	}
	if err := m.journal.Append(journal.Entry{Index: l.Index, Term: l.Term, Command: l.Data, Outcome: outcome, Chain: link}); err != nil {
		panic(fmt.Sprintf("log index %d: journal: %v", l.Index, err))
	}
}

// advancePast records an index that Raft passed without giving its entry to the machine.
func (m *machine) advancePast(index uint64) { m.applied.advance(index) }
