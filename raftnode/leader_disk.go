package raftnode

import "github.com/hashicorp/raft"

// leaveFullDisk transfers leadership again while this leader's disk is full (S28, S134): the transfer that the disk guard made may
// have failed, and a member whose disk was full before may be elected. Where no other voter is ready this one
// stays: none would take a command, and each transfer interrupts reads.
func (l *leader) leaveFullDisk(statuses map[raft.ServerID]memberStatus) {
	if !l.proposer.diskGuard.full.Load() {
		return
	}
	for _, s := range l.servers() {
		if a, ok := statuses[s.ID]; ok && s.Suffrage == raft.Voter && a.GetTrouble() == "" {
			l.tracker.resign("the disk is full")
			return
		}
	}
}
