// Package raftnode is one Raft member: it proposes commands on whichever member
// it is asked, reads consistently, and tells watchers what changed.
//
// # Who does what
//
// machine folds the log into an fsm.State and tells who waits for an index.
// transport carries Raft's messages and the Member service over one TLS
// listener, told apart by ALPN. leadership knows who leads; while this member
// does, leaderTerm runs its duties: the first command, promotions, checkpoints,
// the watch on its own clock and on its own main loop. folder guard, quarantine
// and fatal end the process when going on could do harm: a supervisor restarts it.
//
// # Linearizable reads (C9)
//
// The leader takes its commit index, then has a quorum of voters confirm, by
// heartbeats that were sent after the read began, that none knows a higher term;
// then it waits until that index is applied. raft.VerifyLeader alone does not do:
// it counts a heartbeat's answer that arrives after the question, also when it
// was sent before, and such an answer may have waited in the socket of a process
// that was stopped for a minute. Followers ask the leader for the index. Reads that
// begin while a round is under way share the next one.
//
// # Commands (C8, S4)
//
// A command is marshalled once, on the leader. A failure after it may have been
// appended is an unknown outcome: the same command goes to the next leader with
// the same request id, and the state gives it its first answer. Commands that wait
// together go in groups (queue), to raft on the leader and to the leader from
// elsewhere: a group costs one write to each disk, and one message.
//
// A follower learns that something is committed with the next message of Raft, up
// to 100 ms later when there is nothing more to send. The leader's lines send that
// message at once, so that who waits or watches on a follower waits no longer.
//
// # Feature levels (S72)
//
// Members of several builds share a log at the cluster's feature level (fsm/doc.go). A
// command is stamped with the least level that it needs, and refused where it is above
// the cluster's: before it is forwarded, for the leader may be of a build that would not
// see all of it, and by the leader, before it is in the log (level.go). Such a refusal is
// a rejection that no entry holds. The leader raises the level only when every member of
// the configuration says that it understands it, and takes nobody in meanwhile.
//
// # The end of a member
//
// fatal ends the process with ExitRestart when the store fails or hangs, the main
// loop is blocked, a fault happened in Apply, a Raft snapshot is installed over and
// over (C1), or the state is not the majority's (S23); with ExitRemoved when the
// cluster removed it. A leader asks for the transfer first where it can wait.
package raftnode
